"""Cancelling the block of an `async with` from outside, as `asyncio.timeout` does."""

from __future__ import annotations

import asyncio


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
