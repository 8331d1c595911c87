"""The hub's own tasks that a worker claimed and never started, against a real Redis."""

from __future__ import annotations

import asyncio

import pytest

from hub.core import Hub
from hub.errors import RecordsUnavailable
from hub.history.events import Event
from hub.jobs.models import Claim, JobRequest, Options, Result
from hub.jobs.names import dashed
from hub.recovery.models import Reset, TaskSource
from hub.recovery.tasks import BATCH, ERROR, TaskRecords
from hub.settings import Settings
from hub.store.connection import open_store
from tests.world import picture

USER = "a" * 32
JOB = "r1:modifiers:A"
MINUTE_MS = 60_000


async def worker_of(hub, name="A"):
    """Return a worker that serves a job."""
    job, _ = await hub.jobs.register(JobRequest("r1", "modifiers", name), {}, USER, superuser=True)
    return job.worker


async def claimed_by(hub, worker, count=1, **options):
    """Tasks that a worker has claimed and not started."""
    await hub.tasks.submit("r1", JOB, ["{}"] * count, USER, Options(**options))
    return [task.id for task in await hub.claims.claim(worker, USER, Claim(most=count))]


def records_of(hub, **options):
    """Return the source, with a threshold of one minute and a hub clock that stands still."""
    return TaskRecords(TaskSource(name="tasks", threshold_minutes=1, **options), hub.store)


def age(redis, task, ms):
    """Make a task claimed so long ago on the hub clock, which stands still from now on."""
    redis.hset("hub:store", "tick_ms", 1)
    redis.hset(f"hub:task:{task}", "claimed", int(redis.hget("hub:store", "clock_ms")) - ms)


async def test_a_claimed_task_that_never_started_is_requeued_and_the_next_worker_gets_it(hub, redis):
    worker, other = await worker_of(hub), await worker_of(hub)
    [task] = await claimed_by(hub, worker)
    age(redis, task, MINUTE_MS + 1)
    records = records_of(hub)
    assert await records.count() == 1
    [stuck] = await records.look(10)
    assert (stuck.id, stuck.status, stuck.age_s, stuck.attempts) == (dashed(task), "claimed", 60.001, 0)
    assert await records.reset() == Reset((dashed(task),), ())
    found = await hub.tasks.get(task)
    assert (found.status, found.worker, found.position) == ("pending", None, 1)
    assert (await records.count(), await records.reset()) == (0, Reset())
    assert [again.id for again in await hub.claims.claim(other, USER)] == [task]


async def test_a_task_is_not_stuck_at_exactly_the_threshold(hub, redis):
    [task] = await claimed_by(hub, await worker_of(hub))
    records = records_of(hub)
    age(redis, task, MINUTE_MS)
    assert (await records.count(), await records.look(9), await records.reset()) == (0, [], Reset())
    assert await records.reset([task]) == Reset()
    age(redis, task, MINUTE_MS + 1)
    assert (await records.reset()).count == 1


async def test_looking_changes_nothing(hub, redis):
    [task] = await claimed_by(hub, await worker_of(hub))
    age(redis, task, MINUTE_MS + 1)
    before = picture(redis, own=True)
    await records_of(hub).check()
    await records_of(hub).count()
    await records_of(hub).look(5, older_than_s=1, ids=[task, "nonsense", "f" * 32])
    assert picture(redis, own=True) == before


async def test_a_late_report_of_the_former_worker_is_a_conflict(hub, redis):
    worker = await worker_of(hub)
    [task] = await claimed_by(hub, worker)
    age(redis, task, MINUTE_MS + 1)
    await records_of(hub).reset()
    assert await hub.tasks.finish(worker, USER, [Result(task, "running", "")]) == ["conflict"]
    assert await hub.tasks.finish(worker, USER, [Result(task, "failed", "late")]) == ["conflict"]
    assert (await hub.tasks.get(task)).status == "pending"


async def test_a_late_report_is_forbidden_once_another_worker_of_the_user_has_the_task(hub, redis):
    late, other = await worker_of(hub), await worker_of(hub)
    [task] = await claimed_by(hub, late)
    age(redis, task, MINUTE_MS + 1)
    await records_of(hub).reset()
    assert [again.worker for again in await hub.claims.claim(other, USER)] == [other]
    for status in ("running", "completed", "failed", "cancelled", "pending"):
        assert await hub.tasks.finish(late, USER, [Result(task, status, "late")]) == ["forbidden"]
    found = await hub.tasks.get(task)
    assert (found.status, found.worker, found.error) == ("claimed", other, None)
    assert await hub.tasks.finish(other, USER, [Result(task, "running", "")]) == ["ok"]
    assert await hub.tasks.finish(late, USER, [Result(task, "completed", "")]) == ["forbidden"]
    assert await hub.tasks.finish(other, USER, [Result(task, "completed", "")]) == ["ok"]
    assert await hub.tasks.finish(late, USER, [Result(task, "failed", "late")]) == ["forbidden"]
    assert (await hub.tasks.get(task)).status == "completed"


async def test_running_ended_pending_and_ownerless_tasks_are_left_alone(hub, redis):
    worker = await worker_of(hub)
    tasks = await claimed_by(hub, worker, 3)
    await hub.tasks.move(tasks[0], "running", user=USER)
    await hub.tasks.move(tasks[1], "failed", user=USER)
    await hub.tasks.finish(worker, USER, [Result(tasks[2], "pending", "")])
    [loose] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.tasks.move(loose.id, "claimed", superuser=True)
    for task in (*tasks, loose.id):
        age(redis, task, 10 * MINUTE_MS)
    records = records_of(hub)
    assert (await records.count(), await records.reset(), await records.reset([*tasks, loose.id])) == (
        0,
        Reset(),
        Reset(),
    )


async def test_a_task_started_at_once_or_claimed_before_times_were_noted_is_never_touched(hub, redis):
    worker = await worker_of(hub)
    await hub.tasks.submit("r1", JOB, ["{}"] * 2, USER)
    [started] = await hub.claims.claim(worker, USER, Claim(start=True))
    [old] = await hub.claims.claim(worker, USER)
    assert redis.hget(f"hub:task:{started.id}", "claimed") is None
    redis.hdel(f"hub:task:{old.id}", "claimed")
    redis.hincrby("hub:store", "clock_ms", 10 * MINUTE_MS)
    assert await records_of(hub).reset([old.id, started.id]) == Reset()


async def test_internal_tasks_are_left_to_their_own_timeout(hub, redis):
    redis.hset(
        "hub:task:" + "1" * 32,
        mapping={"job": "@internal:m:A", "room": "r1", "user": USER, "at": 1, "status": "claimed", "worker": "w"},
    )
    age(redis, "1" * 32, 10 * MINUTE_MS)
    assert await records_of(hub).look(5, ids=["1" * 32]) == []
    assert await records_of(hub).reset(["1" * 32]) == Reset()


async def test_a_task_requeued_too_often_fails_with_a_reason(hub, redis):
    worker = await worker_of(hub)
    [task] = await claimed_by(hub, worker, max_attempts=3)
    records = records_of(hub, max_attempts=2)
    for _ in range(2):
        age(redis, task, MINUTE_MS + 1)
        assert (await records.reset()).reset == (dashed(task),)
        assert [again.id for again in await hub.claims.claim(worker, USER)] == [task]
    age(redis, task, MINUTE_MS + 1)
    assert [stuck.attempts for stuck in await records.look(1)] == [2]
    assert await records.reset() == Reset((), (dashed(task),))
    ended = await hub.tasks.get(task)
    assert (ended.status, ended.error) == ("failed", ERROR)
    assert (await hub.tasks.dead(task)).id == task
    assert redis.smembers(f"hub:worker_tasks:{worker}") == set()


async def test_a_job_without_workers_is_removed_when_its_last_task_fails_so(hub, redis):
    worker = await worker_of(hub)
    [task] = await claimed_by(hub, worker)
    redis.hset(f"hub:task:{task}", "unstuck", 1)
    redis.delete(f"hub:job_workers:{JOB}")
    age(redis, task, MINUTE_MS + 1)
    assert (await records_of(hub, max_attempts=1).reset()).failed == (dashed(task),)
    assert (await hub.jobs.page("r1", 10, 0)).total == 0


async def test_the_history_has_each_requeue_with_its_reason(hub, redis):
    worker = await worker_of(hub)
    [task] = await claimed_by(hub, worker)
    records = records_of(hub, max_attempts=1)
    for _ in range(2):
        age(redis, task, MINUTE_MS + 1)
        await records.reset()
        await hub.claims.claim(worker, USER)
    events = [Event.read(entry) for entry in redis.xrange("hub:history")]
    told = [(event.facts["why"], event.facts["task"], event.why) for event in events if event.what == "task.unstuck"]
    assert [(why, about) for why, about, _ in told] == [("queued", task), ("failed", task)]
    assert ["waits again" in told[0][2], "so it failed" in told[1][2]] == [True, True]


async def test_stuck_tasks_beyond_one_batch_are_requeued_longest_stuck_first(hub, redis):
    worker = await worker_of(hub)
    tasks = [task for _ in range(3) for task in await claimed_by(hub, worker, 50)]
    for number, task in enumerate(tasks):
        age(redis, task, 2 * MINUTE_MS - number)
    records = records_of(hub)
    assert [stuck.id for stuck in await records.look(3)] == [dashed(task) for task in tasks[:3]]
    done = [await records.reset() for _ in range(4)]
    assert [len(each.reset) for each in done] == [BATCH, BATCH, BATCH, 0]
    assert set(done[0].reset) == {dashed(task) for task in tasks[:BATCH]}
    assert await records_of(hub, batch_size=7).reset() == Reset()


async def test_a_reset_may_be_limited_to_ids_and_to_an_age(hub, redis):
    worker = await worker_of(hub)
    first, second = await claimed_by(hub, worker, 2)
    age(redis, first, 5 * MINUTE_MS)
    age(redis, second, 2 * MINUTE_MS)
    records = records_of(hub)
    assert [stuck.id for stuck in await records.look(9, older_than_s=180)] == [dashed(first)]
    assert [stuck.id for stuck in await records.look(9, older_than_s=1)] == [dashed(first), dashed(second)]
    assert [stuck.id for stuck in await records.look(9, ids=[second.upper()])] == [dashed(second)]
    assert await records.reset([dashed(second), second, "nonsense"]) == Reset((dashed(second),), ())
    assert (await hub.tasks.get(first)).status == "claimed"


async def test_stuck_tasks_of_very_many_workers_are_found(hub, redis):
    pipe = redis.pipeline()
    for number in range(1, 1001):
        worker, task = f"{number:032x}", f"{number:032x}"
        pipe.zadd("hub:worker_beats", {worker: number})
        pipe.sadd(f"hub:worker_tasks:{worker}", task)
        pipe.hset(f"hub:task:{task}", mapping={"job": JOB, "status": "claimed", "worker": worker, "claimed": -90_000})
    pipe.execute()
    assert await records_of(hub).count() == 1000


async def test_a_worker_that_starts_the_task_in_the_same_moment_keeps_it_or_gets_a_conflict(hub, redis):
    worker = await worker_of(hub)
    records = records_of(hub)
    for _ in range(30):
        [task] = await claimed_by(hub, worker)
        age(redis, task, MINUTE_MS + 1)
        report = hub.tasks.finish(worker, USER, [Result(task, "running", "")])
        done, words = await asyncio.gather(records.reset([task]), report)
        assert (done.count, words) in ((1, ["conflict"]), (0, ["ok"]))
        status = (await hub.tasks.get(task)).status
        assert status == ("pending" if done.count else "running")
        await hub.tasks.move(task, "cancelled", superuser=True)


async def test_two_hubs_at_once_requeue_each_task_once(hub, redis, settings):
    worker = await worker_of(hub)
    tasks = await claimed_by(hub, worker, 90)
    for task in tasks:
        age(redis, task, MINUTE_MS + 1)
    async with open_store(settings) as store:
        both = records_of(hub), records_of(Hub(store, settings))

        async def all_of(records):
            found = []
            while (done := await records.reset()).count:
                found += done.reset
            return found

        first, second = await asyncio.gather(*map(all_of, both))
    assert sorted(first + second) == sorted(map(dashed, tasks))
    assert {redis.hget(f"hub:task:{task}", "unstuck") for task in tasks} == {"1"}


async def test_a_repeated_reset_requeues_no_task_twice(hub, redis):
    worker = await worker_of(hub)
    [task] = await claimed_by(hub, worker)
    age(redis, task, MINUTE_MS + 1)
    script = hub.store.script("tasks/unstick")
    named = {"threshold_ms": MINUTE_MS, "most": 0, "error": ERROR, "rest": [task, task]}
    assert [await script(**named), await script(**named)] == [[1, 0], [0, 0]]
    assert [again.id for again in await hub.claims.claim(worker, USER)] == [task]
    assert await script(**named) == [0, 0]


async def test_recovery_of_tasks_goes_on_after_a_restart_of_redis(own_redis):
    settings = Settings(redis_url=own_redis.url)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        [task] = await claimed_by(hub, await worker_of(hub))
        age(own_redis.client(), task, MINUTE_MS + 1)
        records = records_of(hub)
        assert await records.count() == 1
        own_redis.kill()
        with pytest.raises(RecordsUnavailable, match="source tasks, kind: the hub's own Redis does not answer"):
            await records.reset()
        own_redis.start()
        assert await records.reset() == Reset((dashed(task),), ())


async def test_a_claim_takes_a_fixed_number_of_redis_commands(hub, redis):
    worker = await worker_of(hub)
    await hub.tasks.submit("r1", JOB, ["{}"] * 3, USER)
    await hub.claims.claim(worker, USER)

    def calls():
        stats = redis.info("commandstats")
        return {name: found["calls"] for name, found in stats.items() if name not in ("cmdstat_info",)}

    before = calls()
    await hub.claims.claim(worker, USER)
    spent = {name[8:]: count - before.get(name, 0) for name, count in calls().items() if count != before.get(name, 0)}
    assert spent.pop("fcall") == 1
    assert {name: spent[name] for name in ("hset", "sadd", "zrem")} == {"hset": 1, "sadd": 1, "zrem": 3}
