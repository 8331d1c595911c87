"""Time as a fence: a handler never runs while another loop may run one for the same record."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import sqlalchemy as sa

from hub import retries
from hub.recovery.loop import claims, items
from tests.recovery.loop.journal import Journal
from tests.recovery.loop.world import clean, handled, note, notes, source_of
from tests.world import eventually

SECOND = 1 / 60  # of a threshold; it is of several, for each program in it may stand still for a while
pytestmark = pytest.mark.race


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal")


@contextlib.asynccontextmanager
async def cleaned(source):
    """The cleanup service, at an interval of next to nothing, while the block runs; it ends with it, and leaves nothing
    open."""
    over = asyncio.Event()

    async def cleaning():
        while not over.is_set():
            await clean(source)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(cleaning())
    try:
        yield
    finally:
        over.set()
        await task


async def test_a_handler_that_takes_longer_than_the_threshold_is_cancelled_before_it(jobs, journal):
    jobs.add(1, status="Pending")
    source = source_of(jobs, threshold_minutes=6 * SECOND)

    async def handler(record, session):
        journal.write("begin", record.id)
        try:
            await asyncio.sleep(30)
        finally:
            seen.append(jobs.jobs()["1"].status)
            journal.write("end", record.id)

    seen = []
    async with cleaned(source):
        counts = await handled(source, handler)
    assert (seen, journal.begun()["1"], counts.failed) == (["Processing"], 1, 1)
    assert jobs.jobs()["1"].status == "Failed"
    assert "longer than the threshold allows" in jobs.jobs()["1"].error


async def test_with_heartbeats_a_long_running_record_is_never_reset(jobs, journal):
    jobs.add(1, 2, status="Pending")
    source = source_of(jobs, threshold_minutes=10 * SECOND)

    async def handler(record, session):
        journal.write("begin", record.id)
        await asyncio.sleep(14)
        await note(session, record)
        journal.write("end", record.id)

    async with cleaned(source):
        counts = await handled(source, handler, heartbeat=True)
    assert (dict(journal.begun()), counts.done) == ({"1": 1, "2": 1}, 2)
    assert notes(jobs) == ["seen 1", "seen 2"]


async def test_heartbeats_go_on_while_a_handler_has_changed_its_record(pg_jobs):
    """Hold the lock: no other claim waits for it, and the others are refreshed."""
    pg_jobs.add(1, 2, status="Pending")
    source = source_of(pg_jobs, threshold_minutes=8 * SECOND)

    async def handler(record, session):
        if record.id == 1:
            await session.execute(sa.text("UPDATE jobs SET attempts = 5, updated_at = now() WHERE id = 1"))
            await asyncio.sleep(2)
        else:
            await asyncio.sleep(10)

    counts = await handled(source, handler, heartbeat=0.3)
    assert (counts.done, pg_jobs.jobs()["1"].attempts) == (2, 5)


async def test_a_heartbeat_that_finds_the_record_taken_cancels_the_handler(jobs):
    jobs.add(1, status="Ready")
    ended = []

    async def handler(record, session):
        if ended:
            return
        await asyncio.to_thread(jobs.execute, "UPDATE jobs SET status = 'Ready', updated_at = NULL")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append(record.id)
            raise

    counts = await handled(source_of(jobs, becomes="Ready"), handler, heartbeat=0.5)
    assert (ended, counts.lost, counts.done, counts.failed) == ([1], 1, 1, 0)


async def test_heartbeats_go_on_while_a_handler_refers_to_its_record(pg_jobs):
    """A foreign key locks the record it refers to, though no statement changes that."""
    pg_jobs.add(1, status="Pending")
    pg_jobs.execute("CREATE TABLE children (job integer REFERENCES jobs (id))")
    source = source_of(pg_jobs, threshold_minutes=6 * SECOND)

    async def handler(record, session):
        await session.execute(sa.text("INSERT INTO children VALUES (1)"))
        await asyncio.sleep(9)

    async with cleaned(source):
        counts = await handled(source, handler, heartbeat=True)
    assert (counts.claimed, counts.done) == (1, 1)


async def test_a_record_whose_handler_commits_an_old_time_is_refreshed_at_once(pg_jobs):
    """Its transaction began long ago, and bears that time."""
    pg_jobs.add(1, status="Pending")

    async def handler(record, session):
        await session.execute(sa.text("UPDATE jobs SET attempts = 5, updated_at = now() - interval '50 minutes'"))
        await session.commit()
        await eventually(lambda: pg_jobs.jobs()["1"].fresh)

    counts = await handled(source_of(pg_jobs), handler, heartbeat=1000)
    assert (counts.done, counts.failed, pg_jobs.jobs()["1"].attempts) == (1, 0, 5)


async def test_a_handler_that_sets_its_own_status_goes_on(jobs):
    """Let the handler decide; what it does after that counts as well."""
    jobs.add(1, status="Pending")

    async def handler(record, session):
        await session.execute(sa.text("UPDATE jobs SET status = 'Failed', error = 'not wanted'"))
        await session.commit()
        await asyncio.sleep(0.5)
        await note(session, record)

    counts = await handled(source_of(jobs), handler, heartbeat=0.1)
    assert (counts.done, counts.lost, notes(jobs)) == (1, 0, ["seen 1"])
    assert (jobs.jobs()["1"].status, jobs.jobs()["1"].error) == ("Failed", "not wanted")


@pytest.mark.parametrize("status", ["Pending", "Failed", "Skipped"])
@pytest.mark.parametrize("raises", [False, True])
async def test_a_record_changed_by_another_program_meanwhile_is_left_alone(jobs, raises, status):
    jobs.add(1, status="Ready")

    async def handler(record, session):
        jobs.execute(f"UPDATE jobs SET status = '{status}', error = 'by hand'")
        await note(session, record)
        if raises:
            raise ValueError

    counts = await handled(source_of(jobs, becomes="Ready"), handler)
    assert (counts.lost, counts.done, counts.failed) == (1, 0, 0)
    assert jobs.jobs()["1"].error == "by hand"
    assert notes(jobs) == []


@pytest.mark.parametrize("taken", [False, True])
async def test_a_loop_that_was_suspended_too_long_writes_only_its_own_claims(jobs, monkeypatch, taken):
    """The process was stopped, or the machine suspended, for longer than the threshold."""
    jobs.add(1, status="Pending")

    async def handler(record, session):
        await note(session, record)
        if taken:  # brought back, and claimed by another loop
            await session.commit()
            jobs.execute(f"UPDATE jobs SET updated_at = {jobs.ago(1)}")
        monkeypatch.setattr(claims, "now_s", lambda: retries.now_s() + 7200)

    counts = await handled(source_of(jobs), handler)
    assert jobs.jobs()["1"].status == ("Processing" if taken else "Failed")
    assert (counts.lost, counts.failed, counts.done) == ((1, 0, 0) if taken else (0, 1, 0))


async def test_a_claim_that_expires_during_the_write_of_its_outcome_stops_the_write(jobs, monkeypatch):
    """Held up between looking at the clock and the database."""
    jobs.add(1, status="Pending")
    real = claims.Claims.finish

    async def finish(self, session, claim, outcome):
        monkeypatch.setattr(claims, "now_s", lambda: retries.now_s() + 7200)
        return await real(self, session, claim, outcome)

    monkeypatch.setattr(claims.Claims, "finish", finish)

    async def handler(record, session):
        await note(session, record)

    await handled(source_of(jobs), handler)
    assert (jobs.jobs()["1"].status, notes(jobs)) == ("Failed", [])


async def test_a_claimed_record_that_is_not_begun_in_time_is_given_back(jobs):
    jobs.add(1, 2, status="Pending")
    begun = []

    async def handler(record, session):
        begun.append((record.id, jobs.jobs()["2"].status))
        await asyncio.sleep(4.8 if len(begun) == 1 else 0)

    counts = await handled(source_of(jobs, threshold_minutes=8 * SECOND), handler, batch=2, concurrency=1)
    assert begun == [(1, "Processing"), (2, "Processing")]
    assert (counts.claimed, counts.returned, counts.done) == (3, 1, 2)


async def test_a_handler_that_ignores_its_cancellation_is_cancelled_again(jobs, monkeypatch, caplog):
    monkeypatch.setattr(items, "INSIST_S", 0.2)
    monkeypatch.setattr(items, "LOOK_S", 0.1)
    jobs.add(1, status="Pending")
    told = []

    async def handler(record, session):
        while len(told) < 3:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                told.append(1)

    await handled(source_of(jobs, threshold_minutes=SECOND / 2), handler)
    assert jobs.jobs()["1"].status == "Failed"
    assert "does not heed its cancellation" in caplog.text


async def test_a_record_waiting_behind_long_work_is_given_back_before_it_is_stuck(jobs, monkeypatch):
    """Resets are counted, and after some of them a record fails, though no handler has ever worked on it."""
    monkeypatch.setattr(claims, "MARGIN", 0.5)
    jobs.add(1, status="Pending", age_s=9000)
    jobs.add(2, status="Pending")
    source = source_of(jobs, threshold_minutes=8 * SECOND)

    async def handler(record, session):
        await asyncio.sleep(10 if record.id == 1 else 0)

    async with cleaned(source):
        counts = await handled(source, handler, batch=2, concurrency=1, heartbeat=1)
    assert (counts.done, counts.lost, counts.claimed - counts.returned) == (2, 0, 2)
    assert [job.error for job in jobs.jobs().values()] == [None, None]
