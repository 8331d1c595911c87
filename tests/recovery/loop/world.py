"""Helpers of the tests of the loop: sources, handlers, and what is in the tables afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from hub.recovery.loop import Counts, Record, SqlSource, process
from hub.recovery.sql import SqlRecords
from tests.recovery.databases import Database


def source_of(database: Database, **changes: Any) -> SqlSource:
    """Return the jobs, with an error field and a threshold of an hour."""
    return database.source(**{"error_field": "error", **changes})


async def handled(source: SqlSource, handler: Any, **options: Any) -> Counts:
    """Process until nothing is left."""
    async with asyncio.timeout(90):
        return await process(source, handler, **{"done": "Done", "until_empty": True, "poll_s": 0.05, **options})


async def note(session: AsyncSession, record: Record, text: str = "seen") -> None:
    """Write something in the session."""
    await session.execute(
        sa.text("INSERT INTO notes (job, text) VALUES (:job, :text)"), {"job": record.id, "text": f"{text} {record.id}"}
    )


async def noting(record: Record, session: AsyncSession) -> None:
    """A handler that writes a note."""
    await note(session, record)


async def nothing(record: Record, session: AsyncSession) -> None:
    """A handler that does not touch its session."""


def notes(database: Database) -> list[str]:
    """Return what handlers wrote."""
    return sorted(row[0] for row in database.execute("SELECT text FROM notes"))


def alerts(caplog: Any) -> list[Any]:
    """Return the log lines that call for an operator."""
    return [each for each in caplog.records if each.levelno == logging.CRITICAL]


async def clean(source: SqlSource) -> int:
    """Return what the cleanup service would bring back now."""
    records = SqlRecords(source)
    try:
        return (await records.reset()).count
    finally:
        await records.close()


def facts(record: Any, *names: str) -> Mapping[str, Any]:
    """Return the fields of a log line."""
    return {name: getattr(record, name) for name in names}
