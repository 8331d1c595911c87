"""The records of lending: slots, borrows, tickets and leases, and the checks of their parts. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import orjson

from hub.capacity.wishes import Alternative, BundleWish
from hub.errors import InvalidValue, Superseded
from hub.store.keys import key_part

OWN_MEMBERS = ("nodeId", "browserId", "webSocketEndpoint", "browserType", "browserVersion", "args", "labels")
HOLDER_MAX = 4000  # characters of a holder's JSON text; the longest that a hub writes has half of it
RUN_MAX = 200  # characters of a run id: it becomes part of a key
Over = Literal["not lent", "stale token", "lapsed"]  # why the store says that a lease has ended
Verdict = Literal["ok", "settling", Over]
EndedLease = tuple[str, str, Over, str]  # slot, token, how the store knows that the lease is over, and why it ended
_BLANKS = " \t\n\v\f\r"  # the blanks that Lua's `%s` knows, unlike Python, which strips more
NOT_CARRIED = {"labelKey", "slotId", "endpoint", "leaseToken", *OWN_MEMBERS}
# Names that mean something else beside `attributes`: an attribute of this name stays within.
MEMBERS_OF_SLOTS = {"label", "address", "kind", "idleTimeoutSeconds", "attributes", "warm", *NOT_CARRIED}


@dataclass(frozen=True)
class PublishedSlot:
    """A slot as its node publishes it: `item` is the text that goes into the list of its pool and never changes."""

    id: str
    pool: str
    item: str
    idle_ms: str = ""  # idle timeout of this slot; '' for the hub's setting
    token: str = ""  # token of the lease under which the node says that the slot is lent; '' for none
    asked: tuple[str, str, str] = ("", "", "")  # label and run that this lease was asked for with, and its holder
    fresh: tuple[str, str] = ("", "")  # the last end for which its node has made it fresh, and one for which not yet
    held: tuple[str, str, str] = ("", "", "")  # why its node holds it; number and reason of an operator's last call
    attributes: str = ""  # canonical JSON of what a borrower may demand of it; '' where the node does not say it
    warm: str = ""  # keys of what is warm in it, with blanks between


class Offered(NamedTuple):
    """The outcome of publishing one slot. `other` is the node because of which the slot was refused, '' for none;
    `note` says why its attributes do not count, '' when they do."""

    word: Literal["published", "unchanged", "lent", "taken", "reserved", "claimed", "late"]
    other: str = ""
    note: str = ""


_CONTROL = re.compile(r"(?<!\\)(?:\\\\)*\\(?:u00[01]|[bfnrt])")  # a control character (below U+0020) as JSON escapes it


def slot_item(node_id: str, slot_id: str, label_kind: str, said: Mapping[str, Any]) -> str:
    """Return the list item of a slot: compact JSON with the members in the order in which other programs write them,
    then the extra members of `said`. Raises `InvalidValue` for a control character in it.
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
    """Return the members of a list item, whichever program wrote it; an empty dict when it is not a JSON object."""
    try:
        document = orjson.loads(item.encode("utf-8", "surrogateescape"))
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def listed_id(item: str) -> str:
    """Return the id of the slot record that belongs to a list item, by the same rules as `lua/items.lua`."""
    said = read_item(item)
    for name in ("browserId", "slotId"):
        if text_of(said, name, item).strip(_BLANKS):
            return key_part(text_of(said, name, item))
    if not said and (found := re.search(r'"browserId":"([^"]+)"', item)):
        return key_part(found[1])
    return "nameless-" + hashlib.sha1(item.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def text_of(said: Mapping[str, Any], name: str, item: str) -> str:
    """Return the member `name` of an item as text: a number with the digits of `item`, '' for any other value."""
    value = said.get(name)
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    found = re.search(rf'"{name}"[ \t\r\n]*:[ \t\r\n]*(-?[0-9][0-9A-Za-z.+-]*)', item)
    return found[1] if found and float(found[1]) == float(value) else f"{float(value):.17g}"


def compact(document: Any, member: str) -> str:
    """Return a document as JSON text without blanks; raises `InvalidValue` when it is nested too deeply."""
    try:
        return orjson.dumps(document).decode()
    except TypeError:
        raise InvalidValue(f"{member} cannot be stored: it is nested too deeply", member=member) from None


def check_slot_id(slot_id: str) -> str:
    """Return the slot id unchanged; raises `InvalidValue` unless it can be part of a Redis key as it is."""
    if not slot_id or key_part(slot_id) != slot_id:
        raise InvalidValue(
            f"slot id {slot_id[:60]!r} must be 1 to 200 letters, digits, hyphens, underscores or dots", member="slotId"
        )
    if slot_id in (".", ".."):
        raise InvalidValue(f"a slot cannot be called {slot_id!r}: in a path that is no name", member="slotId")
    return slot_id


def check_run_id(run: str) -> str:
    """Return the run id without blanks around it, '' for no run; raises `InvalidValue` when it is too long or has
    control characters.
    """
    run = run.strip()
    if len(run) > RUN_MAX:
        raise InvalidValue(f"a run id has at most {RUN_MAX} characters", member="runId")
    if not run.isprintable():
        raise InvalidValue("a run id must not contain control characters", member="runId")
    return run


def superseded(node_id: str) -> Superseded:
    """Return the refusal of a process that is not the node any more."""
    return Superseded(f"another process is node {node_id} by now, or this one has left; it is to stop")


_WHY = {
    "node": "its node left or was silent for too long",
    "withdrawn": "its node withdrew the slot",
    "deadline": "the deadline of the drain of its node was over",
    "operator": "an operator ended it",
    "idle": "it was not used for its idle time",
    "max-hold": "it was held for as long as the rule of its pool allows",
    "recall": "it was recalled for a team below its guarantee",
    "task": "its task has ended",
    "bundle": "another slot of its bundle was lost, and they were held together",
    "deleted": "another program ended it",
}


def reason_of(kept: str | None, token: str) -> str:
    """Return why the lease with this token ended early, from what `lua/revocations.lua` keeps; '' if unknown."""
    of, _, rest = (kept or "").partition("|")
    code, _, words = rest.partition("|")
    sentence = _WHY.get(code, "")
    if of != token or not sentence:
        return ""
    return f"{sentence}: {words}" if words else sentence


@dataclass(frozen=True)
class LeaseHolder:
    """The holder of a lease or a ticket. `user`, `team` and `user_id` are those of the token that borrowed, None and
    empty for a shared secret; `name` and `run_name` are what the caller calls itself and its run, `client` is its
    address. The holder of a lease of a bundle has the id of that, the number of the slot in it, and whether they are
    held together; that of a lease of a task has its id.
    """

    user: str | None
    team: str | None
    name: str
    client: str
    user_id: str = ""
    run_name: str = ""
    bundle: str = ""
    unit: int = 0
    together: bool = False
    task: str = ""

    @cached_property
    def text(self) -> str:
        """Return the holder as the JSON text that stands in the store, as `lua/holders.lua` says."""
        said: dict[str, Any] = {**self.shown()}
        if self.user_id:
            said["userId"] = self.user_id
        if self.run_name:
            said["runName"] = self.run_name
        if self.bundle:
            said |= {"bundle": self.bundle, "unit": self.unit, **({"together": True} if self.together else {})}
        if self.task:
            said["task"] = self.task
        return orjson.dumps(said).decode()

    def shown(self) -> dict[str, str | None]:
        """Return the holder as answers show it."""
        return {"user": self.user, "team": self.team, "name": self.name, "client": self.client}

    @classmethod
    def read(cls, text: str | None) -> LeaseHolder | None:
        """Return the holder that a text of the store describes; None for a lease whose holder is not known."""
        said = read_item(text) if text else {}
        names = ("name", "client", "userId", "runName", "bundle", "task")
        texts = [each if isinstance(each := said.get(name), str) else "" for name in names]
        name, client, user_id, run_name, bundle, task = texts
        user, team = (each if isinstance(each := said.get(n), str) else None for n in ("user", "team"))
        unit = each if isinstance(each := said.get("unit"), int) else 0
        together = said.get("together") is True
        return cls(user, team, name, client, user_id, run_name, bundle, unit, together, task) if said else None


def holder_text(value: Any) -> str:
    """Return a holder that a node reports, as the store keeps it; '' for none. Raises `InvalidValue`."""
    if value is not None and not (isinstance(value, str) and len(value) <= HOLDER_MAX):
        raise InvalidValue(f"holder must be a text of at most {HOLDER_MAX} characters", member="holder")
    found = LeaseHolder.read(value)
    return found.text if found else ""


class BorrowRequest(NamedTuple):
    """The arguments of one borrow, as they are sent to the store. Durations are in ms."""

    label: str  # that of the first alternative
    ttl_ms: int  # negative: a default, unless the rule of the pool says otherwise
    run: str
    request: str  # the request id, which is also the ticket id; the same for every repeat
    attempt: str  # an id of this call alone
    fingerprint: str
    keep_s: int
    keyed: bool = False  # the caller chose the request id, so it may come back for its place or its lease
    priority: int = 0
    wait_ms: int = 0  # how long this call may wait in the queue
    limit_ms: int = -1  # refuse at once when the wait is expected to take longer; -1: never
    elsewhere: tuple[str, ...] = ()  # realms that may serve the ticket after `home_ms` in the queue, the best first
    home_ms: int = 0
    holder: str = ""  # JSON of the borrower, `LeaseHolder.text`
    alternatives: tuple[Alternative, ...] = ()  # the best first; empty where any slot of `label` will do
    prefer: str = ""  # keys of which a slot should have one warm, with blanks between, the dearest first
    bundle: str = ""  # of a borrow of several slots: `BundleWish.text`
    hopes: bool = False  # a bundle waits also for slots that are not published

    @property
    def is_plain(self) -> bool:
        """Return whether any slot of the label is as good as another."""
        return not self.alternatives and not self.prefer

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the alternatives or of the parts, each once."""
        if wish := BundleWish.read(self.bundle):
            return wish.labels
        return tuple(dict.fromkeys((self.label, *(each.label for each in self.alternatives))))

    @property
    def what(self) -> str:
        """Return what is asked for, in words."""
        wish = BundleWish.read(self.bundle)
        return str(wish) if wish else " or ".join(map(str, self.alternatives)) or self.label

    @property
    def in_vain(self) -> str:
        """Return the words that it cannot be served now."""
        return f"{self.what} cannot be lent now" if self.bundle else f"No browser available for {self.what}"

    @property
    def asked(self) -> str:
        """Return the alternatives as JSON; '' where any slot of the label will do, and none is preferred."""
        several = self.alternatives or (Alternative(self.label),)
        return "" if self.is_plain else orjson.dumps([list(each) for each in several]).decode()


@dataclass(frozen=True)
class Waiting:
    """A place in the queue of a label; `estimate_ms` is -1 while the queue has not moved yet."""

    position: int
    estimate_ms: int

    def facts(self) -> dict[str, Any]:
        """Return the place as members of an answer; the estimate, in seconds, is None while it is not known."""
        known = self.estimate_ms >= 0
        return {"position": self.position, "estimatedWaitSeconds": self.estimate_ms / 1000 if known else None}


@dataclass(frozen=True)
class Ticket:
    """A borrow that waits, or that has a key and was granted. `state`: `waiting` (in the queue), `away` (no call waits
    for it now, so it is passed over and its place is kept for a while), `granted`, or `elsewhere` (served by another
    realm).
    """

    id: str
    state: str
    label: str
    run: str
    position: int = 0
    estimate_ms: int = -1
    priority: int = 0
    since_ms: int = 0  # since 1970
    left_ms: int = 0  # until the ticket is given up
    ttl_ms: int = 0
    fingerprint: str = ""
    keep_s: int = 0
    holder: str = ""  # JSON of the borrower, `LeaseHolder.text`
    alternatives: tuple[Alternative, ...] = ()  # as in `BorrowRequest`
    bundle: str = ""  # as in `BorrowRequest`
    lease: Lease | None = None
    place: Elsewhere | None = None  # set in the state `elsewhere`: where the lease is; only that realm knows more

    @property
    def keyed(self) -> bool:
        """Return whether the caller chose the id of this ticket with an `Idempotency-Key`, so that it may come back."""
        return self.id.startswith("key-")


class Lease(NamedTuple):
    """A lease of a slot to one holder. `left_ms` is the time until it lapses, measured when the store answered."""

    slot: str
    token: str
    label: str
    pool: str
    run: str
    ttl_ms: int
    left_ms: int
    item: str
    said: dict[str, Any]
    realm: str | None = None  # the realm that lends the slot, if that is not the realm of the borrow
    holder: str = ""  # JSON of the borrower, `LeaseHolder.text`


class LentBundle(NamedTuple):
    """Several leases of one holder that were made at once, in the order of the parts. `together`: one that is lost ends
    the others."""

    id: str
    together: bool
    leases: tuple[Lease, ...]


@dataclass(frozen=True)
class Elsewhere:
    """The lease with which another realm served a ticket of this realm; `request` is the request id it has there."""

    realm: str
    request: str
    slot: str
    token: str


@dataclass(frozen=True)
class LeaseRecord:
    """A live lease as the store describes it, without its token."""

    slot: str
    label: str
    pool: str
    run: str
    node: str
    borrowed_at: str
    ttl_s: float
    left_ms: int
    holder: LeaseHolder | None = None  # None where it is not known
