"""Behind a PgBouncer that pools transactions: every transaction may be at another server."""

from __future__ import annotations

import asyncio

import pytest

from hub.recovery.engines import make_engine
from hub.recovery.models import SqlSource
from tests.recovery.loop.conftest import make_tables
from tests.recovery.loop.world import handled, note, notes
from tests.recovery.pgbouncer import PgBouncer


@pytest.fixture
def bouncer(pg):
    make_tables(pg)
    found = PgBouncer(pg)
    found.start()
    yield found
    found.stop()


def source(bouncer, options="", **more):
    return SqlSource(name="jobs", url=bouncer.url(options), table="jobs", error_field="error", **more)


async def test_concurrent_services_find_and_reset_records_through_pgbouncer(pg, bouncer, opened):
    pg.fill(600)
    several = [opened(source(bouncer, batch_size=20)) for _ in range(6)]
    await asyncio.gather(*(records.check() for records in several))

    async def clean(records):
        done = []
        while (batch := await records.reset()).count:
            done += batch.reset
            assert await records.count() >= 0
        return done

    found = await asyncio.gather(*(clean(records) for records in several))
    assert sorted(int(each) for done in found for each in done) == list(range(1, 601))
    assert pg.statuses() == {"Pending": 600}


async def test_the_loop_works_through_pgbouncer(pg, bouncer):
    pg.execute("ALTER TABLE jobs ADD more jsonb, ADD tags text[]")
    pg.fill(200, "Pending")
    pg.execute("""UPDATE jobs SET more = '{"a": 1}', tags = '{x,y}'""")
    read = set()

    async def handler(record, session):
        read.add((record["more"]["a"], *record["tags"]))
        await note(session, record)
        await asyncio.sleep(0.005)
        await note(session, record, "again")

    counts = await asyncio.gather(*(handled(source(bouncer), handler, heartbeat=0.05, park=False) for _ in range(2)))
    assert pg.statuses() == {"Done": 200}
    assert sum(each.done for each in counts) == 200
    assert (len(notes(pg)), read) == (400, {(1, "x", "y")})


@pytest.mark.parametrize(
    "options",
    ["&statement_cache_size=0", "&command_timeout=7.5&timeout=3", "&connect_timeout=5&application_name=hub",
     "&sslmode=prefer", "&sslmode=disable"],
)  # fmt: skip
async def test_options_of_the_driver_are_read_from_the_url_with_their_types(pg, bouncer, opened, options):
    pg.add(1)
    records = opened(source(bouncer, options))
    await records.check()
    assert (await records.reset()).reset == ("1",)


async def test_prepared_statements_may_be_cached_where_there_is_no_pgbouncer(pg, opened):
    pg.make_jobs()
    pg.add(1, 2, 3)
    records = opened(
        pg.source(url=f"{pg.url}&prepared_statement_cache_size=100&statement_cache_size=100", batch_size=1)
    )
    assert [(await records.reset()).count for _ in range(4)] == [1, 1, 1, 0]
    engine = make_engine(records.source)
    async with engine.connect() as connection:
        for _ in range(2):
            await connection.exec_driver_sql("SELECT 1")
        (kept,) = await connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements")
    await engine.dispose()
    assert kept[0] >= 1
