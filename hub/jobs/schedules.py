"""Schedules: tasks that are submitted at certain times, once however many hubs there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hub.errors import Forbidden, JobsProblem, UnknownReply
from hub.jobs.jobs import no_job
from hub.jobs.models import Options, Page
from hub.jobs.pages import Pages
from hub.jobs.rules import MINUTE_US, Rule
from hub.jobs.submits import derived, unique_of
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store

MOST = 10_000  # in a store
CAUGHT_UP = 100  # of what was missed, of a schedule that catches up with all of it
AT_ONCE = 100  # that are fired in one pass
CATCH_UP = ("skip", "one", "all")
NO_TASK = {  # why a time made none, as `lua/commands/schedules/fire.lua` says it
    "no-job": "no worker served its job, and none of its tasks waited",
    "unique": "the task that stands for its unique key was there",
    "missed": "its time was missed, and is not caught up",
}
_log = get_logger("hub.jobs")


class ScheduleNotFound(JobsProblem):
    code = "schedule-not-found"
    status = 404


class TooManySchedules(JobsProblem):
    code = "too-many-schedules"
    status = 409


@dataclass(frozen=True)
class Schedule:
    """A schedule of a room. catch_up: what becomes of firings that were missed. due_us: when it is due next; last_us:
    when it was due last and made a task, `task`; fired: how many it has made; why: its last firing made none.
    """

    room: str
    name: str
    job: str
    payload: str
    rule: Rule
    catch_up: str = "one"
    paused: bool = False
    options: Options = Options()  # noqa: RUF009 - frozen
    user: str = ""
    created_us: int = 0
    due_us: int | None = None
    last_us: int | None = None
    task: str | None = None
    fired: int = 0
    why: str = ""

    @property
    def id(self) -> str:
        return f"{self.room}:{self.name}"

    @property
    def plan(self) -> str:
        """What its times follow from, as `lua/schedules.lua` has it: who works them out says so, for it may change."""
        rule = self.rule
        return "\n".join(map(str, (self.created_us, rule.cron, rule.every_ms or "", rule.zone, self.catch_up)))

    def times(self, now_us: int) -> tuple[list[int], int | None]:
        """When it was due until now, as far as that is caught up with, and when it is due next. What is less than
        a minute late was not missed.
        """
        found = self.rule.missed(self.due_us or now_us, now_us, CAUGHT_UP if self.catch_up == "all" else 1)
        last_us = found[-1] if found else now_us
        if self.catch_up == "skip" and last_us < now_us - MINUTE_US:
            found = []
        return found, self.rule.next(last_us)


class Schedules:
    """Keeps `Schedule`."""

    def __init__(self, store: Store, settings: Settings, pages: Pages) -> None:
        self._store = store
        self._realm = settings.realm
        self._pages = pages
        self._put = store.script("schedules/put")
        self._pause = store.script("schedules/pause")
        self._remove = store.script("schedules/remove")
        self._describe = store.script("schedules/describe")
        self._due = store.script("schedules/due")
        self._fire = store.script("schedules/fire")

    async def put(self, wanted: Schedule, user: str, superuser: bool) -> tuple[Schedule, bool]:
        """The schedule, and whether it is new; raises `JobNotFound`, `Forbidden` for another's, `TooManySchedules`."""
        options = wanted.options
        reply = await self._put(
            room=wanted.room,
            name=wanted.name,
            user=user,
            superuser=int(superuser),
            job=wanted.job,
            payload=wanted.payload,
            cron=wanted.rule.cron,
            every_ms=wanted.rule.every_ms or "",
            zone=wanted.rule.zone,
            catch_up=wanted.catch_up,
            paused=int(wanted.paused),
            priority=options.priority,
            attempts="" if options.as_the_job else options.max_attempts,
            backoff_ms=options.backoff_ms,
            silence_ms=options.max_silence_ms,
            unique=unique_of(wanted.room, wanted.job, options),
            due_us=await self._next(wanted.rule),
            most=MOST,
        )
        match reply:
            case [("made" | "changed") as word, found]:
                return _schedule_of(found), word == "made"
            case ["job"]:
                raise no_job(wanted.job)
            case ["forbidden"]:
                raise not_yours(wanted.name)
            case ["full"]:
                raise TooManySchedules(f"There are {MOST} schedules, and there may be no more.")
        raise UnknownReply(self._put.name, reply)

    async def _next(self, rule: Rule) -> int | str:
        """When a rule is due next, '' for never."""
        now_us = int((await self._due(limit=0))[0])
        return rule.next(now_us) or ""

    async def get(self, room: str, name: str) -> Schedule:
        """The schedule; raises `ScheduleNotFound`."""
        found = await self._read([f"{room}:{name}"])
        if not found:
            raise no_schedule(room, name)
        return found[0]

    async def page(self, room: str, limit: int, offset: int) -> Page[Schedule]:
        """The schedules of a room."""

        async def read(names: list[str]) -> list[Schedule]:
            return await self._read([f"{room}:{name}" for name in names])

        return await self._pages.read([self._store.keys.room_schedules(room)], limit, offset, read)

    async def soonest(self, text: str, limit: int, offset: int) -> Page[Schedule]:
        """Those of all rooms whose `room:name` contains a text: the one that is due next first, those that are paused
        last.
        """
        ids = await self._store.read("ZRANGE", self._store.keys.schedules, 0, -1)
        found = [each for each in ids if text.lower() in each.lower()]
        return Page(await self._read(found[offset : offset + limit]), len(found))

    async def pause(self, room: str, name: str, user: str, superuser: bool, *, paused: bool) -> Schedule:
        """The schedule, paused or going on; raises `ScheduleNotFound` and `Forbidden`."""
        found = await self.get(room, name)
        reply = await self._pause(
            schedule=found.id,
            user=user,
            superuser=int(superuser),
            paused=int(paused),
            plan=found.plan,
            due_us=await self._next(found.rule),
        )
        match reply:
            case ["ok", changed]:
                return _schedule_of(changed)
            case ["moved"]:  # somebody has just changed it
                return await self.pause(room, name, user, superuser, paused=paused)
        raise _refused(reply, room, name, self._pause.name)

    async def remove(self, room: str, name: str, user: str, superuser: bool) -> None:
        """Remove a schedule; raises `ScheduleNotFound` and `Forbidden`."""
        reply = await self._remove(schedule=f"{room}:{name}", user=user, superuser=int(superuser))
        if reply != ["ok"]:
            raise _refused(reply, room, name, self._remove.name)

    async def fire_due(self) -> int:
        """How many tasks were made of the schedules that are due; another hub may have fired some of them."""
        now, *due = await self._due(limit=AT_ONCE)
        made = 0
        for reply in due:
            try:
                schedule = _schedule_of(reply)
                firings, next_us = await asyncio.to_thread(schedule.times, int(now))  # after an outage: some 20 ms
            except ValueError as error:  # another program wrote it, or its time zone is no more
                _log.error("schedule not fired", schedule=":".join(reply[:2]), why=str(error))
                continue
            made += await self._fired(schedule, firings, next_us)
        return made

    async def _fired(self, schedule: Schedule, firings: Sequence[int], next_us: int | None) -> int:
        seeds = [(f"{schedule.id}\0{schedule.created_us}\0{at_us}", str(at_us)) for at_us in firings]
        tasks = [(derived(seed, self._realm), at_us) for seed, at_us in seeds]
        reply = await self._fire(
            schedule=schedule.id,
            due_us=schedule.due_us,
            plan=schedule.plan,
            next_us=next_us or "",
            rest=[text for task in tasks for text in task],
        )
        match reply:
            case ["moved"]:
                return 0
            case ["ok", int(made), why]:
                metrics.schedules_fired.labels("made").inc(made)
                if why:
                    metrics.schedules_fired.labels(why).inc()
                    _log.info("schedule made no task", schedule=schedule.id, why=why)
                return made
        raise UnknownReply(self._fire.name, reply)

    async def _read(self, ids: list[str]) -> list[Schedule]:
        return [_schedule_of(reply) for reply in await self._describe(rest=ids) if reply]


def _schedule_of(reply: Sequence[str]) -> Schedule:
    """The schedule of a reply of `lua/schedules.lua`; raises ValueError for one that no hub has written."""
    (
        room, name, user, at, job, payload, cron, every_ms, zone, catch_up, paused, due, priority, attempts, backoff_ms,
        silence_ms, unique, last, task, fired, why,
    ) = reply  # fmt: skip
    options = Options(
        priority=int(priority or 0),
        max_attempts=int(attempts or 1),
        backoff_ms=int(backoff_ms or 1000),
        max_silence_ms=int(silence_ms or 0),
        as_the_job=not attempts,
        unique_ms=int(unique.partition(":")[2] or 0) // 1000,
    )
    return Schedule(
        room=room,
        name=name,
        job=job,
        payload=payload,
        rule=Rule(cron, int(every_ms or 0), zone),
        catch_up=catch_up,
        paused=paused == "1",
        options=options,
        user=user,
        created_us=int(at),
        due_us=int(due) if due else None,
        last_us=int(last) if last else None,
        task=task or None,
        fired=int(fired or 0),
        why=why,
    )


def _refused(reply: Any, room: str, name: str, script: str) -> Exception:
    match reply:
        case ["schedule"]:
            return no_schedule(room, name)
        case ["forbidden"]:
            return not_yours(name)
    return UnknownReply(script, reply)


def no_schedule(room: str, name: str) -> ScheduleNotFound:
    """For a schedule that a room has not."""
    return ScheduleNotFound(f"There is no schedule {name} in room {room}")


def not_yours(name: str) -> Forbidden:
    """For a schedule of somebody else."""
    return Forbidden(f"Schedule {name} is changed by who made it or a superuser alone")
