"""Submitting tasks and waiting for them, against a hub of a few dictionaries."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from hub.client.jobs import JobsClient, SyncJobsClient
from hub.client.jobs import submitting as submitting_module
from hub.errors import (
    HubUnavailable,
    InternalJobNotConfigured,
    InvalidTaskTransition,
    JobNotFound,
    TaskNotFound,
    TooLarge,
)
from tests.client.fake_hub import Reset, Seen
from tests.client.jobs.fake_jobs_hub import CREATED, PREFIX, JobsHub, refusal
from tests.world import SLACK_S

JOB = "@global:modifiers:Rotate"
SUBMIT = f"POST {PREFIX}/rooms/room 1/tasks/{JOB}"


@pytest.fixture
def hub() -> JobsHub:
    hub = JobsHub()
    hub.jobs[JOB] = {}
    return hub


def client_of(hub: JobsHub, **options: Any) -> JobsClient:
    return JobsClient("http://hub", "t0ken", transport=hub.async_transport(), **options)


async def test_a_task_is_submitted_with_the_given_options(hub: JobsHub) -> None:
    due = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    async with client_of(hub) as client:
        task_id = await client.submit(
            JOB, {"angle": 90}, "room 1", priority=-3, not_before=due, max_attempts=3, backoff=0.5, idempotency_key="k1"
        )
        again = await client.submit(JOB, {"angle": 90}, "room 1", idempotency_key="k1")
    assert again == task_id
    assert hub.said(SUBMIT)[0].body == {
        "payload": {"angle": 90}, "priority": -3, "notBefore": "2030-01-02T03:04:05+02:00", "maxAttempts": 3,
        "backoffSeconds": 0.5,
    }  # fmt: skip
    assert hub.said(SUBMIT)[1].body == {"payload": {"angle": 90}}


async def test_a_time_without_an_offset_is_refused(hub: JobsHub) -> None:
    async with client_of(hub) as client:
        with pytest.raises(ValueError, match="offset from UTC"):
            await client.submit(JOB, {}, "room 1", not_before=datetime(2030, 1, 2))  # noqa: DTZ001 - that is the point
    assert hub.seen == []


async def test_a_submit_whose_answer_is_lost_makes_one_task(hub: JobsHub) -> None:
    def lose(seen: Seen) -> Any:
        hub.play(seen)
        raise Reset

    hub.say(SUBMIT, lose, (503, "store-unavailable"), lose)
    async with client_of(hub) as client:
        task_id = await client.submit(JOB, {}, "room 1")
        assert list(hub.tasks) == [task_id]
        ids = await client.submit_many(JOB, [{}, {}], "room 1")
    assert list(hub.tasks) == [task_id, *ids]


async def test_many_payloads_are_submitted_in_batches_and_in_order(
    hub: JobsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting_module, "MOST_AT_ONCE", 3)
    payloads = [{"n": n} for n in range(8)]
    async with client_of(hub) as client:
        ids = await client.submit_many(JOB, payloads, "room 1", priority=1, idempotency_key="k")
        assert await client.submit_many(JOB, payloads, "room 1", priority=1, idempotency_key="k") == ids
        assert await client.submit_many(JOB, [], "room 1") == []
    assert [hub.tasks[task_id]["payload"]["n"] for task_id in ids] == list(range(8))
    assert [len(seen.body["payloads"]) for seen in hub.said(SUBMIT)] == [3, 3, 2] * 2
    assert {seen.body["priority"] for seen in hub.said(SUBMIT)} == {1}
    assert len(hub.tasks) == 8


async def test_batches_are_small_where_payloads_are_large(hub: JobsHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitting_module, "MOST_BYTES", 1000)
    async with client_of(hub) as client:
        await client.submit_many(JOB, [{"x": "y" * 400} for _ in range(5)], "room 1")
    assert [len(seen.body["payloads"]) for seen in hub.said(SUBMIT)] == [2, 2, 1]


async def test_a_batch_that_is_too_large_for_the_hub_is_halved(hub: JobsHub) -> None:
    def at_most_two(seen: Seen) -> Any:
        if len(seen.body["payloads"]) > 2:
            return httpx.Response(413, json={"code": "too-large", "detail": "too much"})
        return hub.play(seen)

    hub.say(SUBMIT, *[at_most_two] * 20)
    async with client_of(hub) as client:
        ids = await client.submit_many(JOB, [{"n": n} for n in range(5)], "room 1")
        assert [hub.tasks[task_id]["payload"]["n"] for task_id in ids] == list(range(5))
        hub.say(SUBMIT, *[lambda _: httpx.Response(413, json={"code": "too-large"})] * 5)
        hub._script[SUBMIT].rotate(5)
        with pytest.raises(TooLarge):
            await client.submit_many(JOB, [{}, {}], "room 1")


@pytest.mark.parametrize(
    ("status", "code", "raised"),
    [(404, "job-not-found", JobNotFound), (503, "internal-job-not-configured", InternalJobNotConfigured)],
)
async def test_a_refused_submit_is_raised_at_once(
    hub: JobsHub, status: int, code: str, raised: type[Exception]
) -> None:
    hub.say(SUBMIT, lambda _: refusal(status, code))
    async with client_of(hub) as client:
        with pytest.raises(raised, match="told"):
            await client.submit(JOB, {}, "room 1")
    assert len(hub.said(SUBMIT)) == 1


async def test_wait_for_returns_when_the_task_has_ended(hub: JobsHub) -> None:
    (task_id,) = hub.add(JOB, {"angle": 1})
    look = f"GET {PREFIX}/tasks/{task_id}"

    def finish(seen: Seen) -> Any:
        hub.tasks[task_id].update(status="failed", error="broken", completed_at=CREATED, attempt=2, maxAttempts=3)
        return hub.play(seen)

    hub.say(look, Reset(), (503, "store-unavailable"), hub.play, finish)
    async with client_of(hub) as client:
        task = await client.wait_for(task_id)
    assert (task.finished, task.ok, task.error, task.attempt, task.max_attempts) == (True, False, "broken", 2, 3)
    assert task.created_at == task.completed_at == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert {seen.headers["prefer"] for seen in hub.said(look)} == {"wait=25"}


async def test_a_wait_that_times_out_names_the_state_of_the_task(hub: JobsHub) -> None:
    (task_id,) = hub.add(JOB, {})
    async with client_of(hub) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError, match=f"{task_id} is still pending after 0.25 s"):
            await client.wait_for(task_id, 0.25)
        assert 0.2 < asyncio.get_running_loop().time() - began < 0.25 + SLACK_S
        with pytest.raises(TaskNotFound):
            await client.wait_for("no-such-task", 5)
        hub.away = True
        with pytest.raises(HubUnavailable):
            await client.wait_for(task_id, 0.25)


async def test_a_task_can_be_read_and_cancelled(hub: JobsHub) -> None:
    (task_id,) = hub.add(JOB, {"angle": 90})
    async with client_of(hub) as client:
        task = await client.task(task_id)
        assert (task.status, task.payload, task.queue_position, task.finished) == ("pending", {"angle": 90}, 1, False)
        await client.cancel(task_id)
        assert hub.status(task_id) == "cancelled"
        with pytest.raises(InvalidTaskTransition):
            await client.cancel(task_id)


def test_the_client_for_threads_can_submit_wait_and_cancel_too(hub: JobsHub) -> None:
    with SyncJobsClient("http://hub", "t0ken", transport=hub.transport()) as client:
        task_id = client.submit(JOB, {"angle": 90}, "room 1", priority=1)
        ids = client.submit_many(JOB, [{"n": 1}, {"n": 2}], "room 1")
        assert [hub.tasks[each]["payload"] for each in (task_id, *ids)] == [{"angle": 90}, {"n": 1}, {"n": 2}]
        client.cancel(task_id)
        assert client.wait_for(task_id, 5).status == client.task(task_id).status == "cancelled"
        with pytest.raises(TimeoutError):
            client.wait_for(ids[0], 0.05)


async def test_the_client_reads_its_address_and_token_from_the_environment(
    hub: JobsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_URL", "http://elsewhere")
    monkeypatch.setenv("HUB_TOKEN", "from-outside")
    monkeypatch.setenv("HUB_ADMIN_SECRET", "not for this")
    async with JobsClient(transport=hub.async_transport()) as client:
        await client.submit(JOB, {}, "room 1")
    assert hub.seen[0].headers["authorization"] == "Bearer from-outside"
    assert (hub.seen[0].headers["host"], "x-hub-secret" in hub.seen[0].headers) == ("elsewhere", False)
