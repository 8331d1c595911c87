"""Tickets: to find out what has become of a waiting borrow, to give it up, and to list the queues of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hub.batched import batched
from hub.capacity.matching import Classes
from hub.capacity.memory import Memory
from hub.capacity.models import BorrowRequest, Elsewhere, Ticket, Waiting
from hub.capacity.refusals import not_holder
from hub.capacity.wishes import alternatives_in
from hub.errors import LeaseOver, TicketGranted, UnknownReply, UnknownTicket
from hub.store.lenient import read_each
from hub.store.store import Store

BATCH = 50  # tickets or labels per script: about 1 ms
NAMES_MAX = 2000  # most ticket ids that one script returns: under 1 ms
_UNKNOWN = "No such ticket: nothing waits under this key, or it was given up"


@dataclass(frozen=True)
class LabelQueue:
    """The queue of one label. `turn` is the label's place among the labels that are waited for; `estimate_ms` is how
    long a new ticket would wait, -1 while that is not known.
    """

    label: str
    waiting: int
    turn: int
    cap: int
    in_flight: int
    estimate_ms: int
    tickets: list[Ticket]


class Tickets:
    """The tickets of a store. Only `cancel` changes anything."""

    def __init__(self, store: Store, memory: Memory, classes: Classes) -> None:
        self._store = store
        self._classes = classes
        self._memory = memory
        self._look = store.script("queue/find")
        self._describe = store.script("queue/describe")
        self._prospect = store.script("queue/prospect")
        self._cancel = store.script("queue/cancel")

    async def find(self, *names: str) -> Ticket:
        """Return the ticket of the first of these ids that is known: with its place in the queue, its lease, or the
        other realm that served it.

        Raises `UnknownTicket` when none is known, and `LeaseOver` when the lease that the ticket was granted has ended.
        """
        for name, row in zip(names, await self._look(rest=names), strict=True):
            match row:
                case ["over", slot]:
                    raise LeaseOver(f"This ticket was granted {slot}, and that lease has ended; borrow with a new key")
                case ["granted", slot, label, run, token, pool, item, left_ms, ttl_ms, fingerprint, holder, *of]:
                    facts = (item or "", pool or "", left_ms, ttl_ms, run or "", holder, label)
                    lease = await self._classes.lease(slot, token, *facts, *of or [""])
                    found = Ticket(name, "granted", label, lease.run, ttl_ms=ttl_ms, fingerprint=fingerprint)
                    return replace(found, lease=lease, holder=holder)
                case ["elsewhere", realm, request, slot, token, fingerprint]:
                    place = Elsewhere(realm, request, slot, token)
                    return Ticket(name, "elsewhere", "", "", fingerprint=fingerprint, place=place)
                case ["unknown"]:
                    continue
                case _:
                    return _ticket(name, row)
        raise UnknownTicket(_UNKNOWN)

    async def prospect(self, wanted: BorrowRequest) -> Waiting:
        """Return the place in the queue that a borrow would get now, among those that want the same, or bundles."""
        if wanted.bundle:
            score = 1000 * (self._store.wall_s() - wanted.priority)
            return Waiting(1 + int(await self._store.read("ZCOUNT", self._store.keys.bundles, "-inf", score)), -1)
        want = wanted.alternatives[0].want if wanted.alternatives else ""
        return Waiting(*await self._prospect(label=wanted.label, priority=wanted.priority, want=want))

    async def cancel(self, *names: str, by: str = "") -> None:
        """Give up the ticket of the first of these ids that is known; the call that waits for it ends with `Withdrawn`.

        Safe to repeat. Raises `TicketGranted` when the ticket holds a slot by now, `LeaseOver` when that lease has
        ended already, `NotHolder` for the ticket of another caller (`by` is as in `Leases.give_back`), and
        `UnknownTicket`.
        """
        for name in names:
            reply = await self._cancel(ticket=name, recalled=0, by=by)
            match reply:
                case ["cancelled"]:
                    self._memory.cancelled(name)
                    return
                case ["granted", slot, *bundle]:
                    what, how = slot, "POST /session/return"
                    if any(bundle):
                        what, how = f"the bundle {bundle[0]}", f"POST /bundles/{bundle[0]}/return"
                    said = f"This ticket holds {what} by now; give it back with {how}, or hub return"
                    raise TicketGranted(said, browserId=slot)
                case ["not-holder", holder, since]:
                    raise not_holder("This ticket", holder, since)
                case ["over", slot]:
                    raise LeaseOver(f"This ticket was granted {slot}, and that lease has ended; there is nothing left")
                case ["unknown"]:
                    continue
            raise UnknownReply(self._cancel.name, reply)
        raise UnknownTicket(_UNKNOWN)

    async def counts(self) -> tuple[int, int, int]:
        """Return how many labels have a queue, how many tickets are in one, and how many tickets are `away`."""
        keys = self._store.keys
        labels, known, hubs = await self._store.read_all(
            [("ZCARD", keys.turns), ("ZCARD", keys.ticket_deadlines), ("ZRANGE", keys.hubs, 0, -1)]
        )
        waiting = sum(await read_each(self._store, (("SCARD", keys.waiters(hub)) for hub in hubs), 0))
        return labels, waiting, max(0, known - waiting)

    async def labels(self, offset: int, limit: int) -> list[str]:
        """Return a page of the labels that have a queue, the label whose turn is next first."""
        return list(await self._store.read("ZRANGE", self._store.keys.turns, offset, offset + limit - 1))

    async def queues(self, labels: Sequence[str], tickets: int) -> list[LabelQueue]:
        """Return the queue of each label, also of one without waiters, with its first `tickets` tickets."""
        rows: list[Any] = []
        for batch in batched(labels, max(1, min(BATCH, NAMES_MAX // max(1, tickets)))):
            rows += await self._describe(count=tickets, rest=batch)
        names = [name for row in rows for name in row[-1]]
        found = {ticket.id: ticket for ticket in await self.waiting(names)}
        return [
            LabelQueue(label, waiting, turn, cap, live, wait_ms, [found[name] for name in first if name in found])
            for label, (waiting, turn, cap, live, wait_ms, first) in zip(labels, rows, strict=True)
        ]

    async def waiting(self, names: Sequence[str]) -> list[Ticket]:
        """Return those of these tickets that wait; others have left the queue since."""
        return [
            _ticket(name, row)
            for batch in batched(names, BATCH)
            for name, row in zip(batch, await self._look(rest=batch), strict=True)
            if row[0] == "waiting"
        ]


def _ticket(name: str, row: list[Any]) -> Ticket:
    state, label, run, position, estimate_ms, priority, since_ms, left_ms, ttl_ms, fingerprint, keep_s, *rest = row
    holder, asked, _, bundle = rest
    times = (since_ms, left_ms, int(ttl_ms))
    return Ticket(
        name, state, label, run, position, estimate_ms, priority, *times, fingerprint, int(keep_s), holder,
        alternatives_in(asked), bundle,
    )  # fmt: skip
