"""Tasks that do nothing through taskiq-redis: a stream with acknowledgements, and results that are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from common import Enqueue, Tally, main, side_by_side
from taskiq import TaskiqMessage, TaskiqMiddleware, TaskiqResult
from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker


class Recorded(TaskiqMiddleware):
    """Counts results that were saved."""

    def __init__(self, tally: Tally) -> None:
        super().__init__()
        self._tally = tally

    def post_save(self, message: TaskiqMessage, result: TaskiqResult[Any]) -> None:
        self._tally.one()


async def noop(n: int) -> None:
    """Nothing."""


def broker_at(url: str) -> RedisStreamBroker:
    broker = RedisStreamBroker(url).with_result_backend(RedisAsyncResultBackend(url, result_ex_time=3600))
    broker.register_task(noop, task_name="noop")
    return broker


async def work(url: str, concurrency: int, tally: Tally) -> None:
    broker = broker_at(url).with_middlewares(Recorded(tally))
    await broker.startup()
    await run_receiver_task(broker, max_async_tasks=concurrency, max_prefetch=concurrency)


@asynccontextmanager
async def submitter(url: str) -> AsyncIterator[Enqueue]:
    broker = broker_at(url)
    await broker.startup()
    task = broker.find_task("noop")
    assert task

    async def enqueue(count: int) -> None:
        await side_by_side(lambda n: task.kiq(n), count)

    yield enqueue
    await broker.shutdown()


if __name__ == "__main__":
    main(work, submitter)
