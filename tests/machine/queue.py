"""The part of the model for the queue: borrows, tickets, hubs and caps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.machine.matching import Waiter
from tests.machine.records import AWAY_MS, Answered, BorrowRequest, BundleRequest, Ticket, holder_of, is_foreign
from tests.machine.serving import Serving
from tests.machine.suiting import alternatives_of, digest_of, want_of


@dataclass
class Queue(Serving):
    """What borrowers and hubs ask for."""

    withdrawn: set[str] = field(default_factory=set)  # attempts that never will be carried out
    arrivals: int = 0
    comes_again: bool = False  # whether the caller of the ticket that is set aside asks again and again

    # -- what borrowers and hubs ask for

    def lend_now(self, wanted: BorrowRequest) -> list[Any]:
        """A grant where nothing stands in the way; else nothing happens."""
        known = wanted.id in self.tickets or wanted.id in self.answered or {wanted.id, wanted.attempt} & self.withdrawn
        if self.turns or self.settling or self.capped(wanted.label) or known:
            return ["ask", []]
        slot = self.match(wanted.label, user=wanted.user)
        if not slot:
            return ["ask", []]
        self.grant(wanted, wanted.label, wanted.attempt, slot)
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
            if wanted.any_of:
                self.serve_ticket(ticket)
            else:
                self.serve_label(wanted.label)
            self.finish()
            if wanted.wait_ms == 0 and wanted.id not in self.answered:
                self.set_aside(ticket)
                return ["empty", []]
            return self.stand(wanted)
        capped = next(([self.live(label), label] for label in wanted.labels if self.capped(label)), None)
        if not self.settling:
            found = self.find(wanted)
            if found:
                return self.granted(found)
            self.finish()
        return self.enter(wanted, capped)

    def find(self, wanted: BorrowRequest) -> str | None:
        """Lend a newcomer what is free, as the first of its choices that can be; waiters come before it."""
        for label, where in wanted.asks:
            waiter: Waiter | None = None
            while not self.capped(label) and (slot := self.match(label, where, wanted.prefer, wanted.user)):
                record = self.slots[slot]
                waiter = self.next_waiter(record.pool, record.attributes)
                if not waiter:
                    self.grant(wanted, label, wanted.attempt, slot)
                    return slot
                self.hand_on(waiter, slot)
        return None

    def enter(self, wanted: BorrowRequest, capped: list[Any] | None) -> list[Any]:
        """Stand in the queue, if there is a wait and room; `capped` is the cap that it met: leases and label."""
        left_ms = max(0, self.settled_ms - self.clock_ms)
        if wanted.wait_ms <= left_ms:
            if left_ms:
                return ["settling", left_ms]
            by = next((by for label in wanted.labels if (by := self.served_cap(label))), None)
            if by:
                return ["capped", by[1], by[0]]
            return ["capped", *capped] if capped else ["empty", []]
        for label in wanted.labels:
            if (waiting := len(self.queue(label))) >= wanted.max_label:
                return ["per-label-cap", waiting]
        pending = self.pending(wanted.run)
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
        return ["waiting", self.before(wanted) + 1, self.has_moved(wanted), []]

    def has_moved(self, wanted: BorrowRequest) -> bool:
        label, where = wanted.asks[0]
        return (label, want_of(where)) in self.moved

    def repeat(self, wanted: BorrowRequest, before: Answered) -> list[Any]:
        if before.asked != wanted.asked:
            return ["reused"]
        self.handed.get(wanted.hub, set()).discard(wanted.id)
        grant, rest = self.grants.get(before.slot), self.live_of(f"b{before.token}")
        is_live = grant is not None and grant.token == before.token
        if grant and is_live:
            self.picked_up(wanted.id)
            if grant.unseen:
                before.attempt, before.also = wanted.attempt, set()
            elif before.attempt != wanted.attempt:
                before.also.add(wanted.attempt)
            grant.unseen = False
        elif rest and before.attempt != wanted.attempt:
            before.also.add(wanted.attempt)
        for slot in rest:
            if self.grants[slot].unseen:
                self.picked_up(wanted.id)
            self.grants[slot].unseen = False
        if rest:
            return self.lent_all(f"b{before.token}")
        return self.granted(before.slot) if is_live else ["over", before.slot]

    def ahead_of(self, ticket: Ticket) -> int:
        """Return how many bundles stand before one, or would."""
        raise NotImplementedError

    def live_of(self, bundle: str) -> list[str]:
        """Return the slots of a bundle that are lent, in order."""
        raise NotImplementedError

    def lent_all(self, bundle: str) -> list[Any]:
        """Return the answer to a caller that has a bundle."""
        raise NotImplementedError

    def granted(self, slot: str) -> list[Any]:
        grant = self.grants[slot]
        return self.lent_all(grant.bundle) if grant.bundle else self.one_granted(slot)

    def one_granted(self, slot: str) -> list[Any]:
        grant, record = self.grants[slot], self.slots[slot]
        left_ms = max(0, grant.deadline_ms - self.clock_ms)
        held = (grant.ttl_ms, grant.run, [], grant.holder)
        return [
            "ok",
            slot,
            str(grant.token),
            record.item,
            record.pool,
            left_ms,
            *held,
            grant.label,
            digest_of(record.attributes),
        ]

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
            if not ticket or ticket.attempt != attempt:
                return ["nothing"]
            self.comes_again = why == "timeout" and ticket.wanted.keyed
            return ["left", self.set_aside(ticket)]
        owners = {before.attempt, *before.also}
        if attempt not in owners:
            return ["nothing"]
        if owners != {attempt}:
            before.attempt, *rest = sorted(owners - {attempt})
            before.also = set(rest)
            return ["nothing"]
        self.handed.get(hub, set()).discard(request)
        taken = self.take_back(request)
        return ["undone", *taken] if taken else ["nothing"]

    def take_back(self, request: str) -> list[str]:
        """Take back a grant that no caller received; a ticket with a key keeps its place."""
        before = self.answered[request]
        grant, rest = self.grants.get(before.slot), self.live_of(f"b{before.token}")
        if not rest and (not grant or grant.token != before.token):
            return []
        if any(self.grants[slot].unseen for slot in rest or [before.slot]):
            self.picked_up(request)
        del self.answered[request]
        if request in self.tickets:
            self.tickets[request].state = "away"
            self.tickets[request].patience_ms = self.clock_ms + AWAY_MS
        taken = [text for slot in rest or [before.slot] for text in (slot, str(self.grants[slot].token))]
        for slot in taken[::2]:
            self.release(slot, mark=False, by_holder=True)
        return taken

    def cancel(self, request: str, again: bool, by: str = "operator") -> list[Any]:
        before = self.answered.get(request)
        if request in self.withdrawn:
            return ["cancelled"]
        if before:
            grant, rest = self.grants.get(before.slot), self.live_of(f"b{before.token}")
            if rest:
                return ["granted", rest[0], f"b{before.token}"]
            return ["granted" if grant and grant.token == before.token else "over", before.slot]
        if request not in self.tickets:
            if again:
                self.withdrawn.add(request)
            return ["cancelled" if again else "unknown"]
        ticket = self.tickets[request]
        if is_foreign(by, ticket.wanted.user, False):
            return ["not-holder", holder_of(ticket.wanted.user)]
        self.step_out(ticket, "cancelled")
        del self.tickets[request]
        self.withdrawn |= {ticket.attempt, request}
        return ["cancelled"]

    def look(self, request: str) -> list[Any]:
        """Return what any caller may know of a ticket."""
        before, ticket = self.answered.get(request), self.tickets.get(request)
        if before:
            grant, live = self.grants.get(before.slot), before.slot
            if not grant or grant.token != before.token:
                live = next(iter(self.live_of(f"b{before.token}")), "")
                grant = self.grants.get(live)
            if not grant:
                return ["over", before.slot]
            _, slot, token, item, pool, left_ms, ttl_ms, run, _, holder, _, known = self.one_granted(live)
            return ["granted", slot, grant.label, run, token, pool, item, left_ms, ttl_ms, before.asked, holder, known]
        if not ticket:
            return ["unknown"]
        wanted, waits = ticket.wanted, ticket.state == "waiting"
        left_ms = max(0, ticket.patience_ms - self.clock_ms - (2000 if waits else 0))
        if isinstance(wanted, BundleRequest):
            facts = [None, wanted.priority, left_ms, str(wanted.ttl_ms), wanted.asked, "600", holder_of(wanted.user)]
            ahead = self.ahead_of(ticket)
            return [ticket.state, wanted.label, wanted.run, ahead + 1, *facts, "", "", wanted.text]
        moved = self.has_moved(wanted) if self.queue(wanted.label) else None
        facts = [moved, wanted.priority, left_ms, str(wanted.ttl_ms), wanted.asked, "600", holder_of(wanted.user)]
        facts += [alternatives_of(wanted.any_of), " ".join(wanted.prefer), ""]
        return [ticket.state, wanted.label, wanted.run, self.before(wanted) + 1, *facts]

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
                self.passed_over += self.tickets[request].wanted.labels or [self.tickets[request].wanted.label]
                self.set_aside(self.tickets[request])
            for request in undelivered:
                self.handed[silent].discard(request)
                undone += bool(self.is_undelivered(request) and self.take_back(request))
            dropped += len(aside)
            if not self.handed.get(silent) and not self.attended(silent):
                del self.hubs[silent]
        late = sorted((t.patience_ms, t.wanted.id) for t in self.tickets.values() if t.state in ("waiting", "away"))
        late = [each for each in late if each[0] <= self.clock_ms][:limit]
        for _, request in late:
            self.step_out(self.tickets[request], "late")
            del self.tickets[request]
        return ["ok", dropped + len(late), undone, int(bool(silent) or len(late) == limit)]

    def is_undelivered(self, request: str) -> bool:
        """Return whether a grant that was handed on has yet to be told."""
        before = self.answered.get(request)
        if not before:
            return False
        grant = self.grants.get(before.slot)
        return bool(grant and grant.unseen) or any(self.grants[s].unseen for s in self.live_of(f"b{before.token}"))

    def attended(self, hub: str) -> set[str]:
        return {t.wanted.id for t in self.tickets.values() if t.state == "waiting" and t.hub == hub}

    def set_cap(self, label: str, cap: str, served: bool = False) -> list[Any]:
        name = f"{'served' if served else 'set'}:{label}" if label else "set"
        cap = "" if served and cap == "0" else cap
        if cap:
            self.caps[name] = int(cap)
        else:
            self.caps.pop(name, None)
        if not label:
            return ["ok", self.caps.get("set", self.caps.get("env", 0)), 0]
        if served:
            self.serve_below(label)
            self.finish()
            return ["ok", int(cap or 0), len(self.served(label)) if cap else 0]
        self.serve_label(label, anew=True)
        return ["ok", self.cap_of(label), self.live(label)]

    def review(self, labels: list[str]) -> list[Any]:
        before = self.given
        for label in labels:
            self.serve_label(label, anew=True)
        self.finish()
        return ["ok", self.given - before]
