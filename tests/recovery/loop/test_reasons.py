"""A failure whose reason the database refuses: the record fails all the same, with as much of it as can be stored."""

from __future__ import annotations

import secrets

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis

from hub.recovery.engines import make_engine
from hub.recovery.outcomes import Outcome, Outcomes, Parked, settle, stamp
from hub.recovery.tables import reflect
from hub.store.keys import Keys
from tests.recovery.databases import Database, _mariadb, mariadb
from tests.recovery.loop.world import handled, source_of

__all__ = ["_mariadb", "mariadb"]

FIRE, SMILE = "\N{FIRE}", "\N{SLIGHTLY SMILING FACE}"
REASONS = {
    "plain": "out of paper",
    "accents": "déjà vu, ½ done",
    "emoji": f"printer on {FIRE}",
    "NUL": "before\0after",
    "surrogate": "half \ud83d of a character",
    "long": "x" * 100_000,
    "long emoji": SMILE * 20_000,
}
COLUMNS = {
    "pg text": ("pg", "text"),
    "pg varchar": ("pg", "varchar(60)"),
    "pg bytes": ("pg", "text CHECK (octet_length(error) <= 1000)"),
    "pg no text": ("pg", "text CHECK (error IS NULL)"),
    "pg LATIN1": ("pg_latin1", "text"),
    "pg LATIN2": ("pg_latin2", "varchar(60)"),
    "sqlite text": ("sqlite", "TEXT"),
    "sqlite bytes": ("sqlite", "TEXT CHECK (length(CAST(error AS BLOB)) <= 1000)"),
    "sqlite no text": ("sqlite", "TEXT CHECK (error IS NULL)"),
    "mariadb utf8mb4": ("mariadb", "text"),
    "mariadb utf8mb3": ("mariadb", "text CHARACTER SET utf8mb3"),
    "mariadb latin1": ("mariadb", "varchar(60) CHARACTER SET latin1"),
    "mariadb ascii": ("mariadb", "text CHARACTER SET ascii"),
    "mariadb tinytext": ("mariadb", "tinytext"),
    "mariadb tinytext latin1": ("mariadb", "tinytext CHARACTER SET latin1"),
}


def _encoded(postgres, encoding):
    name = f"test_{secrets.token_hex(6)}"
    postgres.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    yield Database("postgresql", postgres.url(name), postgres)
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def pg_latin1(postgres):
    yield from _encoded(postgres, "LATIN1")


@pytest.fixture
def pg_latin2(postgres):
    yield from _encoded(postgres, "LATIN2")


@pytest.fixture(params=COLUMNS)
def jobs(request):
    """A database whose error field takes less than any text."""
    fixture, column = COLUMNS[request.param]
    found = request.getfixturevalue(fixture)
    found.make_jobs()
    found.execute("ALTER TABLE jobs DROP COLUMN error")
    found.execute(f"ALTER TABLE jobs ADD COLUMN error {column}")
    found.column = request.param
    return found


def check_stored(column, stored, text):
    """Return as much of the reason as the column takes."""
    if column.endswith("no text"):
        assert stored is None
        return
    assert stored, "a column that takes texts has one"
    start = text[:8].encode("utf-8", "replace").decode().replace("\0", "")
    ascii_start = text[:8].encode("ascii", "backslashreplace").decode().replace("\0", "")
    assert stored.startswith((start[:8], ascii_start[:8]))


@pytest.mark.parametrize("about", REASONS)
async def test_a_record_whose_reason_cannot_be_stored_fails_once(jobs, caplog, about):
    text = REASONS[about]
    calls = []

    async def failing(record, session):
        calls.append(record.id)
        raise ValueError(text)

    jobs.add(1, status="Pending")
    counts = await handled(source_of(jobs), failing, park=False)
    assert (jobs.statuses(), calls, counts.failed, counts.zombies) == ({"Failed": 1}, [1], 1, 0)
    assert not [each.message for each in caplog.records if "cannot be written" in each.message]
    check_stored(jobs.column, jobs.jobs()["1"].error, f"ValueError: {text}")


@pytest.mark.parametrize("about", REASONS)
async def test_a_parked_reason_that_cannot_be_stored_is_shortened(jobs, redis_server, about):
    jobs.add(1)
    source = source_of(jobs)
    engine, client = make_engine(source), Redis.from_url(redis_server.url, decode_responses=True)
    rows = await reflect(engine, source)
    (stamp,) = await _stamps(engine, rows)
    outcomes = Outcomes(client, Keys(""), "jobs")
    await outcomes.park(Parked("1", (stamp,), Outcome("Failed", REASONS[about])))
    assert await settle(engine, rows, outcomes) == 1
    assert await outcomes.count() == 0
    await outcomes.close()
    await engine.dispose()
    assert jobs.statuses() == {"Failed": 1}
    check_stored(jobs.column, jobs.jobs()["1"].error, REASONS[about])


async def _stamps(engine, rows):
    async with engine.connect() as connection:
        return (await connection.execute(sa.select(stamp(rows)))).scalars().all()
