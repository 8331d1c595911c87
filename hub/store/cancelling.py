"""Ending tasks that may miss their cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel them until they have ended: on Python 3.11 `asyncio.wait_for` may not notice, with which redis-py sends.

    What one of them gathers would be left behind then, and run on: each is to be among the tasks.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=0.5)
