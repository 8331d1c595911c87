"""`hub schedule`: shows, adds, pauses, resumes and removes schedules."""

from __future__ import annotations

from typing import Literal

from typer import Option

from hub.cli import output
from hub.cli.answers import Columns, CommandAnswer, Listing, facts, json_of, time_of
from hub.cli.command import Group, Work
from hub.cli.connection import JobsApi, Row
from hub.cli.inputs import Usage, check_one_of, given, read_payload, span
from hub.cli.jobs import room_of
from hub.cli.options import FULL_NAME, KEY, MAX_ATTEMPTS, PAYLOAD, PRIORITY, ROOM, SCHEDULE, Input, list_limit
from hub.jobs.names import GLOBAL

app = Group(help="Submit tasks at certain times, once each however many hubs run.")
_NAME = SCHEDULE.argument("The name of the schedule in its room.")
_DURATION = Input("DURATION", span(1, 31_536_000, "1s to 365d"))


@app.add("ls")
async def list_schedules(api: JobsApi, room: str | None = ROOM, limit: int = list_limit(1000)) -> CommandAnswer:
    """Show the schedules of a room, newest first. Default: those of @global."""
    return _SCHEDULES.answer(await _SCHEDULES.ask(api, limit, "rooms", room or GLOBAL, "schedules"))


@app.add("show")
async def show(api: JobsApi, name: str = _NAME, room: str | None = ROOM) -> CommandAnswer:
    """Show a schedule: when it is due next, and what became of the last time."""
    return facts(await _ask(api, "GET", room, name), _FACTS, only_known=True)


@app.add("add")
def add(
    api: JobsApi,
    name: str = _NAME,
    job: str = FULL_NAME,
    payload: str = PAYLOAD,
    cron: str | None = Input("CRON").option("Minute, hour, day, month and weekday, such as '30 2 * * mon-fri'."),
    every: float | None = _DURATION.option("The interval, instead of --cron: 90s, 15m, 6h."),
    zone: str | None = Input("ZONE").option("The time zone of --cron. Default: UTC."),
    catch_up: Literal["skip", "one", "all"] = Option(
        "one", help="For the times at which no hub ran, submit no task, one task, or one for each."
    ),
    room: str | None = ROOM,
    priority: int | None = PRIORITY,
    max_attempts: int | None = MAX_ATTEMPTS,
    unique_key: str | None = KEY.option("Submit no task while one with this key exists."),
) -> Work:
    """Make a schedule, or change the one of that name. Default of --room: the room of the job."""
    check_one_of(("--cron", cron), ("--every", every))
    if cron is None and every is None:
        raise Usage("Say at which times: --cron or --every.")
    options = {
        "cron": cron,
        "everySeconds": every,
        "timeZone": zone,
        "priority": priority,
        "maxAttempts": max_attempts,
        "uniqueKey": unique_key,
    }
    body = {"job": job, "payload": read_payload(payload), "catchUp": catch_up, **given(options)}
    return _change(api, "PUT", room or room_of(job), name, body)


@app.add("pause")
async def pause(api: JobsApi, name: str = _NAME, room: str | None = ROOM) -> CommandAnswer:
    """Pause a schedule: it submits no tasks until it is resumed."""
    return CommandAnswer(await _ask(api, "PATCH", room, name, {"paused": True}), f"{name} is paused.")


@app.add("resume")
async def resume(api: JobsApi, name: str = _NAME, room: str | None = ROOM) -> CommandAnswer:
    """Resume a paused schedule at its next time."""
    return await _change(api, "PATCH", room, name, {"paused": False})


@app.add("rm")
async def remove(api: JobsApi, name: str = _NAME, room: str | None = ROOM) -> CommandAnswer:
    """Delete a schedule; its tasks stay."""
    await _ask(api, "DELETE", room, name)
    return CommandAnswer({"name": name, "deleted": True}, f"{name} is no schedule any more.")


async def _ask(api: JobsApi, method: str, room: str | None, name: str, body: Row | None = None) -> Row:
    return await api.ask(method, "rooms", room or GLOBAL, "schedules", name, body=body)


async def _change(api: JobsApi, method: str, room: str | None, name: str, body: Row) -> CommandAnswer:
    schedule = await _ask(api, method, room, name, body)
    return CommandAnswer(schedule, f"{name} is due {output.when(schedule.get('nextAt'))}.")


def _times(schedule: Row) -> str:
    if schedule.get("cron"):
        return f"{schedule['cron']} {schedule.get('timeZone')}"
    return f"every {output.duration(schedule.get('everySeconds') or 0)}"


def _next(schedule: Row) -> str:
    if schedule.get("paused"):
        return "paused"
    return "put aside" if schedule.get("problem") else output.when(schedule.get("nextAt"))


_SCHEDULES = Listing(
    "schedules",
    {
        "SCHEDULE": "name", "JOB": "job", "TIMES": _times, "NEXT": _next, "LAST": time_of("lastAt"), "FIRED": "fired",
        "WHY": lambda schedule: schedule.get("problem") or schedule.get("why"),
    },
    numbers=("FIRED",),
    expendable=("LAST", "WHY", "FIRED"),
)  # fmt: skip
_FACTS: Columns = {
    "SCHEDULE": "name", "ROOM": "room", "JOB": "job", "TIMES": _times, "CATCH UP": "catchUp", "NEXT": _next,
    "LAST": time_of("lastAt"), "LAST TASK": "lastTask", "FIRED": "fired", "WHY": "why", "PROBLEM": "problem",
    "PAYLOAD": json_of("payload"),
}  # fmt: skip
