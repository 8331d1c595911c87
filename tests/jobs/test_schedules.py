"""Schedules: one task for each time, however many hubs there are, and what becomes of times that were missed."""

from __future__ import annotations

import asyncio

import pytest

from hub.core import Hub
from hub.errors import Forbidden, JobNotFound
from hub.jobs import schedules
from hub.jobs.models import Claim, Options, Result
from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule, ScheduleNotFound, TooManySchedules
from hub.store.connection import open_store
from hub.sweeping.tasks import TaskSweeperService
from tests.jobs.conftest import JOB, USER, worker_of
from tests.world import settings_for

OTHER = "b" * 32
MINUTE_US = 60_000_000
EVERY = Rule(every_ms=60_000)


async def put(hub, name="s1", user=USER, superuser=False, **wanted):
    found, _ = await hub.schedules.put(
        Schedule(**{"room": "r1", "name": name, "job": JOB, "payload": '{"n":1}', "rule": EVERY, **wanted}),
        user,
        superuser,
    )
    return found


def age(redis, us, name="s1"):
    """The schedule is due so long ago."""
    due = int(redis.hget(f"hub:schedule:r1:{name}", "due")) - 60_000_000 - us
    redis.hset(f"hub:schedule:r1:{name}", "due", due)
    redis.zadd("hub:schedules", {f"r1:{name}": due})
    return due


async def tasks_of(hub):
    return (await hub.tasks.page_of_job("r1", JOB, None, 500, 0)).items


async def test_a_due_schedule_makes_a_task_and_gets_its_next_due_time(hub, redis):
    worker = await worker_of(hub)
    made = await put(hub, options=Options(priority=3, max_attempts=2))
    assert await hub.schedules.fire_due() == 0
    due = age(redis, 5_000_000)
    assert (await TaskSweeperService(hub.store, hub.settings, hub.workers).sweep()).fired == 1
    [task] = await tasks_of(hub)
    assert (task.room, task.user, task.payload, task.priority, task.max_attempts) == ("r1", USER, '{"n":1}', 3, 2)
    found = await hub.schedules.get("r1", "s1")
    assert (found.due_us, found.last_us, found.task, found.fired) == (due + MINUTE_US, due, task.id, 1)
    assert found.created_us == made.created_us
    assert [claimed.id for claimed in await hub.claims.claim(worker, USER)] == [task.id]
    assert redis.hget(f"hub:job:{JOB}", "tasks") == "1"


async def test_many_hubs_make_one_task_per_due_time(hub, settings, redis):
    await worker_of(hub)
    for number in range(5):
        await put(hub, f"s{number}")
        age(redis, 1, f"s{number}")
    async with open_store(settings) as store:
        hubs = [hub, Hub(store, settings)]
        made = await asyncio.gather(*(hubs[n % 2].schedules.fire_due() for n in range(6)))
    assert sum(made) == len(await tasks_of(hub)) == 5


@pytest.mark.parametrize(("policy", "count"), [("skip", 0), ("one", 1), ("all", 11)])
async def test_missed_due_times_are_caught_up_as_the_schedule_says(hub, redis, policy, count):
    await worker_of(hub)
    await put(hub, catch_up=policy, rule=Rule(every_ms=120_000))
    due = age(redis, 22 * MINUTE_US + 30_000_000)  # that of a minute and a half ago was missed as well
    assert await hub.schedules.fire_due() == count
    found = await hub.schedules.get("r1", "s1")
    assert (found.fired, found.why) == (count, "" if count else "missed")
    assert found.due_us == due + 11 * 2 * MINUTE_US
    assert found.last_us == (due + 10 * 2 * MINUTE_US if count else None)


async def test_a_due_time_less_than_a_minute_ago_counts_as_not_missed(hub, redis):
    await worker_of(hub)
    await put(hub, catch_up="skip")
    age(redis, 30_000_000)
    assert await hub.schedules.fire_due() == 1


async def test_of_very_many_missed_due_times_a_hundred_are_caught_up(hub, redis):
    await worker_of(hub)
    await put(hub, catch_up="all")
    due = age(redis, 500 * MINUTE_US)
    assert await hub.schedules.fire_due() == 100
    found = await hub.schedules.get("r1", "s1")
    assert (found.last_us, found.due_us) == (due + 500 * MINUTE_US, due + 501 * MINUTE_US)


async def test_a_late_hub_does_not_fire_a_schedule_again(hub, redis):
    await worker_of(hub)
    await put(hub)
    age(redis, 1)
    read = await hub.store.script("schedules/due")(limit=9)
    assert await hub.schedules.fire_due() == 1
    stale = schedules._schedule_of(read[1])
    assert await hub.schedules._fired(stale, [stale.due_us], None) == 0
    assert len(await tasks_of(hub)) == 1


@pytest.mark.parametrize(
    "wanted", [{"rule": Rule(every_ms=120_000)}, {"catch_up": "skip"}, {"rule": Rule("* * * * *")}]
)
async def test_a_schedule_changed_while_a_hub_fires_it_follows_its_new_rule(hub, redis, wanted):
    await worker_of(hub)
    await put(hub, catch_up="all")
    due = age(redis, 5 * MINUTE_US)
    stale = schedules._schedule_of((await hub.store.script("schedules/due")(limit=9))[1])
    await put(hub, **wanted)
    redis.hset("hub:schedule:r1:s1", "due", due)  # the new rule was put when that was still to come
    redis.zadd("hub:schedules", {"r1:s1": due})
    assert await hub.schedules._fired(stale, *stale.times(due)) == 0
    assert (await hub.schedules.get("r1", "s1")).due_us == due


async def test_a_schedule_removed_and_made_anew_is_not_fired_for_the_old_one(hub, redis):
    await worker_of(hub)
    await put(hub)
    due = age(redis, 1)
    stale = schedules._schedule_of((await hub.store.script("schedules/due")(limit=9))[1])
    await hub.schedules.remove("r1", "s1", USER, superuser=False)
    await put(hub)
    redis.hset("hub:schedule:r1:s1", "due", due)
    assert await hub.schedules._fired(stale, *stale.times(due)) == 0


async def test_a_schedule_changed_while_it_is_resumed_is_due_by_its_new_rule(hub, monkeypatch):
    await worker_of(hub)
    await put(hub, paused=True)
    ask = hub.schedules._next

    async def changed_first(rule):
        due_us = await ask(rule)
        monkeypatch.undo()
        await put(hub, rule=Rule(every_ms=3_600_000), paused=True)
        return due_us

    monkeypatch.setattr(hub.schedules, "_next", changed_first)
    found = await hub.schedules.pause("r1", "s1", USER, False, paused=False)
    assert (found.paused, found.rule.every_ms) == (False, 3_600_000)
    assert found.due_us > found.created_us + 3_599_000_000


async def test_a_paused_schedule_makes_no_task_and_catches_up_with_none(hub, redis):
    await worker_of(hub)
    await put(hub, catch_up="all")
    paused = await hub.schedules.pause("r1", "s1", USER, False, paused=True)
    assert (paused.paused, redis.zscore("hub:schedules", "r1:s1")) == (True, float("inf"))
    redis.hset("hub:schedule:r1:s1", "due", 5)
    again = await hub.schedules.pause("r1", "s1", USER, False, paused=False)
    assert again.due_us > again.created_us
    assert await hub.schedules.fire_due() == 0


async def test_a_schedule_put_again_unchanged_keeps_its_due_time(hub, redis):
    await worker_of(hub)
    first = await put(hub)
    redis.hset("hub:schedule:r1:s1", "due", first.due_us - 7)
    again = await put(hub, payload='{"n":2}')
    assert (again.due_us, again.payload) == (first.due_us - 7, '{"n":2}')
    changed = await put(hub, rule=Rule("0 0 1 1 *", zone="Asia/Tokyo"))
    assert changed.due_us != first.due_us - 7
    assert (await hub.schedules.page("r1", 9, 0)).items == [changed]


async def test_only_its_maker_or_a_superuser_may_change_a_schedule(hub):
    await worker_of(hub)
    await put(hub)
    for refused in (
        put(hub, user=OTHER),
        hub.schedules.pause("r1", "s1", OTHER, False, paused=True),
        hub.schedules.remove("r1", "s1", OTHER, False),
    ):
        with pytest.raises(Forbidden):
            await refused
    assert (await put(hub, user=OTHER, superuser=True, catch_up="all")).user == USER
    await hub.schedules.remove("r1", "s1", OTHER, True)
    for unknown in (
        hub.schedules.get("r1", "s1"),
        hub.schedules.pause("r1", "s1", USER, False, paused=True),
        hub.schedules.remove("r1", "s1", USER, False),
    ):
        with pytest.raises(ScheduleNotFound):
            await unknown


async def test_the_number_of_schedules_is_limited(hub, monkeypatch):
    await worker_of(hub)
    monkeypatch.setattr(schedules, "MOST", 1)
    await put(hub)
    await put(hub)
    with pytest.raises(TooManySchedules):
        await put(hub, "s2")


async def test_a_schedule_whose_job_was_gone_fires_again_when_the_job_is_back(hub, redis):
    worker = await worker_of(hub)
    await put(hub)
    await hub.workers.delete(worker, USER, superuser=False)
    with pytest.raises(JobNotFound):
        await put(hub, "s2")
    age(redis, 1)
    assert await hub.schedules.fire_due() == 0
    assert (await hub.schedules.get("r1", "s1")).why == "no-job"
    await worker_of(hub)
    age(redis, 1)
    assert await hub.schedules.fire_due() == 1
    assert (await hub.schedules.get("r1", "s1")).why == ""


async def test_a_unique_schedule_makes_no_task_while_its_last_one_has_not_ended(hub, redis):
    worker = await worker_of(hub)
    await put(hub, options=Options(unique_key="nightly", as_the_job=True))
    made = []
    for over in (False, True, False):
        age(redis, 1)
        made.append(await hub.schedules.fire_due())
        if over:
            [task] = await hub.claims.claim(worker, USER, Claim(start=True))
            await hub.tasks.finish(worker, USER, [Result(task.id, "completed")])
    assert made == [1, 0, 1]


async def test_an_unreadable_schedule_stops_no_other(hub, redis):
    await worker_of(hub)
    await put(hub, "a", rule=Rule("* * * * *"))
    await put(hub, "b")
    redis.hset("hub:schedule:r1:a", "zone", "Europe/Atlantis")
    redis.zadd("hub:schedules", {"r1:a": 1})
    age(redis, 1, "b")
    assert await hub.schedules.fire_due() == 1


async def test_a_lost_firing_is_repeated_as_the_same_task(lossy):
    worker = await lossy.worker()
    redis = lossy.server.client()
    await put(lossy.hub)
    age(redis, 1)
    lossy.keep()
    assert await lossy.hub.schedules.fire_due() == 1
    task = await lossy.claim(worker)
    await lossy.say(worker, task, "completed")
    await lossy.forget()
    await lossy.recall()
    url = lossy.server.url
    async with open_store(settings_for(url)) as store:
        other = Hub(store, settings_for(url))
        await other.clock.tick()
        assert await other.schedules.fire_due() == 1
        assert [(found.id, found.status) for found in await tasks_of(other)] == [(task.id, "completed")]
