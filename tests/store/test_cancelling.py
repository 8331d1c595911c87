"""Ending tasks that may miss their cancellation."""

from __future__ import annotations

import asyncio

from hub.store.cancelling import cancel_all


async def test_a_task_that_misses_a_cancellation_is_cancelled_again():
    missed = 0

    async def deaf() -> None:
        nonlocal missed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if missed == 2:
                    raise
                missed += 1

    tasks = [asyncio.create_task(deaf()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.sleep(0)
    await cancel_all(tasks)
    assert (missed, [task.done() for task in tasks]) == (2, [True, True])


async def test_cancelling_no_tasks_returns_at_once():
    await cancel_all([])
