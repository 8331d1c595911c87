"""Fixtures: databases of each kind, and what recovery makes of their records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from hub.recovery.models import SqlSource
from hub.recovery.sql import SqlRecords
from tests.recovery.databases import _mariadb, _servers, database, mariadb, pg, postgres, sqlite

__all__ = ["_mariadb", "_servers", "database", "mariadb", "pg", "postgres", "sqlite"]


@pytest.fixture
async def opened() -> AsyncIterator[Callable[[SqlSource], SqlRecords]]:
    """Open the records of sources; they are closed with the test."""
    found: list[SqlRecords] = []

    def make(source: SqlSource) -> SqlRecords:
        found.append(SqlRecords(source))
        return found[-1]

    yield make
    for records in found:
        await records.close()
