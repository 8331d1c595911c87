"""`task.progress` and `task.log`: what handlers say reaches who looks, seldom and in order, against a real hub."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.client.jobs import JobsClient, Task, TaskFailed, Worker
from tests import world
from tests.client.jobs.live import QUICK, ROOM, TOKEN, tokens_file
from tests.world import HubProcess

pytestmark = pytest.mark.story
JOB = "@global:analysis:Speak"


class Counts(httpx.AsyncHTTPTransport):
    """When progress was sent; some answers do not come back."""

    def __init__(self, lost: int = 0) -> None:
        super().__init__()
        self.sent: list[float] = []
        self.lost = lost

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.url.path.endswith("/tasks/progress"):
            self.sent.append(time.monotonic())
            if self.lost:
                self.lost -= 1
                await response.aread()
                raise httpx.ReadError("the connection broke")
        return response


@pytest.fixture
def hub(start_hub: Callable[..., HubProcess], tmp_path: Path) -> HubProcess:
    return start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **QUICK)


@pytest.fixture
async def client(hub: HubProcess) -> AsyncIterator[JobsClient]:
    async with JobsClient(hub.url, TOKEN) as client:
        yield client


async def test_progress_and_log_of_a_handler_are_visible_while_it_runs(client: JobsClient, hub: HubProcess) -> None:
    worker, go = Worker(hub.url, TOKEN), asyncio.Event()

    @worker.job("analysis", "Speak")
    async def speak(payload: dict[str, Any], task: Task) -> str:
        task.progress(0.4, "step 3")
        task.log("begins")
        await go.wait()
        task.log("one\ntwo")
        task.progress(1)
        return "done"

    async with worker:
        task = await client.submit(JOB, {}, ROOM)

        async def seen() -> bool:
            return (await client.task(task)).log == ("begins",)

        await world.eventually(seen)
        found = await client.task(task)
        assert (found.progress, found.message, found.status) == (0.4, "step 3", "running")
        go.set()
        assert await client.result(task, 30) == "done"
        found = await client.task(task)
        assert (found.progress, found.message, found.log) == (1, "step 3", ("begins", "one", "two"))


async def test_a_handler_that_reports_without_pause_is_sent_twice_a_second_at_most(
    client: JobsClient, hub: HubProcess
) -> None:
    way, go = Counts(), threading.Event()
    worker = Worker(hub.url, TOKEN, transport=way)

    @worker.job("analysis", "Speak")
    def speak(payload: dict[str, Any], task: Task) -> None:
        number = 0
        while not go.wait(0.002):
            number += 1
            task.progress(min(1.0, number / 1000))
            task.log(f"{number}")

    async with worker:
        task = await client.submit(JOB, {}, ROOM)

        async def three() -> bool:
            return len(way.sent) >= 3

        await world.eventually(three)
        go.set()
        await client.result(task, 30)
    assert all(later - sooner >= 0.95 for sooner, later in zip(way.sent, way.sent[2:], strict=False)), way.sent
    kept = [int(text) for text in (await client.task(task)).log]
    assert len(kept) == 100
    assert kept == list(range(kept[0], kept[0] + 100)), "none is missing among the latest, and none twice"


async def test_a_lost_answer_neither_loses_nor_repeats_log_lines(client: JobsClient, hub: HubProcess) -> None:
    worker = Worker(hub.url, TOKEN, transport=Counts(lost=2))

    @worker.job("analysis", "Speak")
    async def speak(payload: dict[str, Any], task: Task) -> None:
        task.log("once")

    async with worker:
        task = await client.submit(JOB, {}, ROOM)
        await client.result(task, 30)
    assert (await client.task(task)).log == ("once",)


async def test_a_handler_that_reports_nothing_for_too_long_fails_as_stuck(client: JobsClient, hub: HubProcess) -> None:
    worker = Worker(hub.url, TOKEN, heartbeat_interval=0.5)
    stopped = asyncio.Event()

    @worker.job("analysis", "Speak")
    async def speak(payload: dict[str, Any], task: Task) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with worker:
        stuck = await client.submit(JOB, {}, ROOM, max_silence=1)
        with pytest.raises(TaskFailed, match=r"No progress for longer than maxSilenceSeconds \(1\)"):
            await client.result(stuck, 30)
        await asyncio.wait_for(stopped.wait(), world.PATIENCE_S)


async def test_progress_must_be_between_0_and_1() -> None:
    task = Task("t", JOB, ROOM, {})
    with pytest.raises(ValueError, match="from 0 to 1, not 40"):
        task.progress(40)
    task.log("nobody listens")
