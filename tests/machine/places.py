"""The part of the model that knows where slots are: pools, lists, grants, maintenance, suspects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.machine.records import TEAMS, TIMEOUT_MS, Grant, Maintenance, Node, Reserver, Slot
from tests.machine.suiting import digest_of, is_suited


def fits(label: str, wanted: list[str], wild: bool) -> bool:
    """Return whether a label begins with the wanted segments; `*` stands for any one when wildcards are on."""
    have = label.split(":")
    return len(have) >= len(wanted) and all(w == h or (wild and w == "*") for w, h in zip(wanted, have, strict=False))


@dataclass
class Places:
    """Slots and grants of one store. `options`: trailing fallback, prefix expansion, wildcards, `1` or `0` each."""

    options: str
    clock_ms: int
    token: int
    entered: int = 0  # how often a slot became free
    settled_ms: int = 0
    opening: int = 0  # how often the store was opened; after the first time nodes are to report what they have
    reopened_ms: int = 0
    lost: tuple[int, int] = (0, 0)  # leases with tokens above the first, up to the last, may have been lost
    reported: dict[str, int] = field(default_factory=dict)  # node -> the opening after which it last reported
    nodes: dict[str, Node] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    drain_deadlines: dict[str, int] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)  # nodes whose slots are held back, until the last of them is gone
    aside: dict[str, set[str]] = field(default_factory=dict)  # node -> slots held back because it was suspect
    leaving: set[str] = field(default_factory=set)
    slots: dict[str, Slot] = field(default_factory=dict)
    free: dict[str, list[str]] = field(default_factory=dict)
    popped: dict[str, bool] = field(default_factory=dict)  # slot another program took -> whether it is still indexed
    unclassed: set[str] = field(default_factory=set)  # slots whose attributes would be one kind too many
    lent: dict[str, list[str]] = field(default_factory=dict)
    grants: dict[str, Grant] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)
    grace_ms: int = 0
    revoked: dict[str, tuple[int, str]] = field(
        default_factory=dict
    )  # slot -> until when, of whom: the token that ended
    orders: dict[str, set[str]] = field(default_factory=dict)  # node -> slots it is to be told to replace
    maintenance: dict[str, Maintenance] = field(default_factory=dict)
    last_ends: dict[str, int] = field(default_factory=dict)  # slots that were dropped before they were made fresh
    used: dict[str, int] = field(default_factory=dict)  # slots to be made fresh -> the count when their lease ended
    holding: bool = False  # whether a slot was ever held
    kept: dict[str, Slot] = field(default_factory=dict)  # slots that were dropped, or lost, as far as they are held
    changed: set[str] = field(default_factory=set)  # slots whose holds have changed in this script
    told: dict[str, int] = field(default_factory=dict)  # node -> number of its last call that named all it holds
    conflicts: bool = False  # whether two nodes ever offered one slot
    republish: set[str] = field(default_factory=set)  # nodes that are to publish what they have, when they beat next
    caps: dict[str, int] = field(default_factory=dict)  # as the store has them: set:a:b, env:a:b, served:a:b, set, env
    roomy: list[str] = field(default_factory=list)  # labels whose caps on what is served got room in this script
    released: dict[str, str] = field(default_factory=dict)  # slot freed in this script beside such a label -> its run
    headroom: list[str] = field(default_factory=list)  # labels under which a grant ended in this script
    reserver: Reserver | None = None
    reserved: set[str] = field(default_factory=set)  # slots that are set aside for it
    reopened: list[str] = field(default_factory=list)  # pools whose maintenance this script has ended
    asking: str | None = None  # the team that borrows in this moment, where teams count
    asked_for: str | None = None  # the label whose waiters are served in this moment

    @property
    def settling(self) -> bool:
        return self.settled_ms > self.clock_ms

    def of_pool(self, pool: str) -> set[str]:
        return {slot for slot, record in self.slots.items() if record.pool == pool}

    def of_node(self, node: str) -> set[str]:
        return {slot for slot, record in self.slots.items() if record.node == node}

    @property
    def reporting(self) -> bool:
        """Whether a restart may have lost grants that only the nodes know of."""
        return self.opening > 0 and self.clock_ms - self.reopened_ms < TIMEOUT_MS

    def alive(self, node: str) -> bool:
        return self.nodes[node].alive_until_ms > self.clock_ms

    def silent(self, node: str) -> bool:
        """For half of its timeout, and not heard by its alive key either: some nodes write that themselves."""
        found = self.nodes[node]
        silent_ms = self.clock_ms - found.beat_ms
        by_key_ms = max(90_000 - silent_ms, 30_000) + 1000  # what its registration left of it is no sign
        return silent_ms > TIMEOUT_MS / 2 and found.alive_until_ms - self.clock_ms <= by_key_ms

    def suspect(self, slot: str) -> bool:
        """Its node is silent, or has yet to say after a restart whether it is lent: it is held back."""
        record = self.slots[slot]
        unreported = self.reporting and record.reported != self.opening
        return record.node in self.nodes and (unreported or self.silent(record.node))

    # -- finding a slot

    def candidates(self, wanted: str, among: Sequence[str] | None = None) -> Iterator[str]:
        """Yield the pools that may serve a label, best first: itself, shorter ones, longer ones.

        With `among` the others than itself and shorter ones have free slots with such attributes.
        """
        trailing, prefix, wildcards = (option == "1" for option in self.options)
        want = wanted.split(":")
        for n in range(len(want), min(len(want), 2) - 1 if trailing else len(want) - 1, -1):
            if wildcards and "*" in want[:n]:
                yield from [pool for pool in self.with_free(n, among) if fits(pool, want[:n], wildcards)]
            else:
                yield ":".join(want[:n])  # looked at in any case, which ends a maintenance that is over
        for n in range(len(want) + 1, 9 if prefix else 0):
            yield from [pool for pool in self.with_free(n, among) if fits(pool, want, wildcards)]

    def with_free(self, n: int, among: Sequence[str] | None = None) -> list[str]:
        """Return the pools of so many segments that have free slots, with `among` such with these attributes."""
        if among is None:
            return sorted(pool for pool, listed in self.free.items() if listed and pool.count(":") + 1 == n)
        some = [pool for pool in self.free if pool.count(":") + 1 == n]
        return sorted(pool for pool in some if not {*among}.isdisjoint(self.classes_by_age(pool)))

    def match(
        self, wanted: str, where: str = "", prefer: Sequence[str] = (), user: str | None = None, waits: bool = False
    ) -> str | None:
        """Take a slot for a label, for this user, or for any of those who wait for the label and nothing else."""
        self.asking, self.asked_for = None if user is None else TEAMS[user], wanted if waits else None
        among = [each for each in self.attributes if is_suited(where, each)] if where else None
        pools = self.candidates(wanted, among)
        found = next((slot for pool in pools if (slot := self.take(pool, where, prefer))), None)
        self.asking = self.asked_for = None
        return found

    @property
    def attributes(self) -> set[str]:
        """Return what slots have, apart from those that were published without attributes."""
        return {record.attributes for record in self.slots.values() if record.attributes}

    def take(self, pool: str, where: str = "", prefer: Sequence[str] = ()) -> str | None:
        """The slot that is lent next from a pool: the first that is warm, else the one that is free for longest."""
        if where and not self.classes_by_age(pool):
            return None
        if self.under_maintenance(pool) or self.served_cap(pool):
            return None
        for key in prefer:
            for slot in self.by_age(pool):
                record = self.slots[slot]
                warm = key in record.warm and slot not in self.marked and is_suited(where, record.attributes)
                if warm and self.is_taken(slot):
                    return slot
        if where:
            return self.take_of(pool, [each for each in self.classes_by_age(pool) if is_suited(where, each)])
        listed = sorted(self.free.get(pool, []), key=lambda slot: slot in self.marked)
        return next((slot for slot in listed if self.is_taken(slot)), None)

    def take_of(self, pool: str, some: list[str]) -> str | None:
        """The slot with one of these attributes that is lent next from a pool."""

        def order(slot: str) -> tuple[bool, int, int, str]:
            record = self.slots[slot]
            return slot in self.marked, record.since, self.classes_by_age(pool).index(record.attributes), slot

        while listed := [slot for slot in self.by_age(pool) if self.slots[slot].attributes in some]:
            if self.is_taken(slot := min(listed, key=order)):
                return slot
        return None

    def is_taken(self, slot: str) -> bool:
        """Take a slot out of its list; return False if it is not there, or of a suspect and held aside."""
        if slot in self.popped:
            self.popped[slot] = False
            self.forget_popped(self.slots[slot].pool)
            return False
        self.free[self.slots[slot].pool].remove(slot)
        if self.suspect(slot):
            self.hold_aside(slot)
            return False
        return True

    def forget_popped(self, pool: str) -> None:
        """Take out of the indexes what another program took: slots that were free before the head of the list, and no
        more than the list lacks.
        """
        ages = [slot for slot in self.by_age(pool) if self.slots[slot].attributes or self.slots[slot].warm]
        listed = self.free.get(pool, ())
        head = next(iter(listed), None)
        before = ages.index(head) if head in ages else 0 if head else len(ages)
        for slot in ages[: max(0, min(before, len(ages) - len(listed)))]:
            if slot in self.popped:
                self.popped[slot] = False

    def by_age(self, pool: str) -> list[str]:
        """Return the slots of a pool that are listed as free, the one that is free for longest first."""
        listed = [slot for slot, known in self.popped.items() if known and self.slots[slot].pool == pool]
        return sorted([*self.free.get(pool, ()), *listed], key=lambda slot: (self.slots[slot].since, slot))

    def classes_by_age(self, pool: str) -> list[str]:
        """Return the attributes of these slots, those of the oldest first."""
        first: dict[str, int] = {}
        for slot in self.by_age(pool):
            first.setdefault(self.slots[slot].attributes, self.slots[slot].since)
        return sorted((each for each in first if each), key=lambda each: (first[each], digest_of(each)))

    def next_entry(self) -> int:
        self.entered += 1
        return self.entered

    def list_free(self, slot: str) -> None:
        """A slot enters the free list of its pool."""
        record = self.slots[slot]
        record.place, record.since = "free", self.next_entry()
        self.free.setdefault(record.pool, []).append(slot)

    def hold_aside(self, slot: str) -> None:
        record = self.slots[slot]
        record.place = "held"
        self.aside.setdefault(record.node, set()).add(slot)

    def under_maintenance(self, pool: str) -> bool:
        """Return whether a pool lends nothing; looking is what ends it."""
        if pool not in self.maintenance:
            return False
        if not self.is_over(pool):
            return True
        del self.maintenance[pool]
        self.reopened.append(pool)
        return False

    def is_over(self, pool: str) -> bool:
        """Return whether the maintenance of a pool ends as soon as a caller looks."""
        found = self.maintenance[pool]
        if self.lent.get(pool) or found.on_s < 10:
            return False
        replaced = len(self.free.get(pool, [])) >= found.target and not self.of_pool(pool) & found.replacing
        return found.on_s >= 120 or replaced

    # -- grants that end early

    def revoke(self, slot: str, grace: bool = True) -> None:
        """The grant of a slot ends before its time: its holder has the time of the grace to stop."""
        self.slots[slot].last_user = self.grants[slot].user
        if self.grace_ms and grace:
            self.revoked[slot] = (self.clock_ms + self.grace_ms, str(self.grants[slot].token))

    def believed_in(self, slot: str) -> bool:
        return slot in self.revoked and self.revoked[slot][0] > self.clock_ms

    # -- moving one

    def unlist(self, slot: str) -> None:
        record = self.slots[slot]
        if record.place == "free":
            self.free[record.pool].remove(slot)
        elif record.place == "lent":
            self.lent[record.pool].remove(slot)

    def drop(self, slot: str) -> None:
        """Forget a slot that is in no list."""
        self.unreserve(slot)
        record = self.slots.pop(slot)
        self.unclassed.discard(slot)
        self.note_class(record.attributes)
        if record.policy == "fresh" and (record.owed or record.place == "lent"):
            self.last_ends[slot] = self.next_number() if record.place == "lent" else record.owed
        self.orders.get(record.node, set()).discard(slot)
        self.aside.get(record.node, set()).discard(slot)
        if self.holding and (record.unwell or record.called):
            self.kept[slot] = record
        if not self.of_node(record.node) and record.node not in self.nodes:
            self.told.pop(record.node, None)

    def note_class(self, before: str) -> None:
        """A slot has these attributes no more; if it was the last, nodes are told that there is room for others."""
        if before and before not in self.attributes:
            self.republish |= {self.slots[slot].node for slot in self.unclassed} & self.nodes.keys()

    def next_number(self) -> int:
        """Return the next number of an end, or of a drain or undrain: they are counted with the tokens."""
        self.token += 1
        return self.token

    def owe(self, slot: str) -> None:
        """A slot is to be made fresh before it is lent."""
        self.slots[slot].owed = self.next_number()

    def freshen(self, slot: str, number: int) -> None:
        """The node of a slot has made it fresh for the end of this number."""
        if number > self.used.get(slot, number):
            del self.used[slot]

    def mark(self, slot: str) -> None:
        """Ask for a slot to be replaced; its node hears of it when there is a record that names one."""
        self.marked.add(slot)
        if slot in self.slots:
            self.orders.setdefault(self.slots[slot].node, set()).add(slot)

    def mark_known(self, slots: list[str]) -> list[Any]:
        known = [slot for slot in slots if slot in self.slots]
        for slot in known:
            self.mark(slot)
            if self.slots[slot].place == "held" and self.slots[slot].pool in self.maintenance:
                self.maintenance[self.slots[slot].pool].replacing.discard(slot)  # it is in no list
        return ["ok", len(known)]

    def lend(self, slot: str, token: int, label: str, run: str, ttl_ms: int, idle_ms: int) -> None:
        assert slot not in self.used or self.slots[slot].policy != "fresh", f"{slot} is lent before it was made fresh"
        assert not self.slots[slot].held, f"{slot} is lent although it is held"
        self.slots[slot].place = "lent"
        self.lent.setdefault(self.slots[slot].pool, []).append(slot)
        self.grants[slot] = Grant(token, label, run, ttl_ms, self.clock_ms, self.clock_ms + ttl_ms, idle_ms)

    def note_grant(self, slot: str) -> None:
        """A grant was made, whose holder is known by now."""

    def serve_teams(self) -> None:
        """Serve teams that have room under a ceiling since this script."""

    def ceiling_of(self, pool: str, user: str) -> tuple[str, int] | None:
        """Return a name and how many leases of a pool the team of a user may have; None for any number."""
        return None

    def counted_teams(self, user: str, *, own: bool = False) -> dict[str, int]:
        """Return how many leases count under each ceiling of the team of a user. What is kept for its reserver counts,
        unless this is its `own`."""
        return {}

    def served(self, label: str) -> set[str]:
        """Return the slots that a pool and those below it have lent."""
        return {slot for slot in self.grants if f"{self.slots[slot].pool}:".startswith(f"{label}:")}

    def served_caps(self, pool: str) -> list[tuple[str, int]]:
        """Return the labels whose caps count what a pool serves, with these caps, the shortest label first."""
        found = [(name[7:], cap) for name, cap in self.caps.items() if name.startswith("served:")]
        return sorted((label, cap) for label, cap in found if f"{pool}:".startswith(f"{label}:"))

    def served_cap(self, pool: str) -> tuple[str, int] | None:
        """Return the cap that keeps a pool from serving a further lease."""
        return next((each for each in self.served_caps(pool) if self.taken(each[0]) >= each[1]), None)

    def taken(self, label: str) -> int:
        """Return how many leases such a cap counts, with what is set aside for a bundle."""
        aside = [slot for slot in self.reserved if f"{self.slots[slot].pool}:".startswith(f"{label}:")]
        return len(self.served(label)) + len(aside)

    def unreserve(self, slot: str) -> None:
        """Set a slot aside no longer; caps on what is served may have room then."""
        if slot in self.reserved:
            caps = self.served_caps(self.slots[slot].pool)
            self.roomy += [label for label, cap in caps if self.taken(label) == cap]
            self.reserved.discard(slot)

    def units_kept(self, label: str) -> int:
        """Return how many places under the cap of a label are kept for the reserver."""
        return self.reserver.units.get(label, 0) if self.reserver else 0

    def live(self, label: str) -> int:
        """Return the in-flight grants of a requested label."""
        return sum(grant.label == label for grant in self.grants.values())
