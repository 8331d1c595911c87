"""Reports that a worker could not send during an outage are sent after it, and before the worker leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.client import backlog
from hub.client.jobs import JobManager, JobsClient, SyncJobsClient, Worker
from hub.errors import HubError, HubUnavailable
from tests.client.fake_hub import Reset, Seen
from tests.client.jobs.extensions import JOB, Files, Rotate
from tests.client.jobs.fake_jobs_hub import CLAIM, PREFIX, JobsHub, Make, refusal
from tests.client.jobs.live import ROOM, TOKEN, StartHub, tokens_file
from tests.world import HubProcess, RedisServer, wait_until

CALM = {"HUB_WORKER_TIMEOUT_SECONDS": "600", "HUB_SIO_DISCONNECT_GRACE_SECONDS": "600"}


class Outage:
    """A hub on a Redis of its own that goes away and comes back."""

    def __init__(self, hub: HubProcess, redis: RedisServer) -> None:
        self.url = hub.url
        self.redis = redis


@pytest.fixture
def outage(start_hub: StartHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    """Workers do not try for long before they end."""
    monkeypatch.setattr("hub.client.jobs.calls.LEAVE_S", 0.1)
    monkeypatch.setattr("hub.client.jobs.reporter.LEAVE_S", 0.1)
    monkeypatch.setattr("hub.client.jobs.listening.TROUBLE_S", 0.1)
    server = RedisServer(tmp_path, append_fsync="always")
    server.start()
    try:
        hub = start_hub(HUB_REDIS_URL=server.url, HUB_TOKENS_FILE=tokens_file(tmp_path), **CALM)
        yield Outage(hub, server)
    finally:
        server.stop()


async def test_a_worker_that_ends_during_an_outage_reports_and_leaves_after_it(outage: Outage) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    worker = Worker(outage.url, TOKEN)

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        await go.wait()
        return {"angle": 90}

    async with JobsClient(outage.url, TOKEN) as client:
        async with worker:
            task_id = await client.submit(JOB, {}, ROOM)
            await begun.wait()
            worker_id = worker.worker_id
            outage.redis.kill()
            go.set()
        assert not backlog.all_delivered()
        outage.redis.start()
        assert await client.result(task_id, timeout=30) == {"angle": 90}
        await asyncio.to_thread(wait_until, backlog.all_delivered)
        assert not outage.redis.client().exists(f"hub:worker:{worker_id}")


def test_after_an_outage_a_manager_sends_the_reports_it_could_not_send(outage: Outage) -> None:
    manager = JobManager(outage.url, TOKEN)
    manager.register(Rotate)
    with SyncJobsClient(outage.url, TOKEN) as client:
        ids = [client.submit(JOB, {}, ROOM) for _ in range(3)]
        completed, failed, kept = (manager.claim() for _ in range(3))
        assert completed
        assert failed
        assert kept
        manager.start(completed)
        outage.redis.kill()
        with pytest.raises(HubError):
            manager.complete(completed, {"angle": 90})
        with pytest.raises(HubError):
            manager.fail(failed, "no such image")
        manager.disconnect()
        outage.redis.start()
        assert client.result(completed.task_id, timeout=30) == {"angle": 90}
        assert client.wait_for(failed.task_id, 30).error == "no such image"
        # Nothing was said of the third: it ends with its worker, which leaves last.
        assert client.wait_for(kept.task_id, 30).error == "Worker disconnected"
        assert {completed.task_id, failed.task_id, kept.task_id} == set(ids)


# -- without a network ------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.usefixtures("quick")


def test_a_repeated_report_of_the_end_of_a_task_has_the_same_key(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate)
    task_id = hub.add_one(JOB)
    task = manager.claim()
    assert task
    manager.start(task)
    move = f"PATCH {PREFIX}/tasks/{task_id}"
    hub.say(move, *[(503, "store-unavailable")] * 1000)
    with pytest.raises(HubError):
        manager.complete(task)
    hub.unsay(move)
    wait_until(lambda: hub.status(task_id) == "completed")
    completions = [seen.headers["idempotency-key"] for seen in hub.said(move) if seen.body["status"] == "completed"]
    assert len(completions) > 1
    assert len(set(completions)) == 1
    wait_until(lambda: not manager._held().tasks)


def test_a_task_that_cannot_be_started_is_given_back(hub: JobsHub, make: Make) -> None:
    def plain(seen: Seen) -> Any:
        seen.body.pop("start")
        return {"task": hub.play(seen)["task"]}

    hub.say(CLAIM, plain)
    manager = make(execute=lambda task: None, max_unreachable_seconds=0.3)
    task_id = hub.add_one(JOB)
    hub.say(f"PATCH {PREFIX}/tasks/{task_id}", *[Reset()] * 1000)
    manager.register(Rotate)
    wait_until(lambda: (task_id, "pending") in hub.reports)


@pytest.mark.parametrize("answer", [(413, "too-large"), (400, "malformed"), (422, "malformed")])
def test_a_task_whose_result_is_refused_for_its_content_fails(hub: JobsHub, make: Make, answer: Any) -> None:
    task_id = hub.add_one(JOB)
    hub.say(f"PATCH {PREFIX}/tasks/{task_id}", answer)
    manager = make(execute=lambda task: {"n": 1})
    manager.register(Rotate)
    wait_until(lambda: hub.status(task_id) == "failed")
    assert answer[1] in hub.tasks[task_id]["error"]


def test_an_answer_of_a_provider_is_uploaded_after_an_outage(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register_provider(Files, name="local", handler={"/": ["a"]})
    hub.refused_upload = refusal(503, "store-unavailable")
    name = "@global:filesystem:local"
    manager._asked({"provider_name": name, "request_id": "r1", "params": "{}"})
    assert hub.uploads == []
    hub.refused_upload = None
    wait_until(lambda: [(each[1], each[2]) for each in hub.uploads] == [("r1", b'["a"]')])


def test_the_number_of_waiting_uploads_is_bounded(
    hub: JobsHub, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hub.client.jobs.providers.MOST_WAITING", 1)
    manager = make()
    manager.register_provider(Files, name="local", handler={"/": ["a"]})
    hub.refused_upload = refusal(503, "store-unavailable")
    for request in ("r1", "r2"):
        manager._asked({"provider_name": "@global:filesystem:local", "request_id": request, "params": "{}"})
    assert "was not handed in" in caplog.text
    hub.refused_upload = None
    wait_until(lambda: [each[1] for each in hub.uploads] == ["r1"])


def test_a_provider_that_could_not_be_unregistered_is_unregistered_later(hub: JobsHub, make: Make) -> None:
    manager = make()
    provider_id = manager.register_provider(Files, name="local", handler={})
    drop = f"DELETE {PREFIX}/providers/{provider_id}"
    hub.say(drop, *[Reset()] * 1000)
    with pytest.raises(HubUnavailable):
        manager.unregister_provider("@global:filesystem:local")
    hub.unsay(drop)
    wait_until(backlog.all_delivered)
    assert hub.said(drop)


async def test_reports_that_are_too_large_together_are_sent_one_by_one(hub: JobsHub) -> None:
    """A small result is not lost because a large one travels beside it."""
    worker = Worker("http://hub", TOKEN, transport=hub.async_transport(), sync_transport=hub.transport())

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any]) -> str:
        return "x" * int(payload["size"])

    ids = hub.add(JOB, {"size": 10}, {"size": 5_000}, {"size": 10})
    hub.body_limit = 2_000
    async with worker:
        await asyncio.to_thread(wait_until, lambda: hub.statuses(ids) == {"completed", "failed"})
    assert [hub.status(task_id) for task_id in ids] == ["completed", "failed", "completed"]
    assert "store it elsewhere" in hub.tasks[ids[1]]["error"]
