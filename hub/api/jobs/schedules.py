"""The endpoints for schedules, which submit tasks at certain times."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import SUBMIT
from hub.api.handling.context import check_listening
from hub.api.inputs import caller_of, hub_of
from hub.api.jobs import answers, bodies, room_access
from hub.api.operations import CALLER, operation
from hub.api.paths import PREFIX
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import PageQuery, PauseBody, ScheduleBody, options_of
from hub.api.shapes.jobs import SchedulePageShape, ScheduleShape
from hub.errors import InvalidRoomId, JobNotFound, QuotaExceeded
from hub.jobs.names import INTERNAL, check_room
from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule, ScheduleNotFound, TooManySchedules

router = APIRouter(prefix=PREFIX, tags=["schedules"])
ROOM, ONE = "/rooms/{room_id}/schedules", "/rooms/{room_id}/schedules/{schedule}"


@router.get(ROOM, **operation("listSchedules", CALLER, query=PageQuery, refusals=(InvalidRoomId,), anonymous=True))
async def listed(request: Request) -> Answer[SchedulePageShape]:
    """Return the schedules of a room, newest first."""
    who = caller_of(request)
    asked = bodies.part(request)
    room = request.path_params["room_id"]
    check_room(room)
    room_access.look_into(who, room)
    found = await hub_of(request).schedules.page(room, asked.limit, asked.offset)
    items = [answers.schedule(each) for each in found.items]
    return Answer(SchedulePageShape(items=items, total=found.total, limit=asked.limit, offset=asked.offset))


@router.get(ONE, **operation("getSchedule", CALLER, refusals=(InvalidRoomId, ScheduleNotFound), anonymous=True))
async def look(request: Request) -> Answer[ScheduleShape]:
    """Return one schedule."""
    who = caller_of(request)
    room, name = request.path_params["room_id"], request.path_params["schedule"]
    check_room(room)
    room_access.look_into(who, room)
    return Answer(answers.schedule(await hub_of(request).schedules.get(room, name)))


@router.put(
    ONE,
    **operation(
        "putSchedule",
        CALLER,
        also={201: ScheduleShape},
        body=ScheduleBody,
        refusals=(InvalidRoomId, JobNotFound, QuotaExceeded, TooManySchedules),
        bound="schedule",
        room_first=True,
        scopes=(SUBMIT,),
    ),
)
async def put(request: Request) -> Answer[ScheduleShape]:
    """Make a schedule in a room, or change one of the caller's own: 201 when it is new.

    A repeat changes nothing: while the rule of its times stays the same, a schedule keeps the time at which it is due
    next.
    """
    room, name = request.path_params["room_id"], request.path_params["schedule"]
    who = caller_of(request)
    room_access.enter(who, room)
    said, body = await bodies.read(request, ScheduleBody)
    bodies.check_schedule_name(name)
    room_access.look_into(who, room_access.room_of(said.job))
    if said.job.startswith(f"{INTERNAL}:"):
        message = "A schedule should name a job that workers serve, and no @internal one"
        raise bodies.malformed("unsupported", ["body", "job"], message, said.job)
    hub = hub_of(request)
    try:
        rule = Rule(said.cron or "", int((said.every_seconds or 0) * 1000), said.time_zone)
        rule.check()
    except ValueError as error:
        raise bodies.malformed("schedule", ["body", "cron"], str(error), None) from None
    wanted = Schedule(
        room=room,
        name=name,
        job=said.job,
        payload=bodies.payload(body, hub.settings),
        rule=rule,
        catch_up=said.catch_up,
        paused=said.paused,
        options=options_of(said),
    )
    await check_listening(request)
    found, is_new = await hub.schedules.put(wanted, who.user, who.superuser)
    return Answer(answers.schedule(found), 201 if is_new else 200)


@router.patch(
    ONE,
    **operation("pauseSchedule", CALLER, body=PauseBody, refusals=(InvalidRoomId, ScheduleNotFound), scopes=(SUBMIT,)),
)
async def pause(request: Request) -> Answer[ScheduleShape]:
    """Pause a schedule, or let it go on; times that were missed during the pause are not caught up. For the user that
    made it."""
    room, name = request.path_params["room_id"], request.path_params["schedule"]
    who = caller_of(request)
    check_room(room)
    room_access.enter(who, room)
    said, _ = await bodies.read(request, PauseBody)
    await check_listening(request)
    schedules = hub_of(request).schedules
    found = await schedules.pause(room, name, who.user, who.superuser, paused=said.paused)
    return Answer(answers.schedule(found))


@router.delete(
    ONE, **operation("deleteSchedule", CALLER, status=204, refusals=(InvalidRoomId, ScheduleNotFound), scopes=(SUBMIT,))
)
async def delete(request: Request) -> Answer[None]:
    """Delete a schedule; the tasks that it has made stay. For the user that made it."""
    room, name = request.path_params["room_id"], request.path_params["schedule"]
    who = caller_of(request)
    check_room(room)
    room_access.enter(who, room)
    await check_listening(request)
    await hub_of(request).schedules.remove(room, name, who.user, who.superuser)
    return answers.nothing()
