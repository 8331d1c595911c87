"""Outcomes that waited for their database are written once it is there, and only where the claim still stands."""

from datetime import UTC, datetime

import pytest

from hub.errors import RecordsUnavailable
from hub.records.models import SqlSource
from hub.records.outcomes import Outcome, Outcomes, Parked

CLAIMED = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
TEXT = "2026-03-01 12:00:00.123456"


@pytest.fixture
def outcomes(hub):
    return Outcomes(hub.store.client, hub.store.keys, "jobs")


def done(database, record):
    stamp = CLAIMED if database.kind == "postgresql" else TEXT
    return Parked(record, (stamp,), Outcome("Done"))


async def test_what_waited_is_written_once_and_only_on_the_claim_it_is_of(database, opened, outcomes):
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


async def test_what_cannot_be_written_waits_on(tmp_path, sqlite, opened, outcomes):
    away = SqlSource(name="jobs", url=f"sqlite+aiosqlite:///{tmp_path}/away.db", table="jobs")
    await outcomes.park(done(sqlite, "1"))
    with pytest.raises(RecordsUnavailable):
        await opened(away).write_parked(outcomes)
    assert await outcomes.count() == 1
