"""Stopping the block of an `async with` from outside, in the manner of `asyncio.timeout`."""

from __future__ import annotations

import asyncio


class Guard:
    """A guard of a block, made where it begins, in the task that runs it; `break_off` cancels that task."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("needs a running asyncio task")
        self._task = task
        self._cancelling = task.cancelling()
        self._open = True
        self._broken = False

    def break_off(self) -> None:
        """Cancel the block, once; nothing when it has ended already."""
        if self._open and not self._broken:
            self._broken = True
            self._task.cancel()

    def close(self, error: BaseException | None) -> bool:
        """End the watch over a block that ended with `error`; return whether another error may be raised in its place.

        False when the task was cancelled from outside as well, or the program is interrupted: that goes through.
        """
        self._open = False
        cancelling = self._task.uncancel() if self._broken else self._task.cancelling()
        if isinstance(error, asyncio.CancelledError):
            return cancelling <= self._cancelling
        return error is None or isinstance(error, Exception)
