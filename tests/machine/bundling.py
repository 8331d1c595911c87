"""The part of the model that knows bundles: several slots for one borrower, all or none.

Which of the free slots a bundle gets is read from the store; that they may be lent so, and that no bundle is passed
over, is found out here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.machine.flows import flow
from tests.machine.oracle import Oracle
from tests.machine.queue import Queue
from tests.machine.records import BorrowRequest, BundleRequest, Grant, Reserver, Ticket
from tests.machine.suiting import is_suited

AWAY_MS = 5_000  # for so long slots stay set aside for a caller that asks again


@dataclass
class Bundling(Queue):
    """Bundles that wait, the one that reserves, and those that are lent."""

    oracle: Oracle = field(default_factory=Oracle)
    ended: set[str] = field(default_factory=set)  # bundles that ended while nodes and hubs may have reported them
    torn: list[str] = field(default_factory=list)  # bundles whose other grants are to end in this script
    unreserved: bool = False  # whether what is set aside is set aside for nobody since this script
    unneeded: list[str] = field(default_factory=list)  # slots that the reserver turned out not to need
    unsure: bool = False  # whether slots were taken and put back, which changes their order

    def line_of_bundles(self) -> list[Ticket]:
        return [ticket for ticket in self.waiting() if isinstance(ticket.wanted, BundleRequest)]

    def ahead_of(self, ticket: Ticket) -> int:
        """Return how many bundles stand before one, or would."""
        return sum(other.place < ticket.place for other in self.line_of_bundles())

    def stand(self, wanted: BorrowRequest) -> list[Any]:
        if isinstance(wanted, BundleRequest) and wanted.id not in self.answered:
            return ["waiting", self.ahead_of(self.tickets[wanted.id]) + 1, -1, []]
        return super().stand(wanted)

    def live_of(self, bundle: str) -> list[str]:
        """Return the slots of a bundle that are lent, in order."""
        found = [(grant.unit, slot) for slot, grant in self.grants.items() if grant.bundle == bundle]
        return [slot for _, slot in sorted(found)]

    # -- what suits

    def parts_for(self, wanted: BundleRequest, slot: str) -> set[int]:
        """Return the numbers of the parts that a slot may serve."""
        record = self.slots[slot]
        return {
            number
            for number, (label, where, _) in enumerate(wanted.parts)
            if self.serves(record.pool, label) and is_suited(where, record.attributes)
        }

    def matched(self, wanted: BundleRequest, slots: Iterable[str]) -> int:
        """Return how many units of a bundle these slots can serve at most."""
        user: dict[int, str] = {}
        fits = {slot: self.parts_for(wanted, slot) for slot in slots}
        units = [number for number, part in enumerate(wanted.parts) for _ in range(part.count)]

        def place(slot: str, tried: set[int]) -> bool:
            for unit, part in enumerate(units):
                if part in fits[slot] and unit not in tried:
                    tried.add(unit)
                    if unit not in user or place(user[unit], tried):
                        user[unit] = slot
                        return True
            return False

        return sum(place(slot, set()) for slot in fits)

    def usable_of(self, wanted: BundleRequest, slots: Iterable[str]) -> int:
        """Return how many of these slots may be set aside at most: no more than the team has room for."""
        held, room = self.counted_teams(wanted.user, own=True), dict[str, dict[str, int]]({"from": {}})
        units = [number for number, part in enumerate(wanted.parts) for _ in range(part.count)]
        for slot in slots:
            before, ceiling = "from", self.ceiling_of(self.slots[slot].pool, wanted.user)
            if ceiling:
                before = ceiling[0]
                room["from"][before] = ceiling[1] - held[before]
            room.setdefault(before, {})[slot] = 1
            suited = self.parts_for(wanted, slot)
            room[slot] = {f"unit {unit}": 1 for unit, part in enumerate(units) if part in suited}
            room |= {unit: {"to": 1} for unit in room[slot]}
        return flow(room)

    def is_enough(self, wanted: BundleRequest, slots: Iterable[str], counted: dict[str, int] | None) -> bool:
        """Return whether all units can be served at once, under the caps on what is served where these count leases."""
        fits = {slot: self.parts_for(wanted, slot) for slot in sorted(slots)}
        caps = {slot: self.limits_for(wanted, slot, counted) if counted is not None else [] for slot in fits}
        units = [number for number, part in enumerate(wanted.parts) for _ in range(part.count)]
        if self.matched(wanted, fits) < len(units):
            return False
        room = {name: left for each in caps.values() for name, left in each}

        def fill(unit: int, used: frozenset[str]) -> bool:
            if unit == len(units):
                return True
            for slot in fits:
                if slot in used or units[unit] not in fits[slot]:
                    continue
                below = [*used, slot]
                over = (sum(label in dict(caps[other]) for other in below) > room[label] for label, _ in caps[slot])
                if not any(over) and fill(unit + 1, used | {slot}):
                    return True
            return False

        return fill(0, frozenset())

    def limits_for(self, wanted: BundleRequest, slot: str, counted: dict[str, int]) -> list[tuple[str, int]]:
        """Return what limits how many slots like this one a bundle may have, and the room that is left."""
        pool = self.slots[slot].pool
        found = [(label, cap - counted.get(label, 0)) for label, cap in self.served_caps(pool)]
        if ceiling := self.ceiling_of(pool, wanted.user):
            found.append((ceiling[0], ceiling[1] - counted.get(ceiling[0], 0)))
        return found

    def may_have_all(self, wanted: BundleRequest, slots: Iterable[str]) -> bool:
        """Return whether a bundle can be served from these slots, on one node where it wants that."""
        counted = self.counted_for(wanted)
        if not wanted.same_node:
            return self.is_enough(wanted, slots, counted)
        some = list(slots)
        nodes = {self.slots[slot].node for slot in some}
        return any(self.is_enough(wanted, [s for s in some if self.slots[s].node == each], counted) for each in nodes)

    def reserves(self, wanted: BundleRequest) -> bool:
        return bool(self.reserver) and self.reserver.ticket == wanted.id

    def counted_for(self, wanted: BundleRequest) -> dict[str, int]:
        """Return how many leases the caps on what is served count for a bundle: not what is kept for itself."""
        own = self.reserves(wanted)
        counted = {label: len(self.served(label)) if own else self.taken(label) for label in self.counted_labels()}
        return counted | self.counted_teams(wanted.user, own=own)

    def counted_labels(self) -> list[str]:
        return [name[7:] for name in self.caps if name.startswith("served:")]

    def over_cap(self, wanted: BundleRequest, *, of: str = "taken") -> set[str]:
        """Return the labels under whose caps a bundle cannot be lent, with what counts: `taken`, `live` or nothing."""
        found = set()
        for label, count in Counter(part.label for part in wanted.units).items():
            counted = {"taken": self.live(label) + self.units_kept(label), "live": self.live(label), "": 0}[of]
            if 0 < self.cap_of(label) < count + counted:
                found.add(label)
        return found

    def may_be_lent(self, slot: str) -> bool:
        record = self.slots[slot]
        return record.place == "free" and record.pool not in self.maintenance and not self.suspect(slot)

    def free_now(self) -> list[str]:
        """Return the free slots that may be lent, after the look at them that a script takes for a bundle."""
        for pool in [pool for pool in self.maintenance if self.is_over(pool)]:
            if self.oracle.has_ended(pool):
                self.under_maintenance(pool)
        doubtful = [slot for slot, record in self.slots.items() if record.place == "free" and self.suspect(slot)]
        self.unsure |= bool(doubtful)
        for slot in doubtful:
            if self.oracle.is_held(slot):
                self.free[self.slots[slot].pool].remove(slot)
                self.hold_aside(slot)
        return [slot for slot in self.slots if self.may_be_lent(slot)]

    # -- granting

    def find_bundle(self, wanted: BundleRequest, freed: str | None = None) -> list[str] | None:
        """Return slots for all units, taken from the free ones, or perhaps only when a slot has just become free."""
        if self.settling or self.over_cap(wanted, of="live" if self.reserves(wanted) else "taken"):
            return None
        sure, free = not self.unsure, self.free_now()
        chosen = self.oracle.granted(self).get(wanted.id, [])
        if chosen and set(chosen) <= set(free) and self.is_legal(wanted, chosen):
            for slot in chosen:
                self.free[self.slots[slot].pool].remove(slot)
            return chosen
        doubt = self.unsure or not sure or freed is not None
        assert doubt or not self.may_have_all(wanted, free), f"{wanted} could have been served from {free}"
        return None

    def is_legal(self, wanted: BundleRequest, chosen: Sequence[str]) -> bool:
        """Return whether a bundle may have these slots, in this order."""
        fits = [
            self.serves(self.slots[slot].pool, part.label) and is_suited(part.where, self.slots[slot].attributes)
            for slot, part in zip(chosen, wanted.units, strict=True)
        ]
        nodes = {self.slots[slot].node for slot in chosen}
        counted = self.counted_for(wanted)
        return all(fits) and not (wanted.same_node and len(nodes) > 1) and self.is_enough(wanted, chosen, counted)

    def grant_all(self, wanted: BundleRequest, attempt: str, slots: Sequence[str]) -> None:
        bundle = f"b{self.token + 1}"
        for unit, (slot, part) in enumerate(zip(slots, wanted.units, strict=True), 1):
            self.token += 1
            self.lend(slot, self.token, part.label, wanted.run, wanted.ttl_ms, wanted.idle_ms)
            grant = self.grants[slot]
            grant.user, grant.bundle, grant.unit, grant.together = wanted.user, bundle, unit, wanted.together
            self.note_grant(slot)
        self.note_answer(wanted, slots[0], attempt)
        for label in self.counted_labels():
            assert len(self.served(label)) <= self.caps[f"served:{label}"], f"{wanted} is lent over the cap of {label}"

    def hand_all_on(self, ticket: Ticket, slots: Sequence[str]) -> None:
        wanted = ticket.wanted
        assert isinstance(wanted, BundleRequest)
        self.step_out(ticket, "handed")
        self.grant_all(wanted, ticket.attempt, slots)
        if not wanted.keyed:
            del self.tickets[wanted.id]
        self.handed.setdefault(ticket.hub, set()).add(wanted.id)
        for slot in slots:
            self.grants[slot].unseen, self.grants[slot].before = True, self.released.get(slot)

    def try_bundle(self, ticket: Ticket, slot: str | None = None) -> None:
        """Serve a bundle that waits, if it can be; with a slot only if that one may complete it.

        One that lacked several slots a moment ago is not looked at for a slot; the next round looks at all.
        """
        wanted = ticket.wanted
        assert isinstance(wanted, BundleRequest)
        if not self.heard(ticket.hub):
            if slot is None or not self.oracle.waits(wanted.id):
                self.set_aside(ticket)
        elif slot is None or self.parts_for(wanted, slot):
            found = self.find_bundle(wanted, freed=slot)
            if found:
                self.hand_all_on(ticket, found)

    def freed(self, slot: str) -> None:
        """A slot has become free that neither the reserver nor one who wants one slot has got."""
        if not any(f"{self.slots[slot].pool}:".startswith(f"{label}:") for label in self.roomy):
            for ticket in self.line_of_bundles()[:8]:
                self.try_bundle(ticket, slot)

    # -- the reserver

    def step_out(self, ticket: Ticket, state: str) -> None:
        waited, comes_again = ticket.state == "waiting", self.comes_again
        self.comes_again = False
        super().step_out(ticket, state)
        if not waited or not self.reserver or self.reserver.ticket != ticket.wanted.id:
            return
        if comes_again:
            self.reserver.away_ms = self.clock_ms
        else:
            self.end_reserve()

    def join(self, ticket: Ticket, hub: str, until_ms: int) -> None:
        if ticket.state != "waiting" and self.reserver and self.reserver.ticket == ticket.wanted.id:
            self.reserver.away_ms = None
        super().join(ticket, hub, until_ms)

    def who_reserves(self) -> Ticket | None:
        """Return the ticket of the reserver, which is over when its caller is away for too long."""
        if not self.reserver:
            return None
        ticket, away_ms = self.tickets.get(self.reserver.ticket), self.reserver.away_ms
        if ticket and (ticket.state == "waiting" or (away_ms is not None and self.clock_ms - away_ms <= AWAY_MS)):
            return ticket
        self.end_reserve()
        return None

    def end_reserve(self) -> None:
        """Set no more aside; what was is offered when the script ends."""
        self.headroom += self.reserver.units if self.reserver else []
        self.reserver, self.unreserved = None, True

    def is_good(self, slot: str) -> bool:
        """Return whether a slot that is held may be lent; one of a suspect node is held as such."""
        record = self.slots[slot]
        if record.place != "held" or record.node in self.stopped or self.believed_in(slot):
            return False
        if record.owed or record.held:
            return False
        if self.suspect(slot):
            self.hold_aside(slot)
            return False
        return True

    def usable(self, wanted: BundleRequest) -> list[str]:
        """Return what is set aside and may be lent to the reserver; what is held for a reason is set aside no more."""
        found = []
        for slot in self.oracle.in_order(self.reserved):
            if not self.is_good(slot):
                self.unreserve(slot)
            elif self.reserver and self.reserver.node not in ("", self.slots[slot].node):
                continue
            elif not self.under_maintenance(self.slots[slot].pool) and self.parts_for(wanted, slot):
                found.append(slot)
        return found

    def set_aside_for_bundle(self, slot: str) -> bool:
        """Set a slot aside that is in no list, if the reserver can use it; return whether it went nowhere else."""
        record, ticket = self.slots[slot], self.who_reserves()
        if not ticket:
            return False
        wanted = ticket.wanted
        assert self.reserver
        assert isinstance(wanted, BundleRequest)
        if self.reserver.node not in ("", record.node) or not self.heard(ticket.hub):
            return False
        if self.under_maintenance(record.pool) or not self.parts_for(wanted, slot):
            return False
        kept = self.usable(wanted)
        record.place = "held"
        if not self.is_good(slot):
            return True
        if self.usable_of(wanted, [*kept, slot]) == self.usable_of(wanted, kept):
            return False
        self.reserved.add(slot)
        self.complete(ticket, [*kept, slot])
        return True

    def complete(self, ticket: Ticket, kept: list[str]) -> None:
        """Lend the reserver what is set aside, if that is all and no cap stands in the way."""
        wanted = ticket.wanted
        assert isinstance(wanted, BundleRequest)
        assert self.reserver
        enough = not self.settling and ticket.state == "waiting" and self.matched(wanted, kept) == len(wanted.units)
        if not enough or self.over_cap(wanted, of="live"):
            return
        if not self.is_enough(wanted, kept, self.counted_for(wanted)):
            return
        chosen = self.oracle.granted(self).get(wanted.id, [])
        assert len(chosen) == len(wanted.units), f"{wanted} has all in {kept} and is not lent: {chosen}"
        assert set(chosen) <= set(kept)
        self.reserved -= set(chosen)  # they are lent at once: no room is made
        assert self.is_legal(wanted, chosen), f"{wanted} was lent {chosen}"
        self.hand_all_on(ticket, chosen)

    def offer_reserved(self) -> None:
        """Offer what is set aside in vain."""
        for slot in self.unneeded if self.reserver else self.oracle.in_order(self.reserved):
            self.unreserve(slot)
            self.offer_again(slot)

    def round(self, patience_ms: int, reserve_ms: int) -> list[Any]:
        """What a hub does once a second for bundles."""
        if not self.line_of_bundles() and not self.reserver and not self.reserved:
            return ["ok", "", 0, 0]
        if not self.settling:
            ticket = self.who_reserves()
            if not (ticket and self.may_go_on(ticket, reserve_ms)):
                ticket = self.choose(patience_ms)
            if ticket:
                self.gather(ticket)
            for each in self.line_of_bundles():
                self.try_bundle(each)
        self.offer_reserved()
        self.finish()
        return ["ok", self.reserver.ticket if self.reserver else "", len(self.reserved), 0]

    def may_go_on(self, ticket: Ticket, reserve_ms: int) -> bool:
        wanted = ticket.wanted
        assert self.reserver
        assert isinstance(wanted, BundleRequest)
        if not self.heard(ticket.hub):
            self.set_aside(ticket)
            if self.reserver:
                self.end_reserve()
            return False
        if self.clock_ms - self.reserver.since_ms >= reserve_ms:
            self.end_reserve()
            if ticket.state == "waiting":
                self.arrivals += 1
                ticket.place, ticket.patient_ms = (0, self.arrivals), self.clock_ms + reserve_ms
            return False
        node = self.reserver.node
        enough = self.fits(wanted) if not node else node in self.fitting_nodes(wanted)
        if not enough:
            self.end_reserve()
        return enough

    def fits(self, wanted: BundleRequest) -> bool:
        """Return whether what is published is enough for a bundle."""
        if self.over_cap(wanted, of=""):
            return False
        return bool(self.fitting_nodes(wanted)) if wanted.same_node else self.is_enough(wanted, self.slots, {})

    def fitting_nodes(self, wanted: BundleRequest, *, stopped: bool = False) -> set[str]:
        """Return the nodes that have published enough for a bundle; with `stopped` also those that lend no more."""
        nodes = {record.node for record in self.slots.values()} - (set() if stopped else self.stopped)
        return {node for node in nodes if self.is_enough(wanted, self.of_node(node), None if stopped else {})}

    def choose(self, patience_ms: int) -> Ticket | None:
        for ticket in self.line_of_bundles()[:64]:
            wanted = ticket.wanted
            assert isinstance(wanted, BundleRequest)
            if not self.heard(ticket.hub):
                self.set_aside(ticket)
            elif self.clock_ms - ticket.patient_ms >= patience_ms and self.fits(wanted):
                node = self.choose_node(wanted) if wanted.same_node else ""
                labels = list(dict.fromkeys(part.label for part in wanted.parts))
                counts = Counter(part.label for part in wanted.units)
                self.reserver = Reserver(wanted.id, node, self.clock_ms, {label: counts[label] for label in labels})
                for label in labels:
                    self.reoffer(label)
                return ticket
        return None

    def choose_node(self, wanted: BundleRequest) -> str:
        """Return the node on which a bundle reserves: one of those on which most of it is free."""
        free, nodes = self.free_now(), self.fitting_nodes(wanted)
        counts = {each: self.matched(wanted, [s for s in free if self.slots[s].node == each]) for each in nodes}
        node = self.oracle.node(self, wanted.id)
        limited = self.caps or any(self.limits_for(wanted, slot, {}) for slot in free)
        doubt = self.unsure or limited or node is None
        assert doubt or counts.get(node or "") == max(counts.values()), f"{wanted} reserves on {node}: {counts}"
        return node or max(sorted(counts), key=lambda each: counts[each])

    def gather(self, ticket: Ticket) -> None:
        """Set free slots aside that the reserver lacks."""
        wanted = ticket.wanted
        assert self.reserver
        assert isinstance(wanted, BundleRequest)
        node = self.reserver.node
        free = [slot for slot in self.free_now() if node in ("", self.slots[slot].node)]
        free = [slot for slot in free if self.parts_for(wanted, slot)]
        kept = self.usable(wanted)
        told = self.oracle.reserved(self) | set(self.oracle.granted(self).get(wanted.id, ()))
        # Of a node of which a drain has yet to reach some slots: they are taken, found out, and held back.
        draining = {slot for slot in free if self.slots[slot].node in self.stopped and self.oracle.is_held(slot)}
        told |= draining
        picked = [slot for slot in free if slot in told]
        before, after = self.usable_of(wanted, kept), self.usable_of(wanted, [*kept, *picked])
        assert after - before == len(picked), f"{wanted} needs less than {picked} beside {kept}"
        most = self.usable_of(wanted, [*kept, *free])
        capped = any(self.limits_for(wanted, slot, {}) for slot in free)
        assert after == most or self.unsure or capped, f"{wanted} could use more of {free} beside {kept}"
        for slot in picked:
            self.free[self.slots[slot].pool].remove(slot)
            self.slots[slot].place = "held"
            self.reserved.add(slot)
        spare = [slot for slot in self.oracle.in_order(self.reserved) if slot not in told]
        assert len(self.reserved) - after == len(spare), f"{wanted} needs {after} of {self.reserved}, without {spare}"
        self.unneeded += spare
        self.complete(ticket, [slot for slot in self.usable(wanted) if slot not in spare])

    # -- the end of a script, and of grants

    def leave(self, grant: Grant, by_holder: bool) -> None:
        """A grant of a bundle has ended; those that are held together with it end when the script does."""
        if grant.bundle and grant.together and not by_holder and grant.bundle not in self.torn:
            self.torn.append(grant.bundle)

    def finish(self) -> None:
        self.ended |= {*self.torn} if self.reporting else set()
        for bundle in self.torn:
            for slot in self.live_of(bundle):
                self.revoke(slot)
                self.release(slot, mark=True)
        if self.unreserved:
            self.offer_reserved()
        self.torn, self.unneeded, self.unreserved = [], [], False
        super().finish()
        if self.unsure:
            self.oracle.adopt_order(self)
            self.unsure = False
