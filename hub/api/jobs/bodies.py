"""The reading of requests to the jobs API. A request that does not validate is answered as FastAPI and pydantic would
answer it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel
from starlette.requests import Request

from hub.api.handling.bounds import report_bytes
from hub.api.handling.context import serving
from hub.api.handling.large_bodies import LIGHT
from hub.api.jobs import reports
from hub.api.jobs.texts import compact, is_deep, items, member, members, uncollected
from hub.api.shapes.job_bodies import ClaimBody, MoveBody, PageQuery, ResultBody, ServedBody, SubmitBody, TasksQuery
from hub.api.shapes.problems import WrongShape
from hub.api.shapes.reading import check_members
from hub.errors import Malformed, TooLarge
from hub.jobs.names import preferred_wait, to_id
from hub.settings import Settings

NESTING_MAX = 128  # levels of a payload or schema: readers of JSON give up at 200 and more
SHOWN_BYTES = 64 * 1024  # a refusal repeats no part of a body larger than this
FAULTS_MAX = 20  # the most faults in one refusal
OFFSET_MAX = 10**15  # longer than any list, and exact in a double
KEY_MAX = 255

M = TypeVar("M", bound=BaseModel)
_schedule_name = re.compile(r"[A-Za-z0-9_.-]{1,100}").fullmatch
_LEVELS = f"Input should have at most {NESTING_MAX} levels"
_REPORTS = (MoveBody, ClaimBody)
_UUID = "Input should be a valid UUID"


class Slice(NamedTuple):
    """The part of a list that a query asks for: limit, offset, and the status of its tasks."""

    limit: int
    offset: int
    status: str | None


class SentBody(NamedTuple):
    """A body in JSON: its bytes, and the document that they spell."""

    text: bytes
    document: dict[str, Any]

    def opaque(self, name: str) -> str:
        """Return a member's value as JSON text, as it was sent but without the white space between its parts."""
        return compact(member(self.text.decode(), name))

    def opaque_items(self, name: str) -> Iterator[str]:
        """Yield the items of a member that is a list as JSON texts, as `hub.api.jobs.texts.items` does, without white
        space between their parts."""
        return map(compact, items(self.text.decode(), name))

    def opaque_list(self, name: str) -> list[str]:
        """Return the items of a member that is a list as JSON texts, without white space between their parts. Of
        several members with this name the last one counts."""
        texts: list[str] = []
        for text in self.opaque_items(name):
            texts = [*texts, text] if text else []
        return texts


def malformed(kind: str, where: Iterable[str | int], message: str, given: Any) -> Malformed:
    """Return the refusal of a request with one fault, in the form that pydantic gives faults."""
    return Malformed(errors=[WrongShape(type=kind, loc=list(where), msg=message, input=given)])


async def read(request: Request, model: type[M]) -> tuple[M, SentBody]:
    """Return the body of a request as this model, and as it was sent; raises `Malformed` and `TooLarge`. The content
    type does not matter.

    Large bodies are parsed one at a time, so that other requests are served in between.
    """
    text = await request.body()
    if not text:
        raise malformed("missing", ["body"], "Field required", None)
    if len(text) <= LIGHT:
        return _whole(request, text, model)
    found = serving(request)
    async with found.large_bodies.turn:
        await asyncio.sleep(0)
        if model in _REPORTS:
            text = reports.shortened(text, report_bytes(found.hub.settings))
        with uncollected():
            return _whole(request, text, model)


def _whole(request: Request, text: bytes, model: type[M]) -> tuple[M, SentBody]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if model in _REPORTS and (spelt := reports.spelt(text)) != text:
            return _whole(request, spelt, model)
        raise malformed("json_invalid", ["body", error.pos], "JSON decode error", {}) from None
    if not isinstance(document, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise malformed("model_attributes_type", ["body"], message, _shown(document, text))
    check_members(request, document)
    return validated(model, document, "body", text), SentBody(text, document)


@cache
def _camel(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """Return (name, camelCase name) of each member of a body whose name has underscores."""
    names = (name for name, field in model.model_fields.items() if field.alias is None and not name.endswith("_"))
    return tuple((name, to_camel(name)) for name in names if "_" in name)


def validated(model: type[M], document: Any, where: str, text: bytes = b"") -> M:
    """Return a document as this model; `where` names its place, and `text` is the body that it comes from. Raises
    `Malformed` with the first faults and their number."""
    for old, new in _camel(model):
        if isinstance(document, dict) and new in document:
            if document.get(old, document[new]) != document[new]:
                message = f"{old} and {new} are the same: say one"
                raise malformed("names_differ", [where, old], message, _shown(document[new], text))
            document = {**document, old: document[new]}
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults, total = error.errors(include_url=False, include_context=False)[:FAULTS_MAX], error.error_count()
    shown = [_shown(fault["input"], text) for fault in faults]
    if len(orjson.dumps(shown)) > SHOWN_BYTES:  # each fault may repeat the whole body
        shown = [None] * len(shown)
    wrong = [
        {"type": fault["type"], "loc": [where, *fault["loc"]], "msg": fault["msg"], "input": given}
        for fault, given in zip(faults, shown, strict=True)
    ]
    if total > FAULTS_MAX:
        said = f"{total} faults were found, of which these are the first {FAULTS_MAX}"
        wrong.append({"type": "too_many_faults", "loc": [where], "msg": said, "input": None})
    raise Malformed(errors=wrong)


def _shown(given: Any, text: bytes) -> Any:
    """Return the part of a body that a fault repeats; None for a part of a large body, and for one nested too deeply to
    be written."""
    if len(text) > SHOWN_BYTES:
        return None
    try:
        orjson.dumps(given)
    except TypeError:
        return None
    return given


def path_id(request: Request, name: str) -> str:
    """Return an id in the path, as 32 hex digits; raises `Malformed` for a text that is no UUID."""
    given = request.path_params[name]
    try:
        return to_id(given)
    except ValueError:
        raise malformed("uuid_parsing", ["path", name], _UUID, given) from None


def check_schedule_name(name: str) -> None:
    """Raise `Malformed` unless the text can be the name of a schedule."""
    if not _schedule_name(name) or name in (".", ".."):
        message = "String should have 1 to 100 letters, digits, hyphens, dots and underscores"
        raise malformed("string_pattern_mismatch", ["path", "schedule"], message, name[:KEY_MAX])


def request_key(request: Request, user: str) -> str:
    """Return a digest of the `Idempotency-Key` of a user's call, so that any text fits into a key of Redis; empty
    without a header."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return ""
    if not given.strip() or len(given) > KEY_MAX:
        message = f"String should have 1 to {KEY_MAX} characters that are no blanks"
        raise malformed("string_length", ["header", "idempotency-key"], message, given[:KEY_MAX])
    return digest_of(user, given)


def digest_of(user: str, key: str) -> str:
    """Return a digest of a user's `Idempotency-Key`: 32 hex digits, different for each user."""
    return hashlib.sha256(f"{user}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def wait_preference(request: Request) -> int | None:
    """Return the seconds N of the header `Prefer: wait=N`; None without this preference."""
    given = request.headers.getlist("prefer")
    return preferred_wait(", ".join(given)) if given else None


def part(request: Request, model: type[PageQuery]) -> Slice:
    """Return which part of a list the query asks for: limit, offset and, of tasks, the status; raises `Malformed`."""
    asked = validated(model, dict(request.query_params), "query")
    return Slice(asked.limit, min(asked.offset, OFFSET_MAX), asked.status if isinstance(asked, TasksQuery) else None)


def schema(body: SentBody, settings: Settings) -> str:
    """Return the schema of a job or a provider as JSON text, as it was sent; `{}` when the body has none. Raises
    `TooLarge` and `Malformed`."""
    name = next((name for name in ("schema", "schema_") if name in body.document), None)
    if name is None:
        return "{}"
    text = body.opaque(name)
    _check(text, settings.schema_max_bytes, ("body", name))
    return text


def result_schema(said: ServedBody, body: SentBody, settings: Settings) -> str:
    """Return the schema of a job's results as JSON text, as it was sent; empty when the body has none. Raises
    `TooLarge` and `Malformed`."""
    if said.result_schema is None:
        return ""
    text = body.opaque("resultSchema")
    _check(text, settings.schema_max_bytes, ("body", "resultSchema"))
    return text


async def payloads(said: SubmitBody, body: SentBody, settings: Settings) -> list[str]:
    """Return the payloads of a submit as JSON texts, as they were sent: one, or those of `payloads`. Raises `TooLarge`
    and `Malformed`.

    Many payloads are read in several turns of the loop, so that other requests are served in between.
    """
    if said.payloads is None:
        return [payload(body, settings)]
    if "payload" in body.document:
        raise malformed("either", ("body", "payload"), "Input should be left out beside payloads", None)
    texts: list[str] = []
    since_turn = 0
    for text in body.opaque_items("payloads"):
        if not text:
            texts.clear()
            continue
        _check(text, settings.task_payload_max_bytes, ("body", "payloads", len(texts)))
        texts.append(text)
        since_turn += len(text)
        if since_turn > LIGHT:
            since_turn = 0
            await asyncio.sleep(0)
    return texts


def payload(body: SentBody, settings: Settings) -> str:
    """Return the payload of a task as JSON text, as it was sent; `{}` when the body has none. Raises `TooLarge` and
    `Malformed`."""
    text = body.opaque("payload") if "payload" in body.document else "{}"
    _check(text, settings.task_payload_max_bytes, ("body", "payload"))
    return text


def result(body: SentBody, settings: Settings) -> str:
    """Return the result of a task as JSON text, as it was sent; empty for none or null. Raises `TooLarge` and
    `Malformed`."""
    if body.document.get("result") is None:
        return ""
    text, most = body.opaque("result"), settings.task_result_max_bytes
    if is_longer(text, most):
        raise TooLarge(too_large(text, most))
    _check(text, most, ("body", "result"))
    return text


def results(said: Sequence[ResultBody], body: SentBody) -> list[str]:
    """Return the result in each report of a claim as JSON text, empty for none. Length and depth are not checked."""
    if all(each.result is None for each in said):
        return [""] * len(said)
    texts = body.opaque_list("results")
    return [
        "" if each.result is None else dict(members(text))["result"] for each, text in zip(said, texts, strict=True)
    ]


def unfit(result: str, most: int) -> str:
    """Return the reason why a result is not kept: it is too long or nested too deeply. Empty when the result fits."""
    if is_longer(result, most):
        return too_large(result, most)
    return f"The result has more than {NESTING_MAX} levels." if is_deep(result, NESTING_MAX) else ""


def is_longer(text: str, most: int) -> bool:
    """Return whether a text has more than `most` bytes in UTF-8."""
    return len(text) > most or (not text.isascii() and len(text.encode()) > most)


def too_large(text: str, most: int) -> str:
    """Return the sentence for a result that is too long."""
    return (
        f"The result has {len(text.encode())} bytes, and {most} are allowed (HUB_TASK_RESULT_MAX_BYTES): "
        "store it elsewhere and return a reference to it."
    )


def _check(text: str, most: int, where: tuple[str | int, ...]) -> None:
    if is_longer(text, most):
        raise TooLarge(f"{'.'.join(map(str, where[1:]))} has more than {most} bytes.")
    if is_deep(text, NESTING_MAX):
        raise malformed("nesting", where, _LEVELS, None)
