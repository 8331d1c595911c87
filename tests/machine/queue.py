"""The part of the model for the queue: tickets, turns, caps, hubs, and which waiter gets a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.machine.places import Places, fits
from tests.machine.records import AWAY_MS, SILENT_MS, Answered, BorrowRequest, Grant, Ticket


@dataclass
class Queue(Places):
    """Waiters, in front of the slots."""

    caps: dict[str, int] = field(default_factory=dict)  # as the store has them: set:a:b, env:a:b, set, env
    tickets: dict[str, Ticket] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)  # labels with live waiters, served next first
    offered: set[str] = field(default_factory=set)  # those that freed slots find
    hubs: dict[str, int] = field(default_factory=dict)  # hub -> when it was heard
    handed: dict[str, set[str]] = field(default_factory=dict)  # hub -> tickets granted that it has not picked up
    moved: set[str] = field(default_factory=set)  # labels whose queue has moved: there is an estimate
    answered: dict[str, Answered] = field(default_factory=dict)  # request -> its grant
    withdrawn: set[str] = field(default_factory=set)  # attempts that never will be carried out
    arrivals: int = 0

    # -- who waits

    def queue(self, label: str) -> list[str]:
        """Return the tickets that wait for a label and are attended, served first first."""
        found = [t for t in self.tickets.values() if t.state == "waiting" and t.wanted.label == label]
        return [ticket.wanted.id for ticket in sorted(found, key=lambda ticket: ticket.place)]

    def pending(self, run: str) -> int:
        return sum(t.state == "waiting" and t.wanted.run == run for t in self.tickets.values())

    def heard(self, hub: str) -> bool:
        return hub in self.hubs and self.clock_ms - self.hubs[hub] <= SILENT_MS

    def cap_of(self, label: str) -> int:
        names = (f"set:{label}", f"env:{label}", "set", "env")
        return next((self.caps[name] for name in names if name in self.caps), 0)

    def capped(self, label: str) -> bool:
        return 0 < self.cap_of(label) <= self.live(label)

    def reoffer(self, label: str) -> None:
        """Let freed slots find a label while a ticket waits for it and its cap leaves room."""
        if label in self.turns and not self.queue(label):
            self.turns.remove(label)
        (self.offered.add if label in self.turns and not self.capped(label) else self.offered.discard)(label)

    def take_turn(self, label: str) -> None:
        if label in self.turns:
            self.turns.remove(label)
        self.turns.append(label)
        self.reoffer(label)

    def join(self, ticket: Ticket, hub: str, until_ms: int) -> None:
        ticket.state, ticket.hub, ticket.until_ms, ticket.patience_ms = "waiting", hub, until_ms, until_ms + 2000
        self.hubs[hub] = self.clock_ms
        if ticket.wanted.label not in self.turns:
            self.take_turn(ticket.wanted.label)

    def step_out(self, ticket: Ticket, state: str) -> None:
        """Out of the queue, on the way to `state`."""
        ticket.state = state
        if not self.queue(ticket.wanted.label):
            self.reoffer(ticket.wanted.label)

    def set_aside(self, ticket: Ticket) -> str:
        """Leave a ticket unattended: with a key it keeps its place for a while, else it is dropped."""
        self.step_out(ticket, "away")
        ticket.patience_ms = self.clock_ms + AWAY_MS
        if ticket.wanted.keyed:
            return "away"
        del self.tickets[ticket.wanted.id]
        return "dropped"

    # -- whose turn it is

    def serves(self, pool: str, label: str) -> bool:
        """Return whether a pool may serve a label."""
        trailing, prefix, wildcards = (option == "1" for option in self.options)
        have, want = pool.count(":") + 1, label.split(":")
        if (have > len(want) and not prefix) or (have < len(want) and not trailing):
            return False
        return fits(pool, want[:have], wildcards)

    def next_waiter(self, pool: str) -> Ticket | None:
        """Return the first live waiter of the label whose turn it is, among those this pool may serve."""
        while True:
            label = next((label for label in self.turns if label in self.offered and self.serves(pool, label)), None)
            if label is None:
                return None
            first = self.tickets[self.queue(label)[0]]
            if self.capped(label):
                self.reoffer(label)
            elif self.heard(first.hub):
                return first
            else:
                self.set_aside(first)

    def hand_on(self, ticket: Ticket, slot: str) -> None:
        """Grant a slot that is in no list to a waiter."""
        label, wanted = ticket.wanted.label, ticket.wanted
        self.step_out(ticket, "handed")
        self.grant(wanted, ticket.attempt, slot)
        if not wanted.keyed:
            del self.tickets[wanted.id]
        self.moved.add(label)
        if label in self.turns:
            self.take_turn(label)
        self.handed.setdefault(ticket.hub, set()).add(wanted.id)
        self.grants[slot].unseen = True

    def grant(self, wanted: BorrowRequest, attempt: str, slot: str) -> None:
        self.token += 1
        self.lend(slot, self.token, wanted.label, wanted.run, wanted.ttl_ms, wanted.idle_ms)
        self.answered[wanted.id] = Answered(wanted.asked, slot, self.token, attempt)

    def place_free(self, slot: str) -> None:
        """Send on a slot that is in no list."""
        record = self.slots[slot]
        self.aside.get(record.node, set()).discard(slot)
        if record.node in self.stopped or self.believed_in(slot) or record.owed:
            record.place = "held"
            return
        if self.turns and not self.settling and not self.under_maintenance(record.pool):
            ticket = self.next_waiter(record.pool)
            if ticket and self.free.get(record.pool):  # of those that only a cap had kept free, the next one
                record.place = "free"
                self.free[record.pool].append(slot)
                found = self.take(record.pool)
                if found:
                    self.hand_on(ticket, found)
                return
            if ticket and self.suspect(slot):
                self.hold_aside(slot)
                return
            if ticket:
                self.hand_on(ticket, slot)
                return
        record.place = "free"
        self.free.setdefault(record.pool, []).append(slot)

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

    def end(self, slot: str) -> Grant:
        """End a grant; where its slot goes is the caller's."""
        grant = self.grants.pop(slot)
        if self.slots[slot].policy == "fresh":
            self.used[slot] = self.token
        if grant.label in self.turns:
            self.reoffer(grant.label)
            self.headroom.append(grant.label)
        return grant

    def release(self, slot: str, *, mark: bool) -> None:
        """End a grant and send its slot on."""
        self.unlist(slot)
        grant = self.end(slot)
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

    # -- serving from slots that are free already

    def serve_pool(self, pool: str) -> None:
        while self.turns and not self.settling:
            ticket = self.next_waiter(pool)
            slot = self.take(pool) if ticket else None
            if not ticket or not slot:
                return
            self.hand_on(ticket, slot)

    def serve_label(self, label: str) -> int:
        """Return how many waiters got a slot; other labels' waiters may be among them, as turns have it."""
        self.reoffer(label)
        served = 0
        while not self.settling and self.queue(label) and not self.capped(label):
            slot = self.match(label)
            if not slot:
                break
            ticket = self.next_waiter(self.slots[slot].pool)
            if not ticket:
                self.free[self.slots[slot].pool].insert(0, slot)
                break
            self.hand_on(ticket, slot)
            served += 1
        return served

    def finish(self) -> None:
        """Serve the waiters that a script made room for, as every script does at its end."""
        while self.headroom or self.reopened:
            if self.headroom:
                self.serve_label(self.headroom.pop(0))
            else:
                self.serve_pool(self.reopened.pop(0))

    def overlooked(self) -> list[Any]:
        """Free slots beside live waiters that may have them: there must be none, in any order of turns."""
        if self.settling:
            return []
        found = []
        for slot, record in self.slots.items():
            lendable = record.node not in self.stopped and not self.suspect(slot)
            if record.place != "free" or not lendable or record.pool in self.maintenance:
                continue
            found += [
                (slot, ticket.wanted.id)
                for ticket in self.tickets.values()
                if ticket.state == "waiting"
                and self.heard(ticket.hub)
                and not self.capped(ticket.wanted.label)
                and self.serves(record.pool, ticket.wanted.label)
            ]
        return found

    # -- what borrowers and hubs ask for

    def lend_now(self, wanted: BorrowRequest) -> list[Any]:
        """A grant where nothing stands in the way; else nothing happens."""
        known = wanted.id in self.tickets or wanted.id in self.answered or {wanted.id, wanted.attempt} & self.withdrawn
        if self.turns or self.settling or self.capped(wanted.label) or known:
            return ["ask", []]
        slot = self.match(wanted.label)
        if not slot:
            return ["ask", []]
        self.grant(wanted, wanted.attempt, slot)
        return self.granted(slot)

    def borrow(self, wanted: BorrowRequest) -> list[Any]:
        if {wanted.attempt, wanted.id} & self.withdrawn:
            return ["undone"]
        if wanted.id in self.answered:
            return self.repeat(wanted, self.answered[wanted.id])
        ticket = self.tickets.get(wanted.id)
        if ticket:
            if ticket.wanted.asked != wanted.asked:
                return ["reused"]
            waits = ticket.state == "waiting"
            if waits and wanted.wait_ms == 0:
                return ["empty", []]
            if not (waits and wanted.repeated and ticket.attempt != wanted.attempt and self.heard(ticket.hub)):
                ticket.attempt = wanted.attempt
                self.join(ticket, wanted.hub, self.clock_ms + wanted.wait_ms)
            self.serve_label(wanted.label)
            self.finish()
            if wanted.wait_ms == 0 and wanted.id not in self.answered:
                self.set_aside(ticket)
                return ["empty", []]
            return self.stand(wanted)
        if not self.settling:
            while not self.capped(wanted.label) and (slot := self.match(wanted.label)):
                other = self.next_waiter(self.slots[slot].pool)
                if not other:
                    self.grant(wanted, wanted.attempt, slot)
                    return self.granted(slot)
                self.hand_on(other, slot)
            self.finish()
        return self.enter(wanted)

    def enter(self, wanted: BorrowRequest) -> list[Any]:
        """Stand in the queue, if there is a wait and room."""
        left_ms = max(0, self.settled_ms - self.clock_ms)
        if wanted.wait_ms <= left_ms:
            if left_ms:
                return ["settling", left_ms]
            return ["capped", self.live(wanted.label)] if self.capped(wanted.label) else ["empty", []]
        waiting, pending = len(self.queue(wanted.label)), self.pending(wanted.run)
        if waiting >= wanted.max_label:
            return ["per-label-cap", waiting]
        if pending >= wanted.max_run:
            return ["per-run-cap", pending]
        self.arrivals += 1
        ticket = Ticket(wanted, (-wanted.priority, self.arrivals), wanted.hub, wanted.attempt)
        self.tickets[wanted.id] = ticket
        self.join(ticket, wanted.hub, self.clock_ms + wanted.wait_ms)
        return self.stand(wanted)

    def stand(self, wanted: BorrowRequest) -> list[Any]:
        """Return the answer to a caller that waits, or did until now; of the estimate it says whether there is one."""
        if wanted.id in self.answered:
            return self.repeat(wanted, self.answered[wanted.id])
        return ["waiting", self.queue(wanted.label).index(wanted.id) + 1, wanted.label in self.moved, []]

    def repeat(self, wanted: BorrowRequest, before: Answered) -> list[Any]:
        if before.asked != wanted.asked:
            return ["reused"]
        self.handed.get(wanted.hub, set()).discard(wanted.id)
        grant = self.grants.get(before.slot)
        if not grant or grant.token != before.token:
            return ["over", before.slot]
        self.picked_up(wanted.id)
        if grant.unseen:
            before.attempt, before.also = wanted.attempt, set()
        elif before.attempt != wanted.attempt:
            before.also.add(wanted.attempt)
        grant.unseen = False
        return self.granted(before.slot)

    def granted(self, slot: str) -> list[Any]:
        grant, record = self.grants[slot], self.slots[slot]
        left_ms = max(0, grant.deadline_ms - self.clock_ms)
        return ["ok", slot, str(grant.token), record.item, record.pool, left_ms, grant.ttl_ms, grant.run, []]

    def picked_up(self, request: str) -> None:
        for tickets in self.handed.values():
            tickets.discard(request)

    def undo(self, request: str, attempt: str, hub: str, why: str) -> list[Any]:
        before = self.answered.get(request)
        if before and why != "gone":
            return ["granted" if attempt in {before.attempt, *before.also} else "nothing"]
        if request != attempt or not before:
            self.withdrawn.add(attempt)
        ticket = self.tickets.get(request)
        if not before:
            return ["left", self.set_aside(ticket)] if ticket and ticket.attempt == attempt else ["nothing"]
        owners = {before.attempt, *before.also}
        if attempt not in owners:
            return ["nothing"]
        if owners != {attempt}:
            before.attempt, *rest = sorted(owners - {attempt})
            before.also = set(rest)
            return ["nothing"]
        self.handed.get(hub, set()).discard(request)
        return ["undone", before.slot, str(before.token)] if self.take_back(request) else ["nothing"]

    def take_back(self, request: str) -> bool:
        """Take back a grant that no caller received; a ticket with a key keeps its place."""
        before = self.answered[request]
        grant = self.grants.get(before.slot)
        if not grant or grant.token != before.token:
            return False
        self.picked_up(request)
        del self.answered[request]
        if request in self.tickets:
            self.tickets[request].state = "away"
            self.tickets[request].patience_ms = self.clock_ms + AWAY_MS
        self.release(before.slot, mark=False)
        return True

    def cancel(self, request: str, again: bool) -> list[Any]:
        before = self.answered.get(request)
        if request in self.withdrawn:
            return ["cancelled"]
        if before:
            grant = self.grants.get(before.slot)
            return ["granted" if grant and grant.token == before.token else "over", before.slot]
        if request not in self.tickets:
            if again:
                self.withdrawn.add(request)
            return ["cancelled" if again else "unknown"]
        ticket = self.tickets[request]
        self.step_out(ticket, "cancelled")
        del self.tickets[request]
        self.withdrawn |= {ticket.attempt, request}
        return ["cancelled"]

    def look(self, request: str) -> list[Any]:
        """Return what any caller may know of a ticket."""
        before, ticket = self.answered.get(request), self.tickets.get(request)
        if before:
            grant = self.grants.get(before.slot)
            if not grant or grant.token != before.token:
                return ["over", before.slot]
            _, slot, token, item, pool, left_ms, ttl_ms, run, _ = self.granted(before.slot)
            return ["granted", slot, grant.label, run, token, pool, item, left_ms, ttl_ms, before.asked]
        if not ticket:
            return ["unknown"]
        wanted, waits = ticket.wanted, ticket.state == "waiting"
        before_it = sum(self.tickets[other].place < ticket.place for other in self.queue(wanted.label))
        left_ms = max(0, ticket.patience_ms - self.clock_ms - (2000 if waits else 0))
        moved = wanted.label in self.moved if self.queue(wanted.label) else None
        facts = [moved, wanted.priority, left_ms, str(wanted.ttl_ms), wanted.asked, "600"]
        return [ticket.state, wanted.label, wanted.run, before_it + 1, *facts]

    def check(self, hub: str, requests: list[str]) -> list[str]:
        if self.attended(hub):
            self.hubs[hub] = self.clock_ms
        words = []
        for request in requests:
            ticket = self.tickets.get(request)
            if ticket and ticket.state == "waiting" and ticket.hub == hub:
                words.append("waiting")
            else:
                words.append("granted" if request in self.answered or request in self.withdrawn else "gone")
        return words

    def silent_hub(self) -> str | None:
        """Return the hub that was heard longest ago, if that is too long."""
        return min(((at, hub) for hub, at in self.hubs.items() if not self.heard(hub)), default=(0, None))[1]

    def retire(self, limit: int, aside: Sequence[str], undelivered: Sequence[str]) -> list[Any]:
        """Drop what no hub attends. Of a silent hub the script chooses: waiters `aside`, grants `undelivered`."""
        silent, dropped, undone = self.silent_hub(), 0, 0
        if silent:
            for request in aside:
                self.headroom.append(self.tickets[request].wanted.label)
                self.set_aside(self.tickets[request])
            for request in undelivered:
                self.handed[silent].discard(request)
                grant = self.grants.get(self.answered[request].slot) if request in self.answered else None
                undone += bool(grant and grant.unseen and self.take_back(request))
            dropped += len(aside)
            if not self.handed.get(silent) and not self.attended(silent):
                del self.hubs[silent]
        late = sorted((t.patience_ms, t.wanted.id) for t in self.tickets.values() if t.state in ("waiting", "away"))
        late = [each for each in late if each[0] <= self.clock_ms][:limit]
        for _, request in late:
            self.step_out(self.tickets[request], "late")
            del self.tickets[request]
        return ["ok", dropped + len(late), undone, int(bool(silent) or len(late) == limit)]

    def attended(self, hub: str) -> set[str]:
        return {t.wanted.id for t in self.tickets.values() if t.state == "waiting" and t.hub == hub}

    def set_cap(self, label: str, cap: str) -> list[Any]:
        name = f"set:{label}" if label else "set"
        if cap:
            self.caps[name] = int(cap)
        else:
            self.caps.pop(name, None)
        if not label:
            return ["ok", self.caps.get("set", self.caps.get("env", 0)), 0]
        self.serve_label(label)
        return ["ok", self.cap_of(label), self.live(label)]

    def review(self, labels: list[str]) -> list[Any]:
        return ["ok", sum(self.serve_label(label) for label in labels)]
