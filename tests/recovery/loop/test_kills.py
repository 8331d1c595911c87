"""Processes and databases that are killed: no record is lost, and none is worked on twice at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal

import pytest

from hub.errors import RecordsUnavailable
from hub.recovery.loop import process
from hub.recovery.sql import SqlRecords
from tests.recovery.databases import Database
from tests.recovery.loop import victim
from tests.recovery.loop.journal import Journal
from tests.recovery.loop.trial import FULL, Trial
from tests.recovery.loop.world import note, notes, source_of
from tests.world import eventually

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(600)]
THRESHOLD = {"threshold_minutes": 5 / 60}  # no process is to stand still for longer: it would not know


async def ended(started):
    """Return the exit code of a process."""
    await asyncio.to_thread(started.join, 90)
    return started.exitcode


async def further(journal, handlers):
    """Return when so many more records were begun."""
    before = len(journal.begun())
    await eventually(lambda: len(journal.begun()) > before + handlers)


async def cleaning(source, over):
    """The cleanup service, at an interval of next to nothing, until it is over."""
    records = SqlRecords(source)
    try:
        while not over.is_set():
            with contextlib.suppress(RecordsUnavailable):
                await records.reset()
            await asyncio.sleep(0.1)
    finally:
        await records.close()


@contextlib.asynccontextmanager
async def cleaned(source):
    over = asyncio.Event()
    task = asyncio.create_task(cleaning(source, over))
    try:
        yield
    finally:
        over.set()
        await task


async def test_a_process_killed_at_any_operation_loses_no_record(pg_jobs, tmp_path):
    trial = Trial(pg_jobs, tmp_path)
    at, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        trial.begin()
        started = victim.start(victim.killed_at, Database(pg_jobs.kind, pg_jobs.url, None), tmp_path, at)
        code = await ended(started)
        trial.journal.write("killed", "-", started.pid)
        trial.where = f"killed at {at}"
        await trial.recover()
        trial.check()
        at += 1 if FULL else 2
    assert (code, at > 40) == (0, True)


@pytest.mark.parametrize("jobs", ["postgresql", "sqlite"], indirect=True)
async def test_processes_killed_at_random_moments_lose_no_record(jobs, tmp_path):
    source, journal, chance = source_of(jobs, **THRESHOLD), Journal(tmp_path / "journal"), random.Random()
    jobs.add(*range(60), status="Pending")

    async def kill_one_after_another(times):
        for _ in range(times):
            started = victim.start(victim.loop_for_ever, source, journal.path)
            await asyncio.sleep(0.2 + chance.random() * 0.5)
            os.kill(started.pid, signal.SIGKILL)
            assert await ended(started) == -signal.SIGKILL
            journal.write("killed", "-", started.pid)

    async with cleaned(source):
        await asyncio.gather(*(kill_one_after_another(4) for _ in range(3)))
        last = victim.start(victim.loop_for_ever, source, journal.path)
        await eventually(lambda: jobs.statuses() == {"Done": 60}, 90)
        last.kill()
        await ended(last)
    assert journal.overlaps() == []
    assert len(journal.begun()) == 60
    assert notes(jobs) == sorted(f"seen {number}" for number in range(60))


async def test_killing_and_restarting_postgresql_under_load_loses_no_record(mortal, redis_server, tmp_path):
    source, journal, stop = source_of(mortal, **THRESHOLD), Journal(tmp_path / "journal"), asyncio.Event()
    mortal.fill(400, "Pending")

    async def handler(record, session):
        journal.write("begin", record.id)
        try:
            await asyncio.sleep(0.02)
            if record.id % 2:
                await note(session, record)
            await asyncio.sleep(0.02)
        finally:
            journal.write("end", record.id)

    async def all_over():  # in a thread: a look from here would hold both loops up
        return not {"Pending", "Processing"} & (await asyncio.to_thread(mortal.statuses)).keys()

    options = {"done": "Done", "poll_s": 0.05, "heartbeat": True, "stop": stop, "park": redis_server.url}
    async with cleaned(source):
        running = [asyncio.create_task(process(source, handler, **options)) for _ in range(2)]
        for _ in range(3):
            await further(journal, 40)
            await asyncio.to_thread(mortal.place.kill)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(mortal.place.start)
        await eventually(all_over, 90, pause_s=0.2)
        stop.set()
        counts = await asyncio.gather(*running)
    assert journal.overlaps() == []
    refused = mortal.execute("SELECT id FROM jobs WHERE status = 'Failed' AND error LIKE 'no session: %'")
    assert {int(each) for each in journal.begun()} | {row[0] for row in refused} == set(range(1, 401))
    done = [row[0] for row in mortal.execute("SELECT id FROM jobs WHERE status = 'Done'")]
    assert len(done) > 200  # three times at most what two loops have begun, and what they were refused, has failed
    assert notes(mortal) == sorted(f"seen {number}" for number in done if number % 2)
    assert all(each.done for each in counts)
