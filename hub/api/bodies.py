"""Reading what callers send: leniently where the wire says so, with a clear refusal where it cannot be used."""

from __future__ import annotations

import hashlib
import math
import secrets
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.requests import Request

from hub.capacity.labels import Label
from hub.capacity.models import Slot, check_slot_id, compact, slot_item
from hub.errors import BadInput, InvalidJson, InvalidValue, MissingMember
from hub.nodes.models import DRAIN_DEADLINE_MAX_S, Beat, Registration, check_incarnation, check_node_id

SLOTS_MAX = 1000  # slots per call
RUN_MAX = 200  # characters of a run id: it becomes part of a key
PAGE_MAX = 1000
WAIT_MAX_S = 86_400
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ._-")


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; raises `InvalidJson`. The content type does not matter."""
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
    """As `read_object`; with `optional` an empty body is an empty object."""
    body = await request.body()
    return {} if optional and not body.strip() else read_object(body)


def text(document: dict[str, Any], *names: str) -> str | None:
    """The first of these members that is there, as text: numbers and booleans count as what they would be written."""
    for name in names:
        value = document.get(name)
        if value is None:
            continue
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        raise InvalidValue(f"{name} must be text", member=name)
    return None


def seconds(document: dict[str, Any], name: str) -> float | None:
    """A duration in seconds, from a number or numeric text; None when it is absent or cannot be read as one."""
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def run_name(document: dict[str, Any]) -> str | None:
    """The run name without blanks around it; None when there is none. Raises `InvalidValue`."""
    given = text(document, "runName")
    name = (given or "").strip()
    if not name:
        return None
    if len(name) > 128:
        raise InvalidValue("runName has at most 128 characters", member="runName")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in name):
        raise InvalidValue("runName must not contain control characters", member="runName")
    if not set(name) <= _PLAIN:
        raise InvalidValue("runName may contain letters, digits, blanks and . _ - only", member="runName")
    return name


def run_id(request: Request, document: dict[str, Any]) -> str:
    """The run a call belongs to: x-run-id, query runId, Correlation-Id, body runId; empty when none is given."""
    given = (
        _header(request, "x-run-id").strip()
        or (request.query_params.get("runId") or "").strip()
        or _header(request, "correlation-id").strip()
        or (text(document, "runId") or "").strip()
    )
    if len(given) > RUN_MAX:
        raise InvalidValue(f"a run id has at most {RUN_MAX} characters", member="runId")
    if not given.isprintable():
        raise InvalidValue("a run id must not contain control characters", member="runId")
    return given


def _header(request: Request, name: str) -> str:
    """A header as the UTF-8 it was sent in; as Latin-1, which HTTP says it is, when it is no UTF-8."""
    given = request.headers.get(name) or ""
    try:
        return given.encode("latin-1").decode()
    except UnicodeError:
        return given


def new_run_id() -> str:
    """A run id for a borrow that names none: UTC time to the millisecond, a hyphen, 32 hex digits."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}-{secrets.token_hex(16)}"


def request_key(request: Request) -> str | None:
    """The `Idempotency-Key` of a call, digested so that any text fits into a key; None without one."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    if not given.strip() or len(given) > 255:
        raise InvalidValue("Idempotency-Key must have 1 to 255 characters", member="Idempotency-Key")
    return "key-" + hashlib.sha256(given.encode()).hexdigest()[:40]


def whole_number(value: Any, name: str, low: int, high: int) -> int:
    """A whole number within bounds; raises `InvalidValue` that names them."""
    try:
        number = int(str(value)) if isinstance(value, str | int | float) else low - 1
    except ValueError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise InvalidValue(f"{name} must be a whole number from {low} to {high}", member=name)
    return number


def priority(document: dict[str, Any]) -> int:
    """The `priority` of a borrow, 0 when none is given; raises `InvalidValue`."""
    given = document.get("priority")
    return 0 if given is None else whole_number(given, "priority", -100, 100)


def wait_limit(document: dict[str, Any]) -> float | None:
    """`maxWaitSeconds` of a borrow, None when none is given; raises `InvalidValue`."""
    if document.get("maxWaitSeconds") is None:
        return None
    limit_s = seconds(document, "maxWaitSeconds")
    if limit_s is None or not 0 <= limit_s <= WAIT_MAX_S:
        raise InvalidValue(f"maxWaitSeconds must be a number from 0 to {WAIT_MAX_S}", member="maxWaitSeconds")
    return limit_s


def wait_preference(request: Request) -> int | None:
    """Seconds of `Prefer: wait=N`, None without it.

    As RFC 7240 says, one that cannot be read is ignored, and of several the first counts.
    """
    for preference in ",".join(request.headers.getlist("prefer")).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            value = value.strip().strip('"')
            return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
    return None


def drain_deadline_ms(document: dict[str, Any]) -> int | None:
    """`deadlineSeconds` of a drain in ms, None when none is given; raises `InvalidValue`."""
    if document.get("deadlineSeconds") is None:
        return None
    deadline_s = seconds(document, "deadlineSeconds")
    if deadline_s is None or not 1 <= deadline_s <= DRAIN_DEADLINE_MAX_S:
        said = f"deadlineSeconds must be a number from 1 to {DRAIN_DEADLINE_MAX_S}"
        raise InvalidValue(said, member="deadlineSeconds")
    return int(deadline_s * 1000)


def page(request: Request) -> tuple[int, int]:
    """(offset, limit) of a listing; 0 and 100 when they are not given."""
    query = request.query_params
    return (
        whole_number(query.get("offset", "0"), "offset", 0, 10**9),
        whole_number(query.get("limit", "100"), "limit", 1, PAGE_MAX),
    )


def registration(document: dict[str, Any]) -> Registration:
    """What a node says of itself, in either spelling of the wire."""
    node_id = text(document, "NodeId", "nodeId")
    if node_id is None or not node_id.strip():
        raise MissingMember("missing NodeId", member="nodeId")
    apps = _either(document, "Apps", "apps")
    if isinstance(apps, str):
        apps = apps.split(",")
    if apps is None:
        apps = []
    if not isinstance(apps, list):
        raise InvalidValue("apps must be a list of texts, or one text with commas", member="apps")
    capacity = seconds({"capacity": _either(document, "Capacity", "capacity")}, "capacity")
    labels = _either(document, "Labels", "labels") or {}
    if not isinstance(labels, dict):
        raise InvalidValue("labels must be an object of texts", member="labels")
    return Registration(
        check_node_id(node_id),
        tuple(each.strip() for each in map(_as_text, apps) if each.strip()),
        1 if capacity is None else min(10**9, max(0, int(capacity))),
        {str(name): _as_text(value) for name, value in labels.items()},
        (text(document, "BaseUrl", "baseUrl") or "").strip(),
    )


def beat(document: Any) -> Beat:
    """A heartbeat. Raises `InvalidValue` or `MissingMember`."""
    if not isinstance(document, dict):
        raise InvalidJson("a heartbeat must be a JSON object")
    node_id = text(document, "nodeId", "NodeId")
    if node_id is None:
        raise MissingMember("missing nodeId", member="nodeId")
    version = document.get("version", 0)
    recycled = document.get("recycled") or ()
    if recycled and not (
        isinstance(recycled, list) and len(recycled) <= SLOTS_MAX and all(isinstance(slot, str) for slot in recycled)
    ):
        raise InvalidValue(f"recycled must be a list of at most {SLOTS_MAX} slot ids", member="recycled")
    if version.__class__ is not int or not 0 <= version < 2**53:
        version = whole_number(0 if version is None else version, "version", 0, 2**53)
    said = document.get("incarnation")
    incarnation = "" if said is None else check_incarnation(said)
    return Beat(check_node_id(node_id), version, tuple(check_slot_id(slot) for slot in recycled), incarnation)


def policy(document: dict[str, Any]) -> str:
    """`recycle` or `reuse`: what happens to a slot that was given back."""
    given = text(document, "policy") or "recycle"
    if given not in ("recycle", "reuse"):
        raise InvalidValue("policy must be recycle or reuse", member="policy")
    return given


def slots(document: dict[str, Any], node_id: str, labels: dict[str, Label]) -> list[Slot]:
    """The slots of a publication, from `slots` and `pools`, with the tokens of `lent`. `labels` holds parsed ones."""
    listed, pools, lent = document.get("slots") or [], document.get("pools") or {}, document.get("lent") or {}
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InvalidValue("slots must be a list of objects", member="slots")
    if not isinstance(pools, dict):
        raise InvalidValue("pools must be an object of label: number of slots", member="pools")
    if not isinstance(lent, dict) or not all(_is_token(token) for token in lent.values()):
        raise InvalidValue("lent must be an object of slot id: lease token", member="lent")
    wanted = [(_slot_label(each), _slot_id(each), each) for each in listed]
    for label, count in pools.items():
        number = whole_number(count, f"pools.{label}", 0, SLOTS_MAX)
        common = {name: document[name] for name in ("webSocketEndpoint", "endpoint") if name in document}
        wanted += [(label, _pool_slot_id(node_id, labels[label].text, n), common) for n in range(1, number + 1)]
    if len(wanted) > SLOTS_MAX:
        raise InvalidValue(f"at most {SLOTS_MAX} slots a call; send the rest with another", member="slots")
    found = [_slot(node_id, slot_id, labels[label], said, lent) for label, slot_id, said in wanted]
    if len({slot.id for slot in found}) < len(found):
        raise InvalidValue("the same slot id stands there twice", member="slots")
    return found


def named_labels(document: dict[str, Any]) -> set[str]:
    """Every label text a publication names."""
    listed, pools = document.get("slots") or [], document.get("pools") or {}
    named = {str(label) for label in pools} if isinstance(pools, dict) else set()
    if isinstance(listed, list):
        named |= {_slot_label(each) for each in listed if isinstance(each, dict)}
    return named


def _slot(node_id: str, slot_id: str, label: Label, said: dict[str, Any], lent: dict[str, Any]) -> Slot:
    own_node = text(said, "nodeId")
    if own_node is not None and own_node.strip() != node_id:
        raise InvalidValue(f"slot {slot_id} names another node, {own_node!r}", member="nodeId")
    labels = said.get("labels")
    if labels is not None and not isinstance(labels, dict):
        raise InvalidValue("labels of a slot must be an object", member="labels")
    idle = seconds(said, "idleTimeoutSeconds")
    if idle is not None and not 0 <= idle <= 86_400:
        raise InvalidValue("idleTimeoutSeconds must be from 0 to 86400", member="idleTimeoutSeconds")
    for name in ("webSocketEndpoint", "endpoint", "browserType"):
        text(said, name)
    item = slot_item(node_id, slot_id, label.segments[1], said)
    return Slot(slot_id, label.text, item, "" if idle is None else str(int(idle * 1000)), str(lent.get(slot_id, "")))


def _slot_label(said: dict[str, Any]) -> str:
    label = text(said, "labelKey", "label")
    if label is None:
        raise MissingMember("every slot needs a labelKey", member="labelKey")
    return label


def _slot_id(said: dict[str, Any]) -> str:
    slot_id = text(said, "slotId", "browserId")
    if slot_id is None:
        raise MissingMember("every slot needs a slotId", member="slotId")
    return check_slot_id(slot_id.strip())


def _pool_slot_id(node_id: str, label: str, number: int) -> str:
    """The name the hub gives the n-th slot of a pool of a node: always the same, so that a repeat changes nothing."""
    whole = f"{node_id}-{label.replace(':', '.')}-{number}"
    try:
        return check_slot_id(whole)
    except BadInput:
        digest = hashlib.sha256(f"{node_id}\0{label}".encode()).hexdigest()[:24]
        return f"slot-{digest}-{number}"


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19


def _either(document: dict[str, Any], *names: str) -> Any:
    return next((document[name] for name in names if document.get(name) is not None), None)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value, "labels")
