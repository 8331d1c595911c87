"""`hub schedule`: what is submitted at certain times - listed, looked at, made, paused, and taken away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import typer

from hub.cli import completing, output, tables
from hub.cli.inputs import span
from hub.cli.job_inputs import FullName, Room, Token, read_payload
from hub.cli.jobs import Row, show
from hub.cli.jobs_api import JobsCaller, caller, jobs_api
from hub.cli.options import AsJson, Limit, Secret, Url
from hub.cli.times import when
from hub.jobs.names import GLOBAL, parse_full_name

app = typer.Typer(help="Submit tasks at certain times: once however many hubs there are.")
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name of the schedule in its room.", autocompletion=completing.schedules),
]
CatchUp = Literal["skip", "one", "all"]
_every = span(1, 31_536_000, "1s to 365d")
_COLUMNS = ("SCHEDULE", "JOB", "TIMES", "NEXT", "LAST", "FIRED", "WHY")


@app.command("ls")
def listed(
    room: Room = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> None:
    """Show the schedules of a room, newest first; without --room those of @global."""
    found = asyncio.run(_pages(caller(url, secret, token), room or GLOBAL, limit))
    show(as_json, "schedules", found, _COLUMNS, _row, ("FIRED",), ("LAST", "WHY", "FIRED"))


@app.command("show")
def look(
    name: Name, room: Room = None, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None
) -> None:
    """Show a schedule: when it is due next, and what its last time came to."""
    found = asyncio.run(_ask(caller(url, secret, token), "GET", room, name))
    _put(as_json, found)


@app.command("add")
def add(
    name: Name,
    job: FullName,
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="A JSON object; - reads it from stdin.")] = "{}",
    cron: Annotated[
        str | None, typer.Option(help="Minute, hour, day of month, month and day of week: '30 2 * * mon-fri'.")
    ] = None,
    every: Annotated[
        float | None, typer.Option(parser=_every, metavar="DURATION", help="In its place: once in 90s, 15m, 6h.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="The time zone --cron counts in; else UTC.")] = None,
    catch_up: Annotated[CatchUp, typer.Option(help="What becomes of times at which no hub was there.")] = "one",
    room: Room = None,
    priority: Annotated[int | None, typer.Option(min=-100, max=100, help="Of its tasks.")] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, max=100, help="Try a task again when it fails.")] = None,
    unique_key: Annotated[
        str | None, typer.Option(help="Make no task while the one that stands for this key is there.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> None:
    """Make a schedule, or change the one of that name; without --room in the room of the job."""
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
    found = asyncio.run(_ask(caller(url, secret, token), "PUT", where, name, wanted))
    if as_json:
        output.put_json(found)
    else:
        output.put(f"{name} is due {when(found.get('nextAt'))}.")


@app.command("pause")
def pause(
    name: Name, room: Room = None, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None
) -> None:
    """Have a schedule make no tasks until it is resumed."""
    found = asyncio.run(_ask(caller(url, secret, token), "PATCH", room, name, {"paused": True}))
    if as_json:
        output.put_json(found)
    else:
        output.put(f"{name} is paused.")


@app.command("resume")
def resume(
    name: Name, room: Room = None, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None
) -> None:
    """Have a paused schedule go on with its next time."""
    found = asyncio.run(_ask(caller(url, secret, token), "PATCH", room, name, {"paused": False}))
    if as_json:
        output.put_json(found)
    else:
        output.put(f"{name} is due {when(found.get('nextAt'))}.")


@app.command("rm")
def remove(
    name: Name, room: Room = None, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None
) -> None:
    """Delete a schedule; the tasks it has made stay."""
    asyncio.run(_ask(caller(url, secret, token), "DELETE", room, name))
    if as_json:
        output.put_json({"name": name, "deleted": True})
    else:
        output.put(f"{name} is no schedule any more.")


async def _pages(who: JobsCaller, room: str, limit: int) -> tuple[int, list[Row]]:
    async with jobs_api(who) as api:
        return await api.pages(limit, "name", "rooms", room, "schedules")


async def _ask(who: JobsCaller, method: str, room: str | None, name: str, body: Row | None = None) -> Row:
    async with jobs_api(who) as api:
        return await api.ask(method, "rooms", room or GLOBAL, "schedules", name, body=body)


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


def _put(as_json: bool, schedule: Row) -> None:
    if as_json:
        output.put_json(schedule)
        return
    facts = (
        ("SCHEDULE", schedule.get("name")), ("ROOM", schedule.get("room")), ("JOB", schedule.get("job")),
        ("TIMES", _times(schedule)), ("CATCH UP", schedule.get("catchUp")), ("NEXT", _next(schedule)),
        ("LAST", when(schedule.get("lastAt")) or None), ("LAST TASK", schedule.get("lastTask")),
        ("FIRED", schedule.get("fired")), ("WHY", schedule.get("why")), ("PROBLEM", schedule.get("problem")),
        ("PAYLOAD", json.dumps(schedule.get("payload"), ensure_ascii=False)),
    )  # fmt: skip
    tables.put_facts((name, value) for name, value in facts if value is not None)
