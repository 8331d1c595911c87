"""Reaching into an event loop: the block of an `async with` is cancelled, or a function called, from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def call_in(loop: asyncio.AbstractEventLoop | None, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function on an event loop, from any thread; do nothing when the loop has ended, or there is none."""
    if loop is not None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(function, *arguments)


async def is_set_within(seconds: float, event: asyncio.Event) -> bool:
    """Wait until the event is set, for at most `seconds`; return whether it is set.

    `asyncio.wait_for` is not used: on Python 3.11 it can drop a cancellation that comes just when the event is set.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class Guard:
    """A guard that can cancel a block. It is made at the start of the block, in the asyncio task that runs it."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("needs a running asyncio task")
        self._task = task
        self._cancelling = task.cancelling()
        self._open = True
        self._broken = False

    def break_off(self) -> None:
        """Cancel the block, only once; do nothing when the block has ended."""
        if self._open and not self._broken:
            self._broken = True
            self._task.cancel()

    def close(self, error: BaseException | None) -> bool:
        """End the guard of a block that ended with `error`; return whether another error may be raised in its place.

        It is False when the asyncio task was also cancelled by other code, or the program is interrupted: then `error`
        must be raised.
        """
        self._open = False
        cancelling = self._task.uncancel() if self._broken else self._task.cancelling()
        if isinstance(error, asyncio.CancelledError):
            return cancelling <= self._cancelling
        return error is None or isinstance(error, Exception)
