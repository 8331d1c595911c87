"""Chains and groups: tasks that wait until others are over."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from hub.core import Hub
from hub.errors import JobNotFound, Malformed
from hub.jobs.models import Claim, Options, Result
from hub.store.connection import open_store
from hub.sweeping.tasks import TaskSweeperService
from tests.jobs.conftest import JOB, USER, worker_of
from tests.world import settings_for

OTHER = "r1:modifiers:B"
FAR_US = 4_000_000_000_000_000


async def submit(hub, *after, run=False, job=JOB, **options):
    wanted = Options(after=tuple(task.id for task in after), run_on_failure=run, **options)
    [task] = await hub.tasks.submit("r1", job, ['{"n":1}'], USER, wanted)
    return task


async def claim(hub, worker):
    return await hub.claims.claim(worker, USER, Claim(10, start=True))


async def end(hub, worker, task, status="completed"):
    assert await hub.tasks.finish(worker, USER, [Result(task.id, status, "oh" * (status == "failed"))]) == ["ok"]


async def standing(hub, *tasks):
    return [(found.status, found.waits_for) for found in [await hub.tasks.get(task.id) for task in tasks]]


def left(redis):
    return redis.keys("hub:task_children:*") + redis.keys("hub:task_parents:*") + redis.keys("hub:settling")


async def sweep(hub):
    await TaskSweeperService(hub.store, hub.settings, hub.workers).sweep()


async def test_a_dependent_task_waits_until_all_its_parents_are_completed(hub, redis):
    worker = await worker_of(hub)
    parents = [await submit(hub), await submit(hub)]
    child = await submit(hub, *parents)
    assert (child.status, child.waits_for, child.position) == ("pending", 2, None)
    assert {task.id for task in await claim(hub, worker)} == {task.id for task in parents}
    await end(hub, worker, parents[0])
    assert (await standing(hub, child), await claim(hub, worker)) == ([("pending", 1)], [])
    assert (await hub.tasks.show(child.id)).after == (parents[1].id,)
    await end(hub, worker, parents[1])
    assert [task.id for task in await claim(hub, worker)] == [child.id]
    assert (left(redis), redis.zcard("hub:blocked")) == ([], 0)


async def test_a_task_that_depends_on_a_completed_task_does_not_wait(hub):
    worker = await worker_of(hub)
    parent = await submit(hub)
    await claim(hub, worker)
    await end(hub, worker, parent)
    assert (await submit(hub, parent)).position == 1


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_the_submitter_decides_what_happens_to_a_task_when_its_parent_fails(hub, redis, status):
    worker = await worker_of(hub)
    parent = await submit(hub)
    fails, runs = await submit(hub, parent, max_attempts=5), await submit(hub, parent, run=True)
    after = await submit(hub, fails)
    await claim(hub, worker)
    await end(hub, worker, parent, status)
    assert await standing(hub, fails, runs, after) == [("failed", 0), ("pending", 0), ("failed", 0)]
    said = f"Task {uuid.UUID(parent.id)}, which it waits for, {'has failed' if status == 'failed' else 'was cancelled'}"
    assert (await hub.tasks.get(fails.id)).error == said
    assert [task.id for task in await claim(hub, worker)] == [runs.id]
    assert left(redis) == []
    late = [await submit(hub, parent), await submit(hub, parent, run=True)]
    assert await standing(hub, *late) == [("failed", 0), ("pending", 0)]


async def test_a_dependent_task_waits_for_the_retries_of_its_parent(hub):
    worker = await worker_of(hub)
    parent = await submit(hub, max_attempts=2, backoff_ms=0)
    child = await submit(hub, parent)
    await claim(hub, worker)
    await end(hub, worker, parent, "failed")
    assert await standing(hub, child) == [("pending", 1)]


async def test_a_dependent_task_can_be_cancelled_and_moved_like_any_other(hub, redis):
    await worker_of(hub)
    parent = await submit(hub)
    children = [await submit(hub, parent), await submit(hub, parent)]
    await hub.tasks.move(children[0].id, "cancelled", user=USER)
    await hub.tasks.move(children[1].id, "claimed", superuser=True)
    assert await standing(hub, *children) == [("cancelled", 0), ("claimed", 0)]
    await hub.tasks.move(parent.id, "cancelled", user=USER)
    assert await standing(hub, *children) == [("cancelled", 0), ("claimed", 0)]
    assert (left(redis), redis.hget(f"hub:job:{JOB}", "later")) == ([], "0")


async def test_a_delayed_dependent_task_waits_for_its_time_and_its_parents(hub, redis):
    worker = await worker_of(hub)
    parent = await submit(hub)
    child = await submit(hub, parent, due_us=FAR_US)
    assert child.due_us == FAR_US
    await claim(hub, worker)
    await end(hub, worker, parent)
    assert (await claim(hub, worker), redis.zscore("hub:later", child.id)) == ([], FAR_US)
    assert redis.hget(f"hub:job:{JOB}", "later") == "1"


async def test_a_job_stays_while_one_of_its_tasks_waits_for_its_parents(hub):
    worker = await worker_of(hub, "A", "B")
    parent = await submit(hub, job=OTHER)
    child = await submit(hub, parent)
    await hub.workers.delete(worker, USER, superuser=False)
    assert (await hub.jobs.get(JOB)).workers == ()
    await hub.tasks.move(parent.id, "cancelled", user=USER)
    assert await standing(hub, child) == [("failed", 0)]
    with pytest.raises(JobNotFound):
        await hub.jobs.get(JOB)


async def test_a_forgotten_parent_blocks_no_dependent_task(hub, redis):
    worker = await worker_of(hub)
    first, second = await submit(hub), await submit(hub)
    child = await submit(hub, first, second)
    await claim(hub, worker)
    await end(hub, worker, first)
    assert (await hub.store.script("tasks/forget")(keep_us=0, limit=9))[1] == 1
    await end(hub, worker, second)
    assert [task.id for task in await claim(hub, worker)] == [child.id]


async def test_an_unknown_parent_is_refused_and_nothing_is_stored(hub, redis):
    await worker_of(hub)
    parent = await submit(hub)
    before = sorted(redis.keys("*"))
    with pytest.raises(Malformed) as refused:
        await hub.tasks.submit("r1", JOB, ["{}"], USER, Options(after=(parent.id, "f" * 32)), key="k")
    [said] = refused.value.facts["errors"]
    assert (said["loc"], said["msg"]) == (["body", "after", 1], f"There is no task {uuid.UUID('f' * 32)}")
    assert sorted(redis.keys("*")) == before


async def test_very_many_dependent_tasks_become_pending_in_batches(hub, redis):
    worker = await worker_of(hub)
    parent = await submit(hub)
    children = await hub.tasks.submit("r1", JOB, ["{}"] * 500, USER, Options(after=(parent.id,)))
    await claim(hub, worker)
    await end(hub, worker, parent)
    assert redis.zcard(f"hub:queue:{JOB}") == 200
    await sweep(hub)
    assert (redis.zcard(f"hub:queue:{JOB}"), left(redis)) == (len(children), [])


async def test_a_failure_fails_every_later_task_of_a_chain(hub, redis):
    await worker_of(hub)
    first = await submit(hub)
    last = first
    for _ in range(450):
        last = await submit(hub, last)
    await hub.tasks.move(first.id, "cancelled", user=USER)
    assert await standing(hub, last) == [("pending", 1)]
    await sweep(hub)
    assert (await standing(hub, last), left(redis)) == ([("failed", 0)], [])


async def test_with_many_hubs_a_dependent_task_becomes_pending_once(hub, settings, redis):
    worker = await worker_of(hub)
    parents = [await submit(hub) for _ in range(20)]
    child = await submit(hub, *parents)
    await hub.claims.claim(worker, USER, Claim(20, start=True))
    async with open_store(settings) as store:
        hubs = [hub, Hub(store, settings)]
        ends = [Result(parent.id, "completed") for parent in parents]
        await asyncio.gather(*(hubs[n % 2].tasks.finish(worker, USER, [each]) for n, each in enumerate(ends)))
        await asyncio.gather(*(sweep(each) for each in hubs))
    assert [task.id for task in await claim(hub, worker)] == [child.id]
    assert redis.hget(f"hub:job:{JOB}", "later") == "0"


@pytest.mark.parametrize("run", [True, False])
async def test_the_sweeper_finds_a_dependent_task_that_was_not_told(hub, redis, run):
    worker = await worker_of(hub)
    parents = [await submit(hub), await submit(hub)]
    child = await submit(hub, *parents, run=run)
    await claim(hub, worker)
    redis.delete(f"hub:task_children:{parents[0].id}")  # another program
    for parent in parents:
        await end(hub, worker, parent)
    await sweep(hub)
    assert await standing(hub, child) == [("pending", 1)]
    redis.zadd("hub:blocked", {child.id: 1})  # a minute later
    await sweep(hub)
    assert [task.id for task in await claim(hub, worker)] == [child.id]
    await sweep(hub)
    assert redis.hget(f"hub:job:{JOB}", "later") == "0"


async def test_a_dependent_task_whose_parent_is_unknown_fails(hub, redis):
    await worker_of(hub)
    parent = await submit(hub)
    fails, runs = await submit(hub, parent), await submit(hub, parent, run=True)
    redis.delete(f"hub:task:{parent.id}")
    redis.zadd("hub:blocked", {fails.id: 1, runs.id: 1})
    await sweep(hub)
    assert (await hub.tasks.get(fails.id)).error == f"Task {uuid.UUID(parent.id)}, which it waits for, was lost"
    assert await standing(hub, fails, runs) == [("failed", 0), ("pending", 0)]


async def test_a_store_that_lost_a_chain_gets_it_back_in_any_order(lossy):
    worker = await lossy.worker()
    lossy.keep()
    url = lossy.server.url
    async with open_store(settings_for(url)) as store:
        other = Hub(store, settings_for(url))
        await other.clock.tick()
        parent = await submit(lossy.hub)
        child = await submit(other, parent)
        task = await lossy.claim(worker)
        await lossy.say(worker, task, "completed")
        await lossy.forget()
        await lossy.recall(other)  # this hub remembers only the child
        assert await standing(other, child) == [("pending", 1)]
        await sweep(other)
        await lossy.recall()
        assert await standing(other, parent, child) == [("completed", 0), ("pending", 0)]
    assert lossy.server.client().zcard(f"hub:queue:{JOB}") == 1


async def test_a_restored_end_of_a_task_is_told_to_its_dependent_tasks(lossy):
    worker = await lossy.worker()
    parent = await lossy.submit()
    child = await submit(lossy.hub, await lossy.hub.tasks.get(parent))
    task = await lossy.claim(worker)
    lossy.keep()
    await lossy.say(worker, task, "failed", "oh")
    await lossy.forget()
    await lossy.recall()
    assert await standing(lossy.hub, child) == [("failed", 0)]


ROAD = f"/v1/joblib/rooms/r1/tasks/{JOB}"


async def test_a_task_shows_its_parents_on_the_wire(api):
    await api.put("/v1/joblib/rooms/r1/jobs", json={"category": "modifiers", "name": "A"})
    many = (await api.post(ROAD, json={"payloads": [{}, {}]})).json()["ids"]
    made = (await api.post(ROAD, json={"after": many, "onFailure": "run"})).json()
    assert (made["status"], made["waitsFor"], made["why"]) == ("pending", 2, "waits until 2 tasks are over")
    found = (await api.get(f"/v1/joblib/tasks/{made['id']}")).json()
    assert sorted(found["after"]) == sorted(many)
    await api.patch(f"/v1/joblib/tasks/{many[0]}", json={"status": "cancelled"})
    assert (await api.get(f"/v1/joblib/tasks/{made['id']}")).json()["why"] == "waits until a task is over"
    await api.patch(f"/v1/joblib/tasks/{many[1]}", json={"status": "cancelled"})
    assert {"waitsFor", "why", "after"}.isdisjoint((await api.get(f"/v1/joblib/tasks/{made['id']}")).json())


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"after": []}, ["body", "after"]),
        ({"after": ["x"]}, ["body", "after", 0]),
        ({"after": [str(uuid.UUID(int=n)) for n in range(101)]}, ["body", "after"]),
        ({"after": [str(uuid.UUID(int=1))]}, ["body", "after", 0]),
        ({"onFailure": "run"}, ["body"]),
    ],
)
async def test_invalid_parents_are_refused_with_their_place(api, wrong, where):
    await api.put("/v1/joblib/rooms/r1/jobs", json={"category": "modifiers", "name": "A"})
    answer = await api.post(ROAD, json=wrong)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == where
