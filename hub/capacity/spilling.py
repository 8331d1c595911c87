"""Spill-over: a ticket that has waited at home for long enough is served by another realm that has a slot to spare.

The home ticket is the one point of decision. Another realm is asked for a lease that it has at once or not at all, and
that lasts for a few seconds. Then one script at home either takes the ticket out of the queue and notes where its lease
is, or answers that it was served, or given up, meanwhile. Only what home has noted is delivered, whichever hub is asked
for it, and the other realm makes the lease a full one when the first caller gets it. A hub that dies in between has
delivered nothing: before the note the lease lapses by itself, after it the next call under the key finds it.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol
from weakref import WeakValueDictionary

from hub.capacity.models import BorrowRequest, Elsewhere, Lease
from hub.errors import StoreUnavailable, Unavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.observability.realms import within
from hub.settings import Settings
from hub.settings.realms import DEFAULT
from hub.store.callers import for_nobody
from hub.store.cancelling import cancel_all
from hub.store.store import Store

ASK_S = 2.0  # a realm is asked for so long; one that stands still keeps nobody
AGAIN_S = 1.0  # after nobody had a slot; one ticket of a label asks at a time, the one that is due longest
FIRST_MS = 10_000  # a lease lasts so long until home has noted it: longer than a call that is late is carried out
_log = get_logger("hub.spilling")


class Lender(Protocol):
    """What is asked of another realm: `hub.capacity.leases.Leases` of its part of the hub."""

    async def borrow(self, wanted: BorrowRequest) -> Lease:
        """A lease at once; raises `Unavailable`, and what else a borrow may."""

    async def confirm(self, wanted: BorrowRequest, place: Elsewhere) -> Lease | None:
        """The lease that home has noted, made a full one; None when it was taken back."""

    async def drop(self, request: str, attempt: str) -> bool:
        """Take back what an attempt was served with; whether nobody else has it."""


class Spilling:
    """Has tickets of one realm served by others. `leases_of` knows those of the realms that this hub serves."""

    def __init__(self, store: Store, settings: Settings, wake: Callable[[str], None]) -> None:
        self.leases_of: Callable[[str], Lender | None] = lambda _: None
        self._home = settings.realm or DEFAULT
        self._keep_lease_s = math.ceil(settings.max_session_ttl_s)
        self._store = store
        self._wake = wake
        self._turns: WeakValueDictionary[tuple[str, tuple[str, ...]], asyncio.Lock] = WeakValueDictionary()
        self._beside: set[asyncio.Task[None]] = set()
        self._serve_elsewhere = store.script("queue/serve_elsewhere")
        self._unserve = store.script("queue/unserve")

    @contextmanager
    def beside(self, wanted: BorrowRequest) -> Iterator[None]:
        """While this block waits for a ticket, other realms may serve it."""
        serving = self._begin(self._serve(wanted)) if wanted.elsewhere else None
        try:
            yield
        finally:
            if serving:
                self._begin(cancel_all([serving]))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="spill-over")
        self._beside.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            metrics.unhandled.inc()
            _log.error("spill-over failed", why=repr(error), exc_info=error)

    async def _serve(self, wanted: BorrowRequest) -> None:
        await asyncio.sleep(wanted.home_ms / 1000)
        turn = self._turns.setdefault((wanted.label, wanted.elsewhere), asyncio.Lock())
        while True:
            async with turn:
                while True:
                    if await self._try_all(wanted):
                        break
                    await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(AGAIN_S)  # home has answered by then, unless the lease was taken back

    async def _try_all(self, wanted: BorrowRequest) -> bool:
        """Whether the ticket does not wait any more."""
        for realm in wanted.elsewhere:
            with suppress(Unavailable):  # it has nothing to lend, or is away; or home is, which keeps the place
                if await self._try(wanted, realm):
                    return True
        return False

    async def _try(self, wanted: BorrowRequest, realm: str) -> bool:
        # Its own for each trial: one that was taken back is not asked for again.
        request = f"{wanted.request}@{self._home}.{secrets.token_hex(8)}"
        trial = wanted._replace(
            request=request, attempt=request, ttl_ms=min(wanted.ttl_ms, FIRST_MS), keep_s=wanted.keep_s + 60,
            keyed=False, wait_ms=0, limit_ms=-1, elsewhere=(),
        )  # fmt: skip
        async with self._asking(realm) as other:
            lease = await other.borrow(trial)
        word = ""
        try:
            (word,) = await self._serve_elsewhere(
                ticket=wanted.request, realm=realm, request=request, slot=lease.slot, token=lease.token,
                keep_lease_s=self._keep_lease_s,
            )  # fmt: skip
        finally:
            if word != "served":
                self._begin(self._drop(realm, request))
        if word == "served":
            metrics.served_elsewhere.labels(realm).inc()
        self._wake(wanted.request)  # if only to hear what else became of it
        return True

    async def fetch(self, wanted: BorrowRequest, place: Elsewhere) -> Lease | None:
        """The lease that home has noted, for this attempt too; None when it was taken back: the ticket waits again.

        Raises `LeaseOver`, `Settling`, or `StoreUnavailable` when that realm does not answer.
        """
        async with self._asking(place.realm) as other:
            lease = await other.confirm(wanted, place)
        if lease is None:
            await self._unserve(ticket=wanted.request, request=place.request)
            return None
        return lease._replace(label=wanted.label, realm=place.realm)

    def take_back_soon(self, wanted: BorrowRequest, place: Elsewhere) -> None:
        """The caller of an attempt is gone: take back what it was served with, unless another one has it too."""
        self._begin(self._take_back(wanted, place))

    async def _take_back(self, wanted: BorrowRequest, place: Elsewhere) -> None:
        until_s = time.monotonic() + wanted.ttl_ms / 1000  # then its lease has ended
        while time.monotonic() < until_s:
            with suppress(Unavailable):
                async with self._asking(place.realm) as other:
                    # Before anybody has fetched it, it is the request's own.
                    undone = [await other.drop(place.request, each) for each in (wanted.attempt, place.request)]
                if any(undone):
                    await self._unserve(ticket=wanted.request, request=place.request)
                return
            await asyncio.sleep(AGAIN_S)

    async def _drop(self, realm: str, request: str) -> None:
        """Take back what home did not note; where that fails the lease lapses."""
        with suppress(Unavailable):
            async with self._asking(realm) as other:
                await other.drop(request, request)

    @asynccontextmanager
    async def _asking(self, realm: str) -> AsyncIterator[Lender]:
        other = self.leases_of(realm)
        if other is None:
            raise StoreUnavailable(f"Realm {realm} is not served here, or its store is away")
        try:
            with for_nobody(), within("" if realm == DEFAULT else realm):
                async with asyncio.timeout(ASK_S):
                    yield other
        except TimeoutError:
            raise StoreUnavailable(f"Realm {realm} does not answer in time") from None
