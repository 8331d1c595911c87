"""Polite ends: told to stop, cancelled, or cancelled with everything else; nothing is left in Processing by them."""

from __future__ import annotations

import asyncio

import pytest

from hub.recovery.loop import process
from tests.recovery.loop.trial import Trial
from tests.recovery.loop.world import note, notes, source_of
from tests.world import eventually

pytestmark = pytest.mark.race


def looping(jobs, handler, **options):
    """Return a loop that goes on."""
    return asyncio.create_task(process(source_of(jobs), handler, **{"done": "Done", "poll_s": 0.05, **options}))


class Slow:
    """A handler that writes, waits to be let go, and says how it ended."""

    def __init__(self):
        self.go = asyncio.Event()
        self.begun, self.ended, self.cancelled = [], [], []

    async def __call__(self, record, session):
        try:
            await note(session, record)
            self.begun.append(record.id)
            await self.go.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)  # it has something to put in order
            self.cancelled.append(record.id)
            raise
        self.ended.append(record.id)

    async def has_begun(self):
        return bool(self.begun)


@pytest.fixture
def slow():
    return Slow()


async def test_a_stopped_loop_finishes_running_handlers_and_gives_back_the_rest(jobs, slow):
    jobs.add(1, 2, 3, status="Pending")
    stop = asyncio.Event()
    running = looping(jobs, slow, batch=3, concurrency=1, stop=stop)
    await eventually(slow.has_begun)
    stop.set()
    slow.go.set()
    counts = await running
    assert (slow.ended, jobs.statuses(), notes(jobs)) == ([1], {"Done": 1, "Pending": 2}, ["seen 1"])
    assert (counts.done, counts.returned) == (1, 2)


async def test_a_cancelled_loop_cancels_running_handlers_and_gives_back_everything(jobs, slow):
    jobs.add(1, 2, status="Pending")
    running = looping(jobs, slow, batch=2, concurrency=1)
    await eventually(slow.has_begun)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (slow.cancelled, slow.ended) == ([1], [])
    assert (jobs.statuses(), notes(jobs)) == ({"Pending": 2}, [])


async def test_no_handler_outlives_the_loop_however_often_that_is_cancelled(jobs, slow):
    jobs.add(1, status="Pending")
    running = looping(jobs, slow)
    await eventually(slow.has_begun)
    while not running.done():
        running.cancel()
        await asyncio.sleep(0.01)
    assert (slow.cancelled, jobs.statuses()) == ([1], {"Pending": 1})


def test_when_the_program_ends_the_loop_gives_back_every_record(jobs):
    """`asyncio.run` cancels all tasks at once, also the tasks of the loop."""
    jobs.add(1, 2, 3, status="Pending")
    slow = Slow()

    async def main():
        slow.go = asyncio.Event()
        slow.loop = looping(jobs, slow, batch=3, concurrency=1)  # in SQLite only one can write
        await eventually(slow.has_begun)

    asyncio.run(main())
    assert slow.cancelled == [1]
    assert (jobs.statuses(), notes(jobs)) == ({"Pending": 3}, [])


async def test_a_loop_can_be_stopped_while_the_database_is_away(jobs, slow):
    stop = asyncio.Event()
    source = {"postgresql": "postgresql+asyncpg://x@127.0.0.1:1/x", "sqlite": "sqlite+aiosqlite:////nowhere/at.all"}
    running = asyncio.create_task(process(source_of(jobs, url=source[jobs.kind]), slow, stop=stop))
    await asyncio.sleep(0.2)
    assert not running.done()
    stop.set()
    assert (await running).claimed == 0


def _stop(trial):
    trial.stop.set()


def _cancel(trial):
    trial.task.cancel()


def _cancel_all(trial):
    """Cancel the loop as `asyncio.run` does, unless the commit of a claim is on its way, and in doubt."""
    if "execute UPDATE" in trial.faults.log and trial.faults.log[-1] in ("execute SELECT", "execute INSERT"):
        for task in asyncio.all_tasks() - {trial.outside}:
            task.cancel()


@pytest.mark.parametrize("end", [_stop, _cancel, _cancel_all])
async def test_a_loop_that_ends_at_any_moment_leaves_no_record_in_processing(pg_jobs, tmp_path, end):
    trial = Trial(pg_jobs, tmp_path)
    trial.outside = asyncio.current_task()
    at = 0
    while True:
        trial.begin()
        trial.stop = asyncio.Event()
        trial.faults.plan(lambda: end(trial), at)
        with trial.faults.everywhere():
            trial.task = asyncio.create_task(trial.run(stop=trial.stop, batch=1 if end is _cancel_all else 2))
            await asyncio.wait([trial.task])
        where = f"{end.__name__} at {at} of {trial.faults.log}"
        struck = trial.faults.struck
        trial.faults.clear()
        if end is not _cancel_all:
            assert "Processing" not in pg_jobs.statuses(), where
        assert trial.journal.begun().total() == sum(word == "end" for word, *_ in trial.journal.lines()), where
        trial.where = where
        await trial.recover()
        trial.check()
        if not struck:
            return
        at += 1
