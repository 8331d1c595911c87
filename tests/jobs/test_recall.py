"""Redis comes back without its last second: hubs remember what was submitted and what ended in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hub.core import Hub
from hub.errors import JobNotFound, Settling, TaskNotFound, WorkerNotFound
from hub.jobs import recent
from hub.jobs.models import LOST, Claim, JobRequest, Options, Result
from hub.store.connection import open_store
from tests.world import eventually, settings_for

USER = "a" * 32
JOB = "r1:modifiers:A"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_the_end_of_a_task_that_redis_lost_is_restored(lossy, status):
    worker = await lossy.worker()
    await lossy.submit()
    task = await lossy.claim(worker)
    lossy.keep()
    await lossy.say(worker, task, status, "oh" if status == "failed" else "")
    await lossy.forget()
    await lossy.recall()
    found = await lossy.hub.tasks.get(task.id)
    assert (found.status, found.error) == (status, "oh" if status == "failed" else None)
    assert lossy.server.client().smembers(f"hub:worker_tasks:{worker}") == set()


async def test_the_result_of_a_task_is_restored_with_its_end(lossy):
    worker = await lossy.worker()
    await lossy.submit()
    task = await lossy.claim(worker)
    lossy.keep()
    await lossy.say(worker, task, "completed", value='{"n":1.0}')
    await lossy.submit()
    later = await lossy.claim(worker)
    await lossy.say(worker, later, "completed", value="2")
    await lossy.forget()
    await lossy.recall()
    assert [(await lossy.hub.tasks.show(each.id)).result for each in (task, later)] == ['{"n":1.0}', "2"]
    redis = lossy.server.client()
    assert [redis.ttl(f"hub:task_result:{each.id}") for each in (task, later)] == [-1, -1]


async def test_a_result_that_no_hub_remembers_is_reported_as_lost(lossy, monkeypatch):
    monkeypatch.setattr(recent, "MOST_RESULT_BYTES", 10)
    worker = await lossy.worker()
    await lossy.submit()
    await lossy.submit()
    tasks = [await lossy.claim(worker), await lossy.claim(worker)]
    lossy.keep()
    for task in tasks:
        await lossy.say(worker, task, "completed", value='"123456"')
    await lossy.forget()
    await lossy.recall()
    assert [await lossy.status(task.id) for task in tasks] == ["completed", "completed"]
    assert [(await lossy.hub.tasks.show(task.id)).result for task in tasks] == [LOST, '"123456"']


async def test_a_restored_result_waits_for_the_hub_that_remembers_the_submit(lossy):
    worker = await lossy.worker()
    lossy.keep()
    submitter = lossy.hub
    async with open_store(settings_for(lossy.server.url)) as store:
        taker = Hub(store, settings_for(lossy.server.url))
        await taker.clock.tick()
        await lossy.submit()
        [task] = await taker.claims.claim(worker, USER, Claim(start=True))
        assert await taker.tasks.finish(worker, USER, [Result(task.id, "completed", "", task.claim, "7")]) == ["ok"]
        await lossy.forget()
        await lossy.recall(taker)
        assert lossy.server.client().ttl(f"hub:task_result:{task.id}") > 0
        await lossy.recall(submitter)
        assert (await submitter.tasks.show(task.id)).result == "7"
        assert lossy.server.client().ttl(f"hub:task_result:{task.id}") == -1


async def test_a_task_that_redis_lost_from_submit_to_end_is_restored(lossy):
    worker = await lossy.worker()
    lossy.keep()
    waiting, ended = await lossy.submit(), None
    ended = await lossy.claim(worker)
    await lossy.say(worker, ended, "completed")
    waiting = await lossy.submit(priority=3)
    await lossy.forget()
    await lossy.recall()
    assert [await lossy.status(task) for task in (ended.id, waiting)] == ["completed", "pending"]
    found = await lossy.claim(worker)
    assert (found.id, found.payload, found.priority) == (waiting, '{"n":1}', 3)


async def test_a_task_whose_end_redis_lost_is_not_claimed_before_the_hubs_have_reported(lossy, monkeypatch):
    worker = await lossy.worker()
    await lossy.submit()
    lossy.keep()
    task = await lossy.claim(worker)
    await lossy.say(worker, task, "completed")
    await lossy.forget()
    settings = settings_for(lossy.server.url)
    monkeypatch.setattr("hub.jobs.claims.SETTLES_S", -1)  # a claim does not wait
    async with open_store(settings) as store:  # another hub is back before the one that took the report
        with pytest.raises(Settling):
            await Hub(store, settings).claims.claim(worker, USER)
        monkeypatch.undo()
        await lossy.recall()
        assert await Hub(store, settings).claims.claim(worker, USER) == []
    assert await lossy.status(task.id) == "completed"


async def test_the_end_of_a_task_is_restored_even_before_its_submit_is_restored_by_another_hub(lossy):
    worker = await lossy.worker()
    settings = settings_for(lossy.server.url)
    async with open_store(settings) as store:
        other = Hub(store, settings)
        await other.clock.tick()
        lossy.keep()
        await lossy.submit()
        [task] = await other.claims.claim(worker, USER, Claim(start=True))
        assert await other.tasks.finish(worker, USER, [Result(task.id, "completed", "", task.claim)]) == ["ok"]
        await lossy.forget()
        await lossy.recall(other)
        assert not lossy.server.client().exists(f"hub:task:{task.id}")
        await lossy.recall()
    assert await lossy.status(task.id) == "completed"
    assert lossy.server.client().keys("hub:early_ends:*") == []


async def test_a_lost_cancellation_is_restored_even_if_the_task_was_claimed_since(lossy):
    worker = await lossy.worker()
    task = await lossy.submit()
    lossy.keep()
    await lossy.hub.tasks.move(task, "cancelled", user=USER)
    await lossy.forget()
    settings = settings_for(lossy.server.url)
    async with open_store(settings) as store:  # another hub, which remembers nothing of it
        lossy.server.client().hincrby("hub:store", "clock_ms", 2_000)  # past the time in which hubs report
        assert [found.id for found in await Hub(store, settings).claims.claim(worker, USER)] == [task]
    await lossy.recall()
    assert await lossy.status(task) == "cancelled"


async def test_a_lost_failure_costs_one_attempt_and_does_not_end_a_later_claim(lossy):
    worker = await lossy.worker()
    await lossy.submit(max_attempts=5, backoff_ms=0)
    first = await lossy.claim(worker)
    lossy.keep()
    await lossy.say(worker, first, "failed", "oh")
    second = await lossy.claim(worker)
    await lossy.forget()
    await lossy.recall()
    await lossy.recall()
    found = await lossy.hub.tasks.get(first.id)
    assert (found.status, found.attempt) == ("pending", 2)
    third = await lossy.claim(worker)
    assert int(third.claim) > int(second.claim) > int(first.claim)


async def test_a_lost_give_back_is_repeated_unless_the_task_was_claimed_since(lossy):
    worker = await lossy.worker()
    await lossy.submit()
    task = await lossy.claim(worker)
    lossy.keep()
    await lossy.say(worker, task, "pending")
    await lossy.forget()
    await lossy.recall()
    assert await lossy.status(task.id) == "pending"
    again = await lossy.claim(worker)
    recall = lossy.hub.store.script("tasks/recall")
    named = {"id": task.id, "status": "pending", "error": "", "claim": task.claim, "request": "x", "worker": worker,
             "result": ""}  # fmt: skip
    assert (await recall(**named), await lossy.status(again.id)) == (["newer"], "running")


async def test_no_task_is_restored_to_an_emptied_store(lossy):
    await lossy.worker()
    task = await lossy.submit()
    lossy.server.client().flushall()
    await lossy.recall()
    with pytest.raises(TaskNotFound):
        await lossy.status(task)


@pytest.mark.parametrize("again", [False, True], ids=["emptied once", "emptied twice"])
async def test_no_task_is_restored_by_a_late_hub_to_an_emptied_store_in_use(lossy, again):
    """Another hub took the end of this task and says nothing of it: told of the submit, the store would give it out."""
    worker = await lossy.worker()
    submitter = lossy.hub
    async with open_store(settings_for(lossy.server.url)) as store:
        taker = lossy.hub = Hub(store, settings_for(lossy.server.url))
        await taker.clock.tick()
        for _ in range(1 + again):
            [ended] = await submitter.tasks.submit("r1", JOB, ['{"n":1}'], USER, Options())
            await lossy.say(worker, await lossy.claim(worker), "completed")
            lossy.server.client().flushall()
            await taker.clock.tick()
            worker = await lossy.worker()
            await submitter.clock.tick()
            with pytest.raises(TaskNotFound):
                await lossy.status(ended.id)
            lossy.server.client().hset("hub:store", "settle_ms", 0)


async def test_a_job_that_redis_lost_is_restored_with_its_worker_and_tasks(lossy):
    worker = await lossy.worker()
    lossy.keep()
    wanted = JobRequest("r1", "modifiers", "B", '{"type":"object"}', worker, max_attempts=3, backoff_ms=10)
    job, _ = await lossy.hub.jobs.register(wanted, {"type": "object"}, USER, superuser=False)
    [task] = await lossy.hub.tasks.submit("r1", job.full, ['{"n":1}'], USER, Options(as_the_job=True))
    await lossy.forget()
    await lossy.recall()
    assert await lossy.hub.jobs.get(job.full) == replace(job, worker=None)
    found = await lossy.claim(worker)
    assert (found.id, found.max_attempts) == (task.id, 3)


async def test_a_job_restored_by_a_second_hub_has_the_tasks_restored_by_the_first(lossy):
    worker = await lossy.worker()
    lossy.keep()
    async with open_store(settings_for(lossy.server.url)) as store:
        other = Hub(store, settings_for(lossy.server.url))
        await other.clock.tick()
        job, _ = await other.jobs.register(JobRequest("r1", "modifiers", "B", worker=worker), {}, USER, superuser=False)
        [task] = await lossy.hub.tasks.submit("r1", job.full, ['{"n":1}'], USER)
        await lossy.forget()
        await lossy.recall()
        with pytest.raises(TaskNotFound):
            await lossy.hub.tasks.get(task.id)
        await lossy.recall(other)

        async def back():
            await lossy.hub.clock.tick()
            return [found.id for found in await lossy.hub.claims.claim(worker, USER)] == [task.id]

        await eventually(back)


async def test_a_restored_registration_changes_nothing_that_came_later(lossy):
    worker = await lossy.worker()
    older = JobRequest("r1", "modifiers", "B", worker=worker, max_attempts=3)
    async with open_store(settings_for(lossy.server.url)) as store:
        other = Hub(store, settings_for(lossy.server.url))
        await other.clock.tick()
        job, _ = await lossy.hub.jobs.register(older, {}, USER, superuser=False)
        await other.jobs.register(replace(older, max_attempts=5), {}, USER, superuser=False)
        lossy.keep()
        await lossy.forget()
        await lossy.recall(other)
        await lossy.recall()
        await lossy.hub.tasks.submit("r1", job.full, ["{}"], USER, Options(as_the_job=True))
        assert (await lossy.claim(worker)).max_attempts == 5


async def test_restoring_a_registration_does_not_restore_its_worker(lossy):
    lossy.keep()
    worker = await lossy.worker()
    await lossy.forget()
    await lossy.recall()
    with pytest.raises(WorkerNotFound):
        await lossy.hub.claims.claim(worker, USER)
    with pytest.raises(JobNotFound):
        await lossy.hub.jobs.get(JOB)
