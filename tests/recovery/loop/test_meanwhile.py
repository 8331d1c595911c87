"""Changes by hand, by another loop or by the end of this one, between two steps with a record."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from hub.recovery.loop import process, processing
from hub.recovery.loop.claims import Claims
from hub.recovery.loop.items import FURTHER_TRIES, Items
from tests.recovery.loop.world import handled, note, notes, nothing, source_of
from tests.world import SLACK_S, eventually

pytestmark = pytest.mark.race


class Held:
    """A handler that says when it has begun, and ends when it is let go."""

    def __init__(self):
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def __call__(self, record, session):
        self.begun.set()
        await self.go.wait()


async def test_a_record_given_back_by_hand_without_a_session_is_not_claimed_meanwhile(jobs, engine, monkeypatch):
    """It would be given back for want of a session while its next handler, which has one, is at work."""
    jobs.add(1, status="Pending")
    write, begun, over = Claims.write, asyncio.Event(), asyncio.Event()
    refused, by_hand, on = [None], ["UPDATE jobs SET status = 'Pending', updated_at = NULL"], processing.on

    def get_session():
        return refused.pop() if refused else async_sessionmaker(engine)()

    def own(engine):
        async def give():
            if by_hand:  # as the loop has a session to give it back
                await asyncio.to_thread(jobs.execute, by_hand.pop())
                with suppress(TimeoutError):
                    await asyncio.wait_for(begun.wait(), 1)
            return on(engine)()

        return give

    async def written(*arguments):
        try:
            return await write(*arguments)
        finally:
            over.set()

    async def handler(record, session):
        begun.set()
        await over.wait()
        await note(session, record)

    monkeypatch.setattr(Claims, "write", written)
    monkeypatch.setattr(processing, "on", own)
    counts = await handled(source_of(jobs), handler, get_session=get_session)
    assert (jobs.statuses(), notes(jobs)) == ({"Done": 1}, ["seen 1"])
    assert (counts.claimed, counts.lost, counts.failed, counts.done) == (2, 1, 0, 1)


async def test_a_record_given_back_by_hand_is_not_claimed_again_while_it_waits_in_the_loop(jobs, monkeypatch):
    """The outcome of one claim must not be taken for that of the other."""
    jobs.add(1, status="Pending", age_s=9000)
    jobs.add(2, status="Pending")
    first, begun, ready, looks = Held(), [], Claims.ready, 0

    async def counted(self, but=()):
        nonlocal looks
        looks += 1
        return await ready(self, but)

    async def handler(record, session):
        begun.append(record.id)
        if record.id == 1:
            await first(record, session)
        elif begun.count(2) == 1:
            raise ValueError("oh")

    monkeypatch.setattr(Claims, "ready", counted)
    running = asyncio.create_task(handled(source_of(jobs), handler, batch=4, concurrency=1))
    await first.begun.wait()
    await asyncio.to_thread(jobs.execute, "UPDATE jobs SET status = 'Pending', updated_at = NULL WHERE id = 2")
    before = looks

    async def looked():
        return looks >= before + 3  # it has had the chance to claim

    await eventually(looked)
    first.go.set()
    counts = await running
    assert (begun, counts.lost, counts.failed, jobs.statuses()) == ([1, 2, 2], 1, 0, {"Done": 2})


async def test_a_record_that_was_not_begun_and_was_claimed_since_is_not_given_back(jobs):
    """The next claim would be the second to work on it."""
    jobs.add(1, 2, status="Pending")
    mine, theirs, stop = Held(), Held(), asyncio.Event()
    options = {"done": "Done", "batch": 2, "concurrency": 1, "stop": stop}
    one = asyncio.create_task(process(source_of(jobs), mine, **options))
    await mine.begun.wait()
    await asyncio.to_thread(jobs.execute, "UPDATE jobs SET status = 'Pending' WHERE id = 2")
    other = asyncio.create_task(handled(source_of(jobs), theirs))
    await theirs.begun.wait()
    stop.set()
    mine.go.set()
    counts = await one
    assert (counts.done, counts.returned, counts.lost) == (1, 0, 1)
    assert jobs.statuses() == {"Done": 1, "Processing": 1}
    theirs.go.set()
    assert ((await other).done, jobs.statuses()) == (1, {"Done": 2})


async def test_an_outcome_parked_while_the_loop_looks_for_records_is_written_before_the_end(
    jobs, engine, monkeypatch, redis_server
):
    class Failing(AsyncSession):
        async def commit(self):
            await self.rollback()
            raise exc.OperationalError("COMMIT", {}, OSError("cut"))

    jobs.add(1, status="Pending")
    given = [async_sessionmaker(engine, class_=Failing)]
    ready, work, looks = Claims.ready, Items.work, 0
    looking, over = asyncio.Event(), asyncio.Event()

    async def slowly(self, but=()):
        nonlocal looks
        looks += 1
        if looks == 2:
            looking.set()
            await over.wait()
        return await ready(self, but)

    async def worked(self, claim):
        await work(self, claim)
        over.set()

    async def handler(record, session):
        await looking.wait()

    monkeypatch.setattr(Claims, "ready", slowly)
    monkeypatch.setattr(Items, "work", worked)
    monkeypatch.setattr(processing, "on", lambda engine: lambda: None)
    counts = await handled(
        source_of(jobs), handler, get_session=lambda: given.pop()() if given else None, park=redis_server.url
    )
    assert (counts.parked, counts.settled, jobs.statuses()) == (1, 1, {"Done": 1})


@pytest.mark.parametrize("end", ["stop", "cancel"])
async def test_slow_parked_outcomes_do_not_delay_the_end_of_the_loop(jobs, monkeypatch, redis_server, end):
    ready, looked, stop = Claims.ready, asyncio.Event(), asyncio.Event()

    async def looking(self, but=()):
        found = await ready(self, but)
        looked.set()
        return found

    async def slowly(*_):
        await asyncio.sleep(3600)

    monkeypatch.setattr(Claims, "ready", looking)
    monkeypatch.setattr(processing, "settle", slowly)
    running = asyncio.create_task(handled(source_of(jobs), nothing, park=redis_server.url, stop=stop))
    await looked.wait()  # nothing is left but that
    running.cancel() if end == "cancel" else stop.set()
    done, _ = await asyncio.wait([running], timeout=2 * SLACK_S)
    assert done == {running}


@pytest.mark.parametrize("where", [(processing, "settle"), (Claims, "refresh")])
async def test_the_loop_ends_although_one_of_its_tasks_misses_its_cancellation(
    pg_jobs, monkeypatch, redis_server, where
):
    """On Python 3.11 what is just waited for with a bound may come at that moment, and the cancellation is gone."""
    begun, stop = asyncio.Event(), asyncio.Event()

    async def deaf(*_):
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await asyncio.sleep(3600)

    async def handler(record, session):
        await session.execute(sa.text("SELECT 1"))
        await session.commit()  # has the heartbeat beat
        await begun.wait()

    monkeypatch.setattr(*where, deaf)
    pg_jobs.add(1, status="Pending")
    options = {"park": redis_server.url, "heartbeat": 1000, "stop": stop}
    running = asyncio.create_task(process(source_of(pg_jobs), handler, done="Done", **options))
    await begun.wait()
    stop.set()
    done, _ = await asyncio.wait([running], timeout=2 * SLACK_S)
    assert done == {running}


async def test_a_savepoint_of_the_handler_does_not_hide_a_decision_made_in_another_session(jobs):
    jobs.add(1, status="Pending")

    async def handler(record, session):
        await asyncio.to_thread(jobs.execute, "UPDATE jobs SET status = 'Failed', error = 'by hand'")
        async with session.begin_nested():
            await note(session, record)

    counts = await handled(source_of(jobs), handler)
    assert (counts.lost, counts.done, notes(jobs)) == (1, 0, [])


async def test_a_cancelled_loop_that_waits_for_sessions_ends_at_once(jobs):
    jobs.add(1, 2, 3, status="Pending")
    refused, probing = 0, asyncio.Event()

    async def get_session():
        nonlocal refused
        if refused == 2 * (1 + FURTHER_TRIES):  # for two records, and now nothing is claimed any more
            probing.set()
            await asyncio.sleep(3600)
        refused += 1

    running = asyncio.create_task(process(source_of(jobs), nothing, get_session=get_session, park=False, batch=1))
    await probing.wait()
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=2 * SLACK_S)
    assert done == {running}


@pytest.mark.parametrize("decision", ["DELETE FROM jobs", "UPDATE jobs SET status = 'Skipped'"])
async def test_a_decision_of_the_handler_survives_a_lost_answer_to_its_commit(jobs, engine, decision):
    class Lost(AsyncSession):
        async def commit(self):
            await super().commit()
            raise exc.OperationalError("COMMIT", {}, OSError("cut"))

    jobs.add(1, status="Pending")

    async def handler(record, session):
        await session.execute(sa.text(decision))
        await note(session, record)

    counts = await handled(source_of(jobs), handler, get_session=async_sessionmaker(engine, class_=Lost))
    assert (counts.claimed, counts.done, counts.lost, notes(jobs)) == (1, 1, 0, ["seen 1"])


async def test_a_late_heartbeat_does_not_change_a_record_claimed_since(jobs, engine, monkeypatch):
    """With another time in it than the loop knows of, the record would be taken for another loop's."""
    refresh, begun = Claims.refresh, []
    beating, claimed, beaten, cut = (asyncio.Event() for _ in range(4))

    class Once(AsyncSession):
        async def commit(self):
            if not beaten.is_set() or cut.is_set():
                return await super().commit()
            cut.set()
            await self.rollback()
            raise exc.OperationalError("COMMIT", {}, OSError("cut"))

    async def slowly(self, claims):
        if claimed.is_set():
            return []
        beating.set()
        await claimed.wait()
        try:
            return await refresh(self, claims)
        finally:
            beaten.set()

    async def handler(record, session):
        begun.append(record.id)
        if len(begun) == 1:
            await session.execute(sa.text("SELECT 1"))
            await session.commit()  # has the heartbeat beat
            await beating.wait()
            raise ValueError("oh")
        claimed.set()
        await beaten.wait()

    async def has(status):
        return await asyncio.to_thread(jobs.statuses) == {status: 1}

    monkeypatch.setattr(Claims, "refresh", slowly)
    jobs.add(1, status="Pending")
    options = {"done": "Done", "poll_s": 0.05, "stop": asyncio.Event(), "heartbeat": 60}
    get_session = async_sessionmaker(engine, class_=Once)
    running = asyncio.create_task(process(source_of(jobs), handler, get_session=get_session, **options))
    await eventually(lambda: has("Failed"))
    await asyncio.to_thread(jobs.execute, "UPDATE jobs SET status = 'Pending'")
    await cut.wait()
    options["stop"].set()
    counts = await running
    assert (counts.failed, counts.done, counts.lost, jobs.statuses()) == (1, 1, 0, {"Done": 1})
