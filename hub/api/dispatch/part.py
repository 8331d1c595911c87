"""The part of a hub that serves one realm: a whole application on the store of the realm."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.datastructures import State
from starlette.types import Receive, Scope, Send

from hub.api.handling.context import Serving
from hub.api.handling.problems import refuse
from hub.api.pipeline import RequestPipeline
from hub.errors import StartRefused, StoreUnavailable
from hub.observability import metrics, realms
from hub.observability.logs import get_logger
from hub.settings import Settings, mask_url
from hub.settings.realms import DEFAULT
from hub.store.cancelling import cancel_all
from hub.store.clock import HubClock
from hub.store.faults import StoreMoved

AGAIN_S = 1.0  # between two attempts to open a store
DONE_S = 10.0  # for calls under way to end when a realm is closed
_log = get_logger("hub.realms")


class Part:
    """The server of one realm, from the first answer of its store until `close`. Until its store answers the part tries
    to open it once a second, and answers calls with 503; the rest of the process does not wait for it."""

    def __init__(self, name: str, settings: Settings, make: Callable[[Settings], RequestPipeline]) -> None:
        self.name = name
        self.settings = settings
        self.error = "Its store has not been reached yet."
        self.seen_s: float | None = None  # when its store answered last, in seconds of this machine's clock
        self._make = make
        self._pipeline: RequestPipeline | None = None
        self._busy = 0
        self._no_calls, self._ending = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def where(self) -> str:
        """Return the address of the realm's store, without its password."""
        url = self.settings.redis_url
        return mask_url(url) if url else f"embedded in {self.settings.data_dir}"

    @property
    def serving(self) -> Serving | None:
        """Return the `Serving` of the realm's application; None while its store has not been opened."""
        return getattr(self._pipeline.app.state, "serving", None) if self._pipeline else None

    async def open(self) -> None:
        """Open the realm's store now; raises the error of this first attempt. `close` ends the part."""
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep_open(first), name="realm")
        await first

    def open_later(self) -> None:
        """Open the realm's store in the background, as soon as it answers."""
        self._task = asyncio.create_task(self._keep_open(None), name="realm")

    async def close(self) -> None:
        """Refuse new borrows, wait for the calls under way, and close the realm's store."""
        self.hang_up()
        await self._wait_for_calls()
        self._ending.set()
        if self._task is not None:
            if self._pipeline is None:  # then the task waits for a store that may never answer
                await cancel_all([self._task])
            else:
                await self._task

    async def _wait_for_calls(self) -> None:
        """Wait for the calls under way to end, for at most `DONE_S` seconds."""
        if self._busy:
            self._no_calls.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._no_calls.wait(), DONE_S)

    def stop(self) -> None:
        """Refuse new borrows, and answer the calls that wait in the queue."""
        if (found := self.serving) is not None:
            found.stop()

    def hang_up(self) -> None:
        """Refuse new borrows, answer the calls that wait in the queue, and take no more Socket.IO connections. Open
        connections end with the server or with `close`."""
        self.stop()
        if self._pipeline is not None and (sockets := getattr(self._pipeline.app.state, "sockets", None)):
            sockets.hang_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pipeline = self._pipeline
        if pipeline is None:
            why = f"Realm {self.name} is not there: its store does not answer; the hub keeps trying."
            await refuse(StoreUnavailable(why), scope, receive, send)
            return
        self._busy += 1
        try:
            with realms.within(self.name):
                await pipeline(scope, receive, send)
        finally:
            self._busy -= 1
            if not self._busy:
                self._no_calls.set()

    async def look(self, seconds: float) -> None:
        """Ask the store whether it answers, and wait for at most `seconds`. Afterwards `error` says why the store does
        not answer; it is empty when it does."""
        found = self.serving
        if found is None:
            return  # `error` says why the last attempt to open the store failed
        try:
            async with asyncio.timeout(seconds):
                await found.hub.store.read("PING")
        except (StoreUnavailable, TimeoutError) as error:
            self.error = str(error) or "Redis did not answer in time."
        else:
            self.error, self.seen_s = "", time.time()

    async def act(self, act: Callable[[State], Awaitable[None]], seconds: float) -> None:
        """Call `act` with the state of the realm's application, and wait for at most `seconds`; note the time of a
        success in the metrics. When the realm is not open or `act` takes too long, note in the metrics that its store
        is away."""
        with realms.within(self.name):
            try:
                if self._pipeline is not None:
                    async with asyncio.timeout(seconds):
                        await act(self._pipeline.app.state)
                    metrics.realm_read_at.labels(self.name or DEFAULT).set(time.time())
                    return
            except TimeoutError:
                pass
            metrics.store_up.set(0)

    async def _keep_open(self, first: asyncio.Future[None] | None) -> None:
        with realms.within(self.name):
            while not self._ending.is_set():
                pipeline = self._make(self.settings)
                try:
                    async with pipeline.app.router.lifespan_context(pipeline.app):
                        self._pipeline, self.error, self.seen_s = pipeline, "", time.time()
                        if first is not None and not first.done():
                            first.set_result(None)
                        _log.info("realm opened", store=self.where)
                        if await self._has_moved(pipeline):
                            continue
                except StoreMoved as moved:
                    self._follow(moved.url)
                except Exception as error:  # noqa: BLE001 - tried again, unless `open` waits for it
                    if first is not None and not first.done():
                        first.set_exception(error)
                        return
                    self._failed(error)
                finally:
                    self._pipeline = None
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), AGAIN_S)

    async def _has_moved(self, pipeline: RequestPipeline) -> bool:
        """Wait until the part is to end, or until its store has moved to another server. Return whether the store has
        moved: then the application has stopped, and the caller opens a new one at the new server."""
        clock: HubClock = pipeline.app.state.serving.hub.clock
        waiting = [asyncio.create_task(each.wait()) for each in (self._ending, clock.moved)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(waiting)
        if clock.moved_to is None or self._ending.is_set():
            return False
        self._follow(clock.moved_to)
        self.hang_up()
        self._pipeline = None
        await self._wait_for_calls()
        return True

    def _follow(self, url: str) -> None:
        self.settings = self.settings.model_copy(update={"redis_url": url})
        self.error = "Its store has moved, and is being opened there."
        _log.warning("realm moved to another server", store=self.where)

    def _failed(self, error: Exception) -> None:
        metrics.store_up.set(0)
        why = str(error)
        if why != self.error:  # an attempt that fails as the one before is not logged again
            _log.error("realm store unusable", store=self.where, why=why)
        if not isinstance(error, StartRefused | StoreUnavailable):
            metrics.unhandled.inc()
            _log.error("realm crashed", why=repr(error), exc_info=error)
        self.error = why
