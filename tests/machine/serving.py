"""The part of the model that gives slots to waiters: those that are freed, and those that are free already."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.machine.matching import Matching, Waiter
from tests.machine.records import AWAY_MS, Answered, BorrowRequest, Grant, Ticket
from tests.machine.suiting import PLAIN, is_suited, want_of


@dataclass
class Serving(Matching):
    """Waiters, in front of the slots."""

    handed: dict[str, set[str]] = field(default_factory=dict)  # hub -> tickets granted that it has not picked up
    moved: set[tuple[str, str]] = field(default_factory=set)  # label and want of lines that have an estimate
    answered: dict[str, Answered] = field(default_factory=dict)  # request -> its grant
    passed_over: list[str] = field(default_factory=list)  # labels of tickets of a hub that is gone
    given: int = 0  # slots that were free and that waiters got

    # -- who waits

    def pending(self, run: str) -> int:
        return sum(t.state == "waiting" and t.wanted.run == run for t in self.tickets.values())

    def join(self, ticket: Ticket, hub: str, until_ms: int) -> None:
        ticket.state, ticket.hub, ticket.until_ms, ticket.patience_ms = "waiting", hub, until_ms, until_ms + 2000
        self.hubs[hub] = self.clock_ms
        for label, where in ticket.wanted.asks:
            if label not in self.turns:
                self.take_turn(label)
            elif label in self.lines() and self.line(label, want_of(where))[0] == ticket.wanted.id:
                if where and not self.capped(label):
                    self.parked[label] = {each for each in self.parked.get(label, ()) if not is_suited(where, each)}
                elif where:
                    self.parked.setdefault(label, set()).update(
                        each for each in self.attributes if is_suited(where, each)
                    )
                else:
                    self.reoffer(label)
        self.matching |= any(where for _, where in ticket.wanted.asks)

    def step_out(self, ticket: Ticket, state: str) -> None:
        wanted_before = self.lines()
        ticket.state = state  # out of the queue
        for label, where in ticket.wanted.asks:
            ends = not where and label in wanted_before and not self.line(label, PLAIN)
            if ends or not self.queue(label):
                self.reoffer(label)
            elif label not in self.lines():
                self.parked.pop(label, None)

    def set_aside(self, ticket: Ticket) -> str:
        """Leave a ticket unattended: with a key it keeps its place for a while, else it is dropped."""
        self.step_out(ticket, "away")
        ticket.patience_ms = self.clock_ms + AWAY_MS
        if ticket.wanted.keyed:
            return "away"
        del self.tickets[ticket.wanted.id]
        return "dropped"

    # -- granting

    def hand_on(self, waiter: Waiter, slot: str) -> None:
        """Grant a slot that is in no list to a waiter."""
        (ticket, label), wanted = waiter, waiter.ticket.wanted
        where = self.wants_of(ticket, label, slot)
        self.step_out(ticket, "handed")
        self.grant(wanted, label, ticket.attempt, slot)
        if not wanted.keyed:
            del self.tickets[wanted.id]
        self.moved.add((label, want_of(where)))
        if label in self.turns:
            self.take_turn(label)
        self.handed.setdefault(ticket.hub, set()).add(wanted.id)
        self.grants[slot].unseen, self.grants[slot].before = True, self.released.get(slot)

    def wants_of(self, ticket: Ticket, label: str, slot: str) -> str:
        """Return what a ticket wants of a label, of that which the slot has."""
        attributes = self.slots[slot].attributes
        fit = [where for its, where in ticket.wanted.asks if its == label and is_suited(where, attributes)]
        return min(fit, key=want_of)

    def grant(self, wanted: BorrowRequest, label: str, attempt: str, slot: str) -> None:
        self.token += 1
        assert not self.served_cap(self.slots[slot].pool), f"{slot} is lent although a cap on its pool is reached"
        self.lend(slot, self.token, label, wanted.run, wanted.ttl_ms, wanted.idle_ms)
        self.grants[slot].user = wanted.user
        self.note_grant(slot)
        self.note_answer(wanted, slot, attempt)

    def note_answer(self, wanted: BorrowRequest, slot: str, attempt: str) -> None:
        self.answered[wanted.id] = Answered(wanted.asked, slot, self.grants[slot].token, attempt)

    def place_free(self, slot: str) -> None:
        """Send on a slot that is in no list."""
        record = self.slots[slot]
        self.aside.get(record.node, set()).discard(slot)
        self.unreserve(slot)
        if record.node in self.stopped or self.believed_in(slot) or record.owed or record.held:
            record.place = "held"
            return
        if self.set_aside_for_bundle(slot):
            return
        roomy = any(f"{record.pool}:".startswith(f"{label}:") for label in self.roomy)
        may_lend = self.turns and not self.settling and not self.under_maintenance(record.pool)
        if may_lend and not roomy and not self.served_cap(record.pool):
            waiter = self.next_waiter(record.pool, record.attributes)
            if waiter and self.free.get(record.pool) and not record.attributes:  # of those that only a cap had kept
                self.list_free(slot)  # free, the next one
                found = self.take(record.pool, "", waiter.ticket.wanted.prefer)
                if found:
                    self.hand_on(waiter, found)
                return
            if waiter and self.suspect(slot):
                self.hold_aside(slot)
                return
            if waiter:
                self.hand_on(waiter, slot)
                return
        self.list_free(slot)
        self.freed(slot)

    def set_aside_for_bundle(self, slot: str) -> bool:
        """Set a slot aside that is in no list, if a bundle reserves that can use it."""
        raise NotImplementedError

    def freed(self, slot: str) -> None:
        """Let a slot that has become free complete a bundle."""
        raise NotImplementedError

    def offer_again(self, slot: str) -> None:
        """Its last holder has stopped, or had the time to, or its node has made it fresh."""
        record = self.slots.get(slot)
        if record and record.place == "held" and slot not in self.aside.get(record.node, ()):
            self.place_free(slot)

    def relend(self, limit: int) -> list[Any]:
        over = sorted((until_ms, slot) for slot, (until_ms, _) in self.revoked.items() if until_ms <= self.clock_ms)
        for _, slot in over[:limit]:
            del self.revoked[slot]
            self.offer_again(slot)
        return ["ok", len(over[:limit])]

    def end(self, slot: str, by_holder: bool = False) -> Grant:
        """End a grant; where its slot goes is the caller's."""
        caps = self.served_caps(self.slots[slot].pool)
        self.roomy += [label for label, cap in caps if self.taken(label) == cap]
        grant = self.grants.pop(slot)
        if self.slots[slot].policy == "fresh":
            self.used[slot] = self.token
        if grant.label in self.turns:
            self.reoffer(grant.label)
            self.headroom.append(grant.label)
        self.leave(grant, by_holder)
        return grant

    def leave(self, grant: Grant, by_holder: bool) -> None:
        """A grant has ended, perhaps by its holder."""
        raise NotImplementedError

    def release(self, slot: str, *, mark: bool, by_holder: bool = False) -> None:
        """End a grant and send its slot on."""
        self.unlist(slot)
        grant = self.end(slot, by_holder)
        if self.slots[slot].policy == "fresh":
            self.owe(slot)
        elif mark and self.slots[slot].policy != "reuse":
            self.mark(slot)
        if self.slots[slot].claimed:
            self.drop(slot)
            self.republish |= {"n1"} & self.nodes.keys()
            return
        self.place_free(slot)
        if slot in self.grants:
            self.grants[slot].before = grant.run
        elif self.roomy:
            self.released[slot] = grant.run

    # -- serving from slots that are free already

    def hand_over(self, waiter: Waiter, slot: str) -> None:
        self.hand_on(waiter, slot)
        self.given += 1

    def serve_pool(self, pool: str) -> None:
        """Serve waiters from the free slots of a pool, class by class, and then from what is left."""
        self.serve_classes(pool)
        while self.turns and not self.settling:
            plain = self.next_waiter(pool, "")
            found = self.take(pool) if plain else None
            if not plain or not found:
                return
            self.hand_over(plain, found)

    def serve_classes(self, pool: str) -> None:
        """Serve waiters from the free slots of a pool that have attributes."""
        may_lend = self.turns and not self.settling and self.classes_by_age(pool)
        if may_lend and not self.under_maintenance(pool) and not self.served_cap(pool):
            for attributes in self.classes_by_age(pool):
                while (waiter := self.next_waiter(pool, attributes)) and (slot := self.take_of(pool, [attributes])):
                    self.hand_over(waiter, slot)
                    if self.served_cap(pool):
                        break
                if self.served_cap(pool):
                    break

    def adopt(self, pool: str, pushed: list[str], *, head: bool) -> list[Any]:
        """Another program has put back what it took, and a sweeper looks at the list."""
        listed = self.free.setdefault(pool, [])
        listed[:] = [*reversed(pushed), *listed] if head else [*listed, *pushed]
        for slot in [slot for slot in listed if not self.popped.pop(slot, True)]:
            self.slots[slot].since = self.next_entry()
        self.serve_pool(pool)
        return ["ok", 0, 0, []]

    def serve_label(self, label: str, *, anew: bool = False) -> None:
        """Serve the waiters of a label; other labels' waiters may be among them, as turns have it."""
        self.reoffer(label)
        if label in self.lines() and (anew or self.cap_of(label)):
            wheres = self.lines()[label]
            among = [each for each in self.attributes if any(is_suited(where, each) for where in wheres)]
            for pool in self.candidates(label, among):
                self.serve_classes(pool)
        while not self.settling and self.line(label, PLAIN) and not self.capped(label):
            slot = self.match(label, waits=True)
            if not slot:
                break
            record = self.slots[slot]
            waiter = self.next_waiter(record.pool, record.attributes)
            if not waiter:
                self.give_up(slot)
                break
            self.hand_over(waiter, slot)

    def serve_ticket(self, ticket: Ticket) -> None:
        """Serve a ticket from a slot that is free, or another one whose turn it is for such a slot."""
        for label, where in ticket.wanted.asks if not self.settling else ():
            self.reoffer(label)
            while ticket.state == "waiting" and not self.capped(label):
                slot = self.match(label, where, ticket.wanted.prefer, ticket.wanted.user)
                record = self.slots[slot] if slot else None
                waiter = self.next_waiter(record.pool, record.attributes) if record else None
                if slot and not waiter:
                    self.give_up(slot)
                if not slot or not waiter:
                    break
                self.hand_over(waiter, slot)

    def give_up(self, slot: str) -> None:
        """Put a slot back that was taken in vain."""
        self.free[self.slots[slot].pool].insert(0, slot)
        self.slots[slot].since = 0

    def serve_below(self, label: str) -> None:
        """Serve waiters from the free slots of this pool and those below it, their labels in turn."""
        tried: set[tuple[str, str]] = set()
        while self.turns and not self.settling:
            best = self.best_below(label, tried)
            if best is None:
                return
            wanted, pool, attributes = best
            if not attributes:
                slot = self.take(pool) if self.has_teams(pool) else self.match(wanted)
            else:
                slot = None if self.under_maintenance(pool) else self.take_of(pool, [attributes])
            record = self.slots[slot] if slot else None
            waiter = self.next_waiter(record.pool, record.attributes) if record else None
            if not waiter or not slot:
                tried.add((pool, attributes))
                if slot:
                    self.give_up(slot)
                continue
            self.hand_over(waiter, slot)

    def best_below(self, label: str, tried: set[tuple[str, str]]) -> tuple[str, str, str] | None:
        """Return the label whose turn it is, the pool that may serve it, and attributes of the slot if they decide."""
        found: list[tuple[str, str, str]] = []
        for pool in [pool for n in range(2, 9) for pool in self.with_free(n) if f"{pool}:".startswith(f"{label}:")]:
            if self.served_cap(pool):
                continue
            for attributes in ("", *self.classes_by_age(pool)):
                if (pool, attributes) not in tried:
                    if self.has_teams(pool):
                        waiter = self.next_waiter(pool, attributes)
                        its = waiter.label if waiter else None
                    else:
                        its = self.fit_label(pool, attributes) if attributes else self.plain_label(pool)
                    found += [(its, pool, attributes)] if its else []
        return min(found, key=lambda each: self.turns.index(each[0]), default=None)

    def finish(self) -> None:
        """Serve the waiters that a script made room for, as every script does at its end."""
        self.serve_teams()
        for label in self.roomy:
            self.serve_below(label)
        self.roomy = []
        for label in self.passed_over:
            self.serve_label(label, anew=True)
        self.passed_over = []
        while self.headroom or self.reopened:
            if self.headroom:
                self.serve_label(self.headroom.pop(0))
            else:
                self.serve_pool(self.reopened.pop(0))
        self.released = {}

    def overlooked(self) -> list[Any]:
        """Free slots beside live waiters that may have them: there must be none, in any order of turns."""
        if self.settling:
            return []
        found = []
        for slot, record in self.slots.items():
            lendable = record.node not in self.stopped and not self.suspect(slot)
            if (
                record.place != "free"
                or not lendable
                or record.pool in self.maintenance
                or self.served_cap(record.pool)
            ):
                continue
            found += [
                (slot, ticket.wanted.id)
                for ticket in self.tickets.values()
                if ticket.state == "waiting"
                and self.heard(ticket.hub)
                and any(self.may_have(slot, label, where, ticket.wanted.user) for label, where in ticket.wanted.asks)
            ]
        return found

    def has_teams(self, pool: str) -> bool:
        """Return whether there are rows of teams for a pool."""
        return False

    def may_have(self, slot: str, label: str, where: str, user: str) -> bool:
        """Return whether a slot may serve a ticket of a user that asks for this."""
        record = self.slots[slot]
        ceiling = self.ceiling_of(record.pool, user)
        if ceiling and self.counted_teams(user)[ceiling[0]] >= ceiling[1]:
            return False
        return not self.capped(label) and self.serves(record.pool, label) and is_suited(where, record.attributes)
