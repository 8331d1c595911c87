"""Why a schedule makes a task or none: when it is due next, what became of its last time, what stands in its way."""

from __future__ import annotations

from typing import Any

import pytest

from hub.core import Hub
from hub.errors import NotFound
from hub.history.events import wanted
from hub.history.explained import Explanation
from hub.history.reading import History
from hub.history.why import why
from hub.jobs.models import Claim, Options
from hub.jobs.names import dashed, time_text
from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule
from tests.history.conftest import JOB, USER
from tests.world import SLACK_S

MINUTE_US = 60_000_000


async def put(hub: Hub, **wanted: Any) -> Schedule:
    given = {"room": "one", "name": "nightly", "job": JOB, "payload": "{}", "rule": Rule(every_ms=60_000), **wanted}
    found, _ = await hub.schedules.put(Schedule(**given), USER, superuser=False)
    return found


def make_due(redis: Any) -> int:
    """Make the schedule one second overdue."""
    due = int(redis.hget("hub:schedule:one:nightly", "due")) - MINUTE_US - 1_000_000
    redis.hset("hub:schedule:one:nightly", "due", due)
    redis.zadd("hub:schedules", {"one:nightly": due})
    return due


async def explain(hub: Hub) -> Explanation:
    found = await why(hub, History(hub.store), "schedule", "one:nightly", 50)
    assert (found.kind, found.id) == ("schedule", "one:nightly")
    assert found.now.because.endswith(".")
    return found


async def test_why_of_a_schedule_says_when_it_is_due_and_which_task_it_made_last(hub, worker, redis):
    made = await put(hub)
    found = await explain(hub)
    assert made.due_us is not None
    assert found.now.state == "active"
    assert found.now.because == f"It is due at {time_text(made.due_us)}. It has made no task yet."
    [step] = found.now.next
    assert (step.what, step.in_ms) == ("task.scheduled", pytest.approx(60_000, abs=SLACK_S * 1000))
    due = make_due(redis)
    assert await hub.schedules.fire_due() == 1
    [task] = (await hub.tasks.page_of_job("one", JOB, None, 10, 0)).items
    await hub.claims.claim(worker, USER, Claim(start=True))
    found = await explain(hub)
    assert found.now.because == (
        f"It is due at {time_text(due + MINUTE_US)}. It made task {dashed(task.id)} (running) at {time_text(due)}."
    )
    assert found.now.facts["lastTask"] == [{"task": dashed(task.id), "job": JOB, "status": "running"}]
    assert (found.now.facts["times"], found.now.facts["tasksMade"]) == ("every 60 s", 1)
    assert [event.what for event in found.past.events] == ["task.scheduled", "schedule.made"]
    assert found.past.events[0].facts["task"] == task.id


async def test_each_change_of_a_schedule_writes_one_event(hub, worker, redis):
    await put(hub)
    await put(hub)  # as it is
    for paused in (True, True, False):
        await hub.schedules.pause("one", "nightly", USER, superuser=False, paused=paused)
    make_due(redis)
    await hub.schedules.fire_due()
    await put(hub, payload='{"gpu": 2}')
    await put(hub, payload='{"gpu": 2}', paused=True)
    await hub.schedules.remove("one", "nightly", USER, superuser=False)
    told = (await History(hub.store).find(wanted("schedule", {}), 50)).events
    assert [(event.what.removeprefix("schedule."), event.facts.get("why", "")) for event in reversed(told)] == [
        ("made", ""), ("changed", "paused"), ("changed", "resumed"), ("changed", ""), ("changed", "paused"),
        ("removed", ""),
    ]  # fmt: skip
    assert {event.facts["job"] for event in told} == {JOB}


async def test_why_of_a_paused_schedule_says_that_it_is_paused(hub, worker):
    await put(hub)
    await hub.schedules.pause("one", "nightly", USER, superuser=False, paused=True)
    found = await explain(hub)
    assert found.now.state == "paused"
    assert found.now.because == "It is paused, so it makes no task. It has made no task yet."
    assert found.now.facts["nextUtc"] is None
    assert "hub schedule resume" in found.now.next[0].rule


async def test_why_of_a_schedule_names_the_task_that_blocks_it(hub, worker, redis):
    await put(hub, options=Options(unique_key="one at a time"))
    make_due(redis)
    assert await hub.schedules.fire_due() == 1
    make_due(redis)
    assert await hub.schedules.fire_due() == 0
    [task] = (await hub.tasks.page_of_job("one", JOB, None, 10, 0)).items
    because = (await explain(hub)).now.because
    assert f"would make no task now: task {dashed(task.id)} (pending) stands for its unique key." in because
    assert because.endswith("Its last time made no task: the task that stands for its unique key was there.")


async def test_why_of_a_schedule_without_its_job_says_so_before_it_is_due(hub, worker):
    await put(hub)
    await hub.workers.delete(worker, USER, superuser=False)
    assert f"would make no task now: no worker serves {JOB}" in (await explain(hub)).now.because


async def test_why_of_an_overdue_schedule_says_since_when_it_is_due(hub, worker, redis):
    await put(hub)
    due = make_due(redis) - 10_000_000
    redis.hset("hub:schedule:one:nightly", "due", due)
    assert (await explain(hub)).now.because.startswith(f"It was due at {time_text(due)}, and no hub has fired it yet.")


@pytest.mark.parametrize("name", ["one:weekly", "nightly", "a:b:c"])
async def test_why_of_an_unknown_schedule_says_that_nothing_is_known(hub, worker, name):
    await put(hub)
    with pytest.raises(NotFound):
        await why(hub, History(hub.store), "schedule", name, 50)


async def test_why_of_a_schedule_put_aside_says_the_reason_and_the_remedy(hub, worker, redis):
    await put(hub, rule=Rule("0 0 * * *"))
    make_due(redis)
    redis.hset("hub:schedule:one:nightly", mapping={"zone": "Europe/Atlantis", "due": 1})
    redis.zadd("hub:schedules", {"one:nightly": 1})
    await hub.schedules.fire_due()
    problem = "'Europe/Atlantis' is no time zone: write one such as Europe/Berlin"
    found = await explain(hub)
    assert found.now.state == "put aside"
    assert found.now.because == f"It is put aside and makes no task: {problem}."
    [step] = found.now.next
    assert "every ten minutes" in step.rule
    assert [event.what for event in found.past.events] == ["schedule.broken", "schedule.made"]
    redis.delete("hub:schedule:one:nightly")
    redis.set("hub:schedule:one:nightly", "mine")
    assert "was written by no hub" in (await explain(hub)).now.because
