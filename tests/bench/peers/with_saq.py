"""Tasks that do nothing through SAQ."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from common import Enqueue, Tally, main, side_by_side
from saq import Queue, Worker


async def noop(_context: dict[str, Any], *, n: int) -> None:
    """Nothing."""


async def work(url: str, concurrency: int, tally: Tally) -> None:
    async def processed(_context: dict[str, Any]) -> None:  # runs when the outcome has been stored
        tally.one()

    worker = Worker(Queue.from_url(url), [noop], concurrency=concurrency, after_process=processed)
    await worker.start()


@asynccontextmanager
async def submitter(url: str) -> AsyncIterator[Enqueue]:
    queue = Queue.from_url(url, max_concurrent_ops=100)
    await queue.connect()

    async def enqueue(count: int) -> None:
        await side_by_side(lambda n: queue.enqueue("noop", n=n), count)

    yield enqueue
    await queue.disconnect()


if __name__ == "__main__":
    main(work, submitter)
