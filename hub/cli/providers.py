"""`hub provider`: shows the providers, which are the kinds of data that workers can read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any

from hub.cli.answers import CommandAnswer, Listing, Row, facts
from hub.cli.command import command
from hub.cli.job_inputs import Room
from hub.cli.jobs_api import JobsApi
from hub.cli.options import Limit
from hub.cli.times import when
from hub.cli.values import PROVIDER
from hub.jobs.names import GLOBAL, parse_full_name


@command()
async def ls(jobs: JobsApi, room: Room = None, limit: Limit = 1000) -> CommandAnswer:
    """Show the providers that a room can use, newest first. Default: those of @global."""
    return _PROVIDERS.answer(await jobs.pages(limit, "fullName", "rooms", room or GLOBAL, "providers"))


@command()
async def show(
    jobs: JobsApi, provider: Annotated[str, PROVIDER.argument("The full name of the provider, ROOM:CATEGORY:NAME.")]
) -> CommandAnswer:
    """Show a provider, with its schema."""
    room = (parse_full_name(provider) or (GLOBAL,))[0]
    answer = await jobs.ask("GET", "rooms", room, "providers", provider, "info")
    schema = json.dumps(answer["schema"], ensure_ascii=False) if answer.get("schema") else None
    known = zip(_PROVIDERS.columns, _row(answer), strict=True)
    return facts(answer, (*known, ("ID", answer.get("id")), ("SCHEMA", schema)))


def _row(provider: Row) -> Iterable[Any]:
    yield provider.get("fullName")
    yield provider.get("workerId")
    yield when(provider.get("createdAt"))


_PROVIDERS = Listing("providers", ("PROVIDER", "WORKER", "MADE"), _row, expendable=("MADE",))
