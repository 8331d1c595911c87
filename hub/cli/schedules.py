"""`hub schedule`: shows, adds, pauses, resumes and removes schedules."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import typer

from hub.cli import completing, output
from hub.cli.answers import CommandAnswer, Listing, Row, facts
from hub.cli.command import Work, command
from hub.cli.inputs import span
from hub.cli.job_inputs import Room, read_payload
from hub.cli.jobs_api import JobsApi
from hub.cli.options import Limit
from hub.cli.times import when
from hub.cli.values import FullName, MaxAttempts, Payload, Priority
from hub.jobs.names import GLOBAL, parse_full_name

app = typer.Typer(help="Submit tasks at certain times, once each however many hubs run.")
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name of the schedule in its room.", autocompletion=completing.schedules),
]
CatchUp = Literal["skip", "one", "all"]
_every = span(1, 31_536_000, "1s to 365d")


@app.command("ls")
@command()
async def listed(jobs: JobsApi, room: Room = None, limit: Limit = 1000) -> CommandAnswer:
    """Show the schedules of a room, newest first. Default: those of @global."""
    return _SCHEDULES.answer(await jobs.pages(limit, "name", "rooms", room or GLOBAL, "schedules"))


@app.command("show")
@command()
async def look(jobs: JobsApi, name: Name, room: Room = None) -> CommandAnswer:
    """Show a schedule: when it is due next, and what became of the last time."""
    schedule = await _ask(jobs, "GET", room, name)
    return facts(schedule, _facts(schedule))


@app.command("add")
@command()
def add(
    jobs: JobsApi,
    name: Name,
    job: FullName,
    payload: Payload = "{}",
    cron: Annotated[
        str | None,
        typer.Option(
            metavar="CRON", help="Minute, hour, day of month, month and day of week, such as '30 2 * * mon-fri'."
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(parser=_every, metavar="DURATION", help="The interval, instead of --cron: 90s, 15m, 6h."),
    ] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="The time zone of --cron. Default: UTC.")] = None,
    catch_up: Annotated[
        CatchUp, typer.Option(help="Skip the times at which no hub ran, or submit one task, or one task for each.")
    ] = "one",
    room: Room = None,
    priority: Priority = None,
    max_attempts: MaxAttempts = None,
    unique_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Submit no task while one with this key exists.")
    ] = None,
) -> Work:
    """Make a schedule, or change the one of that name. Default of --room: the room of the job."""
    given = {
        "cron": cron,
        "everySeconds": every,
        "timeZone": zone,
        "priority": priority,
        "maxAttempts": max_attempts,
        "uniqueKey": unique_key,
    }
    wanted: Row = {"job": job, "payload": read_payload(payload), "catchUp": catch_up}
    wanted |= {member: value for member, value in given.items() if value is not None}
    where = room or (parse_full_name(job) or (GLOBAL,))[0]
    return _put(jobs, where, name, wanted)


async def _put(jobs: JobsApi, room: str, name: str, wanted: Row) -> CommandAnswer:
    schedule = await _ask(jobs, "PUT", room, name, wanted)
    return CommandAnswer(schedule, f"{name} is due {when(schedule.get('nextAt'))}.")


@app.command("pause")
@command()
async def pause(jobs: JobsApi, name: Name, room: Room = None) -> CommandAnswer:
    """Pause a schedule: it submits no tasks until it is resumed."""
    return CommandAnswer(await _ask(jobs, "PATCH", room, name, {"paused": True}), f"{name} is paused.")


@app.command("resume")
@command()
async def resume(jobs: JobsApi, name: Name, room: Room = None) -> CommandAnswer:
    """Resume a paused schedule at its next time."""
    schedule = await _ask(jobs, "PATCH", room, name, {"paused": False})
    return CommandAnswer(schedule, f"{name} is due {when(schedule.get('nextAt'))}.")


@app.command("rm")
@command()
async def remove(jobs: JobsApi, name: Name, room: Room = None) -> CommandAnswer:
    """Delete a schedule; its tasks stay."""
    await _ask(jobs, "DELETE", room, name)
    return CommandAnswer({"name": name, "deleted": True}, f"{name} is no schedule any more.")


async def _ask(jobs: JobsApi, method: str, room: str | None, name: str, body: Row | None = None) -> Row:
    return await jobs.ask(method, "rooms", room or GLOBAL, "schedules", name, body=body)


def _times(schedule: Row) -> str:
    if schedule.get("cron"):
        return f"{schedule['cron']} {schedule.get('timeZone')}"
    return f"every {output.duration(schedule.get('everySeconds') or 0)}"


def _next(schedule: Row) -> str:
    if schedule.get("paused"):
        return "paused"
    return "put aside" if schedule.get("problem") else when(schedule.get("nextAt"))


def _row(schedule: Row) -> Iterable[Any]:
    yield schedule.get("name")
    yield schedule.get("job")
    yield _times(schedule)
    yield _next(schedule)
    yield when(schedule.get("lastAt"))
    yield schedule.get("fired")
    yield schedule.get("problem") or schedule.get("why") or ""


_SCHEDULES = Listing(
    "schedules",
    ("SCHEDULE", "JOB", "TIMES", "NEXT", "LAST", "FIRED", "WHY"),
    _row,
    numbers=("FIRED",),
    expendable=("LAST", "WHY", "FIRED"),
)


def _facts(schedule: Row) -> Iterable[tuple[str, Any]]:
    known = (
        ("SCHEDULE", schedule.get("name")), ("ROOM", schedule.get("room")), ("JOB", schedule.get("job")),
        ("TIMES", _times(schedule)), ("CATCH UP", schedule.get("catchUp")), ("NEXT", _next(schedule)),
        ("LAST", when(schedule.get("lastAt")) or None), ("LAST TASK", schedule.get("lastTask")),
        ("FIRED", schedule.get("fired")), ("WHY", schedule.get("why")), ("PROBLEM", schedule.get("problem")),
        ("PAYLOAD", json.dumps(schedule.get("payload"), ensure_ascii=False)),
    )  # fmt: skip
    return [(name, value) for name, value in known if value is not None]
