"""Tasks that do nothing through arq."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker
from common import Enqueue, Tally, main, side_by_side

POLL_S = 0.01  # its 0.5 s let a worker sit idle between two looks at the queue


async def noop(_context: dict[str, Any], n: int) -> None:
    """Nothing."""


async def work(url: str, concurrency: int, tally: Tally) -> None:
    async def recorded(_context: dict[str, Any]) -> None:
        tally.one()

    worker = Worker(
        [noop],
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=concurrency,
        poll_delay=POLL_S,
        after_job_end=recorded,
        handle_signals=False,
        log_results=False,
    )
    await worker.async_run()


@asynccontextmanager
async def submitter(url: str) -> AsyncIterator[Enqueue]:
    pool = await create_pool(RedisSettings.from_dsn(url))

    async def enqueue(count: int) -> None:
        await side_by_side(lambda n: pool.enqueue_job("noop", n), count)

    yield enqueue
    await pool.aclose()


if __name__ == "__main__":
    main(work, submitter)
