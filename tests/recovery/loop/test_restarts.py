"""A database that is away for a second, sessions that are not given out: no record fails for that, and none stays."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import async_sessionmaker

from hub import retries
from hub.recovery.engines import make_engine
from hub.recovery.loop import claims, items, process
from tests.recovery.loop.faults import ANSWER_LOST, CUT, REFUSED, Faults
from tests.recovery.loop.trial import FULL
from tests.recovery.loop.world import alerts, handled, note, notes, nothing, source_of
from tests.world import eventually

RECORDS = 1500 if FULL else 600


@pytest.mark.race
@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["sessions of the application", "sessions of the loop"])
async def test_a_restart_of_the_database_fails_no_record(mortal, given, caplog):
    """Records whose handler was at work are handled again, those it never came to as well; with no Redis to park in."""
    mortal.fill(RECORDS, "Pending")
    source, stop, handlers = source_of(mortal), asyncio.Event(), []
    engine = make_engine(source, 10)

    async def handler(record, session):
        handlers.append(record.id)
        await note(session, record)
        await asyncio.sleep(0.02)
        await note(session, record, "again")

    options = {"get_session": async_sessionmaker(engine)} if given else {}
    running = asyncio.create_task(process(source, handler, done="Done", poll_s=0.05, stop=stop, park=False, **options))
    for _ in range(3):
        before = len(handlers)

        async def more(before=before):
            return len(handlers) > before + 60

        await eventually(more)
        await asyncio.to_thread(mortal.place.kill)
        await asyncio.sleep(1)
        await asyncio.to_thread(mortal.place.start)

    async def over():
        return not {"Pending", "Processing"} & (await asyncio.to_thread(mortal.statuses)).keys()

    await eventually(over, 90)
    stop.set()
    counts = await running
    await engine.dispose()
    assert mortal.statuses() == {"Done": RECORDS}, mortal.execute(
        "SELECT DISTINCT error FROM jobs WHERE status = 'Failed'"
    )
    assert len(notes(mortal)) == 2 * RECORDS
    assert (counts.failed, counts.zombies, alerts(caplog)) == (0, 0, [])


@pytest.mark.parametrize("fail_unserved", [False, True])
async def test_no_record_stays_claimed_when_sessions_are_refused(jobs, fail_unserved, caplog):
    jobs.add(*range(12), status="Pending")
    engine, refusals = make_engine(source_of(jobs)), list(range(40))
    make, seen = async_sessionmaker(engine), []

    async def handler(record, session):
        seen.append(record.id)

    counts = await handled(
        source_of(jobs), handler, get_session=lambda: None if refusals and refusals.pop() >= 0 else make(),
        batch=12, fail_unserved=fail_unserved,
    )  # fmt: skip
    await engine.dispose()
    assert "Processing" not in jobs.statuses()
    assert alerts(caplog) == []
    if fail_unserved:
        assert counts.failed == jobs.statuses()["Failed"] == 12 - len(seen)
        assert {job.error for job in jobs.jobs().values() if job.status == "Failed"} == {
            "no session: get_session returned none"
        }
    else:
        assert (jobs.statuses(), sorted(seen)) == ({"Done": 12}, list(range(12)))


async def test_records_refused_by_a_broken_pool_stay_pending(jobs):
    jobs.add(*range(12), status="Pending")
    stop, asked = asyncio.Event(), []

    async def get_session():
        asked.append(1)
        if len(asked) > 12:
            stop.set()

    async with asyncio.timeout(60):
        counts = await process(source_of(jobs), nothing, done="Done", get_session=get_session, stop=stop, batch=12)
    assert (jobs.statuses(), counts.returned) == ({"Pending": 12}, counts.claimed)


async def test_a_handler_that_loses_its_connection_is_run_again_a_limited_number_of_times(jobs):
    jobs.add(1, 2, status="Pending")
    begun = []

    async def handler(record, session):
        begun.append(record.id)
        if record.id == 2 or begun.count(1) < 3:
            await note(session, record, "lost")
            raise exc.OperationalError("INSERT", {}, ConnectionResetError("cut"))
        await note(session, record)

    await handled(source_of(jobs), handler)
    assert (begun.count(1), begun.count(2)) == (3, 4)
    assert notes(jobs) == ["seen 1"]
    assert jobs.statuses() == {"Done": 1, "Failed": 1}


@pytest.mark.parametrize("error", [ConnectionRefusedError("elsewhere"), TimeoutError("elsewhere"), ValueError("oh")])
async def test_an_error_of_another_service_fails_the_record_at_once(jobs, error):
    jobs.add(1, status="Pending")

    async def handler(record, session):
        raise error

    await handled(source_of(jobs), handler)
    assert jobs.statuses() == {"Failed": 1}


@pytest.mark.parametrize("kind", [ANSWER_LOST, CUT])
async def test_a_claim_with_an_unknown_commit_is_given_back(jobs, kind):
    """No loop works on those records, and an hour is long."""
    jobs.add(*range(5), status="Pending")
    faults = Faults()
    with faults.everywhere():
        await handled(source_of(jobs), nothing)
        first = faults.log.index("commit")
        jobs.execute("UPDATE jobs SET status = 'Pending'")
        faults.plan(kind, first)
        await handled(source_of(jobs), nothing)
    assert faults.struck
    assert jobs.statuses() == {"Done": 5}


class Steps:
    """Pauses between attempts take no time: a clock is moved on by what each would have been, at the longest.

    The database is away from `begin` on, for so many seconds of it.
    """

    def __init__(self, monkeypatch, away_s):
        self.pauses: list[float] = []
        self.faults = Faults()
        self._away_s = away_s
        monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0.2)
        monkeypatch.setattr(items, "pause_s", self._pause)
        for module in (claims, items):
            monkeypatch.setattr(module, "now_s", lambda: retries.now_s() + self.passed_s)

    @property
    def passed_s(self):
        return sum(self.pauses)

    def _pause(self, attempt):
        self.pauses.append(min(retries.LONGEST_PAUSE_S, retries.FIRST_PAUSE_S * 2**attempt))
        assert 0 < retries.pause_s(attempt, None, retries.LONGEST_PAUSE_S) <= self.pauses[-1]
        if self.passed_s > self._away_s:
            self.faults.clear()
        return 0

    def begin(self):
        self.faults.plan(REFUSED, 0, 10**9)


@pytest.mark.parametrize("away_s", [20, 3600], ids=["back within the lease", "away for longer"])
async def test_the_write_of_an_outcome_is_retried_with_growing_pauses_until_its_claim_expires(
    jobs, monkeypatch, caplog, away_s
):
    jobs.add(1, status="Pending")
    steps, stop, begun = Steps(monkeypatch, away_s), asyncio.Event(), []

    async def handler(record, session):
        begun.append(record.id)
        steps.begin()

    with steps.faults.everywhere():
        source = source_of(jobs, threshold_minutes=1)
        running = asyncio.create_task(process(source, handler, done="Done", park=False, poll_s=0.05, stop=stop))
        await eventually(lambda: bool(alerts(caplog)) or jobs.statuses() == {"Done": 1})
        steps.faults.clear()
        stop.set()
        await running
    assert steps.pauses[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert set(steps.pauses[6:]) <= {5.0}
    if away_s == 20:
        assert (jobs.statuses(), begun, alerts(caplog)) == ({"Done": 1}, [1], [])
        assert 20 < steps.passed_s < 60
    else:
        assert len(alerts(caplog)) == 1
        assert 60 * 0.8 < steps.passed_s < 60 + 3 * retries.LONGEST_PAUSE_S
