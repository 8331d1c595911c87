"""The records of the model."""

from __future__ import annotations

from dataclasses import dataclass, field

TIMEOUT_MS = 50_000  # of nodes
AWAY_MS = 60_000  # a ticket with a key keeps its place for so long
SILENT_MS = 3_000  # a hub that has not ticked for longer is gone


@dataclass
class Node:
    """A node on the books: when it was heard on the hub clock, and its traces in wall time, alive key and LastSeen."""

    beat_ms: int
    alive_until_ms: int
    seen: bool = True


@dataclass
class Slot:
    """A published slot; `place` is free, lent or held."""

    pool: str
    node: str
    item: str
    policy: str
    place: str = ""
    claimed: bool = False  # by the node that its id names, which gets it when its lease ends
    reported: int = 0  # the opening of the store after which its node last named it
    owed: int = 0  # the number of the end for which its node is to make it fresh; 0 for none
    made: int = 0  # of the last end for which it has


@dataclass
class Grant:
    """A slot that is lent. The footprints are there until a program deletes them."""

    token: int
    label: str
    run: str
    ttl_ms: int
    granted_ms: int
    deadline_ms: int
    watch_idle: bool
    footprint: bool = True
    idle_footprint: bool = True
    before: str | None = None  # the run it was taken over from in the very step in which that one ended
    unseen: bool = False  # and no caller has fetched it yet


@dataclass
class Maintenance:
    """A pool restart: which slots it wants replaced, by how many; `on_s` is how long it has been on."""

    target: int
    replacing: set[str]
    counts: tuple[int, int]
    on_s: int = 0


@dataclass
class Answered:
    """The answer of a request, and the attempt that got it."""

    asked: str
    slot: str
    token: int
    attempt: str
    also: set[str] = field(default_factory=set)  # other attempts that have it


@dataclass
class BorrowRequest:
    """A borrow as it is put to the store."""

    id: str
    label: str
    run: str
    attempt: str
    asked: str
    keyed: bool
    hub: str
    wait_ms: int
    ttl_ms: int = 900_000
    idle_ms: int = 0
    priority: int = 0
    repeated: bool = False
    max_label: int = 100
    max_run: int = 100


@dataclass
class Ticket:
    """A place in the queue. `state` is waiting, away, or handed once it was granted."""

    wanted: BorrowRequest
    place: tuple[int, int]  # less is served first
    hub: str
    attempt: str
    state: str = "waiting"
    patience_ms: int = 0
    until_ms: int = field(default=0)
