"""`hub provider`: the kinds of data that workers answer for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from hub.cli import completing, output, tables
from hub.cli.job_inputs import Room, Token, read_full_name
from hub.cli.jobs import Row
from hub.cli.jobs import show as show_all
from hub.cli.jobs_api import JobsCaller, caller, jobs_api
from hub.cli.options import AsJson, Limit, Secret, Url
from hub.cli.times import when
from hub.jobs.names import GLOBAL, parse_full_name

_COLUMNS = ("PROVIDER", "WORKER", "MADE")


def ls(
    room: Room = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> None:
    """Show the providers that are seen from a room, newest first; without --room those of @global."""
    found = asyncio.run(_pages(caller(url, secret, token), room or GLOBAL, limit))
    show_all(as_json, "providers", found, _COLUMNS, _row, expendable=("MADE",))


def show(
    provider: Annotated[
        str,
        typer.Argument(
            parser=read_full_name,
            metavar="PROVIDER",
            help="ROOM:CATEGORY:NAME of a provider.",
            autocompletion=completing.providers,
        ),
    ],
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> None:
    """Show a provider, with its schema."""
    found = asyncio.run(_one(caller(url, secret, token), provider))
    if as_json:
        output.put_json(found)
    else:
        schema = json.dumps(found["schema"], ensure_ascii=False) if found.get("schema") else None
        tables.put_facts((*zip(_COLUMNS, _row(found), strict=True), ("ID", found.get("id")), ("SCHEMA", schema)))


async def _pages(who: JobsCaller, room: str, limit: int) -> tuple[int, list[Row]]:
    async with jobs_api(who) as api:
        return await api.pages(limit, "fullName", "rooms", room, "providers")


async def _one(who: JobsCaller, full: str) -> Row:
    room = (parse_full_name(full) or (GLOBAL,))[0]
    async with jobs_api(who) as api:
        return await api.ask("GET", "rooms", room, "providers", full, "info")


def _row(provider: Row) -> Iterable[Any]:
    yield provider.get("fullName")
    yield provider.get("workerId")
    yield when(provider.get("createdAt"))
