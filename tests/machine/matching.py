"""The part of the model that knows what slots have and what tickets want, and whose turn a slot is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.machine.places import Places, fits
from tests.machine.records import SILENT_MS, BorrowRequest, Ticket
from tests.machine.suiting import PLAIN, digest_of, is_suited, want_of


class Waiter(NamedTuple):
    """A ticket, and the label of it under which it is served."""

    ticket: Ticket
    label: str


class Described(NamedTuple):
    """What a node says of a slot: attributes as canonical JSON, what is warm, and how many classes there may be."""

    attributes: str = ""
    warm: tuple[str, ...] = ()
    most: int = 64


UNDESCRIBED = Described()


@dataclass
class Matching(Places):
    """Waiters by what they want, and the labels in turn."""

    tickets: dict[str, Ticket] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)  # labels with live waiters, served next first
    offered: set[str] = field(default_factory=set)  # those that freed slots find, with tickets that want nothing else
    parked: dict[str, set[str]] = field(default_factory=dict)  # label -> attributes of slots that do not find it
    matching: bool = False  # whether a slot was ever described, or a ticket wanted more than a label
    hubs: dict[str, int] = field(default_factory=dict)  # hub -> when it was heard

    # -- what slots have

    @property
    def classes(self) -> dict[str, int]:
        """Return how many slots have each class."""
        found = [record.attributes for record in self.slots.values() if record.attributes]
        return {digest_of(text): found.count(text) for text in found}

    def describe_slot(self, slot: str, told: Described) -> tuple[str, bool]:
        """A slot has these attributes from now on; return the note for its node, and whether to place it anew."""
        record, known = self.slots[slot], self.classes
        if not self.matching and not told.attributes and not told.warm:
            return "", False
        self.matching = True
        ends = known.get(digest_of(record.attributes)) == 1
        refused = bool(told.attributes) and digest_of(told.attributes) not in known and len(known) - ends >= told.most
        (self.unclassed.add if refused else self.unclassed.discard)(slot)
        before, before_warm = record.attributes, record.warm
        record.attributes, record.warm = "" if refused else told.attributes, told.warm
        self.note_class(before)
        if not before and (record.attributes, record.warm) != (before, before_warm):
            record.since = self.next_entry()
        differs = record.place == "free" and record.attributes != before and bool(self.turns)
        return "too-many-classes" if refused else "", differs

    # -- who waits

    def waiting(self) -> list[Ticket]:
        """Return the tickets that are attended, served first first."""
        found = [ticket for ticket in self.tickets.values() if ticket.state == "waiting"]
        return sorted(found, key=lambda ticket: ticket.place)

    def queue(self, label: str) -> list[str]:
        """Return the tickets that wait for a label."""
        return [ticket.wanted.id for ticket in self.waiting() if label in ticket.wanted.labels]

    def line(self, label: str, want: str) -> list[str]:
        """Return those of them that want this of it, `PLAIN` for nothing."""
        return [
            ticket.wanted.id
            for ticket in self.waiting()
            if any(label == its and want_of(where) == want for its, where in ticket.wanted.asks)
        ]

    def lines(self) -> dict[str, set[str]]:
        """Return, by label, what its tickets want of it, without those that want nothing."""
        found: dict[str, set[str]] = {}
        for ticket in self.waiting():
            for label, where in ticket.wanted.asks:
                if where:
                    found.setdefault(label, set()).add(where)
        return found

    def before(self, wanted: BorrowRequest) -> int:
        """Return how many stand before a ticket in the line of its first choice, or would."""
        label, where = wanted.asks[0]
        place = self.tickets[wanted.id].place
        return sum(self.tickets[other].place < place for other in self.line(label, want_of(where)))

    def suited(self, label: str, attributes: str) -> list[Ticket]:
        """Return the tickets that wait for a label and may have a slot with these attributes."""
        return [
            ticket
            for ticket in self.waiting()
            if any(label == its and is_suited(where, attributes) for its, where in ticket.wanted.asks)
        ]

    def heard(self, hub: str) -> bool:
        return hub in self.hubs and self.clock_ms - self.hubs[hub] <= SILENT_MS

    def cap_of(self, label: str) -> int:
        names = (f"set:{label}", f"env:{label}", "set", "env")
        return next((self.caps[name] for name in names if name in self.caps), 0)

    def capped(self, label: str) -> bool:
        return 0 < self.cap_of(label) <= self.live(label) + self.units_kept(label)

    def reoffer(self, label: str) -> None:
        """Let freed slots find a label while a ticket waits for it and its cap leaves room."""
        if label in self.turns and not self.queue(label):
            self.turns.remove(label)
        roomy = label in self.turns and not self.capped(label)
        (self.offered.add if roomy and self.line(label, PLAIN) else self.offered.discard)(label)
        if roomy or label not in self.lines():
            self.parked.pop(label, None)

    def take_turn(self, label: str) -> None:
        if label in self.turns:
            self.turns.remove(label)
        self.turns.append(label)
        self.reoffer(label)

    # -- whose turn it is

    def serves(self, pool: str, label: str) -> bool:
        """Return whether a pool may serve a label."""
        trailing, prefix, wildcards = (option == "1" for option in self.options)
        have, want = pool.count(":") + 1, label.split(":")
        if (have > len(want) and not prefix) or (have < len(want) and not trailing):
            return False
        return fits(pool, want[:have], wildcards)

    def plain_label(self, pool: str) -> str | None:
        """Return the label whose turn it is, of those with a ticket that wants nothing else."""
        return next((label for label in self.turns if label in self.offered and self.serves(pool, label)), None)

    def fit_label(self, pool: str, attributes: str) -> str | None:
        """Return the label whose turn it is, of those with a ticket that wants what such a slot has."""
        lines = self.lines()
        for label in self.turns:
            fits_it = any(is_suited(where, attributes) for where in lines.get(label, ()))
            if fits_it and self.serves(pool, label) and attributes not in self.parked.get(label, ()):
                if not self.capped(label):
                    return label
                self.parked.setdefault(label, set()).add(attributes)
        return None

    def next_label(self, pool: str, attributes: str) -> str | None:
        """Return the label whose turn it is, of those with a ticket that may have such a slot of a pool."""
        found = [label for label in (self.plain_label(pool), self.fit_label(pool, attributes)) if label]
        return min(found, key=self.turns.index, default=None)

    def next_waiter(self, pool: str, attributes: str) -> Waiter | None:
        """Return the first live ticket that may have such a slot of a pool."""
        while (label := self.next_label(pool, attributes)) is not None:
            first = self.suited(label, attributes)[0]
            if self.capped(label):
                self.reoffer(label)
            elif self.heard(first.hub):
                return Waiter(first, label)
            else:
                self.set_aside(first)
        return None

    def set_aside(self, ticket: Ticket) -> str:
        """Leave a ticket unattended."""
        raise NotImplementedError
