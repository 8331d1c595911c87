"""Spill-over: a ticket that has waited at home for long enough is served by another realm that has a slot to spare.

Home is the realm in which the ticket waits, and the ticket there decides. First the hub asks the other realm for a
short lease, which it gives at once or not at all. Then one script at home either takes the ticket out of the queue and
records where its lease is, or answers that the ticket was served or given up meanwhile. Only a lease that home has
recorded is delivered, by any hub, and the other realm gives it its full length when the first caller gets it. A hub
that dies in between has delivered nothing: a lease that home has not recorded lapses by itself, and one that it has
recorded is found by the next call under the key.
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

ASK_S = 2.0  # time limit of a question to another realm; meanwhile the ticket goes on waiting at home
AGAIN_S = 1.0  # time between trials; of tickets that want the same one asks at a time, the one that waited longest
FIRST_MS = 10_000  # length of a lease until home has recorded it; home refuses calls that are delayed for so long
_log = get_logger("hub.spilling")


class Lender(Protocol):
    """The calls that another realm must answer; `hub.capacity.leases.Leases` of that realm has them."""

    async def borrow(self, wanted: BorrowRequest) -> Lease:
        """Return a lease without waiting; raises `Unavailable` and the other errors of a borrow."""

    async def confirm(self, wanted: BorrowRequest, place: Elsewhere) -> Lease | None:
        """Give the lease that home has recorded its full length and return it; None when it was taken back."""

    async def drop(self, request: str, attempt: str) -> bool:
        """Take back the lease of an attempt, unless another attempt has it too; return whether the lease has ended."""


class Spilling:
    """The spill-over of one realm: it gets leases from other realms for tickets that wait in this one.

    `leases_of` returns the lender of a realm, None for a realm that this hub does not serve.
    """

    def __init__(self, store: Store, settings: Settings, wake: Callable[[str], None]) -> None:
        self.leases_of: Callable[[str], Lender | None] = lambda _: None
        self._home = settings.realm or DEFAULT
        self._keep_lease_s = math.ceil(settings.max_session_ttl_s)
        self._store = store
        self._wake = wake
        self._turns: WeakValueDictionary[tuple[Any, ...], asyncio.Lock] = WeakValueDictionary()
        self._beside: set[asyncio.Task[None]] = set()
        self._serve_elsewhere = store.script("queue/serve_elsewhere")
        self._unserve = store.script("queue/unserve")

    @contextmanager
    def beside(self, wanted: BorrowRequest) -> Iterator[None]:
        """Let other realms serve a ticket while the block of code runs, which waits for the ticket at home."""
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
        turn = self._turns.setdefault((wanted.label, wanted.asked, wanted.elsewhere), asyncio.Lock())
        while True:
            async with turn:
                while True:
                    if await self._try_all(wanted):
                        break
                    await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(AGAIN_S)  # by then the borrow has its lease and has ended this loop, or it waits again

    async def _try_all(self, wanted: BorrowRequest) -> bool:
        """Try the other realms in order; return True once one of them had a lease, as the ticket then waits no more."""
        for realm in wanted.elsewhere:
            with suppress(Unavailable):  # the realm has nothing to lend, or it or home is away; the place is kept
                if await self._try(wanted, realm):
                    return True
        return False

    async def _try(self, wanted: BorrowRequest, realm: str) -> bool:
        # Each trial has a request id of its own: an id whose lease was taken back would not get another one.
        request = f"{wanted.request}@{self._home}.{secrets.token_hex(8)}"
        trial = wanted._replace(
            request=request, attempt=request, ttl_ms=min(abs(wanted.ttl_ms), FIRST_MS), keep_s=wanted.keep_s + 60,
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
        self._wake(wanted.request)  # also when it was not served: then something else has happened to the ticket
        return True

    async def fetch(self, wanted: BorrowRequest, place: Elsewhere) -> Lease | None:
        """Return the lease in another realm that home has recorded, and let this attempt hold it too.

        None when the lease was taken back: then the ticket waits again. Raises `LeaseOver`, `Settling`, or
        `StoreUnavailable` when that realm does not answer.
        """
        async with self._asking(place.realm) as other:
            lease = await other.confirm(wanted, place)
        if lease is None:
            await self._unserve(ticket=wanted.request, request=place.request)
            return None
        return lease._replace(realm=place.realm)

    def take_back_soon(self, wanted: BorrowRequest, place: Elsewhere) -> None:
        """Start to take back the lease of an attempt whose caller is gone, unless another attempt has it too."""
        self._begin(self._take_back(wanted, place))

    async def _take_back(self, wanted: BorrowRequest, place: Elsewhere) -> None:
        until_s = time.monotonic() + abs(wanted.ttl_ms) / 1000  # by then the lease has lapsed
        while time.monotonic() < until_s:
            with suppress(Unavailable):
                async with self._asking(place.realm) as other:
                    # Until the first `confirm` the lease belongs to the attempt that has the name of the request.
                    undone = [await other.drop(place.request, each) for each in (wanted.attempt, place.request)]
                if any(undone):
                    await self._unserve(ticket=wanted.request, request=place.request)
                return
            await asyncio.sleep(AGAIN_S)

    async def _drop(self, realm: str, request: str) -> None:
        """Take back a lease that home did not record; where that fails the lease lapses by itself."""
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
