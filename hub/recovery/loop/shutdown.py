"""The ways to end a loop: a stop lets running handlers finish, a halt cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from hub.retries import now_s

T = TypeVar("T")

HASTE_S = 5.0  # longest wait for anything once the loop is halted


class Interrupted(Exception):
    """Raised when an awaited operation was cancelled; it may have taken effect or not."""


class Shutdown:
    """The state of a loop that is stopped or halted. All waits of the loop are here, for a cancellation is a halt:

    `asyncio.run` cancels all asyncio tasks when its main task has ended, and those of the loop must clean up first.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._halted = asyncio.Event()
        self._when_halted: list[Callable[[], None]] = []
        self._cut: set[asyncio.Task[Any]] = set()

    @property
    def is_ending(self) -> bool:
        """Return whether the loop is stopped or halted, so that it starts nothing more."""
        return self._stop.is_set() or self.halted

    @property
    def halted(self) -> bool:
        """Return whether the loop is halted, so that running handlers are cancelled."""
        return self._halted.is_set()

    def halt(self) -> None:
        """Halt the loop: cancel running handlers, and wait for nothing longer than `HASTE_S` from now on."""
        if not self.halted:
            self._halted.set()
            for action in self._when_halted:
                action()
            for task in self._cut - {asyncio.current_task()}:
                task.cancel()

    def when_halted(self, action: Callable[[], None]) -> None:
        """Register a function to be called when the loop is halted."""
        self._when_halted.append(action)

    async def timeout(self, work: Awaitable[T], seconds: float, *, cut: bool = False) -> T:
        """Await `work` for `seconds` at most and return its result; with `cut` a halt of the loop cancels it.

        Raises `TimeoutError` when the time is over, and `Interrupted` when `work` was cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        if cut:
            self._cut.add(task)
        try:
            async with asyncio.timeout(max(0.0, min(seconds, HASTE_S) if self.halted else seconds)):
                return await work
        except asyncio.CancelledError as error:
            if task.cancelling() > before:  # this task was cancelled; `work` has not cancelled itself
                self.halt()
            raise Interrupted("interrupted") from error
        finally:
            self._cut.discard(task)

    async def acquire(self, places: asyncio.Semaphore, seconds: float) -> bool:
        """Take a place of the semaphore; return False if none was free within `seconds`."""
        taking, until_s = asyncio.create_task(places.acquire()), now_s() + seconds
        while not taking.done() and until_s > now_s():
            await self.wait([taking], until_s - now_s())
        taking.cancel()
        while not taking.done():
            await self.wait([taking])
        return not taking.cancelled()

    async def wait(self, tasks: Iterable[asyncio.Future[Any]], seconds: float | None = None) -> None:
        """Wait for the first of these tasks to be done, `seconds` at most; a cancellation meanwhile halts the loop."""
        try:
            await asyncio.wait(list(tasks), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.halt()

    async def pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until the loop is halted."""
        await self._until([self._halted], (), seconds)

    async def sleep(self, seconds: float | None, tasks: Iterable[asyncio.Future[Any]] = ()) -> None:
        """Wait until the loop is stopped or halted, or one of these tasks is done, for `seconds` at most."""
        await self._until([self._halted, self._stop], tasks, seconds)

    async def _until(
        self, events: list[asyncio.Event], tasks: Iterable[asyncio.Future[Any]], seconds: float | None
    ) -> None:
        if any(event.is_set() for event in events):
            return
        waiting = [asyncio.ensure_future(event.wait()) for event in events]
        await self.wait([*waiting, *tasks], seconds)
        for each in waiting:
            each.cancel()
        while not all(each.done() for each in waiting):
            await self.wait([each for each in waiting if not each.done()])
