"""What is lent, to whom, and what is asked for. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson

from hub.errors import InvalidValue
from hub.store.keys import key_part

OWN_MEMBERS = ("nodeId", "browserId", "webSocketEndpoint", "browserType", "browserVersion", "args", "labels")
RUN_MAX = 200  # characters of a run id: it becomes part of a key
Over = Literal["not lent", "stale token", "lapsed"]  # how the store knows that a lease has ended
Verdict = Literal["ok", "settling", Over]
EndedLease = tuple[str, str, Over]  # slot, token, and why it is no lease any more
_BLANKS = " \t\n\v\f\r"  # to a script, others are characters like any
NOT_CARRIED = {"labelKey", "slotId", "endpoint", "leaseToken", *OWN_MEMBERS}


@dataclass(frozen=True)
class PublishedSlot:
    """A slot as its node offers it: `item` is the text that goes into the list and is never changed afterwards."""

    id: str
    pool: str
    item: str
    idle_ms: str = ""  # its own idle rule; empty: the hub's
    token: str = ""  # of the lease the node knows it to be lent under
    asked: tuple[str, str] = ("", "")  # under which label, and in which run, that was asked for


class Offered(NamedTuple):
    """What became of a slot that was published; `other` is the node for whose sake it was refused."""

    word: Literal["published", "unchanged", "lent", "taken", "reserved", "claimed", "late"]
    other: str = ""


_CONTROL = re.compile(r"(?<!\\)(?:\\\\)*\\(?:u00[01]|[bfnrt])")  # as JSON writes those below U+0020


def slot_item(node_id: str, slot_id: str, label_kind: str, said: Mapping[str, Any]) -> str:
    """Return the list item of a slot: compact JSON, members in the order other programs write them, extra ones at the
    end.
    """
    document = {
        "nodeId": node_id,
        "browserId": slot_id,
        "webSocketEndpoint": said.get("webSocketEndpoint") or said.get("endpoint") or "",
        "browserType": said.get("browserType") or label_kind,
        "browserVersion": said.get("browserVersion"),
        "args": said.get("args"),
        "labels": said.get("labels") or {},
    }
    document.update({name: value for name, value in said.items() if name not in NOT_CARRIED})
    item = compact(document, "slots")
    if _CONTROL.search(item):
        raise InvalidValue(f"slot {slot_id} says a control character, such as NUL or a line feed", member="slots")
    return item


def read_item(item: str) -> dict[str, Any]:
    """Return what an item says, written by any program; empty when it is not a JSON object."""
    try:
        document = orjson.loads(item.encode("utf-8", "surrogateescape"))
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def listed_id(item: str) -> str:
    """Return the id under which a list item has a record, as `lua/items.lua` finds it."""
    said = read_item(item)
    for name in ("browserId", "slotId"):
        if text_of(said, name, item).strip(_BLANKS):
            return key_part(text_of(said, name, item))
    if not said and (found := re.search(r'"browserId":"([^"]+)"', item)):
        return key_part(found[1])
    return "nameless-" + hashlib.sha1(item.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def text_of(said: Mapping[str, Any], name: str, item: str) -> str:
    """Return a member of an item as text; a number as it is written there, '' for what is neither text nor a number."""
    value = said.get(name)
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    found = re.search(rf'"{name}"[ \t\r\n]*:[ \t\r\n]*(-?[0-9][0-9A-Za-z.+-]*)', item)
    return found[1] if found and float(found[1]) == float(value) else f"{float(value):.17g}"


def compact(document: Any, member: str) -> str:
    """JSON text without blanks; raises `InvalidValue` for what is nested too deeply to be written."""
    try:
        return orjson.dumps(document).decode()
    except TypeError:
        raise InvalidValue(f"{member} cannot be stored: it is nested too deeply", member=member) from None


def check_slot_id(slot_id: str) -> str:
    """Return the id, when it can be part of a key as it is; raises `InvalidValue`."""
    if not slot_id or key_part(slot_id) != slot_id:
        raise InvalidValue(
            f"slot id {slot_id[:60]!r} must be 1 to 200 letters, digits, hyphens, underscores or dots", member="slotId"
        )
    if slot_id in (".", ".."):
        raise InvalidValue(f"a slot cannot be called {slot_id!r}: in a path that is no name", member="slotId")
    return slot_id


def check_run_id(run: str) -> str:
    """Return the id without blanks around it, '' for no run; raises `InvalidValue`."""
    run = run.strip()
    if len(run) > RUN_MAX:
        raise InvalidValue(f"a run id has at most {RUN_MAX} characters", member="runId")
    if not run.isprintable():
        raise InvalidValue("a run id must not contain control characters", member="runId")
    return run


class BorrowRequest(NamedTuple):
    """A borrow as it is put to the store; durations in ms."""

    label: str
    ttl_ms: int
    run: str
    request: str  # the same for every repeat
    attempt: str  # of this call alone
    fingerprint: str
    keep_s: int
    keyed: bool = False  # the caller knows the request id, and may come back for his place or his lease
    priority: int = 0
    wait_ms: int = 0  # how long this call may wait in the queue
    limit_ms: int = -1  # refuse at once when the wait is expected to take longer; -1: never
    elsewhere: tuple[str, ...] = ()  # realms that may serve it, the best first, once it has waited for `home_ms`
    home_ms: int = 0


@dataclass(frozen=True)
class Waiting:
    """A place in the queue of a label; `estimate_ms` is -1 while the queue has not moved yet."""

    position: int
    estimate_ms: int

    def facts(self) -> dict[str, Any]:
        """Return it as the wire says it; the estimate is null while it is not known."""
        known = self.estimate_ms >= 0
        return {"position": self.position, "estimatedWaitSeconds": self.estimate_ms / 1000 if known else None}


@dataclass(frozen=True)
class Ticket:
    """A borrow that was asked for under a key or waits: `state` is `waiting`, `away`, `granted` or `elsewhere`."""

    id: str
    state: str
    label: str
    run: str
    position: int = 0
    estimate_ms: int = -1
    priority: int = 0
    since_ms: int = 0  # since 1970
    left_ms: int = 0  # until it is given up
    ttl_ms: int = 0
    fingerprint: str = ""
    keep_s: int = 0
    lease: Lease | None = None
    place: Elsewhere | None = None  # of one that was served in another realm, which alone knows the rest

    @property
    def keyed(self) -> bool:
        """Return whether its caller chose an `Idempotency-Key`, and may come back for it."""
        return self.id.startswith("key-")


class Lease(NamedTuple):
    """A slot lent to a holder: `left_ms` until it lapses, measured when the store answered."""

    slot: str
    token: str
    label: str
    pool: str
    run: str
    ttl_ms: int
    left_ms: int
    item: str
    said: dict[str, Any]
    realm: str | None = None  # that lends it, where that is not the one that was asked


@dataclass(frozen=True)
class Elsewhere:
    """Where a ticket was served that is of another realm: `request` is what it was lent under there."""

    realm: str
    request: str
    slot: str
    token: str


@dataclass(frozen=True)
class LeaseRecord:
    """A live lease as the store describes it."""

    slot: str
    label: str
    pool: str
    run: str
    node: str
    borrowed_at: str
    ttl_s: float
    left_ms: int
