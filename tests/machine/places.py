"""The part of the model that knows where slots are: pools, lists, grants, maintenance, suspects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.machine.records import TIMEOUT_MS, Grant, Maintenance, Node, Slot


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
    settled_ms: int = 0
    opening: int = 0  # how often the store was opened; after the first time nodes are to report what they have
    reopened_ms: int = 0
    reported: dict[str, int] = field(default_factory=dict)  # node -> the opening after which it last reported
    nodes: dict[str, Node] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    drain_deadlines: dict[str, int] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)  # nodes whose slots are held back, until the last of them is gone
    aside: dict[str, set[str]] = field(default_factory=dict)  # node -> slots held back because it was suspect
    leaving: set[str] = field(default_factory=set)
    slots: dict[str, Slot] = field(default_factory=dict)
    free: dict[str, list[str]] = field(default_factory=dict)
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
    conflicts: bool = False  # whether two nodes ever offered one slot
    republish: set[str] = field(default_factory=set)  # nodes that are to publish what they have, when they beat next
    headroom: list[str] = field(default_factory=list)  # labels under which a grant ended in this script
    reopened: list[str] = field(default_factory=list)  # pools whose maintenance this script has ended

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

    def candidates(self, wanted: str) -> list[str]:
        """Return the pools that may serve a label, best first: itself, shorter ones, longer ones."""
        trailing, prefix, wildcards = (option == "1" for option in self.options)
        want, pools = wanted.split(":"), sorted(pool for pool, listed in self.free.items() if listed)
        found = []
        for n in range(len(want), 1 if trailing else len(want) - 1, -1):
            if wildcards and "*" in want[:n]:
                found += [pool for pool in pools if pool.count(":") + 1 == n and fits(pool, want[:n], wildcards)]
            else:
                found.append(":".join(want[:n]))  # looked at in any case, which ends a maintenance that is over
        if prefix:
            longer = [pool for pool in pools if pool.count(":") >= len(want) and fits(pool, want, wildcards)]
            found += sorted(longer, key=lambda pool: (pool.count(":"), pool))
        return found

    def match(self, wanted: str) -> str | None:
        return next((slot for pool in self.candidates(wanted) if (slot := self.take(pool))), None)

    def take(self, pool: str) -> str | None:
        """The slot that is lent next from a pool: one about to be replaced goes last, one of a suspect not at all."""
        if self.under_maintenance(pool):
            return None
        listed = self.free.get(pool, [])
        while listed:
            slot = next((each for each in listed if each not in self.marked), listed[0])
            listed.remove(slot)
            if not self.suspect(slot):
                return slot
            self.hold_aside(slot)
        return None

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

    def revoke(self, slot: str) -> None:
        """The grant of a slot ends before its time: its holder has the time of the grace to stop."""
        if self.grace_ms:
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
        record = self.slots.pop(slot)
        if record.policy == "fresh" and (record.owed or record.place == "lent"):
            self.last_ends[slot] = self.next_number() if record.place == "lent" else record.owed
        self.orders.get(record.node, set()).discard(slot)
        self.aside.get(record.node, set()).discard(slot)

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
        self.slots[slot].place = "lent"
        self.lent.setdefault(self.slots[slot].pool, []).append(slot)
        self.grants[slot] = Grant(token, label, run, ttl_ms, self.clock_ms, self.clock_ms + ttl_ms, idle_ms > 0)

    def live(self, label: str) -> int:
        """Return the in-flight grants of a requested label."""
        return sum(grant.label == label for grant in self.grants.values())
