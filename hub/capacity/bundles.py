"""Bundles: to lend several slots at once, all or none, and to renew and end the leases of such a loan together."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import Any, NamedTuple

from hub.capacity.borrowing import Gone, log_dropped
from hub.capacity.leases import Leases
from hub.capacity.models import BorrowRequest, LeaseHolder, LentBundle, Ticket, Waiting
from hub.capacity.refusals import not_holder, refusal, unpublished
from hub.capacity.tickets import Tickets
from hub.errors import LeaseOver, NoCapacity, NotFound, Settling, UnknownReply
from hub.observability import metrics
from hub.settings import Settings
from hub.store.lenient import read_each
from hub.store.store import Store

_NOT_REPORTED = "The store was lost, and hubs or nodes have yet to say what is lent of this bundle; ask again"


def _check_id(bundle: str) -> None:
    if not re.fullmatch("b[0-9]{1,30}", bundle):
        raise NotFound(f"{bundle[:60]!r} is the id of no bundle: the answer of POST /bundles says it, such as b17")


class Renewed(NamedTuple):
    """A lease of a bundle that was extended: its slot, its token, and the ms it now has left."""

    slot: str
    token: str
    left_ms: int


class Reserver(NamedTuple):
    """The bundle for which slots are set aside, '' for none; how many are, and the part of its node, '' for any."""

    ticket: str = ""
    aside: int = 0
    node: str = ""


class Bundles:
    """The bundles of a store. Every call is safe to repeat."""

    def __init__(self, store: Store, settings: Settings, leases: Leases, tickets: Tickets) -> None:
        self._store = store
        self._borrowing = leases.borrowing
        self._classes = leases.classes
        self._memory = leases.memory
        self._live = leases.live
        self._tickets = tickets
        self._default_ttl_ms = int(settings.borrow_ttl_s * 1000)
        self._max_ms = int(settings.max_session_ttl_s * 1000)
        self._borrow = store.script("capacity/borrow_all")
        self._renew = store.script("capacity/renew_bundle")
        self._return = store.script("capacity/return_bundle")

    async def borrow_all(self, wanted: BorrowRequest, gone: Gone = None) -> LentBundle:
        """Lend all slots of a bundle, or wait in the line of bundles for up to `wanted.wait_ms`; raises as
        `Leases.borrow` does, and `NoSuchPool` where fewer slots are published than are wanted."""
        found = await self._borrowing.serve(wanted, self._try, gone)
        for lease in found.leases:
            self._memory.lent(lease)
        return found

    async def remember(self, bundle: str) -> bool:
        """Remember the leases of a bundle that was lent otherwise than by a borrow; return whether any is live."""
        found = (await self.of(bundle)).leases
        for lease in found:
            self._memory.lent(lease)
        return bool(found)

    async def _try(self, wanted: BorrowRequest, repeated: bool) -> LentBundle | Waiting:
        reply = await self._borrow(
            bundle=wanted.bundle, hopes=int(wanted.hopes), **self._borrowing.terms(wanted),
            **self._borrowing.place(wanted, repeated),
        )  # fmt: skip
        match reply:
            case ["ok", bundle, rows, dropped]:
                log_dropped(dropped)
                return await self._made(bundle, rows)
            case ["waiting", position, estimate_ms, dropped]:
                log_dropped(dropped)
                return Waiting(position, estimate_ms)
            case ["empty", dropped]:
                log_dropped(dropped)
                raise NoCapacity(wanted.in_vain)
            case ["unpublished", number, there]:
                raise unpublished(wanted, number, there)
        raise refusal(wanted, reply) or UnknownReply(self._borrow.name, reply)

    async def _made(self, bundle: str, rows: list[list[Any]]) -> LentBundle:
        leases = tuple([await self._classes.lease(*row) for row in rows])
        holder = LeaseHolder.read(leases[0].holder) if leases else None
        return LentBundle(bundle, bool(holder and holder.together), leases)

    async def of(self, bundle: str) -> LentBundle:
        """Return a bundle with those of its leases that are live."""
        keys = self._store.keys
        tokens: dict[str, str] = await self._store.read("HGETALL", keys.bundle(bundle))
        items = await read_each(self._store, [("HMGET", keys.slot(slot), "item", "class") for slot in tokens], ("", ""))
        rows = []
        for each, (item, kind) in zip(await self._live.find_all(list(tokens)), items, strict=True):
            if each and each.holder and each.holder.bundle == bundle:
                left = (each.pool, each.left_ms, int(1000 * each.ttl_s), each.run, each.holder.text, each.label)
                row = [each.slot, tokens[each.slot].rpartition("|")[2], item or "", *left, kind or ""]
                rows.append((each.holder.unit, row))
        return await self._made(bundle, [row for _, row in sorted(rows, key=itemgetter(0))])

    async def renew(self, bundle: str, ttl_ms: int | None, by: str = "") -> list[Renewed]:
        """Extend all live leases of a bundle, as `Leases.renew` does; raises `LeaseOver` when none is live, `NotFound`
        for an id that no bundle has, `NotHolder` and `Settling`."""
        _check_id(bundle)
        reply = await self._renew(bundle=bundle, ttl_ms=ttl_ms or -self._default_ttl_ms, max_ms=self._max_ms, by=by)
        match reply:
            case ["ok", facts]:
                found = [Renewed(*each) for each in zip(*[iter(facts)] * 3, strict=True)]
                for each in found:
                    metrics.renewals.labels("success").inc()
                    self._memory.renewed(*each)
                return found
            case ["settling"]:
                raise Settling(_NOT_REPORTED, retry_after_s=1)
            case ["not-holder", holder, since, _]:
                raise not_holder("This bundle", holder, since)
            case ["over"]:
                metrics.renewals.labels("over").inc()
                raise LeaseOver("No slot of this bundle is lent any more")
        raise UnknownReply(self._renew.name, reply)

    async def give_back(self, bundle: str, by: str = "") -> list[str]:
        """End all live leases of a bundle and return their slots, none for a repeat; raises `NotFound` for an id that
        no bundle has, `NotHolder` and `Settling`."""
        _check_id(bundle)
        reply = await self._return(bundle=bundle, by=by)
        match reply:
            case ["returned", facts]:
                for slot, token in zip(facts[::2], facts[1::2], strict=True):
                    self._memory.over(slot, token)
                    metrics.returns.labels("returned").inc()
                return list(facts[::2])
            case ["settling"]:
                raise Settling(_NOT_REPORTED, retry_after_s=1)
            case ["not-holder", holder, since, _]:
                raise not_holder("This bundle", holder, since)
        raise UnknownReply(self._return.name, reply)

    async def waiting(self, first: int) -> list[Ticket]:
        """Return the first bundles that wait, the oldest first."""
        names = await self._store.read("ZRANGE", self._store.keys.bundles, 0, first - 1) if first else []
        return await self._tickets.waiting(names)

    async def reserver(self) -> Reserver:
        """Return the bundle for which slots are set aside."""
        keys = self._store.keys
        (ticket, node), aside = await self._store.read_all(
            [("HMGET", keys.reserver, "ticket", "node"), ("SCARD", keys.reserved)]
        )
        return Reserver(ticket or "", int(aside), node or "")
