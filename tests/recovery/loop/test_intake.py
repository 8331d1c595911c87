"""Claiming: a fault of one record, or a change of the table, does not stop the other records."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from hub.recovery.engines import make_engine
from hub.recovery.loop import SourceRefused, intake, process
from hub.recovery.loop import claims as claims_module
from hub.recovery.loop.claims import Claims
from hub.recovery.tables import reflect
from tests.recovery.loop.world import handled, note, notes, nothing, source_of
from tests.world import eventually

pytestmark = pytest.mark.story


def trigger(database, body, when="true"):
    """Have PostgreSQL do this before each change of a job."""
    database.execute(
        f"CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {body} END'; "
        f"CREATE TRIGGER meddle BEFORE UPDATE ON jobs FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION meddle();"
    )


def said(caplog, text):
    """Return the levels of the lines that say so."""
    return [line.levelname for line in caplog.records if text in line.getMessage()]


@pytest.mark.parametrize("body", ["RAISE EXCEPTION ''frozen'';", "RETURN NULL;"])
async def test_a_record_that_cannot_be_claimed_is_logged_once_and_delays_no_other(pg_jobs, caplog, body):
    pg_jobs.add(7, status="Pending", age_s=9000)
    pg_jobs.fill(30, "Pending", first=10)
    trigger(pg_jobs, body, "OLD.id = 7")
    counts = await handled(source_of(pg_jobs), nothing)
    assert (counts.done, pg_jobs.statuses()) == (30, {"Done": 30, "Pending": 1})
    assert said(caplog, "record cannot be claimed source=jobs id=7") == ["ERROR"]


async def test_a_record_that_could_not_be_claimed_is_tried_again_after_a_pause(pg_jobs, monkeypatch, caplog):
    monkeypatch.setattr(intake, "LEFT_OUT_S", 0.3)
    pg_jobs.add(7, status="Pending")
    trigger(pg_jobs, "RAISE EXCEPTION ''frozen'';")
    loop = Running(pg_jobs)
    await eventually(lambda: said(caplog, "record cannot be claimed source=jobs id=7"))
    await asyncio.to_thread(pg_jobs.execute, "DROP TRIGGER meddle ON jobs")
    await loop.done(1)
    await loop.end()


@pytest.mark.parametrize("at", ["'-infinity'", "'0044-03-15 BC'", "'20260-01-01'", "'infinity'", "NULL"])
async def test_a_record_with_an_impossible_time_delays_no_other(pg_jobs, at):
    pg_jobs.add(1, status="Pending", at=at)
    pg_jobs.add(2, 3, status="Pending")
    await handled(source_of(pg_jobs), nothing)
    assert pg_jobs.statuses() == {"Done": 3}


async def test_a_trigger_that_changes_the_time_is_refused_before_a_record_is_handled_twice(pg_jobs):
    pg_jobs.add(1, 2, status="Pending")
    trigger(pg_jobs, "NEW.updated_at := now() - interval ''2 hours''; RETURN NEW;")
    with pytest.raises(SourceRefused, match=r"source jobs, updated_at_field: .* right after it was written"):
        await handled(source_of(pg_jobs), nothing)
    assert pg_jobs.statuses() == {"Pending": 2}


class Running:
    """A loop that goes on, until told."""

    def __init__(self, database):
        self.database = database
        self.stop = asyncio.Event()
        options = {"done": "Done", "poll_s": 0.02, "stop": self.stop}
        self.task = asyncio.create_task(process(source_of(database), nothing, **options))

    async def done(self, count):
        async def so_many():
            return (await asyncio.to_thread(self.database.statuses)).get("Done") == count

        await eventually(so_many)

    async def end(self):
        self.stop.set()
        return await self.task


async def test_a_table_that_was_changed_is_inspected_again(jobs):
    jobs.add(1, status="Pending")
    loop = Running(jobs)
    await loop.done(1)
    await asyncio.to_thread(jobs.execute, "ALTER TABLE jobs DROP COLUMN attempts")
    await asyncio.to_thread(jobs.add, 2, status="Pending")
    await loop.done(2)
    await loop.end()


async def test_the_loop_waits_while_a_changed_table_does_not_fit(jobs, caplog):
    jobs.add(1, status="Pending")
    loop = Running(jobs)
    await loop.done(1)
    await asyncio.to_thread(jobs.execute, "ALTER TABLE jobs RENAME COLUMN error TO trouble")
    await asyncio.to_thread(jobs.add, 2, status="Pending")
    await eventually(lambda: any("error_field" in line.getMessage() for line in caplog.records))
    assert not loop.task.done()
    await asyncio.to_thread(jobs.execute, "ALTER TABLE jobs RENAME COLUMN trouble TO error")
    await loop.done(2)
    await loop.end()


async def test_a_lasting_failure_is_logged_again_every_few_minutes(monkeypatch, caplog):
    from hub.recovery.loop import sessions

    trouble = sessions.SessionTrouble("jobs", "it does not work", "it works")
    for now in (10_000.0, 10_100.0, 10_400.0):
        monkeypatch.setattr(sessions, "now_s", lambda now=now: now)
        trouble.met("no")
    assert said(caplog, "it does not work") == ["WARNING", "WARNING"]


async def test_a_record_whose_handler_still_runs_is_not_claimed_again(jobs):
    """Give it back by hand; the handler notices in the end, and only then the next one begins."""
    jobs.add(1, status="Pending")
    running, most, begun = 0, 0, 0

    async def handler(record, session):
        nonlocal running, most, begun
        running, begun = running + 1, begun + 1
        most = max(most, running)
        if begun == 1:
            await asyncio.to_thread(jobs.execute, "UPDATE jobs SET status = 'Pending', updated_at = NULL")
            await asyncio.sleep(0.6)
        running -= 1

    counts = await handled(source_of(jobs), handler, concurrency=3)
    assert (most, begun, counts.lost, counts.done) == (1, 2, 1, 1)
    assert jobs.statuses() == {"Done": 1}


def by_hand(database, status):
    """Give the record another status; wait for it only shortly, should it be locked."""
    return asyncio.wait(
        [asyncio.create_task(asyncio.to_thread(database.execute, f"UPDATE jobs SET status = '{status}'"))], timeout=0.5
    )


async def test_a_record_given_back_during_its_handler_is_not_claimed_before_its_outcome_is_known(pg_jobs, monkeypatch):
    """The first handler's outcome would be taken for that of the second, which still runs."""
    pg_jobs.add(1, status="Pending")
    finish, begun, over = Claims.finish, 0, asyncio.Event()

    async def slowly(self, session, claim, outcome):
        await asyncio.sleep(0.5 if begun == 1 else 0)
        ours = await finish(self, session, claim, outcome)
        over.set()
        return ours

    async def handler(record, session):
        nonlocal begun
        begun += 1
        await note(session, record, f"round {begun}:")
        if begun == 1:
            await by_hand(pg_jobs, "Pending")
        else:
            await over.wait()

    monkeypatch.setattr(Claims, "finish", slowly)
    counts = await handled(source_of(pg_jobs), handler, concurrency=3)
    assert (begun, counts.lost, counts.done, notes(pg_jobs)) == (2, 1, 1, ["round 2: 1"])
    assert pg_jobs.statuses() == {"Done": 1}


async def test_the_writes_of_a_handler_are_undone_when_its_record_is_claimed_by_another_loop(pg_jobs, monkeypatch):
    """It looks from the outside like a record that the handler itself has changed."""
    pg_jobs.add(1, status="Pending")
    look = Claims._is

    async def late(self, claim, what):
        await by_hand(pg_jobs, "Processing")
        return await look(self, claim, what)

    async def handler(record, session):
        await note(session, record)
        await by_hand(pg_jobs, "Paused")

    monkeypatch.setattr(Claims, "_is", late)
    counts = await handled(source_of(pg_jobs), handler)
    assert (counts.lost, counts.done, notes(pg_jobs)) == (1, 0, [])


async def test_no_statement_names_more_than_a_thousand_records(jobs, monkeypatch):
    monkeypatch.setattr(claims_module, "AT_ONCE", 20)
    jobs.fill(5, "Pending")
    engine = make_engine(source_of(jobs))
    claims = Claims(engine, await reflect(engine, source_of(jobs)))
    named = []
    sa.event.listen(engine.sync_engine, "before_cursor_execute", lambda *heard: named.append(len(heard[3])))
    others = dict.fromkeys(range(1000, 1100)) | {3: None}
    taken = await claims.take(5, others)
    await engine.dispose()
    assert sorted(each.record.id for each in taken) == [1, 2, 4, 5]
    assert max(named) < 30


@pytest.mark.parametrize("jobs", ["postgresql"], indirect=True)
async def test_a_large_batch_uses_ten_connections_unless_more_are_configured(jobs):
    jobs.fill(150, "Pending")
    running, most = 0, 0

    async def handler(record, session):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await session.execute(sa.text("SELECT 1"))
        await asyncio.sleep(0.02)
        running -= 1

    counts = await handled(source_of(jobs), handler, batch=150)
    assert (most <= 10, counts.done, counts.refusals) == (True, 150, 0)


@pytest.mark.parametrize("jobs", ["sqlite"], indirect=True)
async def test_with_sqlite_one_handler_runs_at_a_time(jobs):
    jobs.fill(6, "Pending")
    running, most = 0, 0

    async def handler(record, session):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    assert (await handled(source_of(jobs), handler)).done == 6
    assert most == 1


@pytest.mark.parametrize(("options", "levels"), [({}, ["WARNING"]), ({"park": False}, [])])
async def test_a_loop_without_a_redis_for_parked_outcomes_logs_that_at_its_start(
    jobs, monkeypatch, caplog, options, levels
):
    for name in ("HUB_REDIS_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    await handled(source_of(jobs), nothing, **options)
    assert said(caplog, "nothing to park in") == levels
