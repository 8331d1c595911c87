"""Databases that are killed, stopped, gone or changed while a program works with them."""

import asyncio
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from hub.errors import RecordsUnavailable, SourceRefused
from hub.recovery import sql
from hub.recovery.engines import make_engine, reading
from hub.recovery.models import Reset, SqlSource
from tests.recovery.databases import Database
from tests.recovery.postgres import Postgres
from tests.world import SLACK_S, eventually

AWAY = r"^source jobs, url: the database does not answer: .*\.$"


@pytest.fixture
def own() -> Iterator[Database]:
    """A database on a server that may be killed."""
    server = Postgres()
    server.start()
    yield Database("postgresql", server.url(), server)
    server.stop()


async def test_a_server_that_was_killed_and_started_again_is_used_as_before(own, opened):
    own.make_jobs()
    own.add(1)
    records = opened(own.source())
    assert await records.count() == 1
    own.place.kill()
    for call in (records.count, lambda: records.look(1), records.reset, records.check, lambda: records.reset(["1"])):
        with pytest.raises(RecordsUnavailable, match=AWAY):
            await call()
    own.place.start()
    await records.check()
    assert await records.reset() == Reset(reset=("1",))
    own.place.kill()
    own.place.start()
    own.add(2)
    assert await records.reset() == Reset(reset=("2",)), "the next connection is a new one"


@pytest.mark.parametrize("hangs", ["a look", "its end", "a change", "its commit"])
async def test_a_cancelled_call_does_not_wait_for_a_database_that_hangs(own, hangs):
    own.make_jobs()
    engine = make_engine(own.source())
    hung = asyncio.Event()

    async def work():
        async with reading(engine) if hangs in ("a look", "its end") else engine.begin() as connection:
            await connection.execute(sa.text("SELECT 1"))
            own.place.pause()
            hung.set()
            if hangs in ("a look", "a change"):
                await connection.execute(sa.text("UPDATE jobs SET attempts = 1"))

    working = asyncio.create_task(work())
    await hung.wait()
    await asyncio.sleep(0.1)
    assert not working.done()
    working.cancel()
    done, _ = await asyncio.wait([working], timeout=2 * SLACK_S)  # a rollback may take half a minute
    own.place.resume()
    assert done == {working}
    assert working.cancelled()
    await engine.dispose()


async def test_a_server_killed_during_a_batch_has_all_or_nothing_of_it(own, opened):
    own.make_jobs()
    own.fill(50)
    make_slow(own)
    records = opened(own.source())
    resetting = asyncio.create_task(records.reset())
    await eventually(lambda: at_work(own))
    own.place.kill()
    with pytest.raises(RecordsUnavailable, match=AWAY):
        await resetting
    own.place.start()
    own.execute("DROP TRIGGER slow ON jobs")
    assert own.statuses() == {"Processing": 50}
    assert (await records.reset()).count == 50


def make_slow(database):
    """Each change takes a tenth of a second."""
    database.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.1); RETURN new; END $$;"
        "CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()"
    )


async def at_work(own):
    return bool(own.execute("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'UPDATE jobs%' AND state = 'active'"))


async def test_a_server_that_never_answers_does_not_block_a_caller_forever(own, opened, monkeypatch):
    own.make_jobs()
    own.add(1)
    known, new = opened(own.source()), opened(own.source())
    await known.check()
    monkeypatch.setattr(sql, "OPERATION_S", 1)
    own.place.pause()
    began = time.monotonic()
    try:
        for records in (known, new):
            for call in (records.count, records.reset):
                with pytest.raises(RecordsUnavailable, match="it takes too long"):
                    await call()
    finally:
        own.place.resume()
    assert time.monotonic() - began < 4 + 4 * SLACK_S
    monkeypatch.undo()
    assert await known.reset() == Reset(reset=("1",))
    await new.check()


async def test_a_reset_that_is_given_up_changes_nothing(pg, opened):
    pg.make_jobs()
    pg.fill(50)
    make_slow(pg)
    records = opened(pg.source())
    resetting = asyncio.create_task(records.reset())
    await eventually(lambda: at_work(pg))
    resetting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resetting
    pg.execute("DROP TRIGGER slow ON jobs")
    assert pg.statuses() == {"Processing": 50}
    assert (await records.reset()).count == 50


async def test_a_session_that_an_operator_ends_is_replaced(pg, opened):
    pg.make_jobs()
    pg.add(1)
    records = opened(pg.source())
    await records.check()
    pg.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert await records.reset() == Reset(reset=("1",))


async def test_a_table_that_was_changed_is_inspected_again(database, opened):
    database.make_jobs()
    database.add(1)
    records = opened(database.source(error_field="error"))
    assert await records.count() == 1
    database.execute("ALTER TABLE jobs RENAME COLUMN error TO reason")
    with pytest.raises(SourceRefused, match=r"^source jobs, (table: the database refuses it|error_field): "):
        await records.reset()
    with pytest.raises(SourceRefused, match=r"^source jobs, error_field: jobs has no column 'error'"):
        await records.reset()
    database.execute("ALTER TABLE jobs RENAME COLUMN reason TO error")
    assert await records.reset() == Reset(reset=("1",))


async def test_a_status_column_changed_into_an_enum_while_the_service_runs_is_noticed(pg, opened):
    pg.make_jobs()
    pg.add(1)
    records = opened(pg.source())
    assert await records.count() == 1
    pg.execute(
        "CREATE TYPE state AS ENUM ('Pending', 'Processing', 'Failed');"
        "ALTER TABLE jobs ALTER status TYPE state USING status::state"
    )
    with pytest.raises((SourceRefused, RecordsUnavailable)):
        await records.reset()
    assert await records.reset() == Reset(reset=("1",))


async def test_a_missing_database_file_is_refused_and_not_created(tmp_path, opened):
    path = tmp_path / "jobs.db"
    records = opened(SqlSource(name="jobs", url=f"sqlite+aiosqlite:///{path}", table="jobs"))
    with pytest.raises(RecordsUnavailable, match=AWAY):
        await records.check()
    assert not path.exists()


async def test_a_file_that_is_no_database_is_reported_in_a_sentence(tmp_path, opened):
    path = tmp_path / "jobs #1?.db"
    path.write_text("once upon a time " * 100)
    records = opened(SqlSource(name="jobs", url=f"sqlite+aiosqlite:///{path}".replace("?", "%3F"), table="jobs"))
    with pytest.raises(RecordsUnavailable, match=AWAY):
        await records.count()
