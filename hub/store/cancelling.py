"""The end of asyncio tasks: of those that may miss their cancellation, and of those that fail while no caller waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel asyncio tasks again and again until all have ended.

    Once is not enough: on Python 3.11 `asyncio.wait_for`, with which redis-py sends, can swallow a cancellation. Tasks
    that one of these awaits with `gather` might then run on, so they must be among `tasks` themselves.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.5)


def retrieve_error(done: asyncio.Future[Any]) -> None:
    """Fetch the error of a task that may have ended while no caller waits for it, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()
