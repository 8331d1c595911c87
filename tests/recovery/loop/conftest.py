"""Fixtures: databases with records to process, and short pauses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from hub import retries
from hub.recovery.engines import make_engine
from tests.recovery.databases import Database, _servers, pg, postgres, sqlite
from tests.recovery.loop.world import source_of
from tests.recovery.postgres import Postgres

__all__ = ["_servers", "pg", "postgres", "sqlite"]


@pytest.fixture(autouse=True)
def _no_redis_by_accident(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HUB_REDIS_URL", "REDIS_URL", "HUB_KEY_PREFIX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off from 10 ms to 0.1 s."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(retries.pause_s, "__defaults__", (None, 0.1))


@pytest.fixture(params=["postgresql", "sqlite"])
def jobs(request: pytest.FixtureRequest) -> Database:
    """A fresh database of each kind, with the tables."""
    found: Database = request.getfixturevalue({"postgresql": "pg", "sqlite": "sqlite"}[request.param])
    make_tables(found)
    return found


@pytest.fixture
def pg_jobs(pg: Database) -> Database:
    """A fresh PostgreSQL database with the tables."""
    make_tables(pg)
    return pg


@pytest.fixture
async def engine(jobs: Database) -> AsyncIterator[AsyncEngine]:
    """An engine of the application, on the database of `jobs`."""
    found = make_engine(source_of(jobs))
    yield found
    await found.dispose()


@pytest.fixture
def mortal() -> Iterator[Database]:
    """A database with the tables on a server of its own, to be killed and started again."""
    server = Postgres()
    server.start()
    database = Database("postgresql", server.url("postgres").replace("/?", "/postgres?"), server)
    make_tables(database)
    yield database
    server.stop()


def make_tables(database: Database) -> None:
    """The jobs, and notes that handlers write."""
    database.make_jobs()
    database.execute("CREATE TABLE notes (job integer NOT NULL, text text UNIQUE)")
