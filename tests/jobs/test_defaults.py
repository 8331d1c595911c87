"""How often tasks are tried whose submitter says nothing of that: as the worker registered their job."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from hub.client.jobs import JobsClient, TaskFailed, Worker
from tests.client.jobs.live import QUICK, TOKEN, tokens_file
from tests.world import PATIENCE_S

JOB = "lab:analysis:Flaky"
ROAD = "/v1/joblib/rooms/lab"


async def register(api, worker=None, **options):
    wanted = {"category": "analysis", "name": "Flaky", "worker_id": worker, **options}
    answer = await api.put(f"{ROAD}/jobs", json=wanted)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["worker_id"]


async def submit(api, **options):
    answer = await api.post(f"{ROAD}/tasks/{JOB}", json={"payload": {}, **options})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def attempts_of(api, task):
    found = (await api.get(f"/v1/joblib/tasks/{task}")).json()
    return found.get("maxAttempts", 1)


async def test_a_task_has_the_retry_options_of_its_job_unless_its_submitter_sets_them(api, redis):
    await register(api, maxAttempts=3, backoffSeconds=7.5)
    task = await submit(api)
    assert await attempts_of(api, task) == 3
    assert redis.hget(f"hub:task:{uuid.UUID(task).hex}", "backoff_ms") == "7500"
    assert await attempts_of(api, await submit(api, maxAttempts=1)) == 1
    own = await submit(api, maxAttempts=2)
    assert redis.hget(f"hub:task:{uuid.UUID(own).hex}", "backoff_ms") == "1000"
    assert await attempts_of(api, await submit(api, backoffSeconds=5)) == 1


async def test_the_latest_registration_sets_the_defaults_even_if_it_names_none(api):
    worker = await register(api, maxAttempts=3)
    before = await submit(api)
    await register(api, worker, maxAttempts=5)
    assert await attempts_of(api, await submit(api)) == 5
    await register(api, worker)
    assert await attempts_of(api, await submit(api)) == 1
    assert await attempts_of(api, before) == 3  # as it was submitted


@pytest.mark.parametrize(
    "wrong", [{"maxAttempts": 0}, {"maxAttempts": 101}, {"maxAttempts": "3"}, {"backoffSeconds": -1}]
)
async def test_a_job_with_impossible_retry_defaults_for_its_tasks_is_refused(api, wrong):
    answer = await api.put(f"{ROAD}/jobs", json={"category": "analysis", "name": "Flaky", **wrong})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", next(iter(wrong))]


@pytest.mark.slow
async def test_a_worker_sets_the_defaults_in_the_decorator_of_its_handler(start_hub, tmp_path):
    hub = start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **QUICK)
    worker, seen = Worker(hub.url, TOKEN, room="lab"), []

    @worker.job("analysis", "Flaky", attempts=3, backoff=0)
    async def flaky(payload, task):
        seen.append(task.attempt)
        raise ValueError("not this time")

    async with worker, JobsClient(hub.url, TOKEN) as jobs:
        task = await jobs.submit(JOB, {}, "lab")
        with pytest.raises(TaskFailed, match="not this time"):
            await asyncio.wait_for(jobs.result(task), PATIENCE_S)
        once = await jobs.submit(JOB, {}, "lab", max_attempts=1)
        with pytest.raises(TaskFailed):
            await asyncio.wait_for(jobs.result(once), PATIENCE_S)
    assert seen == [1, 2, 3, 1]


def test_a_worker_refuses_defaults_that_no_hub_would_accept():
    for wrong in ({"attempts": 0}, {"attempts": 101}, {"backoff": -1}, {"backoff": 3601}):
        with pytest.raises(ValueError, match="attempts are from 1 to 100"):
            Worker("http://hub").job("analysis", "Flaky", **wrong)
