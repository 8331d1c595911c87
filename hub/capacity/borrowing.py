"""Borrows from call to answer, whatever they ask for: how one waits, is given up, and is taken back when its caller is
gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from hub.capacity.agreed import Agreed
from hub.capacity.memory import Memory
from hub.capacity.models import BorrowRequest, Elsewhere, Lease, Waiting
from hub.capacity.pools import Pools
from hub.capacity.queue import Queue
from hub.capacity.spilling import Spilling
from hub.errors import (
    CallerGone,
    Capped,
    DeadlineMissed,
    LabelQueueFull,
    NoCapacity,
    NoSuchPool,
    NotSent,
    RunQueueFull,
    Settling,
    Stopping,
    StoreUnavailable,
    WaitedInVain,
)
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.callers import for_nobody
from hub.store.replicas import Replicas
from hub.store.store import Store

OUTAGE_POLL_S = 0.5  # how often a waiting borrow asks again while the store does not answer: one tick of the hub clock
A = TypeVar("A")
Ask = Callable[[BorrowRequest, bool], Awaitable[A | Waiting]]  # asks the store; whether this call has asked it before
Gone = Callable[[], Awaitable[None]] | None  # returns when the caller has hung up
_log = get_logger("hub.capacity")


class BorrowCalls:
    """The borrows that come to one hub."""

    def __init__(
        self, store: Store, settings: Settings, pools: Pools, queue: Queue, agreed: Agreed, memory: Memory
    ) -> None:
        self._store = store
        self._pools = pools
        self._queue = queue
        self._agreed = agreed
        self._memory = memory
        self.spilling = Spilling(store, settings, queue.wake)
        self._replicas = Replicas(store, settings.grant_replicas, settings.redis_timeout_s)
        self._idle_ms = int(settings.idle_timeout_s * 1000)
        self._max_per_label = settings.borrow_queue_max_per_label
        self._max_per_run = settings.borrow_queue_max_per_run
        self._undo = store.script("capacity/undo")

    def terms(self, wanted: BorrowRequest) -> dict[str, Any]:
        """Return the arguments of a script that lends: who asks, and for how long."""
        return {
            "ttl_ms": wanted.ttl_ms, "idle_ms": self._idle_ms, "run": wanted.run, "holder": wanted.holder,
            "request": wanted.request, "attempt": wanted.attempt, "fingerprint": wanted.fingerprint,
            "keep_s": wanted.keep_s,
        }  # fmt: skip

    def place(self, wanted: BorrowRequest, repeated: bool) -> dict[str, Any]:
        """Return the arguments of a script that gives a place in the queue. `repeated`: this call has asked before."""
        return {
            "keyed": int(wanted.keyed), "repeated": int(repeated), "hub": self._queue.hub_id,
            "wait_ms": wanted.wait_ms, "limit_ms": wanted.limit_ms, "priority": wanted.priority,
            "max_label": self._max_per_label, "max_run": self._max_per_run,
        }  # fmt: skip

    async def serve(
        self,
        wanted: BorrowRequest,
        ask: Ask[A],
        gone: Gone = None,
        at_once: Callable[[BorrowRequest], Awaitable[A | None]] | None = None,
    ) -> A:
        """Return what is lent: what `at_once` has, a short question, else what `ask` has, at once or after waiting in
        the queue for up to `wanted.wait_ms`. What was not delivered is taken back, at the latest when the store is
        back. Raises what `ask` raises, and as `Leases.borrow` does.
        """
        await self._agreed.once()
        waited = granted = False
        try:
            answer: A | Waiting | None = await at_once(wanted) if at_once else None
            if answer is None:
                with self._queue.watch(wanted.request, *(() if wanted.bundle else wanted.labels)) as woken:
                    answer = await self._first_try(wanted, ask)
                    if isinstance(answer, Waiting):
                        waited = True
                        with self.spilling.beside(wanted):
                            answer = await self._wait(wanted, ask, answer, woken, gone)
            granted = True
            await self._replicas.confirm()
        except (StoreUnavailable, asyncio.CancelledError) as error:
            if waited or granted or not isinstance(error, NotSent):
                self._store.later(lambda: self._take_back(wanted))
            raise
        return answer  # type: ignore[return-value]

    async def _first_try(self, wanted: BorrowRequest, ask: Ask[A]) -> A | Waiting:
        try:
            return await ask(wanted, False)
        except (LabelQueueFull, RunQueueFull, DeadlineMissed, NoSuchPool):
            await self._pools.discover()  # before a refusal: another program may have pushed a slot into Redis
        except NoCapacity as error:
            if isinstance(error, Capped):
                raise
            await self._pools.discover()
        return await ask(wanted, wanted.keyed)

    async def _wait(self, wanted: BorrowRequest, ask: Ask[A], place: Waiting, woken: asyncio.Event, gone: Gone) -> A:
        """Wait for the ticket and return what it gets; if anything else ends the wait, give up its place."""
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
                    again = wanted._replace(wait_ms=max(1, int(left_s * 1000)))
                    answer = await self._try_again(again, ask, until)
                    if not isinstance(answer, Waiting):
                        return answer
                    place = answer
            return await self._give_up(wanted, ask, place)
        except CallerGone:
            await self._take_back(wanted)
            raise
        finally:
            if leaving:
                leaving.cancel()

    async def _try_again(self, wanted: BorrowRequest, ask: Ask[A], until: float) -> A | Waiting:
        """Ask again; repeat it in an outage of the store until the time `until`. The place in the queue is kept."""
        while True:
            try:
                return await ask(wanted, True)
            except (StoreUnavailable, Settling):  # of this realm, or of the realm that serves the ticket
                if time.monotonic() + OUTAGE_POLL_S > until:
                    raise
                await asyncio.sleep(OUTAGE_POLL_S)

    async def _give_up(self, wanted: BorrowRequest, ask: Ask[A], place: Waiting) -> A:
        """Leave the queue: raise `Stopping` or `WaitedInVain`, or return what was lent at the last moment."""
        why = "stopping" if self._queue.stopping else "timeout"
        word, *_ = await self._undo(request=wanted.request, attempt=wanted.attempt, hub=self._queue.hub_id, why=why)
        if word == "granted":
            answer = await ask(wanted, True)
            if not isinstance(answer, Waiting):
                return answer
            await self._take_back(wanted)  # the lease has ended meanwhile, and the borrow is in the queue again
        facts = {"ticket": wanted.request, **place.facts()}
        if self._queue.stopping:
            raise Stopping("The hub is stopping", **facts)
        raise WaitedInVain(f"Borrow timed out after {wanted.wait_ms / 1000:g}s for {wanted.what}", **facts)

    async def undo(self, wanted: BorrowRequest, *leases: Lease) -> None:
        """Take back what was lent to a borrow whose caller is gone, unless another attempt of the same request was
        answered with it too.

        Raises `StoreUnavailable`; then it is taken back once the store answers again.
        """
        try:
            await self._take_back(wanted)
        except (StoreUnavailable, asyncio.CancelledError):
            for lease in leases:
                if not wanted.keyed and lease.realm is None:
                    # Should the store be lost before it is taken back, the lease must not come back with it.
                    self._memory.over(lease.slot, lease.token)
            self._store.later(lambda: self._take_back(wanted))
            raise

    async def _take_back(self, wanted: BorrowRequest) -> None:
        word, *details = await self.gone(wanted.request, wanted.attempt)
        if word == "elsewhere":
            self.spilling.take_back_soon(wanted, Elsewhere(*details))

    async def gone(self, request: str, attempt: str) -> list[Any]:
        """Undo an attempt whose caller is gone; return the reply of `lua/commands/capacity/undo.lua`."""
        with for_nobody():
            word, *details = await self._undo(request=request, attempt=attempt, hub=self._queue.hub_id, why="gone")
        if word == "undone":
            for slot, token in zip(details[::2], details[1::2], strict=True):
                self._memory.over(slot, token)
                metrics.grants_undone.inc()
                _log.info("undelivered lease taken back", slot=slot)
        return [word, *details]


async def _first_of(woken: asyncio.Event, leaving: asyncio.Future[None] | None, left_s: float) -> None:
    """Wait until `woken` is set, `leaving` is done (the caller is gone) or `left_s` seconds have passed."""
    waking: asyncio.Future[Any] = asyncio.ensure_future(woken.wait())
    both = [waking, leaving] if leaving else [waking]
    try:
        await asyncio.wait(both, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waking.cancel()


def log_dropped(dropped: Sequence[str]) -> None:
    """Log the items that a script has dropped because they cannot be lent."""
    for pool, why, item in zip(dropped[::3], dropped[1::3], dropped[2::3], strict=True):
        _log.warning("invalid item dropped", pool=pool, why=why, item=item[:200])
