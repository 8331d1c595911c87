"""Results of handlers, and callers that wait for them: the SDK against a real hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from hub.client.jobs import (
    ClaimedTask,
    JobManager,
    JobsClient,
    ResultLost,
    SyncJobsClient,
    Task,
    TaskCancelled,
    TaskFailed,
    Worker,
)
from hub.jobs.models import value_of
from tests.client.jobs.extensions import Rotate
from tests.client.jobs.live import QUICK, ROOM, TOKEN, tokens_file
from tests.world import HubProcess, RedisServer

pytestmark = pytest.mark.story
JOB = "@global:analysis:Answer"


class Answer(BaseModel):
    n: int


RETURNED: dict[str, Any] = {
    "object": {"n": 1.5, "ß": [None, True]}, "nothing": None, "model": Answer(n=3), "tuple": (1, 2), "set": {1},
    "large": "x" * 1_048_576, "fits": "x" * 1_048_574, "nan": float("nan"), "deep": [], "half": "\ud800",
}  # fmt: skip
for _ in range(128):
    RETURNED["deep"] = [RETURNED["deep"]]


@pytest.fixture
def hub(start_hub: Callable[..., HubProcess], tmp_path: Path) -> HubProcess:
    return start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **QUICK)


@pytest.fixture
async def client(hub: HubProcess) -> AsyncIterator[JobsClient]:
    async with JobsClient(hub.url, TOKEN) as client:
        yield client


@pytest.fixture(params=["loop", "thread"])
async def worker(request: pytest.FixtureRequest, client: JobsClient, hub: HubProcess) -> AsyncIterator[Worker]:
    worker = Worker(hub.url, TOKEN)

    @worker.job("analysis", "Answer")
    async def answer(payload: dict[str, Any], task: Task) -> Any:
        return RETURNED[payload["what"]]

    if request.param == "thread":
        worker = Worker(hub.url, TOKEN)

        @worker.job("analysis", "Answer")
        def in_thread(payload: dict[str, Any], task: Task) -> Any:
            return RETURNED[payload["what"]]

    async with worker:
        yield worker


async def test_the_submitter_gets_what_the_handler_returned(client: JobsClient, worker: Worker) -> None:
    wanted = {
        "object": RETURNED["object"],
        "nothing": None,
        "model": {"n": 3},
        "tuple": [1, 2],
        "fits": RETURNED["fits"],
    }
    ids = {what: await client.submit(JOB, {"what": what}, ROOM) for what in wanted}
    for what, task in ids.items():
        assert await client.result(task, 30) == wanted[what]
    assert (await client.task(ids["object"])).result == wanted["object"]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("set", "not JSON"), ("nan", "not JSON"), ("half", "not JSON"), ("deep", "more than 128 levels"),
        ("large", "store it elsewhere and return a reference to it"), ("missing", "'missing'"),
    ],
)  # fmt: skip
async def test_a_result_that_cannot_be_stored_fails_the_task_with_advice(
    client: JobsClient, worker: Worker, what: str, why: str
) -> None:
    task = await client.submit(JOB, {"what": what}, ROOM)
    with pytest.raises(TaskFailed, match=why) as raised:
        await client.result(task, 30)
    assert raised.value.facts["task"] == task
    fine = await client.submit(JOB, {"what": "tuple"}, ROOM)
    assert await client.result(fine, 30) == [1, 2], "the worker lives on"


async def test_waiting_for_a_result_raises_for_a_failed_task_and_times_out_for_a_running_one(
    client: JobsClient, hub: HubProcess, redis_server: RedisServer
) -> None:
    worker = Worker(hub.url, TOKEN)
    go = asyncio.Event()

    @worker.job("analysis", "Answer")
    async def answer(payload: dict[str, Any], task: Task) -> int:
        await go.wait()
        return 5

    async with worker:
        task = await client.submit(JOB, {}, ROOM)
        with pytest.raises(TimeoutError, match="still"):
            await client.result(task, 0)
        go.set()
        with SyncJobsClient(hub.url, TOKEN) as twin:
            assert await asyncio.to_thread(twin.result, task, 30) == 5
        redis_server.client().set(f"hub:task_result:{task.replace('-', '')}", "!")
        with pytest.raises(ResultLost):
            await client.result(task, 30)
        go.clear()
        cancelled = await client.submit(JOB, {}, ROOM)
        await client.cancel(cancelled)
        with pytest.raises(TaskCancelled):
            await client.result(cancelled, 30)


async def test_a_manager_reports_the_value_of_execute_unless_it_is_no_json(client: JobsClient, hub: HubProcess) -> None:
    def execute(task: ClaimedTask[Any]) -> Any:
        return {"angle": task.extension.angle} if task.extension.angle else {1}

    with JobManager(hub.url, TOKEN, execute=execute, polling_interval=0.1) as manager:
        manager.register(Rotate)
        ids = [await asyncio.to_thread(manager.submit, Rotate(angle=angle), ROOM) for angle in (0, 12)]
        assert [await client.result(task, 30) for task in ids] == [None, {"angle": 12}]


def test_a_result_does_not_change_when_the_handler_changes_its_object_later() -> None:
    returned = {"n": [1]}
    value = value_of(returned)
    returned["n"].append(2)
    assert value == ('{"n":[1]}', {"n": [1]})
