"""The OpenAPI document, made from the routes, the models of their bodies and answers, and the errors that they
raise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from hub import __version__, errors
from hub.api.callers.logins import NoReason
from hub.api.contract.neutral import PREFIX as NEUTRAL_PREFIX
from hub.api.contract.neutral import in_neutral_names, with_both_names
from hub.api.contract.schemas import Components, example, models_within, tidied
from hub.api.handling.browsers import NotJson
from hub.api.operations import ANYBODY, TOKEN, Operation, Raw, Takes, answers_of, facts_of, taken
from hub.api.paths import PREFIX, PROBLEMS, V2, is_ours
from hub.api.shapes.fields import RUN, TASK
from hub.api.shapes.neutral import MEDIA_TYPE, NamesDiffer, UnknownMember
from hub.api.shapes.parameters import PATH, Parameter
from hub.api.shapes.problems import DetailShape, ProblemShape, ValidationFaultShape
from hub.store.faults import Late
from hub.tokens.secrets import ADMIN, NODE, RUNNER

PROBLEM: Final = "application/problem+json"
_SCHEMES: Final = {
    RUNNER: ("runnerSecret", "the secrets of runners"),
    NODE: ("nodeSecret", "the secrets of nodes"),
    ADMIN: ("adminSecret", "the secrets of admins"),
    TOKEN: ("token", "a token"),
}
_TAGS: Final = {
    "nodes": "Machines and processes that offer slots.",
    "sessions": "Leases of slots.",
    "queue": "Borrows that wait.",
    "pools": "All slots of a label.",
    "admin": "What operators do.",
    "events": "What happened, and why things are as they are.",
    "operations": "How the hub itself is.",
    "workers": "Processes that claim tasks.",
    "jobs": "What workers can do.",
    "tasks": "Submitted pieces of work.",
    "providers": "Answer reads, with a cache.",
    "dead letters": "Tasks that failed for the last time they may.",
}
_ANSWER_HEADERS: Final = {
    "Retry-After": ("In how many seconds to try again.", 1, {"type": "integer", "minimum": 1}),
    "Correlation-Id": ("The run that the call belonged to.", RUN, {"type": "string"}),
    "Preference-Applied": ("The wait that was granted.", "wait=20", {"type": "string"}),
    "Location": ("Where to look for the task.", f"{PREFIX}/tasks/{TASK}", {"type": "string"}),
    "WWW-Authenticate": ("What would let the caller in.", "x-hub-secret", {"type": "string"}),
}
# Refusals that any call may be answered with.
_ALWAYS: Final = (
    errors.BadInput, errors.Foreign, errors.RequestTimedOut, errors.CallerGone, errors.TooLarge, errors.Internal,
    errors.ForeignKey, errors.StoreFault, errors.UnknownReply, errors.Unavailable, errors.Stopping,
    errors.StoreUnavailable, Late, errors.StoreFull,
)  # fmt: skip
_CHANGING: Final = (NotJson, errors.Forbidden, NoReason)  # of changes that web pages ask for
_OF_BODIES: Final = (
    errors.InvalidJson, errors.MissingMember, UnknownMember, errors.InvalidValue, NamesDiffer,
)  # fmt: skip


def document(routes: Iterable[APIRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    listed = [route for route in routes if route.include_in_schema]
    components = Components(list(_shapes(listed)))
    schemas = {
        name: with_both_names(schema) if name.endswith("Body") else schema
        for name, schema in sorted(components.schemas.items(), key=lambda named: named[0].startswith(NEUTRAL_PREFIX))
    }
    paths: dict[str, Any] = {}
    for route in listed:
        for method in route.methods or ():
            paths.setdefault(route.path_format, {})[method.lower()] = _operation(route, components)
    used = {str(route.tags[0]) for route in listed}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "capacity-hub",
            "version": __version__,
            "summary": "Liveness and capacity on Redis.",
            "description": "Nodes beat, borrowers take slots, what dies gives back what it held; workers claim tasks. "
            "Every path is below `/api/v1` as well, and below `/v2` with neutral names: what is of the type "
            "`application/vnd.capacity-hub+json` here. Answers may get more members; unknown members of bodies are "
            "ignored, and refused where a caller asks for neutral names.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {"url": "/", "description": "The hub that serves this document."},
            {"url": V2, "description": "The same hub, in neutral names."},
        ],
        "tags": [{"name": name, "description": about} for name, about in _TAGS.items() if name in used],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas,
            "responses": dict(sorted(components.responses.items())),
            "securitySchemes": {
                scheme: {"type": "apiKey", "in": "header", "name": "x-hub-secret", "description": f"One of {about}."}
                for scheme, about in list(_SCHEMES.values())[:3]
            }
            | {"token": {"type": "http", "scheme": "bearer", "description": "The token of a user or of a node."}},
        },
    }


def _shapes(routes: Iterable[APIRoute]) -> Iterator[Any]:
    yield from (ProblemShape, DetailShape, ValidationFaultShape)
    for route in routes:
        answers = answers_of(route).values()
        for shape in (taken(route).body, *answers, *map(in_neutral_names, answers)):
            if not (shape is None or isinstance(shape, Raw)):
                yield shape
                yield from models_within(shape)


def _operation(route: APIRoute, components: Components) -> dict[str, Any]:
    said, takes, name = facts_of(route), taken(route), str(route.operation_id)
    words = re.sub(r"([A-Z])", lambda found: f" {found[1].lower()}", name)
    callers = dict.fromkeys((*said.who, *((TOKEN,) if said.borrows else ())))
    written: dict[str, Any] = {
        "operationId": name,
        "tags": list(route.tags),
        "summary": words[0].upper() + words[1:],
        "description": _described(route, said),
        "security": [{} if each == ANYBODY else {_SCHEMES[each][0]: []} for each in callers],
    }
    parameters = [PATH[part] for part in re.findall(r"\{(\w+)\}", route.path_format)]
    parameters += [*_of_query(takes), *takes.parameters, *said.parameters]
    if parameters:
        written["parameters"] = [_parameter(each) for each in parameters]
    if takes.body is not None:
        written["requestBody"] = {"required": not takes.optional, "content": _content(takes.body, components)}
    written["responses"] = {
        **{str(status): _good(status, shape, said, components) for status, shape in answers_of(route).items()},
        **_refused(route, said, takes, components),
    }
    return written


def _described(route: APIRoute, said: Operation) -> str:
    about = inspect.cleandoc(route.endpoint.__doc__ or "")
    return f"{about}\n\nIn neutral names: `{V2}{said.below_v2}`." if said.below_v2 else about


def _of_query(takes: Takes) -> Iterator[Parameter]:
    if takes.query is None:
        return
    for name, schema in TypeAdapter(takes.query).json_schema()["properties"].items():
        schema = tidied(schema, defaults=True)
        yield Parameter(name, schema.pop("description", ""), schema.pop("examples", [None])[0], schema)


def _parameter(each: Parameter) -> dict[str, Any]:
    return {
        "name": each.name, "in": each.place, "required": each.required, "description": each.about,
        "schema": each.schema, "example": each.example,
    }  # fmt: skip


def _content(shape: Any, components: Components, *, neutral: bool = False) -> dict[str, Any]:
    if isinstance(shape, Raw):
        schema = {"type": "string"} if shape.media_type.startswith("text/") else {"type": "string", "format": "binary"}
        return {shape.media_type: {"schema": schema, "example": shape.example}}
    schema = components.of(shape)
    found = {"application/json": {"schema": schema, "example": example(schema, components.schemas)}}
    if neutral:
        schema = components.of(in_neutral_names(shape))
        found[MEDIA_TYPE] = {"schema": schema, "example": example(schema, components.schemas)}
    return found


def _good(status: int, shape: Any, said: Operation, components: Components) -> dict[str, Any]:
    about = shape.__doc__ if isinstance(shape, type) and shape.__doc__ else HTTPStatus(status).phrase + "."
    written: dict[str, Any] = {"description": inspect.cleandoc(about).partition("\n\n")[0]}
    if shape is not None:
        written["content"] = _content(shape, components, neutral=True)
    if said.headers:
        written["headers"] = {name: _header(name) for name in said.headers}
    return written


def _header(name: str) -> dict[str, Any]:
    about, shown, schema = _ANSWER_HEADERS[name]
    return {"description": about, "schema": schema, "example": shown}


def _refused(route: APIRoute, said: Operation, takes: Takes, components: Components) -> dict[str, Any]:
    raised: set[type[errors.HubError]] = {*_ALWAYS, *takes.refusals, *said.refusals}
    ours = is_ours(route.path_format)
    if route.methods != {"GET"}:
        raised.update(_CHANGING)
    if said.who:
        raised.add(errors.Unauthorized)
    if ours:
        raised.update((errors.Malformed, errors.Forbidden))
        if takes.body is not None:
            raised.add(UnknownMember)
    elif takes.body is not None or takes.parameters or said.parameters:
        raised.update(_OF_BODIES)
    found: dict[str, Any] = {}
    for status in sorted({each.status for each in raised}):
        kinds = {each for each in raised if each.status == status}
        name = f"{'JobsRefused' if ours else 'Refused'}{status}"
        common = kinds == _common(status)
        if common and name not in components.responses:
            components.responses[name] = _refusal(status, kinds, ours, components)
        found[str(status)] = (
            {"$ref": f"#/components/responses/{name}"} if common else _refusal(status, kinds, ours, components)
        )
    return found


def _common(status: int) -> set[type[errors.HubError]]:
    """Return the error classes with this status that most operations may answer with."""
    listed = (*_ALWAYS, *_CHANGING, errors.Unauthorized, errors.Malformed)
    return {each for each in listed if each.status == status}


def _refusal(status: int, kinds: set[type[errors.HubError]], ours: bool, components: Components) -> dict[str, Any]:
    content: dict[str, Any] = {}
    listed = sorted(kinds, key=lambda each: each.code)
    coded = [each for each in listed if not (ours and each in (errors.Unauthorized, errors.Malformed))]
    title = HTTPStatus(status).phrase
    if coded:
        shown = {
            "type": f"https://httpstatuses.com/{status}", "title": title, "status": status, "code": coded[0].code,
            "instance": "/",
        }  # fmt: skip
        if ours:
            shown = {"type": f"{PROBLEMS}/{coded[0].code}", "title": title, "status": status}
        content[PROBLEM] = {"schema": components.of(ProblemShape), "example": shown}
    if len(coded) < len(kinds):
        content |= _content(DetailShape if errors.Unauthorized in kinds else ValidationFaultShape, components)
    codes = sorted({each.code for each in coded})
    words = f"{title}." + (f" `code`: {', '.join(f'`{code}`' for code in codes)}." if codes else "")
    written: dict[str, Any] = {"description": words, "content": content}
    if codes:
        written["x-codes"] = codes
    if status in (503, 504):
        written["headers"] = {"Retry-After": _header("Retry-After")}
    if status == 401:
        written["headers"] = {"WWW-Authenticate": _header("WWW-Authenticate")}
    return written
