"""The endpoints for schedules, which submit tasks at certain times."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import SUBMIT, room_of
from hub.api.handling.context import check_listening
from hub.api.inputs import Caller, Hub
from hub.api.jobs import answers, bodies
from hub.api.jobs.inputs import EnteredRoom, Part, SeenRoom, Sent, SentText
from hub.api.operations import CALLER, operation
from hub.api.paths import PREFIX
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import PauseBody, ScheduleBody, options_of
from hub.api.shapes.jobs import SchedulePageShape, ScheduleShape
from hub.errors import JobNotFound, QuotaExceeded
from hub.jobs.names import INTERNAL
from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule, ScheduleNotFound, TooManySchedules

router = APIRouter(prefix=PREFIX, tags=["schedules"])
ROOM, ONE = "/rooms/{room_id}/schedules", "/rooms/{room_id}/schedules/{schedule}"


@router.get(ROOM, **operation("listSchedules", CALLER, anonymous=True))
async def listed(hub: Hub, asked: Part, room: SeenRoom) -> Answer[SchedulePageShape]:
    """Return the schedules of a room, newest first."""
    found = await hub.schedules.page(room, asked.limit, asked.offset)
    return Answer(answers.page(SchedulePageShape, found, asked, answers.schedule))


@router.get(ONE, **operation("getSchedule", CALLER, refusals=(ScheduleNotFound,), anonymous=True))
async def look(hub: Hub, room: SeenRoom, schedule: str) -> Answer[ScheduleShape]:
    """Return one schedule."""
    return Answer(answers.schedule(await hub.schedules.get(room, schedule)))


@router.put(
    ONE,
    **operation(
        "putSchedule",
        CALLER,
        also={201: ScheduleShape},
        refusals=(JobNotFound, QuotaExceeded, TooManySchedules),
        bound="schedule",
        room_first=True,
        scopes=(SUBMIT,),
    ),
)
async def put(
    request: Request, hub: Hub, caller: Caller, room: EnteredRoom, sent: SentText[ScheduleBody], schedule: str
) -> Answer[ScheduleShape]:
    """Make a schedule in a room, or change one of the caller's own: 201 when it is new.

    A repeat changes nothing: while the rule of its times stays the same, a schedule keeps the time at which it is due
    next.
    """
    said, body = sent
    bodies.check_schedule_name(schedule)
    caller.look_into(room_of(said.job))
    if said.job.startswith(f"{INTERNAL}:"):
        message = "A schedule should name a job that workers serve, and no @internal one"
        raise bodies.malformed("unsupported", ["body", "job"], message, said.job)
    try:
        rule = Rule(said.cron or "", int((said.every_seconds or 0) * 1000), said.time_zone)
        rule.check()
    except ValueError as error:
        raise bodies.malformed("schedule", ["body", "cron"], str(error), None) from None
    wanted = Schedule(
        room=room,
        name=schedule,
        job=said.job,
        payload=bodies.payload(body, hub.settings),
        rule=rule,
        catch_up=said.catch_up,
        paused=said.paused,
        options=options_of(said),
    )
    await check_listening(request)
    found, is_new = await hub.schedules.put(wanted, caller.user, caller.superuser)
    return Answer(answers.schedule(found), 201 if is_new else 200)


@router.patch(ONE, **operation("pauseSchedule", CALLER, refusals=(ScheduleNotFound,), scopes=(SUBMIT,)))
async def pause(
    request: Request, hub: Hub, caller: Caller, room: EnteredRoom, said: Sent[PauseBody], schedule: str
) -> Answer[ScheduleShape]:
    """Pause a schedule, or let it go on; times that were missed during the pause are not caught up. For the user that
    made it."""
    await check_listening(request)
    found = await hub.schedules.pause(room, schedule, caller.user, caller.superuser, paused=said.paused)
    return Answer(answers.schedule(found))


@router.delete(ONE, **operation("deleteSchedule", CALLER, status=204, refusals=(ScheduleNotFound,), scopes=(SUBMIT,)))
async def delete(request: Request, hub: Hub, caller: Caller, room: EnteredRoom, schedule: str) -> Answer[None]:
    """Delete a schedule; the tasks that it has made stay. For the user that made it."""
    await check_listening(request)
    await hub.schedules.remove(room, schedule, caller.user, caller.superuser)
    return answers.nothing()
