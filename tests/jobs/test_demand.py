"""The demand of a job that an autoscaler is told: pending and held tasks."""

from __future__ import annotations

import pytest

from hub.jobs import jobs as jobs_module
from hub.jobs.models import Claim, JobRequest, Options, Result
from hub.sweeping.ended import Ended
from tests.world import SLACK_S

USER = "ada"
JOB = "r1:analysis:Square"
ROAD = f"/autoscale/jobs/{JOB}"


@pytest.fixture
async def served(make_api):
    async with make_api() as api:
        yield api, api._transport.app.app.state.serving.hub


async def offer(hub, name="Square", worker=None):
    wanted = JobRequest("r1", "analysis", name, worker=worker)
    job, _ = await hub.jobs.register(wanted, {}, USER, superuser=True)
    return job.worker


async def told(api, query=""):
    answer = await api.get(ROAD + query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_demand_of_a_job_counts_pending_and_held_tasks_and_not_delayed_ones(served):
    api, hub = served
    worker = await offer(hub)
    made = await hub.tasks.submit("r1", JOB, ["{}"] * 5, USER)
    due_us = made[0].created_us + 3_600_000_000
    await hub.tasks.submit("r2", JOB, ["{}"] * 2, USER, Options(due_us=due_us))
    assert await told(api) == {
        "job": JOB, "pending": 5, "putOff": 2, "held": 0, "workers": 1, "runSeconds": None, "desired": 5,
        "truncated": False,
    }  # fmt: skip
    claimed = await hub.claims.claim(worker, USER, Claim(most=3, start=True))
    assert await told(api, "?headroom=2") == {
        "job": JOB, "pending": 2, "putOff": 2, "held": 3, "workers": 1, "runSeconds": None, "desired": 7,
        "truncated": False,
    }  # fmt: skip
    await hub.tasks.finish(worker, USER, [Result(task.id, "completed") for task in claimed])
    found = await told(api, "?min=4&max=9")
    assert (found["held"], found["pending"], found["desired"]) == (0, 2, 4)
    assert (await told(api, "?max=1"))["desired"] == 1


async def test_the_demand_tells_the_average_runtime_with_more_weight_on_recent_tasks(served, redis):
    api, hub = served
    worker = await offer(hub)
    await hub.tasks.submit("r1", JOB, ["{}"] * 4, USER)
    ended = Ended(hub.store)
    await ended.count()  # what ended before is not counted

    async def ran(seconds):
        [task] = await hub.claims.claim(worker, USER, Claim(start=True))
        redis.hincrby(f"hub:task:{task.id}", "started", int(-seconds * 1_000_000))
        await hub.tasks.finish(worker, USER, [Result(task.id, "completed")])

    await ran(4)
    await ended.count()
    assert (await told(api))["runSeconds"] == pytest.approx(4, abs=SLACK_S)
    await ran(104)
    await ended.count()
    assert (await told(api))["runSeconds"] == pytest.approx(14, abs=SLACK_S)
    await ran(1014)
    await ran(1014)
    await ended.count()
    assert (await told(api))["runSeconds"] == pytest.approx(204, abs=SLACK_S)
    await ended.count()
    assert (await told(api))["runSeconds"] == pytest.approx(204, abs=SLACK_S)


async def test_the_demand_of_a_job_counts_no_tasks_of_other_jobs_of_its_workers(served):
    api, hub = served
    worker = await offer(hub)
    await offer(hub, "Cube", worker)
    alone = await offer(hub)
    await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.tasks.submit("r1", "r1:analysis:Cube", ["{}"] * 2, USER)
    await hub.claims.claim(worker, USER, Claim(most=3))
    await hub.tasks.submit("r1", JOB, ["{}"] * 4, USER)
    await hub.claims.claim(alone, USER, Claim(most=4))
    found = await told(api)
    assert (found["held"], found["workers"], found["truncated"]) == (5, 2, False)


async def test_with_too_many_held_tasks_the_demand_is_a_lower_bound(served, monkeypatch):
    api, hub = served
    worker = await offer(hub)
    await offer(hub, "Cube", worker)
    await hub.tasks.submit("r1", JOB, ["{}"] * 5, USER)
    await hub.claims.claim(worker, USER, Claim(most=5))
    monkeypatch.setattr(jobs_module, "LOOKED_AT_MAX", 4)  # the worker is one of them
    found = await told(api)
    assert (found["held"], found["desired"], found["truncated"]) == (3, 3, True)
    monkeypatch.setattr(jobs_module, "LOOKED_AT_MAX", 6)
    assert (await told(api))["truncated"] is False


async def test_submitted_tasks_of_an_internal_job_count_as_held_in_the_demand(served):
    api, hub = served
    full = "@internal:analysis:Square"
    for name in (full, "@internal:analysis:Cube"):
        await hub.jobs.ensure_internal(name, {}, "{}")
        await hub.tasks.submit("r1", name, ["{}"] * 2, USER)
    found = (await api.get(f"/autoscale/jobs/{full}")).json()
    assert (found["pending"], found["held"], found["workers"], found["desired"]) == (0, 2, 0, 2)


async def test_the_demand_of_an_unknown_job_is_answered_and_an_invalid_name_is_refused(served):
    api, _ = served
    assert (await told(api, "?min=1"))["desired"] == 1
    unknown = await api.get("/autoscale/jobs/analysis:Square")
    assert unknown.status_code == 404
    assert "room:category:name" in unknown.json()["detail"]
    assert (await api.get(ROAD + "?min=3&max=2")).json()["code"] == "invalid-value"
    assert (await api.get(ROAD + "?headroom=-1")).status_code == 400
