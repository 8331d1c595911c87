"""A table as it was found: ages to the last microsecond, columns of every sort, and what a write leaves behind."""

import asyncio
import re
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from hub.errors import SourceRefused
from hub.recovery.engines import make_engine
from hub.recovery.models import Reset
from hub.recovery.tables import reflect
from tests.recovery.loop.world import handled

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
USEC = timedelta(microseconds=1)
MSEC = timedelta(milliseconds=1)


def stop_clock(database, records, now=NOON):
    """From now on it is always this late there; to be called before the records are used."""
    if database.kind == "postgresql":
        database.execute(
            "CREATE SCHEMA IF NOT EXISTS stopped; CREATE OR REPLACE FUNCTION stopped.now() RETURNS timestamptz"
            f" LANGUAGE sql STABLE AS $$ SELECT timestamptz '{now.isoformat()}' $$;"
            f" ALTER DATABASE {database.name} SET search_path = stopped, pg_catalog, public"
        )
        return
    real = sqlite3.connect(":memory:", check_same_thread=False)

    def julianday(text):
        return real.execute("SELECT julianday(?)", (now.isoformat() if text == "now" else text,)).fetchone()[0]

    @event.listens_for(records.engine.sync_engine, "connect")
    def _(connection, _):
        connection.create_function("julianday", 1, julianday)


def text(moment):
    """Write a time as SQLAlchemy does, which PostgreSQL reads as well."""
    return f"'{moment.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f')}'"


@pytest.mark.parametrize("column", ["aware", "naive"])
async def test_a_record_exactly_as_old_as_the_threshold_is_not_stuck(database, opened, column):
    database.make_jobs(updated_at=column)
    step = USEC if database.kind == "postgresql" else MSEC
    if database.kind == "postgresql":
        database.execute(f"ALTER DATABASE {database.name} SET timezone = 'UTC'")
    for number, moment in enumerate((NOON - HOUR - step, NOON - HOUR, NOON - HOUR + USEC, NOON), 1):
        database.add(number, at=text(moment))
    records = opened(database.source())
    stop_clock(database, records)
    assert await records.count() == 1
    (found,) = await records.look(10)
    assert (found.id, found.updated_at) == ("1", NOON - HOUR - step)
    assert found.age_s == pytest.approx(3600 + step.total_seconds(), abs=1e-9)
    assert await records.reset() == Reset(reset=("1",))
    assert await records.reset() == Reset()


async def test_with_sqlite_the_threshold_is_exact_to_the_millisecond(sqlite, opened):
    sqlite.make_jobs()
    records = opened(sqlite.source(batch_size=10_000, threshold_minutes=0.5))
    now = datetime(2026, 7, 14, 23, 59, 47, 123_000, tzinfo=UTC)
    stop_clock(sqlite, records, now)
    with sqlite3.connect(sqlite.place) as connection:
        moments = [(n, text(now - timedelta(seconds=30, microseconds=100 * n))[1:-1]) for n in range(-3000, 3001)]
        connection.executemany("INSERT INTO jobs (id, status, updated_at) VALUES (?, 'Processing', ?)", moments)
    connection.close()
    found = sorted(int(each) for each in (await records.reset()).reset)
    assert found[0] > 0
    assert found == list(range(found[0], 3001))
    assert found[0] <= 10, "later by no more than a millisecond"


@pytest.mark.parametrize("session", ["Pacific/Kiritimati", "America/St_Johns", "UTC"])
@pytest.mark.parametrize(("column", "zone"), [("aware", "UTC"), ("naive", "UTC"), ("naive", "America/Los_Angeles")])
async def test_the_time_zone_of_the_session_changes_nothing(pg, opened, session, column, zone):
    pg.execute(f"ALTER DATABASE {pg.name} SET timezone = '{session}'")
    pg.make_jobs(updated_at=column)
    pg.add(1, at=pg.ago(3660, zone, naive=column == "naive"))
    pg.add(2, at=pg.ago(3540, zone, naive=column == "naive"))
    records = opened(pg.source(time_zone=zone))
    (found,) = await records.look(10)
    assert abs(found.updated_at - (datetime.now(UTC) - timedelta(seconds=3660))) < timedelta(seconds=30)
    assert await records.reset() == Reset(reset=("1",))
    held = f"updated_at AT TIME ZONE '{zone}'" if column == "naive" else "updated_at"
    assert pg.execute(f"SELECT id FROM jobs WHERE abs(extract(epoch FROM now() - {held})) < 60") == [(1,)]


async def test_when_clocks_are_set_back_no_fresh_record_counts_as_stuck(pg, opened):
    """At 01:00 UTC it became 02:00 once more in Berlin."""
    pg.make_jobs(updated_at="naive")
    pg.add(1, at="'2026-10-25 02:10'")  # ten minutes ago, or 70
    pg.add(2, at="'2026-10-25 01:30'")  # 110 minutes ago
    pg.add(3, at="'2026-10-25 02:51'")  # half an hour ago and a minute less, or not yet
    records = opened(pg.source(time_zone="Europe/Berlin", threshold_minutes=30))
    stop_clock(pg, records, datetime(2026, 10, 25, 1, 20, tzinfo=UTC))
    assert await records.reset() == Reset(reset=("2",))
    assert pg.execute("SELECT updated_at::text FROM jobs WHERE id = 2") == [("2026-10-25 02:20:00",)]
    later = opened(pg.source(time_zone="Europe/Berlin", threshold_minutes=30))
    stop_clock(pg, later, datetime(2026, 10, 25, 3, 20, tzinfo=UTC))
    assert set((await later.reset()).reset) == {"1", "3"}


async def test_a_day_of_the_threshold_has_24_hours_even_when_clocks_change(pg, opened):
    pg.execute(f"ALTER DATABASE {pg.name} SET timezone = 'Europe/Berlin'")
    pg.make_jobs()
    now = datetime(2026, 10, 25, 12, tzinfo=UTC)
    pg.add(1, at=f"timestamptz '{(now - 25 * HOUR).isoformat()}'")
    pg.add(2, at=f"timestamptz '{(now - 25 * HOUR - USEC).isoformat()}'")
    records = opened(pg.source(threshold_minutes=25 * 60))
    stop_clock(pg, records, now)
    assert await records.reset() == Reset(reset=("2",))


@pytest.mark.parametrize("at", ["'infinity'", "'-infinity'"])
async def test_an_infinite_time_counts_as_no_time(pg, opened, at):
    pg.make_jobs()
    pg.add(1, at=at)
    pg.add(2, at="'0044-03-15 12:00 BC'")
    pg.add(3)
    records = opened(pg.source())
    assert [each.id for each in await records.look(10)] == ["2", "3"]
    assert (await records.look(1))[0].updated_at == datetime.min.replace(tzinfo=UTC)
    assert (await records.count(), await records.reset()) == (2, Reset(reset=("2", "3")))


SHAPES = {
    "SQLAlchemy": "%Y-%m-%d %H:%M:%S.%f",
    "CURRENT_TIMESTAMP": "%Y-%m-%d %H:%M:%S",
    "ISO": "%Y-%m-%dT%H:%M:%S.%fZ",
    "minutes": "%Y-%m-%dT%H:%M",
    "east": "%Y-%m-%dT%H:%M:%S+09:00",
    "west": "%Y-%m-%d %H:%M:%S.%f-05:30",
}
OFFSETS = {"east": timedelta(hours=9), "west": -timedelta(hours=5, minutes=30)}


@pytest.mark.parametrize("shape", SHAPES)
async def test_sqlite_reads_times_however_they_were_written(sqlite, opened, shape):
    sqlite.make_jobs()
    now = datetime.now(UTC)

    def written(age):
        return repr((now - age + OFFSETS.get(shape, timedelta())).strftime(SHAPES[shape]))

    sqlite.add(1, at=written(timedelta(minutes=63)))
    sqlite.add(2, at=written(timedelta(minutes=57)))
    sqlite.add(3, at=written(timedelta(days=30)))
    records = opened(sqlite.source())
    found = await records.look(10)
    assert [each.id for each in found] == ["3", "1"]
    assert abs(found[1].updated_at - (now - timedelta(minutes=63))) < timedelta(minutes=1)
    assert set((await records.reset()).reset) == {"1", "3"}


# What SQLite itself makes times of.
NO_TIMES = ["'01:02'", "2026", "2461366.5", "'2026'", "'-4713-11-24 12:00:00'", "CAST('2026-01-01' AS BLOB)", "'now'"]


@pytest.mark.parametrize("at", ["'yesterday'", "''", "1700000000", "x'00ff'", "'2026-13-01 00:00:00'", *NO_TIMES])
async def test_a_value_that_is_no_time_is_never_stuck(sqlite, opened, at):
    sqlite.make_jobs()
    sqlite.add(1, at=at)
    records = opened(sqlite.source())
    assert (await records.count(), await records.look(10), await records.reset()) == (0, [], Reset())


async def test_a_reset_in_sqlite_writes_what_sqlalchemy_would_write(sqlite, opened):
    sqlite.make_jobs()
    sqlite.add(1)
    await opened(sqlite.source()).reset()
    ((held,),) = sqlite.execute("SELECT updated_at FROM jobs")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}", held)
    engine = sa.create_engine(f"sqlite:///{sqlite.place}")
    with engine.connect() as connection:
        jobs = sa.Table("jobs", sa.MetaData(), sa.Column("updated_at", sa.DateTime))
        read = connection.scalar(sa.select(jobs.c.updated_at))
    engine.dispose()
    assert abs(datetime.now(UTC).replace(tzinfo=None) - read) < timedelta(seconds=30)


async def test_further_columns_and_indexes_may_have_any_type(pg, opened):
    pg.make_jobs()
    pg.execute(
        "CREATE TYPE pair AS (a int, b int); ALTER TABLE jobs ADD p pair, ADD j jsonb, ADD t tsvector, ADD r int4range,"
        " ADD doubled int GENERATED ALWAYS AS (attempts * 2) STORED; CREATE INDEX ON jobs (lower(status))"
    )
    pg.add(1)
    assert (await opened(pg.source()).reset()).count == 1


async def test_sqlite_rows_with_times_in_every_form_are_read(sqlite):
    sqlite.make_jobs()
    sqlite.add(1, at="'2026-03-01T12:00:00Z'")
    sqlite.add(2, at="'2026-03-01 12:00:00'")
    sqlite.add(3, at="'soon'")
    engine = make_engine(sqlite.source())
    rows = await reflect(engine, sqlite.source())
    async with engine.connect() as connection:
        found = (await connection.scalars(sa.select(rows.updated_at).order_by(rows.id))).all()
    await engine.dispose()
    assert found == [NOON, NOON.replace(tzinfo=None), "soon"]


async def test_a_reason_is_cut_to_the_length_of_its_column(database):
    database.execute("CREATE TABLE jobs (id integer PRIMARY KEY, status text, updated_at timestamp, error varchar(10))")
    source = database.source(error_field="error", error_text="stuck")
    engine = make_engine(source)
    rows = await reflect(engine, source)
    await engine.dispose()
    assert rows.error_text("0123456789abc") == "0123456789"
    assert rows.error_text("a\0b") == "ab"


async def test_a_transaction_in_sqlite_holds_the_write_lock_from_its_beginning(sqlite):
    """Another writer waits from the beginning, not from the first change."""
    sqlite.make_jobs()
    sqlite.add(1)
    engine = make_engine(sqlite.source())
    async with engine.begin() as connection:
        await connection.execute(sa.text("SELECT * FROM jobs"))
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await asyncio.to_thread(_write_at_once, sqlite.place)
    await asyncio.to_thread(_write_at_once, sqlite.place)
    await engine.dispose()


def _write_at_once(place):
    connection = sqlite3.connect(place, timeout=0)
    try:
        with connection:
            connection.execute("UPDATE jobs SET status = 'Done'")
    finally:
        connection.close()


@pytest.mark.parametrize("column", ["TEXT", "VARCHAR(40)"])
async def test_times_in_a_text_column_of_sqlite_are_read_as_they_are_written(sqlite, opened, column):
    """SQLite has no type for times: most tables keep them like that."""
    sqlite.make_jobs(updated_at=f"{column} DEFAULT CURRENT_TIMESTAMP")
    old = datetime.now(UTC) - 2 * HOUR
    for number, shape in enumerate(("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"), 1):
        sqlite.add(number, at=f"'{old.strftime(shape)}'")
    east = (old + timedelta(hours=9)).strftime("%Y-%m-%dT%H:%M:%S+09:00")
    sqlite.add(3, at=f"'{east}'")
    sqlite.execute("INSERT INTO jobs (id, status) VALUES (4, 'Processing')")
    source = sqlite.source(error_field="error")
    records = opened(source)
    await records.check()
    assert {each.id: round(each.age_s / 60) for each in await records.look(9)} == {"1": 120, "2": 120, "3": 120}
    sqlite.execute("UPDATE jobs SET status = 'Pending' WHERE id = 3")
    assert set((await records.reset()).reset) == {"1", "2"}
    seen = {}

    async def handler(record, session):
        seen[record.id] = record["updated_at"]

    await handled(source, handler)
    assert all(isinstance(each, str) for each in seen.values())
    assert sqlite.statuses() == {"Done": 3, "Processing": 1}
    sqlite.execute("UPDATE jobs SET updated_at = 'yesterday'")
    with pytest.raises(SourceRefused, match="holds 'yesterday', which SQLite does not read as a time"):
        await opened(source).check()
