"""Outcomes that waited for their database are written once it is there, and only where the claim still stands."""

from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace

import pytest

from hub.errors import RecordsUnavailable
from hub.recovery import outcomes as parking
from hub.recovery import sql
from hub.recovery.models import SqlSource
from hub.recovery.outcomes import Outcome, Outcomes, Parked

CLAIMED = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
TEXT = "2026-03-01 12:00:00.123456"


@pytest.fixture
def outcomes(hub):
    return Outcomes(hub.store.client, hub.store.keys, "jobs")


def done(database, record):
    stamp = CLAIMED if database.kind == "postgresql" else TEXT
    return Parked(record, (stamp,), Outcome("Done"))


async def test_a_parked_outcome_is_written_once_and_only_to_its_own_claim(database, opened, outcomes):
    database.make_jobs()
    if database.kind == "postgresql":
        database.execute(f"ALTER DATABASE {database.name} SET timezone = 'UTC'")
    database.add(1, 2, at=f"'{TEXT}'")
    database.add(3, age_s=10)
    records = opened(database.source())
    for record in ("1", "3"):
        await outcomes.park(done(database, record))
    assert (await records.write_parked(outcomes), await outcomes.count()) == (1, 0)
    assert await records.write_parked(outcomes) == 0
    assert {name: job.status for name, job in database.jobs().items()} == {
        "1": "Done",
        "2": "Processing",
        "3": "Processing",
    }


async def test_an_outcome_that_cannot_be_written_stays_parked(tmp_path, sqlite, opened, outcomes):
    away = SqlSource(name="jobs", url=f"sqlite+aiosqlite:///{tmp_path}/away.db", table="jobs")
    await outcomes.park(done(sqlite, "1"))
    with pytest.raises(RecordsUnavailable):
        await opened(away).write_parked(outcomes)
    assert await outcomes.count() == 1


async def test_one_call_writes_parked_outcomes_for_a_limited_time_and_the_next_continues(
    database, opened, outcomes, monkeypatch
):
    database.make_jobs()
    if database.kind == "postgresql":
        database.execute(f"ALTER DATABASE {database.name} SET timezone = 'UTC'")
    database.add(*range(1, 11), at=f"'{TEXT}'")
    for record in range(1, 11):
        await outcomes.park(done(database, str(record)))
    records = opened(database.source())
    seconds = count()  # each look at the clock takes one
    monkeypatch.setattr(parking, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(parking, "WRITING_S", 4)
    assert [await records.write_parked(outcomes) for _ in range(5)] == [3, 3, 3, 1, 0]
    assert (await outcomes.count(), database.statuses()) == (0, {"Done": 10})


async def test_writing_many_parked_outcomes_may_take_longer_than_one_database_call(
    sqlite, opened, outcomes, monkeypatch
):
    sqlite.make_jobs()
    sqlite.add(*range(1, 41), at=f"'{TEXT}'")
    for record in range(1, 41):
        await outcomes.park(done(sqlite, str(record)))
    records = opened(sqlite.source())
    await records.rows()
    monkeypatch.setattr(sql, "OPERATION_S", 0.02)
    assert (await records.write_parked(outcomes), await outcomes.count()) == (40, 0)


async def test_a_parked_outcome_that_takes_too_long_to_write_stays_parked(pg, opened, outcomes, monkeypatch):
    pg.make_jobs()
    pg.execute(f"ALTER DATABASE {pg.name} SET timezone = 'UTC'")
    pg.add(1, at=f"'{TEXT}'")
    pg.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(30); RETURN new; END $$;"
        "CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    await outcomes.park(done(pg, "1"))
    monkeypatch.setattr(parking, "OUTCOME_S", 0.3)
    with pytest.raises(RecordsUnavailable, match="it takes too long"):
        await opened(pg.source()).write_parked(outcomes)
    assert (await outcomes.count(), pg.statuses()) == (1, {"Processing": 1})
