"""The SDK for jobs whose tasks need slots, and have limits, against a real hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.client.jobs import ClaimedTask, JobManager, JobsClient, SyncWorker, Task, Worker
from hub.errors import Malformed
from tests import world
from tests.client.jobs.extensions import Rotate
from tests.client.jobs.live import QUICK, ROOM, TOKEN, tokens_file
from tests.client.jobs.slot_handlers import told
from tests.world import SECRETS, HubProcess

pytestmark = pytest.mark.story
JOB = "@global:modifiers:told"


@pytest.fixture
def jobs_hub(start_hub: Callable[..., HubProcess], tmp_path: Path) -> HubProcess:
    return start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **QUICK)


@pytest.fixture
async def client(jobs_hub: HubProcess) -> AsyncIterator[JobsClient]:
    async with JobsClient(jobs_hub.url, TOKEN) as client:
        yield client


def offer(hub: HubProcess, *indexes: int) -> None:
    slots = [
        {"label": "gpu:a100", "slotId": f"g{index}", "address": f"tcp://n1:{index}", "attributes": {"index": index}}
        for index in indexes
    ]
    body = {"nodeId": "n1", "policy": "reuse", "slots": slots}
    httpx.post(f"{hub.url}/node/register", json=body, headers={"x-hub-secret": SECRETS["HUB_NODE_SECRET"]})


def end(hub: HubProcess) -> None:
    node = {"x-hub-secret": SECRETS["HUB_NODE_SECRET"]}
    httpx.delete(f"{hub.url}/node/n1", headers=node)


def lent(hub: HubProcess) -> int:
    found = httpx.get(f"{hub.url}/sessions", headers={"x-hub-secret": SECRETS["HUB_ADMIN_SECRET"]}).json()
    return len(found["sessions"])


async def test_a_handler_in_a_process_is_told_of_its_slots(jobs_hub: HubProcess, client: JobsClient) -> None:
    offer(jobs_hub, 2, 5)
    worker = Worker(jobs_hub.url, TOKEN, processes=1)
    worker.job("modifiers", needs=[("gpu:a100", 2)])(told)
    worker.job("modifiers", "plain")(told)
    async with worker:
        found = await client.result(await client.submit(JOB, {}, ROOM), 60)
        plain = await client.result(await client.submit("@global:modifiers:plain", {}, ROOM), 60)
    assert [slot[0] for slot in found["slots"]] == ["g2", "g5"]
    assert found["slots"][0][2:] == ["gpu:a100", "tcp://n1:2", {"index": 2}]
    environment = found["environment"]
    assert environment.pop("HUB_BUNDLE").startswith("b")
    assert environment == {
        "HUB_SLOT_IDS": "g2,g5", "HUB_SLOT_ID": "g2", "CUDA_VISIBLE_DEVICES": "2,5",
        "HUB_LEASE_TOKEN": found["slots"][0][1],
    }  # fmt: skip
    assert plain == {"environment": {}, "slots": []}
    assert lent(jobs_hub) == 0


async def test_a_worker_runs_no_more_tasks_than_there_are_slots(jobs_hub: HubProcess, client: JobsClient) -> None:
    offer(jobs_hub, 1, 2)
    worker, running, most = Worker(jobs_hub.url, TOKEN), set(), []

    @worker.job("modifiers", needs=["gpu:a100"])
    async def told(payload: dict[str, Any], task: Task) -> str:
        (slot,) = task.slots
        assert slot.id not in running
        running.add(slot.id)
        most.append(len(running))
        await asyncio.sleep(0)
        running.discard(slot.id)
        return slot.id

    async with worker:
        ids = await client.submit_many(JOB, [{}] * 30, ROOM)
        found = {await client.result(each, 60) for each in ids}
    assert found == {"g1", "g2"}
    assert max(most) <= 2


async def test_a_slot_that_is_lost_stops_the_handler(jobs_hub: HubProcess, client: JobsClient) -> None:
    offer(jobs_hub, 1)
    worker, begun, stopped = Worker(jobs_hub.url, TOKEN), asyncio.Event(), asyncio.Event()

    @worker.job("modifiers", needs=["gpu:a100"])
    async def told(payload: dict[str, Any], task: Task) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            assert task.lost
            stopped.set()

    async with worker:
        task = await client.submit(JOB, {}, ROOM)
        await asyncio.wait_for(begun.wait(), world.PATIENCE_S)
        assert (await client.task(task)).slot_ids == ("g1",)
        end(jobs_hub)
        await asyncio.wait_for(stopped.wait(), world.PATIENCE_S)
        assert (await client.wait_for(task, 30)).error == "Slot lost: g1"


async def test_limits_of_a_job_keep_its_tasks(jobs_hub: HubProcess, client: JobsClient) -> None:
    worker, running, most = Worker(jobs_hub.url, TOKEN), 0, 0

    @worker.job("modifiers", limits=[{"key": "customer", "running": 1}])
    async def told(payload: dict[str, Any]) -> None:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0)
        running -= 1

    async with worker:
        ids = await client.submit_many(JOB, [{"customer": "a"}] * 10, ROOM)
        for each in ids:
            assert (await client.wait_for(each, 60)).ok
    assert most == 1


def test_a_manager_and_a_worker_for_threads_take_the_same(jobs_hub: HubProcess) -> None:
    offer(jobs_hub, 1)
    found: list[ClaimedTask[Rotate]] = []
    with JobManager(jobs_hub.url, TOKEN, execute=found.append) as manager:
        manager.register(Rotate, needs=["gpu:a100"], limits=[{"running": 1}])
        task = manager.wait_for(manager.submit(Rotate(), ROOM), 60)
    assert task.ok
    assert [slot.id for slot in found[0].slots] == ["g1"]
    worker = SyncWorker(jobs_hub.url, TOKEN)
    worker.job("modifiers", limits=[{"running": 0}])(told)
    with pytest.raises(Malformed), worker:
        pass


def test_what_is_no_part_is_refused_before_any_call() -> None:
    worker = Worker("http://hub.invalid", TOKEN)
    with pytest.raises(TypeError, match="part 1 is 7"):
        worker.job("modifiers", needs=[7])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="need"):
        worker.job("modifiers", need=["gpu:a100"])  # type: ignore[call-arg]
