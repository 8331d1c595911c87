"""What nodes say, and what they are told. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from hub.errors import InvalidValue

ID_MAX = 512  # characters of a raw node id; a bound, far above host names and UUIDs
DRAIN_DEADLINE_MAX_S = 7 * 86_400
REASON_MAX = 200  # characters of why a node is cordoned
INCARNATION = re.compile(r"[A-Za-z0-9._-]{1,64}")
NotLending = Literal["draining", "cordoned"]  # what `Node.service` may be besides `lending`
Liveness = Literal["alive", "suspect", "stale"]
Place = Literal["free", "lent", "held"]  # of a slot
State = Literal[Liveness, NotLending]  # by which nodes are listed
NOT_LENDING, STATES = get_args(NotLending), get_args(State)
BEATS_PER_TIMEOUT = 6  # a node may lose five beats in a row before it is stale


class Beat(NamedTuple):
    """A heartbeat: `version` is the last one the node was told."""

    node_id: str
    version: int = 0
    recycled: tuple[str, ...] = ()
    incarnation: str = ""


class NodeCaller(NamedTuple):
    """Which process speaks for a node, and the number of its call; both empty for a plain client."""

    incarnation: str = ""
    number: str = ""


class DrainCall(NamedTuple):
    """A drain or an undrain that was made: numbers only rise, so that of several the last one is known."""

    on: bool
    number: str = ""  # '' of a call that is made now
    left_ms: int | None = None
    reason: str = ""  # why it is cordoned; '' of a drain

    @classmethod
    def told(cls, reply: Sequence[Any]) -> DrainCall | None:
        """Read it as `lua/drains.lua` tells it; None where there was none."""
        if not reply:
            return None
        on, number, left_ms, reason = reply
        return cls(on == "1", number, None if left_ms == "" else int(left_ms), reason)


class LentFor(NamedTuple):
    """The request that a lent slot answers: the label under which it counts, and the run; empty where they are not
    known.
    """

    label: str = ""
    run: str = ""

    @classmethod
    def told(cls, reply: Sequence[str]) -> dict[str, LentFor]:
        """Read it as `lua/drains.lua` tells it; None where there was none."""
        return {slot: cls(label, run) for slot, label, run in zip(*[iter(reply)] * 3, strict=True)}


class Orders(NamedTuple):
    """The answer to a heartbeat. `lent` is None when nothing changed since the version the node named, and `lent_for`
    says as what that was asked for; `offers` says in short which slots the hub has of the node."""

    known: bool
    drain: bool = False
    version: int = 0
    lent: dict[str, str] | None = None
    recycle: tuple[str, ...] = ()
    offers: str = ""
    superseded: bool = False
    drain_call: DrainCall | None = None
    lent_for: Mapping[str, LentFor] = {}


@dataclass(frozen=True)
class Registration:
    """What a node says of itself."""

    node_id: str
    apps: tuple[str, ...] = ()
    capacity: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    base_url: str = ""
    incarnation: str = ""
    term: str = ""


@dataclass(frozen=True)
class Registered:
    """What the hub made of a registration; the `term` of an incarnation is for its next ones.

    `lent` is slot -> token of what a process takes over from the one that was the node before.
    """

    new: bool
    version: int
    term: str
    lent: Mapping[str, str] = field(default_factory=dict)
    lent_for: Mapping[str, LentFor] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """A node as operators see it. `state`: `alive`, `suspect` (half the timeout without a beat) or `stale`."""

    id: str
    state: Liveness
    draining: bool
    last_seen: str
    since_beat_ms: int | None
    capacity: str
    apps: tuple[str, ...]
    labels: str
    base_url: str
    slots: int
    lent: int
    deadline_left_ms: int | None
    cordon: str = ""  # why nothing more of it is lent although it stays
    kept: bool = False  # it is silent for longer than the timeout, and only a sweep that may not expire keeps it alive

    @property
    def service(self) -> Literal["lending", NotLending]:
        """`lending`, or why nothing more of it is lent."""
        return "cordoned" if self.cordon else "draining" if self.draining else "lending"

    def contains(self, text: str) -> bool:
        """Return whether its id, labels or pools contain a text, in any case; as `lua/commands/nodes/find.lua`."""
        return text.lower() in f"{self.id} {self.labels} {','.join(self.apps)}".lower()

    @property
    def held_back(self) -> str:
        """Why nothing more of it is lent, as what is said of it: `drains`; '' while it is lent from."""
        return f"is cordoned ({self.cordon})" if self.cordon else "drains" if self.draining else ""


class Order(NamedTuple):
    """What a node was told to do and has not done yet. `left_ms`: until what is lent of a draining node ends, or a
    rebuild that nobody has begun is dropped.
    """

    word: Literal["drain", "cordon", "rebuild", "recycle"]
    left_ms: int | None = None
    reason: str = ""
    slots: tuple[str, ...] = ()  # to replace once nobody is connected to them


@dataclass(frozen=True)
class DrainState:
    """How far the draining of a node is. `deadline_left_ms`: until what is lent ends; None without a deadline."""

    draining: bool
    held: int
    lent: int
    deadline_left_ms: int | None


@dataclass(frozen=True)
class Departure:
    """Whether a node can be shut down without anybody noticing. At least `offered` of its slots are still on offer."""

    draining: bool
    lent: int
    offered: int
    deadline_left_ms: int | None

    @property
    def safe(self) -> bool:
        """Nothing of it is lent, and nothing of it can be lent any more."""
        return self.draining and not self.lent and not self.offered

    @property
    def reason(self) -> str:
        """Why it is safe or not, in one sentence."""
        if not self.draining:
            return "It does not drain, so a slot of it may be lent at any moment."
        if self.lent:
            return f"{self.lent} of its slots {'is' if self.lent == 1 else 'are'} still lent."
        if self.offered:
            return "Its draining was cut short, and some of its slots are still on offer; drain it once more."
        return "It drains, and nothing of it is lent."


def check_node_id(raw: str) -> str:
    """Return the id without blanks around it; raises `InvalidValue` when it is empty or too long."""
    trimmed = raw.strip()
    if not trimmed:
        raise InvalidValue("missing NodeId: a node id must not be blank", member="nodeId")
    if len(trimmed) > ID_MAX:
        raise InvalidValue(f"a node id has at most {ID_MAX} characters; this one has {len(trimmed)}", member="nodeId")
    if trimmed in (".", ".."):
        raise InvalidValue(f"a node cannot be called {trimmed!r}: in a path that is no name", member="nodeId")
    return trimmed


def check_incarnation(raw: object) -> str:
    """Return the name of a process of a node; raises `InvalidValue`."""
    if isinstance(raw, str) and INCARNATION.fullmatch(raw):
        return raw
    said = "incarnation must be 1 to 64 letters, digits, dots, hyphens and underscores, another one for each process"
    raise InvalidValue(said, member="incarnation")


def check_reason(raw: object) -> str:
    """Why a node is cordoned, on one line; raises `InvalidValue`."""
    reason = raw.strip() if isinstance(raw, str) else ""
    if not 1 <= len(reason) <= REASON_MAX or not reason.isprintable():
        raise InvalidValue(f"reason must be 1 to {REASON_MAX} printable characters on one line", member="reason")
    return reason


def next_beat_ms(timeout_ms: int) -> int:
    """Return when to beat next: a sixth of the timeout, give or take a tenth, so that a fleet does not beat in step."""
    return int(timeout_ms / BEATS_PER_TIMEOUT * (0.9 + 0.2 * random.random()))
