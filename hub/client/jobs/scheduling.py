"""Schedules of an application: tasks that are submitted at certain times, until the schedule is removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from hub.client.exchange import Send, Steps
from hub.client.jobs.calls import TROUBLE_S, ask, lasting, place


class ScheduleOptions(TypedDict, total=False):
    """The times at which tasks are submitted, by `cron` or by `every`, and the options of these tasks."""

    cron: str
    """Minute, hour, day of month, month and day of week: `30 2 * * mon-fri`."""
    every: float
    """In its place: once in so many seconds."""
    zone: str
    """The time zone that `cron` counts in; without it UTC."""
    catch_up: Literal["skip", "one", "all"]
    """What becomes of times at which no hub was there: none, the latest, or the latest 100; without it `one`."""
    priority: int
    """Of its tasks, from -100 to 100."""
    max_attempts: int
    """How often a task is tried when it fails."""
    backoff: float
    """Seconds to the second attempt, doubled with each further one up to an hour."""
    max_silence: float
    """A task that runs and says nothing for so many seconds fails, or is tried again."""
    unique_key: str
    """No task is made while the one under this key is not over."""
    unique_for: float
    """Nor for so many seconds after it was made, where it was completed."""


_MEMBERS = {
    "cron": "cron", "every": "everySeconds", "zone": "timeZone", "catch_up": "catchUp", "priority": "priority",
    "max_attempts": "maxAttempts", "backoff": "backoffSeconds", "max_silence": "maxSilenceSeconds",
    "unique_key": "uniqueKey", "unique_for": "uniqueSeconds",
}  # fmt: skip


def schedule(name: str, job: str, payload: Mapping[str, Any], room: str, options: ScheduleOptions) -> Steps[None]:
    """Create a schedule, or change the caller's schedule of this name."""
    body: dict[str, Any] = {"job": job, "payload": payload}
    body |= {_MEMBERS[option]: value for option, value in options.items() if value is not None}
    yield from ask(Send("PUT", place("rooms", room, "schedules", name), body), lasting(TROUBLE_S))


def unschedule(name: str, room: str) -> Steps[None]:
    """Remove a schedule; raises when there is none."""
    yield from ask(Send("DELETE", place("rooms", room, "schedules", name)), lasting(TROUBLE_S))
