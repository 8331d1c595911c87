"""Leases: lend a slot, extend it, take it back; and the memory of what this hub lent a moment ago."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hub.capacity.agreed import Agreed
from hub.capacity.memory import Memory
from hub.capacity.models import BorrowRequest, Elsewhere, Lease, LeaseRecord, Verdict, Waiting, read_item
from hub.capacity.pools import Pools
from hub.capacity.queue import Queue
from hub.capacity.refusals import not_reported, refusal
from hub.capacity.spilling import Spilling
from hub.errors import (
    CallerGone,
    Capped,
    DeadlineMissed,
    KeyReused,
    LabelQueueFull,
    LeaseOver,
    NoCapacity,
    NotSent,
    RunQueueFull,
    Settling,
    Stopping,
    StoreUnavailable,
    UnknownReply,
    WaitedInVain,
)
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.randoms import random_hex
from hub.settings import Settings
from hub.store.callers import for_nobody
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.replicas import Replicas
from hub.store.store import Store

KEEP_OWN_S = 60  # how long a request without one is: longer than any repeat by the hub itself
BUSY_S = 0.2  # after a borrow that could not be lent to at once, the next ones are put to the long script right away
OUTAGE_POLL_S = 0.5  # a waiter whose store does not answer asks again: one tick of the hub clock
_log = get_logger("hub.capacity")


def new_attempt(realm: str) -> str:
    """Return a name for a borrow or a return that brings none; it says its realm where that has a name."""
    return f"try-{f'{realm}.' if realm else ''}{random_hex(12)}"


def keep_key_s(settings: Settings, ttl_ms: int = 0) -> int:
    """Return how long an `Idempotency-Key` is remembered: at least as long as the lease that it stands for."""
    return math.ceil(max(settings.idempotency_s, ttl_ms / 1000))


class Leases:
    """Keeps leases. Every method is one script; each is safe to repeat."""

    def __init__(self, store: Store, settings: Settings, pools: Pools, queue: Queue, agreed: Agreed) -> None:
        self._store = store
        self._pools = pools
        self._queue = queue
        self._agreed = agreed
        self._max_per_label = settings.borrow_queue_max_per_label
        self._max_per_run = settings.borrow_queue_max_per_run
        self._realm = settings.realm
        self._default_ttl_ms = int(settings.borrow_ttl_s * 1000)
        self._max_ms = int(settings.max_session_ttl_s * 1000)
        self._idle_ms = int(settings.idle_timeout_s * 1000)
        self._keep_key_s = keep_key_s(settings)
        self.memory = Memory(store, settings)
        self.spilling = Spilling(store, settings, queue.wake)
        self._replicas = Replicas(store, settings.grant_replicas, settings.redis_timeout_s)
        self._busy_until = 0.0
        self._lend_now = store.script("capacity/lend_now")
        self._borrow = store.script("capacity/borrow")
        self._give_back = store.script("capacity/give_back")
        self._renew = store.script("capacity/renew")
        self._verify = store.script("capacity/verify")
        self._undo = store.script("capacity/undo")
        self._confirm = store.script("capacity/confirm")
        self._lapse = store.script("capacity/lapse")
        self._attribute = store.script("capacity/attribute")

    async def borrow(self, wanted: BorrowRequest, gone: Callable[[], Awaitable[None]] | None = None) -> Lease:
        """Lend a slot, waiting in the queue for up to `wanted.wait_ms` where there is none.

        Raises `NoCapacity` or one of its kinds, `Settling`, `Stopping`, `LeaseOver`, `KeyReused`, `StoreUnavailable`,
        or `CallerGone` when `gone`, which is called once waiting begins, ends first. The same request id gets the same
        place and the same lease. Whatever was not delivered is taken back, at the latest when the store answers again.
        """
        await self._agreed.once()
        waited = granted = False
        try:
            answer: Lease | Waiting | None = await self._at_once(wanted)
            if not isinstance(answer, Lease):
                with self._queue.watch(wanted.request, wanted.label) as woken:
                    answer = await self._first_try(wanted)
                    if isinstance(answer, Waiting):
                        waited = True
                        with self.spilling.beside(wanted):
                            answer = await self._wait(wanted, answer, woken, gone)
            granted = True
            await self._replicas.confirm()
        except (StoreUnavailable, asyncio.CancelledError) as error:
            if waited or granted or not isinstance(error, NotSent):
                self._store.later(lambda: self._take_back(wanted))
            raise
        if answer.realm is None:
            self.memory.lent(answer)
        return answer

    async def _at_once(self, wanted: BorrowRequest) -> Lease | None:
        """Lend a slot that nothing stands in the way of; return None where the long script is to be asked."""
        if time.monotonic() < self._busy_until:
            return None
        reply = await self._lend_now(**self._asked(wanted))
        if reply[0] == "ok":
            return self._granted(wanted, reply)
        _log_dropped(reply[1])
        self._busy_until = time.monotonic() + BUSY_S
        return None

    async def _first_try(self, wanted: BorrowRequest) -> Lease | Waiting:
        try:
            return await self._try(wanted, repeated=False)
        except (LabelQueueFull, RunQueueFull, DeadlineMissed):
            await self._pools.discover()  # nobody is turned away from a pool that exists only in Redis
        except NoCapacity as error:
            if isinstance(error, Capped):
                raise
            await self._pools.discover()
        return await self._try(wanted, repeated=wanted.keyed)

    async def _wait(
        self, wanted: BorrowRequest, place: Waiting, woken: asyncio.Event, gone: Callable[[], Awaitable[None]] | None
    ) -> Lease:
        """Until the ticket is granted; gives the place up on every other way out."""
        until = time.monotonic() + wanted.wait_ms / 1000
        leaving = asyncio.ensure_future(gone()) if gone else None
        self._queue.look_soon()
        try:
            while (left_s := until - time.monotonic()) > 0 and not self._queue.stopping:
                if leaving and leaving.done():
                    raise CallerGone("The caller of a borrow hung up")
                await _first_of(woken, leaving, left_s)
                if woken.is_set():
                    woken.clear()
                    answer = await self._try_again(wanted._replace(wait_ms=max(1, int(left_s * 1000))), until)
                    if isinstance(answer, Lease):
                        return answer
                    place = answer
            return await self._give_up(wanted, place)
        except CallerGone:
            await self._take_back(wanted)
            raise
        finally:
            if leaving:
                leaving.cancel()

    async def _try_again(self, wanted: BorrowRequest, until: float) -> Lease | Waiting:
        """Try as `_try`, through an outage of the store as long as there is time: the place in the queue is kept."""
        while True:
            try:
                return await self._try(wanted, repeated=True)
            except (StoreUnavailable, Settling):  # of the realm that serves it, too
                if time.monotonic() + OUTAGE_POLL_S > until:
                    raise
                await asyncio.sleep(OUTAGE_POLL_S)

    async def _give_up(self, wanted: BorrowRequest, place: Waiting) -> Lease:
        """Leave the queue; raises the reason, or returns a lease that was made at the last moment."""
        why = "stopping" if self._queue.stopping else "timeout"
        word, *_ = await self._undo(request=wanted.request, attempt=wanted.attempt, hub=self._queue.hub_id, why=why)
        if word == "granted":
            answer = await self._try(wanted, repeated=True)
            if isinstance(answer, Lease):
                return answer
            await self._take_back(wanted)  # that lease was taken back meanwhile, and we stand in the queue again
        facts = {"ticket": wanted.request, **place.facts()}
        if self._queue.stopping:
            raise Stopping("The hub is stopping", **facts)
        raise WaitedInVain(f"Borrow timed out after {wanted.wait_ms / 1000:g}s for {wanted.label}", **facts)

    def _asked(self, wanted: BorrowRequest) -> dict[str, Any]:
        return {
            "label": wanted.label,
            "ttl_ms": wanted.ttl_ms,
            "idle_ms": self._idle_ms,
            "run": wanted.run,
            "request": wanted.request,
            "attempt": wanted.attempt,
            "fingerprint": wanted.fingerprint,
            "keep_s": wanted.keep_s,
        }

    async def _try(self, wanted: BorrowRequest, *, repeated: bool) -> Lease | Waiting:
        reply = await self._borrow(
            **self._asked(wanted),
            keyed=int(wanted.keyed),
            repeated=int(repeated),
            hub=self._queue.hub_id,
            wait_ms=wanted.wait_ms,
            limit_ms=wanted.limit_ms,
            priority=wanted.priority,
            max_label=self._max_per_label,
            max_run=self._max_per_run,
        )
        match reply:
            case ["ok", *_]:
                return self._granted(wanted, reply)
            case ["waiting", position, estimate_ms, dropped]:
                _log_dropped(dropped)
                return Waiting(position, estimate_ms)
            case ["empty", dropped]:
                _log_dropped(dropped)
                raise NoCapacity(f"No browser available for {wanted.label}")
            case ["elsewhere", *place]:
                found = await self.spilling.fetch(wanted, Elsewhere(*place))
                return found or await self._try(wanted, repeated=True)
        raise refusal(wanted, reply) or UnknownReply(self._borrow.name, reply)

    def _granted(self, wanted: BorrowRequest, reply: list[Any]) -> Lease:
        _, slot, token, item, pool, left_ms, ttl_ms, run, dropped = reply
        _log_dropped(dropped)
        return Lease(slot, token, wanted.label, pool, run, ttl_ms, left_ms, item, read_item(item))

    async def give_back(
        self, slot: str, hint: str, token: str = "", *,
        run: str = "", only_run: bool = False, key: str | None = None, revokes: str = "", arrived_ms: int | None = None,
    ) -> tuple[str, str, str]:  # fmt: skip
        """End a lease. Returns (word, pool, run); the word is `returned`, `ended`, `not lent` or `stale token`.

        Without a token nothing is ended that was made after `arrived_ms`, when the caller asked for it.
        With `only_run` nothing is ended but a lease of `run`. `revokes` is set where it is not its holder who ends it:
        with `1` he is told, and has the time of the grace before the slot is lent on; with `2` it is lent on at once.
        Raises `KeyReused` when the request id `key` was used for something else.
        """
        # Without a key it is remembered for as long as a cut connection may make the client of Redis repeat the call.
        request, keep_s = (key, self._keep_key_s) if key else (new_attempt(self._realm), KEEP_OWN_S)
        word, pool, run, ended = await self._give_back(
            slot=slot, hint=hint, token=token, run=run, only_run="1" if only_run else "",
            request=request, keyed="1" if key else "", keep_s=keep_s,
            arrived_ms="" if arrived_ms is None else arrived_ms, revokes=revokes,
        )  # fmt: skip
        if word == "reused":
            raise KeyReused("This Idempotency-Key was used with another request; use a new key")
        if word in ("returned", "ended"):
            self.memory.over(slot, ended, grace_ms=self._agreed.holds.grace_ms if revokes == "1" else 0)
        metrics.returns.labels(word).inc()
        return word, pool, run

    async def renew(self, slot: str, token: str, ttl_ms: int | None) -> tuple[str, int]:
        """Extend a lease; returns its token and the ms it now has left, or raises `LeaseOver`, or `Settling`."""
        reply = await self._renew(slot=slot, token=token, ttl_ms=ttl_ms or self._default_ttl_ms, max_ms=self._max_ms)
        match reply:
            case ["ok", held, left_ms]:
                metrics.renewals.labels("success").inc()
                self.memory.renewed(slot, held, left_ms)
                return held, left_ms
            case ["settling"]:
                raise not_reported(slot)
            case ["over"]:
                metrics.renewals.labels("over").inc()
                raise LeaseOver(f"The lease of {slot} is over")
        raise UnknownReply(self._renew.name, reply)

    async def verify(self, slot: str, token: str) -> tuple[Verdict, int]:
        """Whether `token` is that of the lease holding `slot`: (`ok`, ms left), or (`not lent` and the like, 0).

        Raises `Settling` while nodes report what the store has lost.
        """
        word, *left_ms = await self._verify(slot=slot, token=token)
        if word == "settling":
            raise not_reported(slot)
        return word, left_ms[0] if left_ms else 0

    async def attribute(self, slot: str, test: str, run: str) -> None:
        """Map a slot to a test, and to a run when it has none, for six hours or until its lease ends."""
        await self._attribute(slot=key_part(slot), test=test, run=run)

    async def undo(self, wanted: BorrowRequest, lease: Lease) -> None:
        """Take back what an attempt was granted, unless another one has it too: its caller is gone.

        Raises `StoreUnavailable`; it is done when the store is back.
        """
        try:
            await self._take_back(wanted)
        except (StoreUnavailable, asyncio.CancelledError):
            if not wanted.keyed and lease.realm is None:
                # Should the store be lost before that is done, nobody is to have it.
                self.memory.over(lease.slot, lease.token)
            self._store.later(lambda: self._take_back(wanted))
            raise

    async def _take_back(self, wanted: BorrowRequest) -> None:
        word, *said = await self._gone(wanted.request, wanted.attempt)
        if word == "elsewhere":
            self.spilling.take_back_soon(wanted, Elsewhere(*said))

    async def drop(self, request: str, attempt: str) -> bool:
        """Take back what was lent for the ticket of another realm; whether this attempt was the last to have it."""
        word, *_ = await self._gone(request, attempt)
        return bool(word == "undone")

    async def _gone(self, request: str, attempt: str) -> list[Any]:
        """Undo an attempt whose caller is gone."""
        with for_nobody():
            word, *said = await self._undo(request=request, attempt=attempt, hub=self._queue.hub_id, why="gone")
        if word == "undone":
            self.memory.over(*said)
            metrics.grants_undone.inc()
            _log.info("undelivered lease taken back", slot=said[0])
        return [word, *said]

    async def confirm(self, wanted: BorrowRequest, place: Elsewhere) -> Lease | None:
        """The lease that was made here for the ticket of another realm, which has noted it; None when it was undone.

        Raises `LeaseOver` when it has ended, and `Settling`.
        """
        reply = await self._confirm(
            request=place.request, slot=place.slot, token=place.token, attempt=wanted.attempt,
            hub=self._queue.hub_id, ttl_ms=wanted.ttl_ms,
        )  # fmt: skip
        match reply:
            case ["ok", *_]:
                lease = self._granted(wanted, reply)
                self.memory.lent(lease)
                return lease
            case ["unknown"]:
                return None
            case ["settling"]:
                raise not_reported(place.slot)
        raise refusal(wanted, reply) or UnknownReply(self._confirm.name, reply)

    async def lapse(self, slots: Sequence[str]) -> list[str]:
        """End nominated leases; return a word for each, as `lua/commands/capacity/lapse.lua` lists them."""
        return list(await self._lapse(rest=slots))

    async def find(self, slot: str) -> LeaseRecord | None:
        """Return the live lease of a slot, None when there is none."""
        (found,) = await self.find_all([slot])
        return found

    async def find_all(self, slots: Sequence[str]) -> list[LeaseRecord | None]:
        """Return the live leases of slots, None for each slot that is not lent any more."""
        keys = self._store.keys
        fields = ("labelKey", "poolLabel", "runId", "nodeId", "borrowedAtUtc", "ttlSeconds")
        rows = await read_each(self._store, [("HMGET", keys.session(key_part(slot)), *fields) for slot in slots])
        left = await self._left([key_part(slot) for slot in slots])
        return [_record(slot, row, ms) for slot, row, ms in zip(slots, rows, left, strict=True)]

    async def _left(self, slots: Sequence[str]) -> list[int]:
        """Ms until each lease lapses, at least 0; good to half a second, the period of the hub clock."""
        if not slots:
            return []
        keys = self._store.keys
        clock, deadlines = await self._store.read_all(
            [("HGET", keys.store, "clock_ms"), ("ZMSCORE", keys.deadlines, *slots)]
        )
        return [max(0, int(float(deadline or 0)) - int(clock or 0)) for deadline in deadlines]

    async def page(self, index: str, offset: int, limit: int) -> tuple[int, list[str]]:
        """Return how many slots a sorted index holds, and the slots from `offset` on."""
        total, slots = await self._store.read_all(
            [("ZCARD", index), ("ZRANGE", index, offset, offset + limit - 1)],
        )
        return int(total), list(slots)


async def _first_of(woken: asyncio.Event, leaving: asyncio.Future[None] | None, left_s: float) -> None:
    """Wait for the event, for the caller to leave, or until the time is up."""
    waking: asyncio.Future[Any] = asyncio.ensure_future(woken.wait())
    both = [waking, leaving] if leaving else [waking]
    try:
        await asyncio.wait(both, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waking.cancel()


def _record(slot: str, row: Sequence[str | None] | None, left_ms: int) -> LeaseRecord | None:
    """Return the lease that a session says; None for none, and for a session that another program has overwritten."""
    if row is None or not row[0]:
        return None
    label, pool, run, node, since, ttl_s = (text or "" for text in row)
    try:
        return LeaseRecord(slot, label, pool, run, node, since, float(ttl_s or 0), left_ms)
    except ValueError:
        return None


def _log_dropped(dropped: Sequence[str]) -> None:
    for pool, why, item in zip(dropped[::3], dropped[1::3], dropped[2::3], strict=True):
        _log.warning("invalid item dropped", pool=pool, why=why, item=item[:200])
