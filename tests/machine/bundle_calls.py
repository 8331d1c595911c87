"""The part of the model for what borrowers of bundles ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.machine.bundling import Bundling
from tests.machine.records import BundleRequest, Ticket, is_foreign
from tests.machine.suiting import digest_of


@dataclass
class BundleCalls(Bundling):
    """Borrows, renewals and returns of bundles."""

    def borrow_all(self, wanted: BundleRequest, said: list[Any]) -> list[Any]:
        """`said` is the answer of the script, for what it may choose."""
        if {wanted.attempt, wanted.id} & self.withdrawn:
            return ["undone"]
        if wanted.id in self.answered:
            return self.repeat(wanted, self.answered[wanted.id])
        ticket = self.tickets.get(wanted.id)
        if ticket:
            return self.wait_on(ticket, wanted)
        found = self.find_bundle(wanted)
        if found:
            self.grant_all(wanted, wanted.attempt, found)
        self.finish()
        if found:
            return self.granted(found[0])
        if not wanted.hopes and not self.settling and (lacking := self.lacking(wanted, said)):
            return lacking
        left_ms = max(0, self.settled_ms - self.clock_ms)
        if wanted.wait_ms <= left_ms:
            if left_ms:
                return ["settling", left_ms]
            over = {label: self.cap_of(label) for label in self.over_cap(wanted)}
            label = said[2] if said[0] == "capped" else min(over, default="")
            return ["capped", over.get(label), label] if over else ["empty", []]
        waiting, most = len(self.line_of_bundles()), max(1, wanted.max_label // 4)  # the latter: of one user
        own = sum(bool(wanted.user) and ticket.wanted.user == wanted.user for ticket in self.line_of_bundles())
        if waiting >= wanted.max_label or own >= most:
            return ["per-label-cap", own if own >= most else waiting]
        if (pending := self.pending(wanted.run)) >= wanted.max_run:
            return ["per-run-cap", pending]
        self.arrivals += 1
        ticket = Ticket(wanted, (-wanted.priority, self.arrivals), wanted.hub, wanted.attempt)
        ticket.patient_ms, self.tickets[wanted.id] = self.clock_ms, ticket
        self.join(ticket, wanted.hub, self.clock_ms + wanted.wait_ms)
        return self.stand(wanted)

    def wait_on(self, ticket: Ticket, wanted: BundleRequest) -> list[Any]:
        """Return the answer to a caller whose ticket is known."""
        if ticket.wanted.asked != wanted.asked:
            return ["reused"]
        waits = ticket.state == "waiting"
        if waits and wanted.wait_ms == 0:
            return ["empty", []]
        if not (waits and wanted.repeated and ticket.attempt != wanted.attempt and self.heard(ticket.hub)):
            ticket.attempt = wanted.attempt
            self.join(ticket, wanted.hub, self.clock_ms + wanted.wait_ms)
        self.try_bundle(ticket)
        self.finish()
        answer = self.stand(wanted)
        if wanted.wait_ms == 0 and answer[0] == "waiting":
            self.set_aside(ticket)
            return ["empty", []]
        return answer

    def lacking(self, wanted: BundleRequest, said: list[Any]) -> list[Any]:
        """Return the refusal of a bundle that is more than what is published."""
        most = self.matched(wanted, self.slots)
        if most < len(wanted.units):
            part = said[1] if said[0] == "unpublished" else 1
            there = [slot for slot in self.slots if part - 1 in self.parts_for(wanted, slot)]
            return ["unpublished", part, len(there)]
        if not wanted.same_node or self.fitting_nodes(wanted, stopped=True):
            return []
        of_it = max(wanted.parts, key=lambda part: part.count)
        return ["unpublished", 0, len({r.node for r in self.slots.values() if self.serves(r.pool, of_it.label)})]

    def lent_all(self, bundle: str) -> list[Any]:
        rows = []
        for slot in self.live_of(bundle):
            grant, record = self.grants[slot], self.slots[slot]
            left_ms = max(0, grant.deadline_ms - self.clock_ms)
            rows.append([
                *(slot, str(grant.token), record.item, record.pool, left_ms, grant.ttl_ms, grant.run, grant.holder),
                *(grant.label, digest_of(record.attributes)),
            ])  # fmt: skip
        return ["ok", bundle, rows, []]

    def is_missing(self, bundle: str) -> bool:
        """Return whether a bundle may have been lost, and nodes or hubs may yet report it."""
        above, upto = self.lost
        return self.reporting and above < int(bundle[1:]) <= upto and bundle not in self.ended

    def renew_all(self, bundle: str, ttl_ms: int, max_ms: int, by: str) -> list[Any]:
        done, settling, refusal = [], self.settling, None
        for slot in self.live_of(bundle):
            token = str(self.grants[slot].token)
            answer = self.renew(slot, token, ttl_ms, max_ms, by)
            refusal = answer if answer[0] == "not-holder" else refusal
            done += [slot, *answer[1:]] if answer[0] == "ok" else []
        if settling:
            return ["settling"]
        return ["ok", done] if done else refusal or (["settling"] if self.is_missing(bundle) else ["over"])

    def renew(self, slot: str, token: str, ttl_ms: int, max_ms: int, by: str = "operator") -> list[Any]:
        raise NotImplementedError

    def return_all(self, bundle: str, by: str) -> list[Any]:
        ended: list[str] = []
        refusal: list[Any] | None = None
        for slot in self.live_of(bundle):
            grant = self.grants[slot]
            if is_foreign(by, grant.user, True):
                refusal = ["not-holder", grant.holder, ""]
            else:
                ended += [slot, str(grant.token)]
                self.release(slot, mark=True, by_holder=True)
        if not ended and (refusal or self.settling or self.is_missing(bundle)):
            return refusal or ["settling"]
        self.ended |= {bundle} if self.reporting else set()
        return ["returned", ended]
