"""The table of operations: all that the hub knows of each route, and how it finds the row of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import StringConvertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from hub.api.paths import read_id
from hub.api.shapes.answer import answered
from hub.api.shapes.parameters import Parameter
from hub.errors import (
    Capped,
    DeadlineMissed,
    HubError,
    LabelQueueFull,
    NoCapacity,
    RunQueueFull,
    Settling,
    WaitedInVain,
)
from hub.store.replicas import NotReplicated
from hub.tokens.secrets import ADMIN

TOKEN: Final = "bearer"  # a bearer token, beside the roles of `hub.tokens.secrets`
ANYBODY: Final = "anybody"
CALLER: Final = (TOKEN, ADMIN)  # who may call the jobs API
NO_SLOT: Final = (
    NoCapacity, Capped, WaitedInVain, DeadlineMissed, LabelQueueFull, RunQueueFull, Settling, NotReplicated,
)  # fmt: skip
EXTRA: Final = "operation"
ALIAS: Final = "/api/v1"  # every path of the hub may also be called with this prefix
SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
Role = Literal["viewer", "operator", "admin"]
Bound = Literal["control", "schema", "schedule", "submit", "reports", "report", "result"]


class Raw(NamedTuple):
    """A body or an answer that is not JSON of the hub: its media type, and an example."""

    media_type: str
    example: str = ""


class Subject(NamedTuple):
    """The kind of thing that a call is about (a room, a label, a node), by which the call's realm is found; and the
    path parameter that has its id."""

    kind: str
    part: str = ""
    in_body: bool = False  # the body has the id, or further ids


EVERYTHING: Final = Subject("everything")  # any realm of the hub may answer
_PARTS: Final = {
    "job_name": "job", "node_id": "node", "label": "label", "slot": "slot", "ticket": "ticket", "task_id": "id",
    "worker_id": "id", "provider_id": "id", "room_id": "room",
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """The facts of a route. The signature of its endpoint, or `raw`, has the type of the answer with `status`; `also`
    has the types of answers with another status."""

    who: tuple[str, ...] = ()
    status: int = 200
    also: Mapping[int, Any] = field(default_factory=dict)
    raw: Raw | None = None
    body: Any = None
    optional: bool = False
    parameters: tuple[Parameter, ...] = ()
    query: type[BaseModel] | None = None
    headers: tuple[str, ...] = ()
    refusals: tuple[type[HubError], ...] = ()
    scopes: tuple[str, ...] = ()  # a user's token must have one of these scopes
    joins: bool = False  # callers show a token for joining
    superuser: bool = False  # only superusers may call
    anonymous: bool = False  # strangers may read where HUB_ANONYMOUS_READS is on
    denied: Callable[[Request], Awaitable[None]] | None = None  # called when a caller is refused with 401
    room_first: bool = False  # the name of the room is checked before the caller
    about: Subject | None = None  # with None the path parameters decide
    bound: Bound = "control"  # the size of the body; `hub.api.handling.bounds` has it in bytes
    endless: bool = False  # the answer is a stream: it has no end and no time limit
    shared: bool = False  # pages with the same credential and role may be given the same answer
    least: Role | None = None  # the role of a login; None: viewer to read, operator to change
    entry: bool = False  # logs in or out, which every login may do without a reason
    page: bool = False  # only pages of the console call it
    linked: bool = False  # links of foreign pages may lead here


def operation(name: str, who: tuple[str, ...], *parameters: Parameter, **facts: Any) -> dict[str, Any]:
    """Return the arguments with which a route of the contract is registered; `facts` are fields of `Operation`.

    The signature of the endpoint has the type of the answer with `status`: `Answer[Shape]`, or `Answer[None]` for an
    answer without a body; `raw` has it for an answer that is not JSON. `also` has the types of answers with another
    status, and `headers` the names of the headers of good answers.
    """
    found = Operation(who, parameters=parameters, **facts)
    return {
        "operation_id": name,
        "status_code": found.status,
        "response_class": Response,
        "response_model": None,
        "openapi_extra": {EXTRA: found},
    }


def unlisted(**facts: Any) -> dict[str, Any]:
    """Return the arguments with which a route outside the contract is registered; `facts` are fields of `Operation`."""
    return {"openapi_extra": {EXTRA: Operation(**facts)}, "include_in_schema": False}


def facts_of(route: APIRoute) -> Operation:
    """Return the `Operation` that a route was registered with; an empty one when there is none."""
    found: Operation | None = (route.openapi_extra or {}).get(EXTRA)
    return found or Operation()


def answers_of(route: APIRoute) -> dict[int, Any]:
    """Return the shape of each good answer by its status; the ordinary answer comes first."""
    facts = facts_of(route)
    return {facts.status: facts.raw or answered(route.endpoint), **facts.also}


class Row:
    """A row of the table: the method, the path, the endpoint and the facts of one operation."""

    def __init__(self, route: APIRoute) -> None:
        self.method = next(iter(route.methods or ()))
        self.route, self.path = route, route.path
        self.endpoint: Callable[..., Awaitable[Response]] = route.endpoint
        self.facts = facts_of(route)
        self.roles = tuple(role for role in self.facts.who if role != TOKEN)
        takes = route.dependant
        self._request, self._parts = takes.request_param_name, [each.name for each in takes.path_params]
        # An endpoint is plain if it takes nothing but the request and path parameters; FastAPI must call any other.
        self.is_plain = not (
            takes.dependencies or takes.query_params or takes.header_params or takes.cookie_params or takes.body_params
        ) and all(
            each.field_info.annotation is str or not isinstance(route.param_convertors[each.name], StringConvertor)
            for each in takes.path_params
        )

    @property
    def about(self) -> Subject | None:
        """Return the kind of thing that a call is about, and the path parameter that has its id; None when the route
        does not say it."""
        if self.facts.about or not self.route.include_in_schema:
            return self.facts.about
        parts = self.route.param_convertors
        return next((Subject(kind, part) for part, kind in _PARTS.items() if part in parts), None)

    @property
    def least(self) -> Role:
        """Return the lowest role of a login that may call this operation."""
        return self.facts.least or ("viewer" if self.method in SAFE else "operator")

    def call(self, request: Request) -> Awaitable[Response]:
        """Call the endpoint with the request and with the path parameters that it takes."""
        if not self._parts and self._request:
            return self.endpoint(request)
        given: dict[str, Any] = {name: request.path_params[name] for name in self._parts}
        if self._request:
            given[self._request] = request
        return self.endpoint(**given)


class Found(NamedTuple):
    """The row of a request, and the parameters in its path. `is_taken` is False when the row is of another method,
    because the path does not take the method of the request."""

    row: Row | None
    parts: dict[str, Any]
    is_taken: bool


class _Named(NamedTuple):
    """A row whose path has parameters. `only` is the name of the parameter when there is just one and it ends the path;
    else empty."""

    row: Row
    only: str

    def parts(self, path: str, start: str) -> dict[str, Any] | None:
        if self.only:
            rest = path[len(start) :]
            return {self.only: read_id(rest)} if rest and "/" not in rest else None
        found = self.row.route.path_regex.match(path)
        if found is None:
            return None
        convertors = self.row.route.param_convertors
        return {name: convertors[name].convert(part) for name, part in found.groupdict().items()}


class Table:
    """The rows of a hub, found by their path in a dictionary, or by the part of their path before its first
    parameter."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._plain: dict[str, dict[str, Found]] = {}
        self._named: dict[str, dict[str, list[_Named]]] = {}
        self._lengths: dict[str, list[int]] = {}
        self.rows = [Row(route) for route in routes if isinstance(route, APIRoute)]
        for row in self.rows:
            self._add(row)

    def _add(self, row: Row) -> None:
        start, brace, rest = row.path.partition("{")
        if not brace:
            self._plain.setdefault(row.path, {})[row.method] = Found(row, {}, True)
            return
        starts = self._named.setdefault(row.method, {})
        starts.setdefault(start, []).append(_Named(row, rest[:-1] if rest[:-1].isidentifier() else ""))
        self._lengths[row.method] = sorted({len(each) for each in starts}, reverse=True)

    def find(self, method: str, path: str) -> Found:
        """Return the row of a request and the parameters in its path; the row is None for an unknown path."""
        plain = self._plain.get(path) or self._plain.get(path.removesuffix("\n"), {})  # Starlette allows \n at the end
        if (found := plain.get(method)) is not None:
            return found
        if (fitting := self._fitting(method, path)) is not None:
            return fitting
        for found in plain.values():
            return found._replace(is_taken=False)
        others = (self._fitting(other, path) for other in self._named)
        return next((found._replace(is_taken=False) for found in others if found is not None), _NOWHERE)

    def _fitting(self, method: str, path: str) -> Found | None:
        """Return the first row of a method whose path has parameters and fits; rows with the longest fixed beginning
        come first."""
        for length in self._lengths.get(method, ()):
            start = path[:length]
            for named in self._named[method].get(start, ()):
                if (parts := named.parts(path, start)) is not None:
                    return Found(named.row, parts, True)
        return None


_NOWHERE: Final = Found(None, {}, False)


def row_of(routes: Iterable[BaseRoute], endpoint: Any) -> Row:
    """Return the row of an endpoint among these routes."""
    return next(Row(route) for route in routes if isinstance(route, APIRoute) and route.endpoint is endpoint)
