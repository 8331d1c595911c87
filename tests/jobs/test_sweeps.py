"""Sweeps of workers and tasks: silence, brake, runtimes, due times, retention."""

from __future__ import annotations

import pytest

from hub.errors import TaskNotFound, WorkerNotFound
from hub.jobs.models import Claim, Options, ReportedProgress, Result
from hub.sweeping.tasks import TaskSweeperService
from hub.sweeping.workers import WorkerSweeperService
from tests.jobs.conftest import sweep, worker_of
from tests.world import picture

USER, OTHER = "a" * 32, "b" * 32
JOB = "r1:modifiers:A"


def silence(redis, worker, seconds):
    """Make a worker's last beat so long ago, and a second: without ticks the clock may go back by that."""
    redis.zincrby("hub:worker_beats", -(seconds + 1) * 1000, worker)


async def look_after(hub):
    done = await TaskSweeperService(hub.store, hub.settings, hub.workers).sweep()
    assert done.errors == 0
    return done


async def test_a_silent_worker_is_removed_and_its_tasks_fail(hub, redis):
    worker = await worker_of(hub)
    held, _ = await hub.tasks.submit("r1", JOB, ["{}"] * 2, USER)
    await hub.claims.claim(worker, USER)
    silence(redis, worker, 61)
    assert (await sweep(hub)).expired == 1
    ended = await hub.tasks.get(held.id)
    assert (ended.status, ended.error, ended.worker) == ("failed", "Worker disconnected", None)
    assert (await hub.tasks.page_of_room("r1", "pending", 10, 0)).total == 1
    with pytest.raises(WorkerNotFound):
        await hub.workers.get(worker)


async def test_a_worker_that_beats_between_the_two_checks_stays(hub, redis):
    worker = await worker_of(hub)
    silence(redis, worker, 61)
    real = hub.workers.expire

    async def late(name, *rest):
        await hub.workers.beat(name, USER)
        return await real(name, *rest)

    hub.workers.expire = late
    done = await sweep(hub)
    assert (done.stale, done.expired) == (1, 0)
    assert (await hub.workers.page(10, 0)).total == 1


async def test_a_worker_silent_for_exactly_its_timeout_stays(hub, redis):
    worker = await worker_of(hub)
    redis.hset("hub:store", "tick_ms", 1)  # the hub clock stands still
    clock_ms = int(redis.hget("hub:store", "clock_ms"))
    redis.zadd("hub:worker_beats", {worker: clock_ms - 60_000})
    assert (await sweep(hub)).expired == 0
    redis.zadd("hub:worker_beats", {worker: clock_ms - 60_001})
    assert (await sweep(hub)).expired == 1


async def test_when_very_many_workers_are_silent_at_once_they_are_removed_slowly(hub, redis):
    workers = [await worker_of(hub) for _ in range(10)]
    for worker in workers:
        await hub.workers.beat(worker, USER)
    for number, worker in enumerate(workers):
        silence(redis, worker, 61 if number < 5 else 35)  # the others were silent for half a timeout too
    done = await sweep(hub)
    assert (done.expired, done.brake, done.held) == (0, "engaged", 5)
    redis.hincrby("hub:worker_brake", "since_ms", -61_000)
    done = await sweep(hub)
    assert (done.expired, done.held) == (2, 3)
    assert (await hub.workers.page(10, 0)).total == 8
    assert redis.exists("hub:brake") == 0, "the brake on nodes is another one"


async def test_workers_that_never_beat_are_removed_and_do_not_engage_the_brake(hub, redis):
    for number in range(8):
        worker = await worker_of(hub)
        if number < 5:
            silence(redis, worker, 61)
    done = await sweep(hub)
    assert (done.expired, done.brake) == (5, "off")


async def test_a_sweep_step_that_fails_skips_no_other_step(hub, redis):
    worker = await worker_of(hub)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.tasks.move(task.id, "claimed", superuser=True)
    redis.zadd("hub:ownerless", {task.id: -100_000})
    silence(redis, worker, 30)
    service = WorkerSweeperService(hub.store, hub.settings, hub.workers)

    async def broken(done):
        raise ValueError("broken")

    service._remove_silent = broken
    done = await service.sweep()
    assert (done.errors, done.ownerless) == (1, 1)
    assert (await hub.tasks.get(task.id)).error == "Worker disconnected"


async def test_a_worker_with_very_many_tasks_is_removed_at_once_and_its_tasks_fail_in_batches(hub, redis):
    worker = await worker_of(hub)
    tasks = await hub.tasks.submit("r1", JOB, ["{}"] * 300, USER)
    while await hub.claims.claim(worker, USER, Claim(most=100)):
        pass
    await hub.workers.delete(worker, USER, superuser=False)
    assert {(await hub.tasks.get(task.id)).status for task in tasks} == {"failed"}
    assert (await hub.jobs.page("r1", 10, 0)).total == 0
    assert picture_of(redis, "hub:worker_tasks:*", "hub:dead_workers", "hub:worker_jobs:*") == {}


async def test_a_removal_interrupted_by_the_death_of_its_hub_is_finished_by_the_next(hub, redis):
    worker = await worker_of(hub)
    tasks = await hub.tasks.submit("r1", JOB, ["{}"] * 3, USER)
    await hub.claims.claim(worker, USER, Claim(most=3))
    script = hub.store.script("workers/remove")
    named = {
        "worker": worker,
        "user": USER,
        "superuser": 0,
        "why": "deleted",
        "silent_ms": -1,
        "limit": 1,
        "request": "r",
        "incarnation": "",
    }
    assert await script(**named) == ["ok", 2]
    await look_after(hub)
    assert {(await hub.tasks.get(task.id)).status for task in tasks} == {"failed"}
    assert redis.exists("hub:dead_workers") == 0


async def test_a_delayed_task_becomes_pending_when_it_is_due(hub, redis):
    worker = await worker_of(hub)
    seconds, microseconds = redis.time()
    due_us = (seconds + 3600) * 1_000_000 + microseconds
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER, Options(due_us=due_us))
    assert (task.status, task.position, task.due_us) == ("pending", None, due_us)
    assert await hub.claims.claim(worker, USER) == []
    redis.zadd("hub:later", {task.id: 1})
    assert (await look_after(hub)).due == 1
    assert [claimed.id for claimed in await hub.claims.claim(worker, USER)] == [task.id]


async def test_a_task_that_runs_longer_than_its_claim_allows_fails(hub, redis):
    worker = await worker_of(hub)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.claims.claim(worker, USER, Claim(start=True, max_runtime_ms=5000))
    assert (await look_after(hub)).expired == 0
    redis.zincrby("hub:runtimes", -10_000, task.id)
    assert (await look_after(hub)).expired == 1
    ended = await hub.tasks.get(task.id)
    assert (ended.status, ended.error) == ("failed", "Runtime exceeded")


async def test_a_task_that_reports_nothing_for_too_long_fails_as_stuck(hub, redis):
    worker = await worker_of(hub)
    options = Options(max_silence_ms=5000)
    silent, speaks = await hub.tasks.submit("r1", JOB, ["{}"] * 2, USER, options)
    assert (await look_after(hub)).expired == 0, "it waits, and may do so"
    await hub.claims.claim(worker, USER, Claim(most=2, start=True))
    assert (await look_after(hub)).expired == 0
    redis.zincrby("hub:silences", -10_000, silent.id)
    redis.zincrby("hub:silences", -10_000, speaks.id)
    assert await hub.progress.note(worker, USER, [ReportedProgress(speaks.id, log=("on",))]) == ["ok"]
    assert (await look_after(hub)).expired == 1
    ended = await hub.tasks.get(silent.id)
    assert (ended.status, ended.error) == ("failed", "No progress for longer than maxSilenceSeconds (5)")
    assert (await hub.tasks.get(speaks.id)).status == "running"
    assert await hub.progress.note(worker, USER, [ReportedProgress(silent.id, log=("on",))]) == ["conflict"]


async def test_a_stuck_task_is_retried_and_its_silence_counts_anew(hub, redis):
    worker = await worker_of(hub)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER, Options(max_attempts=2, backoff_ms=0, max_silence_ms=5000))
    await hub.claims.claim(worker, USER, Claim(start=True))
    await hub.progress.note(worker, USER, [ReportedProgress(task.id, progress=0.5, message="half", log=("one",))])
    redis.zincrby("hub:silences", -10_000, task.id)
    assert (await look_after(hub)).expired == 1
    shown = await hub.tasks.show(task.id)
    assert (shown.task.status, shown.task.attempt, shown.progress, shown.message) == ("pending", 2, None, "")
    assert [text for _, text in shown.log] == ["one"]
    assert redis.zcard("hub:silences") == 0
    await hub.claims.claim(worker, USER, Claim(start=True))
    assert redis.zcard("hub:silences") == 1


async def test_an_ended_task_is_removed_from_every_index_after_its_retention(hub, redis):
    worker = await worker_of(hub)
    [task] = await hub.tasks.submit("r1", JOB, ['{"x":1}'], USER)
    await hub.claims.claim(worker, USER, Claim(start=True))
    await hub.progress.note(worker, USER, [ReportedProgress(task.id, log=("on",))])
    assert await hub.tasks.finish(worker, USER, [Result(task.id, "completed", value="1")]) == ["ok"]
    assert (await look_after(hub)).forgotten == 0
    redis.zincrby("hub:finished", -604_801_000_000, task.id)
    assert (await look_after(hub)).forgotten == 1
    with pytest.raises(TaskNotFound):
        await hub.tasks.get(task.id)
    assert (await hub.tasks.page_of_room("r1", None, 10, 0)).total == 0
    assert [key for key in picture(redis, own=True) if task.id in key] == []


async def test_a_deleted_job_is_forgotten_with_its_last_task(hub, redis):
    worker = await worker_of(hub)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.claims.claim(worker, USER)
    await hub.workers.delete(worker, USER, superuser=False)
    for key, member in (("hub:finished", task.id), ("hub:deleted_jobs", JOB)):
        redis.zincrby(key, -604_801_000_000, member)
    await look_after(hub)
    assert picture_of(redis, "hub:job:*", "hub:deleted_jobs", "hub:task:*", "hub:*_tasks:*") == {}


async def test_when_all_workers_are_silent_they_are_removed_after_the_grace(hub, redis):
    for _ in range(3):
        worker = await worker_of(hub)
        await hub.workers.beat(worker, USER)
        silence(redis, worker, 61)
    assert (await sweep(hub)).brake == "engaged"
    for _ in range(3):
        redis.hincrby("hub:worker_brake", "since_ms", -61_000)
        redis.hincrby("hub:worker_brake", "window", -61_000)
        await sweep(hub)
    assert (await hub.workers.page(10, 0)).total == 0


def picture_of(redis, *patterns):
    """Return the keys of these patterns, with their types."""
    return {key: redis.type(key) for pattern in patterns for key in redis.keys(pattern)}
