"""Schedules: tasks that hubs submit at certain times. However many hubs there are, each time makes one task."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import orjson

from hub.errors import Forbidden, JobsProblem, StoreFull, StoreUnavailable, UnknownReply
from hub.jobs.jobs import no_job
from hub.jobs.models import Options, Page
from hub.jobs.pages import Pages
from hub.jobs.quotas import exceeded
from hub.jobs.rules import MINUTE_US, TOO_FAR_US, Rule, Unreadable
from hub.jobs.submits import derived, unique_of
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store

MOST = 10_000  # schedules in a store
CAUGHT_UP = 100  # most missed times for which a schedule with `catch_up` `all` makes tasks
AT_ONCE = 100  # schedules that are read as due at a time
BITES_MAX = 20  # how often a pass reads on when schedules that it read were put aside
AGAIN_US = 600_000_000  # time until a schedule that was put aside is tried again: if all `MOST` are, 17 a second
LINES_MAX = 20  # log lines of one pass about schedules that were put aside
CatchUp = Literal["skip", "one", "all"]
CATCH_UP: tuple[CatchUp, ...] = get_args(CatchUp)
NO_TASK = {  # reason word of `lua/commands/schedules/fire.lua` -> why a due time made no task
    "no-job": "no worker served its job, and none of its tasks waited",
    "unique": "the task that stands for its unique key was there",
    "missed": "its time was missed, and is not caught up",
    "quota": "its user holds as many open tasks as one may",
}
WHY_MAX = 500  # characters of a reason, which is cut because it may quote a long text
_DUE = 11  # position of the next due time in a reply of `lua/schedules.lua`
_whole = re.compile(r"0|-?[1-9][0-9]{0,18}").fullmatch
_log = get_logger("hub.jobs")


class ScheduleNotFound(JobsProblem):
    code = "schedule-not-found"
    status = 404


class TooManySchedules(JobsProblem):
    code = "too-many-schedules"
    status = 409


@dataclass(frozen=True)
class Schedule:
    """A schedule of a room. catch_up: whether missed times make tasks (none, one, all). due_us: when it is due next;
    last_us: the last time that made a task, `task`; fired: how many tasks it has made; why: why the last due time made
    none. fault: why its record cannot be read here; broken: why it was put aside. plan: the text of its rule, which
    is sent with every change that was computed from it, so that the store can refuse the change if the rule is another.
    """

    room: str
    name: str
    job: str
    payload: str
    rule: Rule
    catch_up: CatchUp = "one"
    paused: bool = False
    options: Options = Options()  # noqa: RUF009 - frozen
    user: str = ""
    created_us: int = 0
    due_us: int | None = None
    last_us: int | None = None
    task: str | None = None
    fired: int = 0
    why: str = ""
    plan: str = ""
    broken: str = ""
    fault: str = ""

    @property
    def id(self) -> str:
        return f"{self.room}:{self.name}"

    @property
    def problem(self) -> str:
        """Return why the schedule makes no tasks although it is due; '' when nothing is wrong with it."""
        return self.fault or self.broken

    def times(self, now_us: int) -> tuple[list[int], int | None]:
        """Return the due times up to now for which tasks are to be made (by `catch_up`), and the next due time. A time
        less than a minute ago does not count as missed. Raises ValueError for a schedule that cannot be read.
        """
        if self.fault:
            raise ValueError(self.fault)
        found = self.rule.missed(self.due_us or now_us, now_us, CAUGHT_UP if self.catch_up == "all" else 1)
        last_us = found[-1] if found else now_us
        if self.catch_up == "skip" and last_us < now_us - MINUTE_US:
            found = []
        return found, self.rule.next(last_us)


class Schedules:
    """The schedules of a store."""

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
        self._put_aside = store.script("schedules/put_aside")

    async def put(self, wanted: Schedule, user: str, superuser: bool) -> tuple[Schedule, bool]:
        """Make or change a schedule; return it and whether it is new. Raises `JobNotFound`, `Forbidden` for a schedule
        of another user unless `superuser` is set, `QuotaExceeded` and `TooManySchedules`.
        """
        options = wanted.options
        reply = await self._put(
            room=wanted.room, name=wanted.name, user=user, superuser=int(superuser), job=wanted.job,
            payload=wanted.payload, cron=wanted.rule.cron, every_ms=wanted.rule.every_ms or "", zone=wanted.rule.zone,
            catch_up=wanted.catch_up, paused=int(wanted.paused), priority=options.priority,
            attempts="" if options.as_the_job else options.max_attempts, backoff_ms=options.backoff_ms,
            silence_ms=options.max_silence_ms, unique=unique_of(wanted.room, wanted.job, options),
            due_us=await self._next(wanted.rule), most=MOST,
        )  # fmt: skip
        match reply:
            case [("made" | "changed") as word, found]:
                return _schedule_of(found), word == "made"
            case ["job"]:
                raise no_job(wanted.job)
            case ["forbidden"]:
                raise not_yours(wanted.name)
            case ["quota", *refusal]:
                raise exceeded(refusal)
            case ["full"]:
                raise TooManySchedules(f"There are {MOST} schedules, and there may be no more.")
        raise UnknownReply(self._put.name, reply)

    async def _next(self, rule: Rule) -> int | str:
        """Return the next due time of a rule, '' for never; a rule that cannot be read is due at once."""
        now_us = int((await self._due(limit=0))[0])
        return now_us if isinstance(rule, Unreadable) else rule.next(now_us) or ""

    async def get(self, room: str, name: str) -> Schedule:
        """Return the schedule of this name in a room; raises `ScheduleNotFound`."""
        found = await self._read([f"{room}:{name}"])
        if not found:
            raise no_schedule(room, name)
        return found[0]

    async def page(self, room: str, limit: int, offset: int) -> Page[Schedule]:
        """Return a page of the schedules of a room."""

        async def read(names: list[str]) -> list[Schedule]:
            return await self._read([f"{room}:{name}" for name in names])

        return await self._pages.read([self._store.keys.room_schedules(room)], limit, offset, read)

    async def soonest(self, text: str, limit: int, offset: int) -> Page[Schedule]:
        """Return a page of the schedules of all rooms whose `room:name` contains `text`: the schedule that is due next
        comes first, paused ones come last.
        """
        ids = await self._store.read("ZRANGE", self._store.keys.schedules, 0, -1)
        found = [each for each in ids if text.lower() in each.lower()]
        return Page(await self._read(found[offset : offset + limit]), len(found))

    async def pause(self, room: str, name: str, user: str, superuser: bool, *, paused: bool) -> Schedule:
        """Pause a schedule or end its pause, and return it; raises `ScheduleNotFound` and `Forbidden`."""
        found = await self.get(room, name)
        reply = await self._pause(
            schedule=found.id, user=user, superuser=int(superuser), paused=int(paused), plan=found.plan,
            due_us=await self._next(found.rule),
        )  # fmt: skip
        match reply:
            case ["ok", changed]:
                return _schedule_of(changed)
            case ["moved"]:  # the schedule was changed since it was read
                return await self.pause(room, name, user, superuser, paused=paused)
        raise _refused(reply, room, name, self._pause.name)

    async def remove(self, room: str, name: str, user: str, superuser: bool) -> None:
        """Remove a schedule; raises `ScheduleNotFound` and `Forbidden`."""
        reply = await self._remove(schedule=f"{room}:{name}", user=user, superuser=int(superuser))
        if reply != ["ok"]:
            raise _refused(reply, room, name, self._remove.name)

    async def fire_due(self) -> int:
        """Make the tasks of all schedules that are due; return how many tasks this hub made. A schedule that cannot be
        fired is put aside for ten minutes, and the pass goes on with the next ones.
        """
        made = told = 0
        for _ in range(BITES_MAX):
            now, *due = await self._due(limit=AT_ONCE)
            aside = 0
            for reply in due:
                schedule = _schedule_of(reply)
                try:
                    # In a thread, because after an outage it can take some 20 ms.
                    firings, next_us = await asyncio.to_thread(schedule.times, int(now))
                    made += await self._fired(schedule, firings, next_us)
                except StoreFull:  # the schedules stay due
                    return made
                except StoreUnavailable:
                    raise
                except Exception as error:  # noqa: BLE001 - the next ones must be fired; a line and a counter tell
                    aside += 1
                    told += await self._set_aside(reply, schedule.plan, int(now), str(error) or repr(error), told)
            if not aside or len(due) < AT_ONCE:
                break
        if told > LINES_MAX:
            _log.error("more schedules broken", count=told - LINES_MAX)
        return made

    async def _set_aside(self, read: Sequence[str], plan: str, now_us: int, why: str, told: int) -> bool:
        """Put a schedule aside with a reason, which it keeps until it is fired, replaced or removed. Return whether the
        schedule had no such reason before.
        """
        named, why = ":".join(read[:2]) if read[0] else read[1], why[:WHY_MAX]
        reply = await self._put_aside(schedule=named, due_us=read[_DUE], plan=plan, why=why, again_us=now_us + AGAIN_US)
        match reply:
            case ["moved"] | ["gone"]:
                return False
            case ["ok", is_new]:
                metrics.schedules_fired.labels("broken").inc()
                if is_new and told < LINES_MAX:
                    _log.error("schedule broken", schedule=named, why=why)
                return bool(is_new)
        raise UnknownReply(self._put_aside.name, reply)

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


class _RecordReading:
    """A reader of the fields of a schedule record that another program may have written; it collects their faults."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def number(self, name: str, text: str, otherwise: int = 0, least: int = 0) -> int:
        """Return a text as a whole number from `least` on; `otherwise` for '' and, with a fault noted, for others."""
        if not text:
            return otherwise
        if _whole(text) and least <= (number := int(text)) < TOO_FAR_US:
            return number
        self.faults.append(f"its {name} {text!r} is no number that fits")
        return otherwise

    def text(self, text: str) -> str:
        """Return the text with bytes that are not UTF-8 replaced; note a fault where there are any."""
        shown = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if shown != text:
            self.faults.append("it holds bytes that are no text")
        return shown

    def rule(self, cron: str, every_ms: str, zone: str) -> Rule:
        """Return the rule of the record; note a fault and return an `Unreadable` for one that cannot be read."""
        every = self.number("interval", every_ms)
        why = "its record does not say when it is due"
        if cron or every:
            try:
                return Rule(cron, every, zone)
            except ValueError as error:
                why = str(error)
        self.faults.append(why)
        return Unreadable(cron, every, zone, why)

    def payload(self, text: str) -> str:
        """Return the payload unchanged when it is JSON; else note a fault and return `{}`."""
        try:
            orjson.loads(text)
        except ValueError:
            self.faults.append("its payload is no JSON")
            return "{}"
        return text


def _schedule_of(reply: Sequence[str]) -> Schedule:
    """Return the schedule that a reply of `lua/schedules.lua` describes; `fault` says what is wrong with its record."""
    read = _RecordReading()
    (
        room, name, user, at, job, payload, cron, every_ms, zone, catch_up, paused, due, priority, attempts, backoff_ms,
        silence_ms, unique, last, task, fired, why, broken, *_,
    ) = (read.text(text) for text in reply)  # fmt: skip
    by_a_hub = user and at and job
    known = next((one for one in CATCH_UP if one == catch_up), None)
    if known is None:
        read.faults.append(f"its catchUp {catch_up!r} is none of {', '.join(CATCH_UP)}")
    options = Options(
        priority=read.number("priority", priority, least=-100),
        max_attempts=read.number("number of attempts", attempts, 1),
        backoff_ms=read.number("back-off", backoff_ms, 1000),
        max_silence_ms=read.number("silence", silence_ms),
        as_the_job=not attempts,
        unique_ms=read.number("unique time", unique.partition(":")[2]) // 1000,
    )
    found = Schedule(
        room=room,
        name=name,
        job=job,
        payload=read.payload(payload),
        rule=read.rule(cron, every_ms, zone),
        catch_up=known or "one",
        paused=paused == "1",
        options=options,
        user=user,
        created_us=read.number("time", at),
        due_us=read.number("next time", due) or None,
        last_us=read.number("last time", last) or None,
        task=task or None,
        fired=read.number("count", fired),
        why=why,
        plan="\n".join((reply[3], *reply[6:10])),
        broken=broken,
    )
    if not by_a_hub:
        return replace(found, fault="what is stored under its name was written by no hub")
    return replace(found, fault="; ".join(dict.fromkeys(read.faults))) if read.faults else found


def _refused(reply: Any, room: str, name: str, script: str) -> Exception:
    match reply:
        case ["schedule"]:
            return no_schedule(room, name)
        case ["forbidden"]:
            return not_yours(name)
    return UnknownReply(script, reply)


def no_schedule(room: str, name: str) -> ScheduleNotFound:
    """Return the refusal for a schedule that does not exist in the room."""
    return ScheduleNotFound(f"There is no schedule {name} in room {room}")


def not_yours(name: str) -> Forbidden:
    """Return the refusal for a schedule of another user."""
    return Forbidden(f"Schedule {name} is changed by who made it or a superuser alone")
