"""Records that are handled again: not without end, and never because of what the handler has left in its session."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from hub.recovery.engines import make_engine
from hub.recovery.loop import items
from tests.recovery.loop.world import handled, note, notes, noting, source_of

pytestmark = pytest.mark.story


async def test_a_session_hook_that_raises_fails_the_record_at_once(jobs):
    jobs.add(1, status="Pending")
    begun = []

    def refuse(_):
        raise RuntimeError("no such customer")

    async def handler(record, session):
        begun.append(record.id)
        await note(session, record)
        sa.event.listen(session.sync_session, "before_commit", refuse, once=True)

    counts = await handled(source_of(jobs), handler)
    assert (begun, counts.failed, notes(jobs)) == ([1], 1, [])
    assert jobs.jobs()["1"].error == "RuntimeError: no such customer"


async def test_commits_that_never_succeed_fail_the_record_after_some_attempts(jobs):
    class Failing(AsyncSession):
        async def commit(self):
            if "seen" in self.info:
                await self.rollback()
                raise exc.OperationalError("COMMIT", {}, OSError("cut"))
            await super().commit()

        async def rollback(self):
            self.info.clear()
            await super().rollback()

    jobs.add(1, 2, status="Pending")
    engine = make_engine(source_of(jobs))
    begun = []

    async def handler(record, session):
        begun.append(record.id)
        await note(session, record)
        if record.id == 1:
            session.info["seen"] = True

    get_session = async_sessionmaker(engine, class_=Failing)
    counts = await handled(source_of(jobs), handler, batch=1, get_session=get_session)
    await engine.dispose()
    assert begun.count(1) == 1 + items.FURTHER_TRIES
    assert (counts.failed, counts.done, counts.returned) == (1, 1, items.FURTHER_TRIES)
    assert jobs.jobs()["1"].error.startswith("OperationalError: ")
    assert notes(jobs) == ["seen 2"]


async def test_a_handler_idle_for_longer_than_the_server_allows_fails_its_record(pg_jobs):
    pg_jobs.add(1, status="Pending")
    pg_jobs.execute(f"ALTER DATABASE {pg_jobs.name} SET idle_in_transaction_session_timeout = '1s'")
    begun = []

    async def handler(record, session):
        begun.append(record.id)
        await note(session, record)
        await asyncio.sleep(2)

    await handled(source_of(pg_jobs), handler)
    assert (len(begun), pg_jobs.statuses()) == (1 + items.FURTHER_TRIES, {"Failed": 1})


async def test_an_error_whose_text_cannot_be_read_still_fails_its_record(jobs):
    class Odd(Exception):
        def __str__(self):
            raise ValueError

    async def handler(record, session):
        raise Odd

    jobs.add(1, status="Pending")
    await handled(source_of(jobs), handler)
    assert (jobs.jobs()["1"].status, jobs.jobs()["1"].error) == ("Failed", "Odd, which cannot be shown: ValueError")


@pytest.mark.parametrize("raises", [False, True])
async def test_sessions_on_another_database_fail_the_record(jobs, tmp_path, raises):
    (tmp_path / "other.db").touch()
    other = make_engine(source_of(jobs, url=f"sqlite+aiosqlite:///{tmp_path / 'other.db'}"))
    async with other.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE jobs (id int, status text, updated_at text, error text)")
        await connection.exec_driver_sql("CREATE TABLE notes (job int, text text)")
    jobs.add(1, status="Pending")

    async def handler(record, session):
        await noting(record, session)
        if raises:
            raise ValueError("oh")

    counts = await handled(source_of(jobs), handler, get_session=async_sessionmaker(other))
    await other.dispose()
    assert (counts.failed, counts.done, counts.lost, counts.zombies) == (1, 0, 0, 0)
    error = "ValueError: oh" if raises else "the session of get_session does not reach the record"
    assert (jobs.jobs()["1"].status, jobs.jobs()["1"].error) == ("Failed", error)
