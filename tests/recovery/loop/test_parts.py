"""A source that is a part of a table: the same id in another part is another record, and stays as it is."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis

from hub.recovery.engines import make_engine
from hub.recovery.outcomes import Outcome, Outcomes, Parked, settle, stamp
from hub.recovery.tables import reflect
from hub.store.keys import Keys
from tests.recovery.databases import _mariadb, mariadb
from tests.recovery.loop.world import handled, source_of

__all__ = ["_mariadb", "mariadb"]

COLUMNS = "queue varchar(9) NOT NULL, id integer NOT NULL, status varchar(20), error text, attempts integer"


@pytest.fixture(params=["pg", "sqlite", "mariadb"])
def parts(request):
    """A table with the records 1 and 2 in each of two queues, which are Processing in the queue `post`."""
    found = request.getfixturevalue(request.param)
    kind = {"pg": "timestamptz", "sqlite": "TIMESTAMP", "mariadb": "timestamp(6) NULL"}[request.param]
    found.execute(f"CREATE TABLE jobs ({COLUMNS}, updated_at {kind}, PRIMARY KEY (queue, id))")
    add(found, "mail", "Pending")
    add(found, "post", "Processing")
    return found


def add(parts, queue, status):
    for number in (1, 2):
        values = f"'{queue}', {number}, '{status}', {parts.ago(60)}"
        parts.execute(f"INSERT INTO jobs (queue, id, status, updated_at) VALUES ({values})")


def mail(parts):
    """Return the source of one queue."""
    return source_of(parts, id_field="id", where={"queue": "mail"})


def post(parts):
    """Return what the other queue holds."""
    return [tuple(row) for row in parts.execute("SELECT id, status, error, updated_at FROM jobs WHERE queue = 'post'")]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_loop_with_a_filter_touches_only_matching_records(parts, fails):
    before = post(parts)

    async def handler(record, session):
        assert record["queue"] == "mail"
        if fails:
            raise ValueError("out of paper")

    counts = await handled(mail(parts), handler, park=False, heartbeat=True)
    assert (counts.claimed, counts.lost, counts.failed if fails else counts.done) == (2, 0, 2)
    assert post(parts) == before


async def test_a_parked_outcome_is_written_only_to_a_matching_record(parts, redis_server):
    parts.execute("UPDATE jobs SET status = 'Processing' WHERE queue = 'mail'")
    before = post(parts)
    engine = make_engine(mail(parts))
    rows = await reflect(engine, mail(parts))
    async with engine.connect() as connection:
        stamps = tuple((await connection.scalars(sa.select(stamp(rows)))).all())
    outcomes = Outcomes(Redis.from_url(redis_server.url, decode_responses=True), Keys(""), "jobs")
    await outcomes.park(Parked("1", stamps, Outcome("Failed", "out of paper")))
    assert await settle(engine, rows, outcomes) == 1
    await outcomes.close()
    await engine.dispose()
    assert post(parts) == before
    assert parts.execute("SELECT status FROM jobs WHERE queue = 'mail' ORDER BY id")[0][0] == "Failed"
