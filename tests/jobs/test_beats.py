"""Beats that name what a worker holds: what differs from the store for longer than a beat is settled."""

from __future__ import annotations

import pytest

from hub.jobs.models import Claim, Options, Result
from tests.jobs.conftest import JOB, USER, worker_of


async def claimed(hub, worker, *, start=True, **options):
    await hub.tasks.submit("r1", JOB, ["{}"], USER, Options(**options))
    [task] = await hub.claims.claim(worker, USER, Claim(start=start))
    return task


async def beat(hub, worker, *tasks, open_claims=()):
    return await hub.workers.compare(worker, USER, {task.id: task.claim for task in tasks}, open_claims)


def later(redis, seconds=31):
    """Let so much time pass on the hub clock."""
    redis.hincrby("hub:store", "clock_ms", seconds * 1000)


async def twice(hub, redis, worker, *tasks, **more):
    await beat(hub, worker, *tasks, **more)
    later(redis)
    return await beat(hub, worker, *tasks, **more)


async def status(hub, task):
    return (await hub.tasks.get(task.id)).status


@pytest.mark.parametrize(
    ("start", "options", "becomes"),
    [(False, {}, "pending"), (True, {"max_attempts": 2, "backoff_ms": 0}, "pending"), (True, {}, "failed")],
    ids=["claimed", "running, with another attempt", "running, the last attempt"],
)
async def test_a_task_that_its_worker_does_not_name_is_retried(hub, redis, start, options, becomes):
    worker = await worker_of(hub)
    task, kept = await claimed(hub, worker, start=start, **options), await claimed(hub, worker)
    assert await twice(hub, redis, worker, kept) == []
    assert [await status(hub, each) for each in (task, kept)] == [becomes, "running"]
    assert redis.hget(f"hub:worker:{worker}", "odd") is None


async def test_a_task_missing_from_one_heartbeat_alone_is_left_running(hub, redis):
    worker = await worker_of(hub)
    task = await claimed(hub, worker)
    await beat(hub, worker)
    later(redis, 5)
    await beat(hub, worker)
    await beat(hub, worker, task)
    later(redis)
    await beat(hub, worker)
    assert await status(hub, task) == "running"


async def test_a_task_of_an_unanswered_claim_is_left_running(hub, redis):
    worker = await worker_of(hub)
    await hub.tasks.submit("r1", JOB, ["{}"], USER)
    [task] = await hub.claims.claim(worker, USER, Claim(start=True, request="K"))
    await twice(hub, redis, worker, open_claims=["K"])
    assert await status(hub, task) == "running"


async def test_a_heartbeat_without_a_list_of_tasks_takes_no_task(hub, redis):
    worker = await worker_of(hub)
    task = await claimed(hub, worker)
    for _ in range(3):
        await hub.workers.beat(worker, USER)
        later(redis)
    assert await status(hub, task) == "running"


async def test_a_heartbeat_is_answered_with_the_tasks_the_worker_has_lost(hub):
    worker, other = await worker_of(hub), await worker_of(hub)
    task = await claimed(hub, worker)
    await hub.tasks.finish(worker, USER, [Result(task.id, "pending", claim=task.claim)])
    assert await beat(hub, worker, task) == [task.id], "it waits again"
    [again] = await hub.claims.claim(other, USER)
    assert (await beat(hub, worker, task), await beat(hub, other, again)) == ([task.id], [])
    await hub.tasks.move(task.id, "cancelled", user=USER)
    assert await beat(hub, other, again) == [task.id]


async def test_a_claim_that_the_store_lost_is_restored_by_the_heartbeat(hub, redis):
    worker = await worker_of(hub)
    task = await claimed(hub, worker, start=False)
    script = hub.store.script("tasks/finish")
    give_back = [task.id, "pending", "", task.claim]
    assert await script(worker=worker, user=USER, request="R", rest=give_back) == ["ok"]
    redis.hdel(f"hub:task:{task.id}", "claim", "back", "had")  # as it was before it was claimed
    assert await beat(hub, worker, task) == []
    assert await status(hub, task) == "pending", "nobody takes a task by a claim of his own making"
    clock_ms = int(redis.hget("hub:store", "clock_ms"))
    redis.hset("hub:store", "reopened_ms", clock_ms)
    assert await beat(hub, worker, task) == []
    found = await hub.tasks.get(task.id)
    assert (found.status, found.worker, found.claim) == ("running", worker, task.claim)
    assert await hub.claims.claim(await worker_of(hub), USER) == []
    assert await hub.tasks.finish(worker, USER, [Result(task.id, "completed", "", task.claim)]) == ["ok"]
