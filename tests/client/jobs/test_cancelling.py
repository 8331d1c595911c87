"""A worker hears soon that a task of its was cancelled, and the handler has its grace; against a real hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hub.client.jobs import JobsClient, Task, Worker
from tests import world
from tests.client.jobs.live import QUICK, ROOM, TOKEN, tokens_file, until_status
from tests.world import HubProcess

pytestmark = pytest.mark.story
JOB = "@global:analysis:Long"
BEAT_S = 1000.0  # no heartbeat tells it


@pytest.fixture
def hub(start_hub: Callable[..., HubProcess], tmp_path: Path) -> HubProcess:
    return start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **{**QUICK, "HUB_WORKER_TIMEOUT_SECONDS": "3600"})


@pytest.fixture
async def client(hub: HubProcess) -> AsyncIterator[JobsClient]:
    async with JobsClient(hub.url, TOKEN) as client:
        yield client


async def test_a_cancelled_task_stops_its_handler_at_once_and_frees_its_place(
    client: JobsClient, hub: HubProcess
) -> None:
    worker = Worker(hub.url, TOKEN, concurrency=1, heartbeat_interval=BEAT_S)
    stopped: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()

    @worker.job("analysis", "Long")
    async def long(payload: dict[str, Any], task: Task) -> str:
        try:
            if payload.get("long"):
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.put_nowait((task.id, task.lost))
            raise
        return "short"

    async with worker:
        for _ in range(2):  # the second time it asks for what came after the first
            task = await client.submit(JOB, {"long": True}, ROOM)
            await until_status(client, task, "running")
            behind = await client.submit(JOB, {}, ROOM)
            began = time.monotonic()
            await client.cancel(task)
            assert await asyncio.wait_for(stopped.get(), world.PATIENCE_S) == (task, True)
            assert time.monotonic() - began < 1 + world.SLACK_S
            assert await client.result(behind, 30) == "short", "its place is free"
            assert (await client.task(task)).status == "cancelled"


async def test_a_handler_that_ignores_its_cancellation_is_cancelled_again_after_the_grace(
    client: JobsClient, hub: HubProcess
) -> None:
    worker = Worker(hub.url, TOKEN, heartbeat_interval=BEAT_S, cancel_grace=0.2)
    cancelled: list[float] = []

    @worker.job("analysis", "Long")
    async def long(payload: dict[str, Any], task: Task) -> None:
        while len(cancelled) < 3:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            cancelled.append(time.monotonic())

    async with worker:
        task = await client.submit(JOB, {}, ROOM)
        await until_status(client, task, "running")
        await client.cancel(task)

        async def three_times() -> bool:
            return len(cancelled) == 3

        await world.eventually(three_times)
    assert all(later - sooner >= 0.15 for sooner, later in pairwise(cancelled))


async def test_a_plain_function_sees_in_task_lost_that_it_was_cancelled(client: JobsClient, hub: HubProcess) -> None:
    worker = Worker(hub.url, TOKEN, heartbeat_interval=BEAT_S)
    seen: list[str] = []

    @worker.job("analysis", "Long")
    def long(payload: dict[str, Any], task: Task) -> None:
        while not task.lost:
            time.sleep(0.01)
        seen.append(task.id)

    async with worker:
        task = await client.submit(JOB, {}, ROOM)
        await until_status(client, task, "running")
        await client.cancel(task)

        async def told() -> bool:
            return seen == [task]

        await world.eventually(told)
