"""The records of the model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.machine.suiting import tree_of, want_of

TIMEOUT_MS = 50_000  # of nodes
AWAY_MS = 60_000  # a ticket with a key keeps its place for so long
SILENT_MS = 3_000  # a hub that has not ticked for longer is gone


USERS = {"": "", "ada": "a" * 32, "bob": "b" * 32, "cyd": "c" * 32}  # user -> its id; the shared secret has neither
TEAMS = {"": "", "ada": "ml", "bob": "ops", "cyd": "bio"}  # user -> its team


def holder_of(user: str | None) -> str:
    """Return the holder as hubs write it into the store; "" where it is not known."""
    if user is None:
        return ""
    said = {"user": user or None, "team": TEAMS[user] or None, "name": f"{user}@host", "client": "10.0.0.1"}
    return json.dumps(said | ({"userId": USERS[user]} if user else {}), separators=(",", ":"))


def is_foreign(by: str, user: str | None, knows_token: bool) -> bool:
    """Return whether a caller may not end what this user holds."""
    if by in ("node", "operator"):
        return False
    if user is None:
        return by != "" and not knows_token
    return by != USERS[user]


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
    unwell: str = ""  # why its node holds it
    told: int = 0  # the number of the last call of its node about that
    barred: str = ""  # why an operator holds it
    called: int = 0  # the number of the last call of an operator about that
    last_user: str | None = None  # the holder of the last lease of it that was revoked
    attributes: str = ""  # as canonical JSON; "" where it was published without
    warm: tuple[str, ...] = ()  # keys of what is warm in it
    since: int = 0  # rises with each slot that becomes free; 0 at the head again

    @property
    def held(self) -> str:
        """Return why it is held, '' while it is well."""
        return self.barred or self.unwell


@dataclass
class Grant:
    """A slot that is lent. The footprints are there until a program deletes them."""

    token: int
    label: str
    run: str
    ttl_ms: int
    granted_ms: int
    deadline_ms: int
    idle_ms: int
    footprint: bool = True
    idle_footprint: bool = True
    ran_out: bool = False  # the idle footprint is gone by itself
    limited: bool = False
    hold_ms: int | None = None
    warn_ms: int | None = None
    base_idle_ms: int | None = None
    active_ms: int | None = None
    paused_ms: int = 0
    spared_ms: int = 0
    warned_ms: int | None = None  # the end that its holder was told
    recall_ms: int | None = None  # until when it may be renewed, for another team
    before: str | None = None  # the run it was taken over from in the very step in which that one ended
    unseen: bool = False  # and no caller has fetched it yet
    user: str | None = ""  # the user that holds it, "" for the shared secret, None where that is not known
    bundle: str = ""  # of which it is one
    unit: int = 0  # its number in that
    together: bool = False  # whether its end ends the others

    @property
    def holder(self) -> str:
        """Return its holder as scripts write it."""
        if not self.bundle:
            return holder_of(self.user)
        tail = ',"together":true}' if self.together else "}"
        return f'{holder_of(self.user)[:-1]},"bundle":"{self.bundle}","unit":{self.unit}{tail}'


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
    user: str = ""  # the user that asks, "" for the shared secret
    any_of: tuple[tuple[str, str], ...] = ()  # labels and what is wanted of their slots, first choice first
    prefer: tuple[str, ...] = ()

    @property
    def asks(self) -> tuple[tuple[str, str], ...]:
        """Return what it takes: each label with what is wanted of its slots, "" for nothing."""
        return self.any_of or ((self.label, ""),)

    @property
    def labels(self) -> list[str]:
        """Return the labels that it takes, each once, first choice first."""
        return list(dict.fromkeys(label for label, _ in self.asks))


class Part(NamedTuple):
    """So many slots of a bundle that are alike."""

    label: str
    where: str = ""
    count: int = 1


@dataclass
class BundleRequest(BorrowRequest):
    """A borrow of several slots at once. Its label is that of its first part; it stands in the line of none."""

    parts: tuple[Part, ...] = ()
    same_node: bool = False
    together: bool = False
    hopes: bool = False

    @property
    def asks(self) -> tuple[tuple[str, str], ...]:
        return ()

    @property
    def text(self) -> str:
        """Return what scripts are told of it."""
        parts = [[label, want_of(where) if where else "", tree_of(where), where, n] for label, where, n in self.parts]
        return json.dumps({"parts": parts, "sameNode": self.same_node, "together": self.together})

    @property
    def units(self) -> list[Part]:
        """Return a part for each slot."""
        return [part for part in self.parts for _ in range(part.count)]


@dataclass
class Reserver:
    """The bundle for which slots are set aside."""

    ticket: str
    node: str
    since_ms: int
    units: dict[str, int]  # label -> how many places under its cap are kept
    away_ms: int | None = None  # since when no call of its caller waits


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
    patient_ms: int = 0  # of a bundle: since when it has waited for its turn to reserve
