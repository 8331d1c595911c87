"""The records of nodes: what nodes send, what the hub answers, and what operators see of them. Pure."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from hub.errors import InvalidValue

ID_MAX = 512  # characters of a raw node id; a bound, far above host names and UUIDs
DRAIN_DEADLINE_MAX_S = 7 * 86_400
REASON_MAX = 200  # characters of the reason of a cordon
INCARNATION = re.compile(r"[A-Za-z0-9._-]{1,64}")
NotLending = Literal["draining", "cordoned"]  # what `Node.service` may be besides `lending`
Liveness = Literal["alive", "suspect", "stale"]
Place = Literal["free", "lent", "held"]  # where a slot is
State = Literal[Liveness, NotLending]  # what lists of nodes can be filtered by
NOT_LENDING, STATES = get_args(NotLending), get_args(State)
BEATS_PER_TIMEOUT = 6  # a node may lose five heartbeats in a row before it is stale


UNSAID = "="  # what a heartbeat has for the attributes of a slot of which it says nothing


class Beat(NamedTuple):
    """A heartbeat of a node. `version`: of the last orders that it has read; `recycled`: the slots it has replaced,
    each with the number of the end for which it is fresh, or ''; `held`: all slots that it holds, each with the reason,
    None where it says nothing of that; `number`: of this call; `described`: slot -> its attributes and what is warm in
    it, as in `PublishedSlot`, `UNSAID` for what stays."""

    node_id: str
    version: int = 0
    recycled: Mapping[str, str] = {}
    incarnation: str = ""
    held: Mapping[str, str] | None = None
    number: str = ""
    described: Mapping[str, tuple[str, str]] = {}


class NodeCaller(NamedTuple):
    """The process that calls for a node, and the number of its call; both '' for a client that says neither."""

    incarnation: str = ""
    number: str = ""


class DrainCall(NamedTuple):
    """A drain (`on`) or an undrain of a node. The numbers of a node's calls only rise: the highest is the last call."""

    on: bool
    number: str = ""  # '' for a call that is being made: the store gives it its number
    left_ms: int | None = None  # until what is lent of the node is ended; None without a deadline
    reason: str = ""  # why the node is cordoned; '' for a drain

    @classmethod
    def read(cls, reply: Sequence[Any]) -> DrainCall | None:
        """Return the call that a reply of `lua/drains.lua` describes; None for an empty reply."""
        if not reply:
            return None
        on, number, left_ms, reason = reply
        return cls(on == "1", number, None if left_ms == "" else int(left_ms), reason)


class LentFor(NamedTuple):
    """The label and the run that the lease of a slot was asked for with, and its holder as `LeaseHolder.text`; ''
    where they are not known."""

    label: str = ""
    run: str = ""
    holder: str = ""

    @classmethod
    def read(cls, reply: Sequence[str]) -> dict[str, LentFor]:
        """Return slot -> label, run and holder, from a reply that lists these four of each lent slot in turn."""
        return {slot: cls(*asked) for slot, *asked in zip(*[iter(reply)] * 4, strict=True)}


class Orders(NamedTuple):
    """The answer to a heartbeat. `lent` maps each lent slot to its token, None when nothing changed since the version
    that the node named; `lent_for` adds label and run of these leases. `offers` is a digest of the slots that the hub
    has of the node, `superseded` says that another process is the node now. `ends` maps the slots that are held back
    until they are fresh to the number of the end after which they were not, `held` those that an operator holds to
    `number|reason` of that call. `notes` maps slots whose attributes do not count to the reason."""

    known: bool
    drain: bool = False
    version: int = 0
    lent: dict[str, str] | None = None
    recycle: tuple[str, ...] = ()
    offers: str = ""
    superseded: bool = False
    drain_call: DrainCall | None = None
    lent_for: Mapping[str, LentFor] = {}
    ends: Mapping[str, str] = {}
    held: Mapping[str, str] = {}
    notes: Mapping[str, str] = {}


@dataclass(frozen=True)
class Registration:
    """The data that a node sends when it registers. `apps`: what it offers, mostly labels of pools. `incarnation`: its
    process. `term`: what the hub gave that process when it registered first; '' the first time. `host`: where it runs.
    `first`: that process has not registered before.
    """

    node_id: str
    apps: tuple[str, ...] = ()
    capacity: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    base_url: str = ""
    incarnation: str = ""
    term: str = ""
    host: str = ""
    first: bool = False


@dataclass(frozen=True)
class Registered:
    """The outcome of a registration. `new`: the node was not registered before. `term`: to be sent with later
    registrations of the same incarnation. `lent`: slot -> token of the leases that this process takes over from the
    process that was the node before.
    """

    new: bool
    version: int
    term: str
    lent: Mapping[str, str] = field(default_factory=dict)
    lent_for: Mapping[str, LentFor] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """A node as operators see it. `state`: `alive`, `suspect` (half the timeout without a heartbeat) or `stale`."""

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
    cordon: str = ""  # the reason of its cordon; '' when it is not cordoned
    held: int = 0  # slots that are held as unwell, by the node or an operator
    kept: bool = False  # silent for longer than the timeout, and kept only because the sweep may not expire nodes

    @property
    def service(self) -> Literal["lending", NotLending]:
        """Return `lending`, or the state in which nothing more of the node is lent: `draining` or `cordoned`."""
        return "cordoned" if self.cordon else "draining" if self.draining else "lending"

    def contains(self, text: str) -> bool:
        """Return whether the node's id, labels or pools contain `text`, in any case; `nodes/find.lua` does the same."""
        return text.lower() in f"{self.id} {self.labels} {','.join(self.apps)}".lower()

    @property
    def held_back(self) -> str:
        """Return why nothing more of the node is lent, as a predicate: `drains` or `is cordoned (reason)`; else ''."""
        return f"is cordoned ({self.cordon})" if self.cordon else "drains" if self.draining else ""


class Order(NamedTuple):
    """An instruction that a node was given and has not carried out yet. `left_ms`: for a drain, until the leases of the
    node end; for a rebuild, until it is dropped because the node has not begun it.
    """

    word: Literal["drain", "cordon", "rebuild", "recycle"]
    left_ms: int | None = None
    reason: str = ""
    slots: tuple[str, ...] = ()  # for `recycle`: the slots that the node is to replace once they are not in use


@dataclass(frozen=True)
class DrainState:
    """The progress of draining a node: the numbers of its held and lent slots. `deadline_left_ms`: until its leases are
    ended, None without a deadline.
    """

    draining: bool
    held: int
    lent: int
    deadline_left_ms: int | None


@dataclass(frozen=True)
class Departure:
    """The answer to whether a node can be shut down without ending a lease: not while slots are lent or on offer.

    `offered` counts the slots on offer in the first batch that has any, so the node may have more.
    """

    draining: bool
    lent: int
    offered: int
    deadline_left_ms: int | None

    @property
    def safe(self) -> bool:
        """Return whether no slot of the node is lent and none can be lent any more."""
        return self.draining and not self.lent and not self.offered

    @property
    def reason(self) -> str:
        """Return one sentence that says why a shutdown is safe or not."""
        if not self.draining:
            return "It does not drain, so a slot of it may be lent at any moment."
        if self.lent:
            return f"{self.lent} of its slots {'is' if self.lent == 1 else 'are'} still lent."
        if self.offered:
            return "Its draining was cut short, and some of its slots are still on offer; drain it once more."
        return "It drains, and nothing of it is lent."


def check_node_id(raw: str) -> str:
    """Return the node id without blanks around it; raises `InvalidValue` when it is empty, too long, `.` or `..`."""
    trimmed = raw.strip()
    if not trimmed:
        raise InvalidValue("missing NodeId: a node id must not be blank", member="nodeId")
    if len(trimmed) > ID_MAX:
        raise InvalidValue(f"a node id has at most {ID_MAX} characters; this one has {len(trimmed)}", member="nodeId")
    if trimmed in (".", ".."):
        raise InvalidValue(f"a node cannot be called {trimmed!r}: in a path that is no name", member="nodeId")
    return trimmed


def check_incarnation(raw: object) -> str:
    """Return the incarnation unchanged; raises `InvalidValue` unless it is text of the allowed form."""
    if isinstance(raw, str) and INCARNATION.fullmatch(raw):
        return raw
    rule = "incarnation must be 1 to 64 letters, digits, dots, hyphens and underscores, another one for each process"
    raise InvalidValue(rule, member="incarnation")


def check_reason(raw: object, member: str = "reason") -> str:
    """Return the reason of a cordon or a hold without blanks around it; raises `InvalidValue`, which names `member`,
    unless it is one printable line."""
    reason = raw.strip() if isinstance(raw, str) else ""
    if not 1 <= len(reason) <= REASON_MAX or not reason.isprintable():
        raise InvalidValue(f"reason must be 1 to {REASON_MAX} printable characters on one line", member=member)
    return reason


def next_beat_ms(timeout_ms: int) -> int:
    """Return in how many ms the next heartbeat is due: a sixth of the timeout, give or take a tenth of that.

    The chance in it keeps the nodes from all sending at the same moment.
    """
    return int(timeout_ms / BEATS_PER_TIMEOUT * (0.9 + 0.2 * random.random()))
