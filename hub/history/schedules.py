"""The explanation of a schedule: why it makes no task, when it last made one, and when it is due next."""

from __future__ import annotations

from dataclasses import dataclass

from hub.core import Hub
from hub.history.explained import NextStep, Now, seconds
from hub.jobs.chains import Link, links_to
from hub.jobs.names import dashed, time_text
from hub.jobs.rules import Rule
from hub.jobs.schedules import NO_TASK, Schedule, ScheduleNotFound

_LATE_US = 5_000_000  # a schedule overdue for longer is late: hubs look for due schedules every second
_MISSED = {
    "skip": "such times make none",
    "one": "the latest of such times makes one",
    "all": "each of such times makes one",
}


@dataclass(frozen=True)
class _AroundSchedule:
    """The facts around a schedule. `now_us`: the clock of Redis. `job`: whether its job exists. `last`: the task it
    made last, if any. `holder`: the task that holds its unique key, if any.
    """

    now_us: int
    job: bool
    last: tuple[Link, ...]
    holder: tuple[Link, ...]


async def schedule_now(hub: Hub, name: str) -> Now | None:
    """Return the present state of a schedule, `room:name`, and its next step; None for an unknown schedule."""
    room, _, own = name.partition(":")
    try:
        found = await hub.schedules.get(room, own)
    except ScheduleNotFound:
        return None
    around = _AroundSchedule(0, False, (), ()) if found.fault else await _around(hub, found)
    facts = {
        "job": found.job,
        "times": _times(found.rule),
        "nextUtc": None if found.paused or found.problem else _time(found.due_us),
        "lastUtc": _time(found.last_us),
        "lastTask": [link.document() for link in around.last],
        "tasksMade": found.fired,
        "lastTimeMadeNone": NO_TASK.get(found.why, found.why) or None,
        "catchUp": found.catch_up,
        "madeBy": dashed(found.user),
        "madeUtc": time_text(found.created_us),
    }
    state = (
        "paused" if found.paused else "put aside" if found.problem else "active" if found.due_us is not None else "over"
    )
    return Now(state, _because(found, around), facts, _next(found, around))


async def _around(hub: Hub, found: Schedule) -> _AroundSchedule:
    keys = hub.store.keys
    now, (at, deleted), unique = await hub.store.read_all(
        [
            ("TIME",),
            ("HMGET", keys.job(found.job), "at", "deleted"),
            ("HGET", keys.schedule(found.id), "unique"),
        ]
    )
    holder = await hub.store.read("GET", keys.unique(unique.partition(":")[0])) if unique else None
    return _AroundSchedule(
        int(now[0]) * 1_000_000 + int(now[1]),
        bool(at and not deleted),
        await links_to(hub.store, [found.task] if found.task else []),
        await links_to(hub.store, [holder] if holder else []),
    )


def _because(found: Schedule, around: _AroundSchedule) -> str:
    if found.paused:
        text = "It is paused, so it makes no task"
    elif found.problem:
        return f"It is put aside and makes no task: {found.problem}."
    elif found.due_us is None:
        text = "Its times are all in the past"
    elif found.due_us < around.now_us - _LATE_US:
        text = f"It was due at {time_text(found.due_us)}, and no hub has fired it yet"
    else:
        text = f"It is due at {time_text(found.due_us)}"
        if not around.job:
            text += f", and would make no task now: no worker serves {found.job}, and none of its tasks waits"
        for link in around.holder:
            text += f", and would make no task now: task {dashed(link.task)} ({link.status}) stands for its unique key"
    if found.why:
        return f"{text}. Its last time made no task: {NO_TASK.get(found.why, found.why)}."
    if not around.last:
        return f"{text}. It has made no task yet."
    last = around.last[0]
    return f"{text}. It made task {dashed(last.task)} ({last.status}) at {_time(found.last_us)}."


def _next(found: Schedule, around: _AroundSchedule) -> tuple[NextStep, ...]:
    if found.paused:
        rule = "When it is resumed (hub schedule resume), at its next time: what was due meanwhile is not caught up."
        return (NextStep("task.scheduled", rule),)
    if found.problem:
        rule = "It is looked at every ten minutes, and goes on when it can be read. Replace it, or remove it."
        return (NextStep("task.scheduled", rule),)
    if found.due_us is None:
        return ()
    rule = "When it is due the first hub that looks makes its task. What is more than a minute late was missed: "
    rule += f"{_MISSED[found.catch_up]} (catchUp {found.catch_up})."
    return (NextStep("task.scheduled", rule, max(0, found.due_us - around.now_us) // 1000),)


def _times(rule: Rule) -> str:
    return f"{rule.cron} in {rule.zone}" if rule.cron else f"every {seconds(rule.every_ms)}"


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else time_text(at_us)
