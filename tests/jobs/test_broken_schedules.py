"""Schedules that cannot be read or fired: each is put aside with its reason, and stops no other."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from hub.errors import Forbidden
from hub.jobs import rules, schedules
from hub.jobs.rules import Rule
from hub.jobs.schedules import ScheduleNotFound
from tests.jobs.conftest import JOB, USER, worker_of
from tests.jobs.test_schedules import age, put, tasks_of

LOST = "'Europe/Atlantis' is no time zone: write one such as Europe/Berlin"
CRON = Rule("* * * * *")


def break_it(redis, name, fields=None):
    """Write what no hub can read into a schedule that is due."""
    redis.hset(f"hub:schedule:r1:{name}", mapping={"due": 1, **(fields or {"zone": "Europe/Atlantis"})})
    redis.zadd("hub:schedules", {f"r1:{name}": 1})


def events_of(redis, what):
    return [said for _, said in redis.xrange("hub:history") if said["event"] == what]


def due_again(redis, name):
    redis.hset(f"hub:schedule:r1:{name}", "again", 1)
    redis.zadd("hub:schedules", {f"r1:{name}": 1})


async def test_very_many_unreadable_schedules_stop_no_other_schedule_in_the_same_pass(hub, redis):
    await worker_of(hub)
    for number in range(150):
        await put(hub, f"a{number}", rule=CRON)
        break_it(redis, f"a{number}")
    await put(hub, "whole")
    age(redis, 1, "whole")
    with capture_logs() as logs:
        assert await hub.schedules.fire_due() == 1
        assert await hub.schedules.fire_due() == 0
    told = [line["event"] for line in logs]
    assert told == ["schedule broken"] * schedules.LINES_MAX + ["more schedules broken"]
    assert logs[-1]["count"] == 150 - schedules.LINES_MAX
    assert len(events_of(redis, "schedule.broken")) == 150


async def test_a_schedule_put_aside_is_logged_once_and_listed_with_its_reason(hub, redis):
    await worker_of(hub)
    await put(hub, rule=CRON)
    break_it(redis, "s1")
    with capture_logs() as logs:
        for _ in range(3):
            await hub.schedules.fire_due()
            due_again(redis, "s1")
    assert [(line["event"], line["why"]) for line in logs] == [("schedule broken", LOST)]
    [found] = (await hub.schedules.page("r1", 9, 0)).items
    assert (found.problem, found.rule.zone, found.rule.cron) == (LOST, "Europe/Atlantis", "* * * * *")
    [event] = events_of(redis, "schedule.broken")
    assert (event["schedule"], event["why"]) == ("r1:s1", LOST)


async def test_a_schedule_whose_zone_is_back_catches_up_when_it_is_read_again(hub, redis):
    await worker_of(hub)
    await put(hub, rule=CRON)
    break_it(redis, "s1")
    await hub.schedules.fire_due()
    now_us = int((await hub.store.script("schedules/due")(limit=0))[0])
    assert redis.zscore("hub:schedules", "r1:s1") > now_us + schedules.AGAIN_US - 60_000_000
    redis.hset("hub:schedule:r1:s1", "zone", "UTC")
    assert await hub.schedules.fire_due() == 0
    due_again(redis, "s1")
    assert await hub.schedules.fire_due() == 1
    found = await hub.schedules.get("r1", "s1")
    assert (found.problem, found.due_us > now_us) == ("", True)
    assert redis.zscore("hub:schedules", "r1:s1") == found.due_us
    assert [event["why"] for event in events_of(redis, "schedule.changed")] == ["readable"]


async def test_an_expression_refused_by_a_later_library_is_put_aside_with_its_error(hub, redis, monkeypatch):
    await worker_of(hub)
    await put(hub, rule=CRON)
    age(redis, 1)

    def refuse(expression, *_):
        raise rules.CronSimError("Bad minute")

    monkeypatch.setattr(rules, "CronSim", refuse)
    assert await hub.schedules.fire_due() == 0
    assert (await hub.schedules.get("r1", "s1")).problem == "'* * * * *' is no cron expression: bad minute"


BROKEN = [
    ({"due": "soon"}, "its next time 'soon' is no number that fits"),
    ({"at": "x"}, "its time 'x' is no number that fits"),
    (
        {"cron": "", "every_ms": "-5"},
        "its interval '-5' is no number that fits; its record does not say when it is due",
    ),
    ({"cron": ""}, "its record does not say when it is due"),
    ({"payload": "{"}, "its payload is no JSON"),
    ({"catch_up": "some"}, "its catchUp 'some' is none of skip, one, all"),
    ({"prio": "9" * 30}, f"its priority '{'9' * 30}' is no number that fits"),
    ({"user": ""}, "what is stored under its name was written by no hub"),
    ({"payload": b'"\xff"'}, "it holds bytes that are no text"),
]


@pytest.mark.parametrize(("fields", "why"), BROKEN)
async def test_every_unreadable_schedule_is_put_aside_and_logged(hub, redis, fields, why):
    await worker_of(hub)
    await put(hub, rule=CRON)
    break_it(redis, "s1", fields)
    await put(hub, "whole")
    age(redis, 1, "whole")
    assert await hub.schedules.fire_due() == 1
    assert [each.problem for each in (await hub.schedules.page("r1", 9, 0)).items] == ["", why]
    assert redis.zscore("hub:schedules", "r1:s1") > 1
    assert await tasks_of(hub)


async def test_a_schedule_key_of_another_program_is_listed_and_superusers_may_replace_it(hub, redis):
    await worker_of(hub)
    for name in ("s1", "s2"):
        await put(hub, name)
        redis.delete(f"hub:schedule:r1:{name}")
        redis.set(f"hub:schedule:r1:{name}", "mine")
        redis.zadd("hub:schedules", {f"r1:{name}": 1})
    assert await hub.schedules.fire_due() == 0
    assert redis.zcount("hub:schedules", 0, 1) == 0
    said = "what is stored under its name was written by no hub"
    assert [each.problem for each in (await hub.schedules.page("r1", 9, 0)).items] == [said] * 2
    with pytest.raises(ScheduleNotFound):
        await hub.schedules.pause("r1", "s1", USER, True, paused=True)
    for refused in (put(hub), hub.schedules.remove("r1", "s1", USER, False)):
        with pytest.raises(Forbidden):
            await refused
    assert (await put(hub, superuser=True)).problem == ""
    await hub.schedules.remove("r1", "s2", USER, True)
    assert [each.name for each in (await hub.schedules.page("r1", 9, 0)).items] == ["s1"]


async def test_an_index_entry_without_a_schedule_is_removed(hub, redis):
    redis.zadd("hub:schedules", {"r1:gone": 1, "nothing": 1, ":none": 1, "": 1})
    assert await hub.schedules.fire_due() == 0
    assert redis.exists("hub:schedules") == 0


async def test_a_schedule_that_cannot_fire_is_put_aside_until_it_can(hub, redis):
    await worker_of(hub)
    await put(hub)
    age(redis, 1)
    redis.rename(f"hub:job:{JOB}", "kept")
    redis.set(f"hub:job:{JOB}", "mine")
    assert await hub.schedules.fire_due() == 0
    problem = "A key of the hub holds another type than the hub writes; hub doctor tells which."
    assert (await hub.schedules.get("r1", "s1")).problem == problem
    redis.rename("kept", f"hub:job:{JOB}")
    due_again(redis, "s1")
    assert await hub.schedules.fire_due() == 1


async def test_a_schedule_put_aside_can_be_paused_resumed_replaced_and_removed(hub, redis):
    await worker_of(hub)
    await put(hub, rule=CRON)
    break_it(redis, "s1")
    await hub.schedules.fire_due()
    paused = await hub.schedules.pause("r1", "s1", USER, False, paused=True)
    assert (paused.paused, paused.problem, redis.zscore("hub:schedules", "r1:s1")) == (True, LOST, float("inf"))
    resumed = await hub.schedules.pause("r1", "s1", USER, False, paused=False)
    assert (resumed.paused, resumed.problem) == (False, LOST)
    assert await hub.schedules.fire_due() == 0
    assert len(events_of(redis, "schedule.broken")) == 1
    replaced = await put(hub, rule=CRON)
    assert (replaced.problem, redis.zscore("hub:schedules", "r1:s1")) == ("", replaced.due_us)
    break_it(redis, "s1")
    await hub.schedules.fire_due()
    await hub.schedules.remove("r1", "s1", USER, False)
    assert redis.exists("hub:schedules", "hub:schedule:r1:s1") == 0


async def test_a_late_hub_puts_no_schedule_aside_that_was_changed_meanwhile(hub, redis):
    await worker_of(hub)
    await put(hub, rule=CRON)
    break_it(redis, "s1")
    read = (await hub.store.script("schedules/due")(limit=9))[1]
    changed = await put(hub, rule=Rule("0 * * * *"))
    stale = schedules._schedule_of(read)
    assert not await hub.schedules._set_aside(read, stale.plan, 1, "late", 0)
    assert (await hub.schedules.get("r1", "s1")) == changed


async def test_a_schedule_that_was_replaced_is_not_put_aside_for_what_it_was_before(hub, redis):
    await worker_of(hub)
    await put(hub, rule=CRON)
    due = redis.hget("hub:schedule:r1:s1", "due")
    put_aside = hub.store.script("schedules/put_aside")
    assert await put_aside(schedule="r1:s1", due_us=due, plan="0 0 * * *", why="broken", again_us="1") == ["moved"]
    assert (await hub.schedules.get("r1", "s1")).problem == ""
