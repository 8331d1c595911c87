"""Leases: to lend slots, and to renew, check and end leases."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from hub.capacity.agreed import Agreed
from hub.capacity.borrowing import BorrowCalls, Gone, log_dropped
from hub.capacity.live_leases import LiveLeases
from hub.capacity.matching import Classes
from hub.capacity.memory import Memory
from hub.capacity.models import BorrowRequest, Elsewhere, Lease, Verdict, Waiting, reason_of
from hub.capacity.pools import Pools
from hub.capacity.queue import Queue
from hub.capacity.refusals import not_holder, not_reported, refusal
from hub.errors import (
    KeyReused,
    LeaseOver,
    NoCapacity,
    UnknownReply,
)
from hub.observability import metrics
from hub.randoms import random_hex
from hub.settings import Settings
from hub.store.keys import key_part
from hub.store.store import Store

KEEP_OWN_S = 60  # how long a request without a key of its caller is remembered: longer than the hub itself repeats it
BUSY_S = 0.2  # after `lend_now` could not lend, borrows go straight to the longer script `borrow` for so long


def new_attempt(realm: str) -> str:
    """Return a new id for a call whose caller sent no request id; it contains the realm, unless that is the default."""
    return f"try-{f'{realm}.' if realm else ''}{random_hex(12)}"


def keep_key_s(settings: Settings, ttl_ms: int = 0) -> int:
    """Return for how many seconds an `Idempotency-Key` is remembered: at least as long as its lease lasts."""
    return math.ceil(max(settings.idempotency_s, ttl_ms / 1000))


class Leases:
    """The leases of a store. Every call is safe to repeat."""

    def __init__(self, store: Store, settings: Settings, pools: Pools, queue: Queue, agreed: Agreed) -> None:
        self._store = store
        self._queue = queue
        self._agreed = agreed
        self._realm = settings.realm
        self._default_ttl_ms = int(settings.borrow_ttl_s * 1000)
        self._max_ms = int(settings.max_session_ttl_s * 1000)
        self._keep_key_s = keep_key_s(settings)
        self.memory = Memory(store, settings)
        self.classes = Classes(store)
        self.borrowing = BorrowCalls(store, settings, pools, queue, agreed, self.memory)
        self.spilling = self.borrowing.spilling
        self.live = LiveLeases(store)
        self._busy_until = 0.0
        self._lend_now = store.script("capacity/lend_now")
        self._borrow = store.script("capacity/borrow")
        self._give_back = store.script("capacity/give_back")
        self._renew = store.script("capacity/renew")
        self._verify = store.script("capacity/verify")
        self._confirm = store.script("capacity/confirm")
        self._lapse = store.script("capacity/lapse")
        self._attribute = store.script("capacity/attribute")

    async def borrow(self, wanted: BorrowRequest, gone: Gone = None) -> Lease:
        """Lend a slot and return its lease; where no slot is free, wait in the queue for up to `wanted.wait_ms`.

        Raises `NoCapacity` or a subclass of it, `Settling`, `Stopping`, `LeaseOver`, `KeyReused` or `StoreUnavailable`,
        and `CallerGone` when `gone()`, called once waiting begins, returns first. The same request id gets the same
        place and the same lease. A lease that was not delivered is taken back, at the latest when the store is back.
        """
        answer = await self.borrowing.serve(wanted, self._try, gone, self._at_once)
        if answer.realm is None:
            self.memory.lent(answer)
        return answer

    async def _at_once(self, wanted: BorrowRequest) -> Lease | None:
        """Try the short script `lend_now`; return the lease, or None when the longer script `borrow` is to be asked."""
        if not wanted.is_plain or time.monotonic() < self._busy_until:
            return None
        reply = await self._lend_now(label=wanted.label, **self.borrowing.terms(wanted))
        if reply[0] == "ok":
            return await self._granted(wanted, reply)
        log_dropped(reply[1])
        self._busy_until = time.monotonic() + BUSY_S
        return None

    async def _try(self, wanted: BorrowRequest, repeated: bool) -> Lease | Waiting:
        reply = await self._borrow(
            label=wanted.label, alternatives=wanted.asked, prefer=wanted.prefer, **self.borrowing.terms(wanted),
            **self.borrowing.place(wanted, repeated),
        )  # fmt: skip
        match reply:
            case ["ok", *_]:
                return await self._granted(wanted, reply)
            case ["waiting", position, estimate_ms, dropped]:
                log_dropped(dropped)
                return Waiting(position, estimate_ms)
            case ["empty", dropped]:
                log_dropped(dropped)
                raise NoCapacity(wanted.in_vain)
            case ["elsewhere", *place]:
                found = await self.spilling.fetch(wanted, Elsewhere(*place))
                return found or await self._try(wanted, True)
        raise refusal(wanted, reply) or UnknownReply(self._borrow.name, reply)

    async def _granted(self, wanted: BorrowRequest, reply: list[Any]) -> Lease:
        _, slot, token, item, pool, left_ms, ttl_ms, run, dropped, *more = reply
        log_dropped(dropped)
        holder, label, of = [*more, ""][:3] if more else (wanted.holder, wanted.label, "")
        return await self.classes.lease(slot, token, item, pool, left_ms, ttl_ms, run, holder, label, of)

    async def give_back(
        self, slot: str, hint: str, token: str = "", *, run: str = "", only_run: bool = False, key: str | None = None,
        revokes: str = "", reason: str = "", arrived_ms: int | None = None, by: str = "",
    ) -> tuple[str, str, str]:  # fmt: skip
        """End a lease. Returns (word, pool, run); the word is `returned`, `ended`, `not lent` or `stale token`.

        Without a token, a lease that was made after `arrived_ms`, when this call arrived, is left. With `only_run` only
        a lease of `run` is ended. `revokes` is set where an operator ends it, for a `reason`: with `1` its holder is
        told and the slot is lent again after the grace, with `2` at once. `hint` is a label that the caller names, for
        a slot without a record. `by` says who calls, as `lua/holders.lua` does. Raises `NotHolder` for a caller that is
        not the holder, `KeyReused` when the request id `key` was used for something else, and `Settling`.
        """
        # A call without a key is remembered as long as the Redis client may repeat it after its connection was cut.
        request, keep_s = (key, self._keep_key_s) if key else (new_attempt(self._realm), KEEP_OWN_S)
        word, pool, run, ended, *torn = await self._give_back(
            slot=slot, hint=hint, token=token, run=run, only_run="1" if only_run else "",
            request=request, keyed="1" if key else "", keep_s=keep_s,
            arrived_ms="" if arrived_ms is None else arrived_ms, revokes=revokes, reason=reason, by=by,
        )  # fmt: skip
        if word == "not-holder":
            raise not_holder(f"The lease of {slot}", pool, run)
        if word == "settling":
            raise not_reported(slot)
        if word == "reused":
            raise KeyReused("This Idempotency-Key was used with another request; use a new key")
        if word in ("returned", "ended"):
            grace_ms = self._agreed.holds.grace_ms if revokes == "1" else 0
            self.memory.over(slot, ended, grace_ms=grace_ms, bundle="".join(torn))
        metrics.returns.labels(word).inc()
        return word, pool, run

    async def renew(self, slot: str, token: str, ttl_ms: int | None, by: str = "") -> tuple[str, int]:
        """Extend a lease to `ttl_ms` from now; return its token and the ms it now has left. With None or a negative
        `ttl_ms`, a default, the rule of its pool may say otherwise. Raises `LeaseOver`, `NotHolder` and `Settling`."""
        ttl_ms = ttl_ms or -self._default_ttl_ms
        reply = await self._renew(slot=slot, token=token, ttl_ms=ttl_ms, max_ms=self._max_ms, by=by)
        match reply:
            case ["ok", held, left_ms]:
                metrics.renewals.labels("success").inc()
                self.memory.renewed(slot, held, left_ms)
                return held, left_ms
            case ["settling"]:
                raise not_reported(slot)
            case ["not-holder", holder, since, _]:
                raise not_holder(f"The lease of {slot}", holder, since)
            case ["over"]:
                metrics.renewals.labels("over").inc()
                why = reason_of(await self._store.read("GET", self._store.keys.end_reason(slot)), token)
                raise LeaseOver(f"The lease of {slot} is over{why and ': '}{why}")
        raise UnknownReply(self._renew.name, reply)

    async def verify(self, slot: str, token: str) -> tuple[Verdict, int]:
        """Return (`ok`, ms left) when `token` is that of the live lease of `slot`, else (a `Verdict` that says why, 0).

        Raises `Settling` while nodes have yet to report leases that the store has lost.
        """
        word, *left_ms = await self._verify(slot=slot, token=token)
        if word == "settling":
            raise not_reported(slot)
        return word, left_ms[0] if left_ms else 0

    async def attribute(self, slot: str, test: str, run: str) -> None:
        """Record which test uses a slot, and its run where none is known, for six hours or until the lease ends."""
        await self._attribute(slot=key_part(slot), test=test, run=run)

    async def undo(self, wanted: BorrowRequest, *leases: Lease) -> None:
        """Take back what was lent to a borrow whose caller is gone, as `BorrowCalls.undo` does."""
        await self.borrowing.undo(wanted, *leases)

    async def drop(self, request: str, attempt: str) -> bool:
        """Take back a lease that was made for another realm's ticket, unless another attempt has it too; return whether
        this ended the lease."""
        word, *_ = await self.borrowing.gone(request, attempt)
        return bool(word == "undone")

    async def confirm(self, wanted: BorrowRequest, place: Elsewhere) -> Lease | None:
        """Give a lease that was made here for another realm's ticket its full length, once that realm has recorded it.

        Return the lease, None when it was taken back. Raises `LeaseOver` when it has ended, and `Settling`.
        """
        reply = await self._confirm(
            request=place.request, slot=place.slot, token=place.token, attempt=wanted.attempt,
            hub=self._queue.hub_id, ttl_ms=wanted.ttl_ms,
        )  # fmt: skip
        match reply:
            case ["ok", *_]:
                lease = await self._granted(wanted, reply)
                self.memory.lent(lease)
                return lease
            case ["unknown"]:
                return None
            case ["settling"]:
                raise not_reported(place.slot)
        raise refusal(wanted, reply) or UnknownReply(self._confirm.name, reply)

    async def lapse(self, slots: Sequence[str]) -> list[str]:
        """End the leases of these slots that have lapsed, are idle or have lost their footprint; return a word each."""
        return list(await self._lapse(rest=slots))
