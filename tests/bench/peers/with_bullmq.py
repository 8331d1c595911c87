"""Tasks that do nothing through BullMQ, submitted in bulk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bullmq import Queue, Worker
from common import Enqueue, Tally, main

QUEUE = "bench"
BULK = 100


async def noop(_job: Any, _token: str) -> None:
    """Nothing."""


async def work(url: str, concurrency: int, tally: Tally) -> None:
    worker = Worker(QUEUE, noop, {"connection": url, "concurrency": concurrency})
    worker.on("completed", lambda *_: tally.one())
    await asyncio.Event().wait()


@asynccontextmanager
async def submitter(url: str) -> AsyncIterator[Enqueue]:
    queue = Queue(QUEUE, {"connection": url})

    async def enqueue(count: int) -> None:
        for start in range(0, count, BULK):
            numbers = range(start, min(count, start + BULK))
            await queue.addBulk([{"name": "noop", "data": {"n": n}} for n in numbers])

    yield enqueue
    await queue.close()


if __name__ == "__main__":
    main(work, submitter)
