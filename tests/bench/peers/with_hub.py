"""Tasks that do nothing through the hub's HTTP API: our own worker and client, driven as the peers are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from common import Enqueue, Tally, main

from hub.client.jobs import JobsClient, Worker
from tests.world import eventually

ROOM, CATEGORY, NAME = "bench", "modifiers", "Noop"
TOKEN = os.environ["TOKEN"]
RESULT = "x" * (int(os.environ.get("RESULT_BYTES", "0")) - 2) or None


async def work(url: str, concurrency: int, tally: Tally) -> None:
    worker = Worker(url, TOKEN, concurrency=concurrency)
    started = 0

    @worker.job(CATEGORY, NAME)
    async def noop(_payload: Any, _task: Any) -> str | None:
        nonlocal started
        started += 1
        return RESULT

    async with httpx.AsyncClient(base_url=url) as client, asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        # The worker does not tell when an outcome is on record: the hub is asked for that, once all have been started.
        while True:
            if tally.awaited is not None and started >= tally.awaited:
                page = await client.get(f"/v1/joblib/rooms/{ROOM}/tasks", params={"status": "completed", "limit": 0})
                tally.reached(page.json()["total"])
            await asyncio.sleep(0.005)


@asynccontextmanager
async def submitter(url: str) -> AsyncIterator[Enqueue]:
    async with JobsClient(url, TOKEN) as client:
        await _registered(url)

        async def enqueue(count: int) -> None:
            await client.submit_many(f"@global:{CATEGORY}:{NAME}", [{"n": n} for n in range(count)], ROOM)

        yield enqueue


async def _registered(url: str) -> None:
    """Wait until the worker has registered its job: before, no task of it can be submitted."""
    async with httpx.AsyncClient(base_url=url) as client:
        path = f"/v1/joblib/rooms/{ROOM}/jobs/@global:{CATEGORY}:{NAME}"
        await eventually(lambda: _is_there(client, path))


async def _is_there(client: httpx.AsyncClient, path: str) -> bool:
    return (await client.get(path)).status_code == 200


if __name__ == "__main__":
    main(work, submitter)
