"""The reading of requests about capacity: lenient where the wire says so, with a clear refusal of what cannot be
used."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
from starlette.requests import Request

from hub.api.shapes import neutral
from hub.api.shapes.readers import as_text, whole_number
from hub.capacity.models import check_run_id
from hub.errors import InvalidJson, InvalidValue
from hub.randoms import random_hex
from hub.wire import second_text

PAGE_MAX = 1000
_DIGITS_ALONE = str.maketrans("", "", "-:T")
SEARCH_MAX = 200  # characters


def read_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; raises `InvalidJson`. The content type does not matter."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InvalidJson("invalid JSON: send a JSON object in UTF-8") from None
    if document is None:
        raise InvalidJson("empty body: send a JSON object", reason="empty-body")
    if not isinstance(document, dict):
        raise InvalidJson("invalid JSON: the body must be an object")
    return document


async def read_body(request: Request, *, optional: bool = False) -> dict[str, Any]:
    """Return the JSON object in the body of a request, with the old names of members (`browserId` and not `slotId`);
    with `optional` an empty body is an empty object.

    Raises `InvalidJson`. A caller that asks for answers in neutral names gets `UnknownMember` for a member that the
    operation does not have.
    """
    body = await request.body()
    if optional and not body.strip():
        return {}
    document = read_object(body)
    check_members(request, document)
    return neutral.in_old_names(document)


def check_members(request: Request, document: Any) -> None:
    """Refuse a body with a member that its operation does not have: raises `UnknownMember` when the caller asks for
    neutral names. For other callers such a member is logged."""
    names = request.scope.get(neutral.MEMBERS)
    if neutral.NEUTRAL not in request.scope:
        if names is not None:
            names.note_unknown(document)
    elif names is not None and (fault := names.unknown(document)) is not None:
        raise neutral.UnknownMember(f"{fault.name} is no member here; {fault.hint}", member=fault.name)


def text(document: dict[str, Any], *names: str) -> str | None:
    """Return the first of these members that is not null, as text; None when there is none. Raises `InvalidValue` for a
    value that is no text."""
    for name in names:
        if (value := document.get(name)) is not None:
            return as_text(value, name)
    return None


def run_id(request: Request, in_body: Any) -> str:
    """Return the run of a call, from the first place that names it: x-run-id, query runId, Correlation-Id, or
    `in_body`, the member of the body; empty when none does."""
    return check_run_id(
        _header(request, "x-run-id").strip()
        or (request.query_params.get("runId") or "").strip()
        or _header(request, "correlation-id").strip()
        or ("" if in_body is None else as_text(in_body, "runId"))
    )


def _header(request: Request, name: str) -> str:
    """Return a header decoded as UTF-8, or as Latin-1, the encoding of HTTP, when it is not UTF-8."""
    given = request.headers.get(name) or ""
    try:
        return given.encode("latin-1").decode()
    except UnicodeError:
        return given


def new_run_id(now_s: float) -> str:
    """Return a run id for a borrow that names none: the time in UTC to the millisecond, a hyphen, 32 hex digits."""
    at_ms = int(1000 * now_s)
    digits = second_text(at_ms // 1000).translate(_DIGITS_ALONE)
    return f"{digits}{at_ms % 1000:03d}-{random_hex(16)}"


def request_key(request: Request) -> str | None:
    """Return a digest of the `Idempotency-Key` of a call, so that any text fits into a key of Redis; None without a
    header."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    if not given.strip() or len(given) > 255:
        raise InvalidValue("Idempotency-Key must have 1 to 255 characters", member="Idempotency-Key")
    return "key-" + hashlib.sha256(given.encode()).hexdigest()[:40]


def wait_preference(request: Request) -> int | None:
    """Return the seconds N of the header `Prefer: wait=N`; None without this preference."""
    return preferred_wait(",".join(request.headers.getlist("prefer")))


def preferred_wait(prefer: str) -> int | None:
    """Return the seconds N of `wait=N` in a value of `Prefer`; None without this preference.

    As RFC 7240 demands, a preference that cannot be read is ignored, and the first of several counts.
    """
    for preference in prefer.split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            value = value.strip().strip('"')
            return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    return None


def switch(request: Request, name: str) -> bool:
    """Return whether a parameter of the query is on (`1` or `true`); raises `InvalidValue` for a value that is neither
    on nor off."""
    given = request.query_params.get(name, "")
    if given not in ("1", "true", "", "0", "false"):
        raise InvalidValue(f"{name} must be 1 or 0", member=name)
    return given in ("1", "true")


def page(request: Request) -> tuple[int, int]:
    """Return (offset, limit) of a listing; 0 and 100 when the query does not give them."""
    query = request.query_params
    return (
        whole_number(query.get("offset", "0"), "offset", 0, 10**9),
        whole_number(query.get("limit", "100"), "limit", 1, PAGE_MAX),
    )


def search(request: Request) -> str:
    """Return the text that the entries of a listing must contain, `q`; empty when it is not given."""
    wanted = request.query_params.get("q", "").strip()
    if len(wanted) > SEARCH_MAX:
        raise InvalidValue(f"q has at most {SEARCH_MAX} characters; this one has {len(wanted)}", member="q")
    return wanted
