"""The SDK for jobs against a real hub on a real Redis."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from hub.client.jobs import ClaimedTask, JobManager, JobsClient, SyncJobsClient, Task
from hub.errors import InvalidCategory, InvalidRoomId, JobNotFound, KeyReused, SchemaConflict, Unauthorized
from tests import world
from tests.client.jobs.extensions import Files, Rotate
from tests.client.jobs.live import (
    JOB,
    QUICK,
    ROOM,
    TOKEN,
    LosesAnswers,
    Rotations,
    ran_once_each,
    tokens_file,
    until_registered,
    until_status,
)
from tests.world import PATIENCE_S, HubProcess, wait_until

pytestmark = pytest.mark.story


@pytest.fixture
def jobs_hub(start_hub: Callable[..., HubProcess], tmp_path: Path) -> HubProcess:
    """A hub with one token, that misses workers that hang up soon."""
    return start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **QUICK)


@pytest.fixture
async def client(jobs_hub: HubProcess) -> AsyncIterator[JobsClient]:
    async with JobsClient(jobs_hub.url, TOKEN) as client:
        yield client


async def test_many_tasks_are_submitted_run_and_awaited(jobs_hub: HubProcess, client: JobsClient) -> None:
    rotations = Rotations(jobs_hub)
    async with rotations.worker as worker:
        ids = await client.submit_many(JOB, [{"angle": n} for n in range(1500)], ROOM)
        last = await client.wait_for(ids[-1], 60)
        assert (last.status, last.payload, last.room_id, last.job_name) == ("completed", {"angle": 1499}, ROOM, JOB)
        assert last.started_at is not None
        await asyncio.gather(*(client.wait_for(task_id, 30) for task_id in ids[-20:]))
    assert sorted(rotations.runs) == sorted(ids)
    assert ran_once_each(worker, 1500), worker.counts
    with pytest.raises(JobNotFound):
        await client.submit(JOB, {}, ROOM)


async def test_lost_answers_lose_no_task_and_run_no_task_twice(jobs_hub: HubProcess, client: JobsClient) -> None:
    way = LosesAnswers(3)
    rotations = Rotations(jobs_hub, transport=way)
    async with rotations.worker as worker:
        ids = await client.submit_many(JOB, [{}] * 40, ROOM)
        for task_id in ids:
            assert (await client.wait_for(task_id, 60)).ok
    assert way.left == 0
    assert sorted(rotations.runs) == sorted(ids)
    assert ran_once_each(worker, 40), worker.counts


async def test_a_task_given_back_by_one_worker_runs_at_another(jobs_hub: HubProcess, client: JobsClient) -> None:
    first, second = Rotations(jobs_hub, concurrency=2, grace=0.1), Rotations(jobs_hub)
    first.worker.job("modifiers", "Long")(lambda payload, task: threading.Event().wait(60))

    @second.worker.job("modifiers", "Long")
    async def long(payload: dict[str, Any], task: Task) -> None: ...

    leaving = asyncio.create_task(first.worker.run())
    await until_registered(first.worker)
    ids = await client.submit_many("@global:modifiers:Long", [{}] * 4, ROOM)
    await until_status(client, ids[1], "running")
    async with second.worker as staying:
        await until_status(client, ids[3], "completed")
        first.worker.stop()
        await leaving
        for task_id in ids:
            assert (await client.wait_for(task_id, 30)).ok
        assert (first.worker.counts["given back"], staying.counts["completed"]) == (2, 4)


async def test_a_task_is_retried_as_often_as_its_max_attempts_allow(jobs_hub: HubProcess, client: JobsClient) -> None:
    rotations = Rotations(jobs_hub)
    attempts: list[tuple[int, int]] = []

    @rotations.worker.job("modifiers", "Flaky")
    async def flaky(payload: dict[str, Any], task: Task) -> None:
        attempts.append((task.attempt, task.max_attempts))
        if task.attempt < payload["good"]:
            raise ValueError(f"attempt {task.attempt}")

    async with rotations.worker:
        job = "@global:modifiers:Flaky"
        good = await client.submit(job, {"good": 2}, ROOM, max_attempts=3, backoff=0)
        bad = await client.submit(job, {"good": 9}, ROOM, max_attempts=2, backoff=0.1)
        assert (await client.wait_for(good, 30)).ok
        failed = await client.wait_for(bad, 30)
    assert (failed.status, failed.error, failed.attempt) == ("failed", "attempt 2", 2)
    assert sorted(attempts) == [(1, 2), (1, 3), (2, 2), (2, 3)]


async def test_tasks_run_by_priority_and_not_before_their_time(jobs_hub: HubProcess, client: JobsClient) -> None:
    rotations = Rotations(jobs_hub, concurrency=1, prefetch=0)
    go = asyncio.Event()

    @rotations.worker.job("modifiers", "Gate")
    async def gate(payload: dict[str, Any], task: Task) -> None:
        await go.wait()

    async with rotations.worker:
        await client.submit("@global:modifiers:Gate", {}, ROOM)
        later = await client.submit(JOB, {}, ROOM, not_before=datetime.now(UTC) + timedelta(seconds=6))
        usual = await client.submit(JOB, {}, ROOM)
        urgent = await client.submit(JOB, {}, ROOM, priority=50, idempotency_key="urgent")
        assert await client.submit(JOB, {}, ROOM, priority=50, idempotency_key="urgent") == urgent
        with pytest.raises(KeyReused):
            await client.submit(JOB, {"other": 1}, ROOM, priority=50, idempotency_key="urgent")
        go.set()
        assert (await client.wait_for(later, 30)).ok
    assert rotations.runs == [urgent, usual, later]


async def test_a_task_that_exceeds_its_runtime_fails(jobs_hub: HubProcess, client: JobsClient) -> None:
    rotations = Rotations(jobs_hub)

    @rotations.worker.job("modifiers", "Endless", max_runtime=0.2)
    async def endless(payload: dict[str, Any], task: Task) -> None:
        await asyncio.sleep(600)

    async with rotations.worker:
        task = await client.wait_for(await client.submit("@global:modifiers:Endless", {}, ROOM), 30)
    assert (task.status, task.error) == ("failed", "Runtime exceeded")


async def test_a_cancelled_task_is_not_completed(jobs_hub: HubProcess, client: JobsClient) -> None:
    rotations = Rotations(jobs_hub)
    go = asyncio.Event()

    @rotations.worker.job("modifiers", "Gate")
    async def gate(payload: dict[str, Any], task: Task) -> None:
        await go.wait()

    async with rotations.worker as worker:
        task_id = await client.submit("@global:modifiers:Gate", {}, ROOM)
        await until_status(client, task_id, "running")
        await client.cancel(task_id)
        go.set()

        async def refused() -> bool:
            return worker.counts["refused"] == 1

        await world.eventually(refused)
        assert (await client.task(task_id)).status == "cancelled"


async def test_a_worker_deleted_by_an_operator_registers_again(jobs_hub: HubProcess, client: JobsClient) -> None:
    rotations = Rotations(jobs_hub)
    async with rotations.worker as worker, httpx.AsyncClient(base_url=jobs_hub.url) as http:
        first = worker.worker_id
        answer = await http.delete(f"/v1/joblib/workers/{first}", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 204

        async def back() -> bool:
            return worker.worker_id not in (None, first)

        await world.eventually(back)
        assert (await client.wait_for(await client.submit(JOB, {}, ROOM), 30)).ok


async def test_refusals_are_raised_as_the_error_classes_of_the_hub(jobs_hub: HubProcess) -> None:
    with JobManager(jobs_hub.url, TOKEN) as manager:
        manager.register(Rotate)
        with pytest.raises(InvalidRoomId):
            manager.register(Rotate, room="a@b")

        class Odd(Rotate):
            category: ClassVar[Any] = "no-such-category"

        with pytest.raises(InvalidCategory):
            manager.register(Odd)
        with pytest.raises(SchemaConflict):
            manager.register(type("Rotate", (Rotate,), {"__annotations__": {"axis": str}, "__module__": __name__}))
        assert list(manager) == [JOB]
    with JobManager(jobs_hub.url, "nobody") as nobody, pytest.raises(Unauthorized):
        nobody.register(Rotate)


def test_a_manager_serves_tasks_and_reads(jobs_hub: HubProcess) -> None:
    done: list[float] = []

    def execute(task: ClaimedTask[Any]) -> None:
        if task.extension.angle < 0:
            raise ValueError("not backwards")
        done.append(task.extension.angle)

    with JobManager(jobs_hub.url, TOKEN, socket=True, execute=execute) as manager:
        manager.register(Rotate)
        manager.register_provider(Files, name="local", handler={"/": ["a", "ä"]}, room=ROOM)
        assert manager._socket is not None
        wait_until(lambda: manager._socket.connected)
        first, second = manager.submit(Rotate(angle=90), ROOM), manager.submit(Rotate(angle=-1), ROOM)
        assert manager.wait_for(first, PATIENCE_S).ok
        failed = manager.wait_for(second, PATIENCE_S)
        assert (failed.status, failed.error, done) == ("failed", "not backwards", [90.0])
        with httpx.Client(base_url=jobs_hub.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as http:
            path = f"/v1/joblib/rooms/{ROOM}/providers/{ROOM}:filesystem:local"
            read = http.get(path, params={"path": "/"}, headers={"Prefer": "wait=20"})
            assert (read.status_code, read.json()) == (200, ["a", "ä"])
            worker_id = manager.worker_id
            manager.disconnect()
            listed = http.get("/v1/joblib/workers").json()["items"]
    assert str(worker_id) not in [worker["id"] for worker in listed]


def test_a_manager_can_claim_and_complete_tasks_by_hand(jobs_hub: HubProcess) -> None:
    with JobManager(jobs_hub.url, TOKEN) as manager, SyncJobsClient(jobs_hub.url, TOKEN) as client:
        manager.register(Rotate, room=ROOM, run_kwargs={"model": "large"})
        assert manager.claim() is None
        (task_id,) = client.submit_many(f"{ROOM}:modifiers:Rotate", [{"angle": 1}], ROOM)
        task = manager.claim(wait=5)
        assert task is not None
        assert (task.task_id, task.extension, task.run_kwargs) == (task_id, Rotate(angle=1), {"model": "large"})
        manager.heartbeat()
        manager.start(task)
        manager.complete(task)
        assert client.wait_for(task_id, PATIENCE_S).ok
