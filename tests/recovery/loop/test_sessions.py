"""Sessions that cannot be had: what becomes of the record, who is told, and when claiming stops."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from hub.recovery.loop import process, processing
from tests.recovery.loop.world import alerts, clean, facts, handled, note, notes, nothing, noting, source_of
from tests.world import eventually


class Giver:
    """Gives out sessions, and refuses for as long as it is told to."""

    def __init__(self, engine):
        self.make = async_sessionmaker(engine, expire_on_commit=False)
        self.refusals = 0
        self.calls = 0
        self.stop = None

    def __call__(self):
        return None if self.refuses() else self.make()

    def refuses(self):
        self.calls += 1
        if not self.refusals:
            return False
        self.refusals -= 1
        if self.stop is not None:
            self.stop.set()
        return True


@pytest.fixture
def giver(engine):
    return Giver(engine)


@pytest.fixture
def nothing_else(giver, monkeypatch):
    """Nor has the loop a connection of its own while the giver refuses."""
    make = processing.on

    def on(engine):
        own = make(engine)
        return lambda: None if giver.refuses() else own()

    monkeypatch.setattr(processing, "on", on)


@pytest.mark.story
async def test_without_a_session_a_record_fails_with_the_reason(jobs, giver, nothing_else, caplog):
    """Where that is wanted. And does not stay in Processing with no loop to work on it."""
    jobs.add(1, 2, 3, status="Pending")
    seen = []

    async def handler(record, session):
        seen.append(record.id)
        if record.id == 1:
            giver.refusals = 2  # for the next item, and for the first try to mark it

    counts = await handled(source_of(jobs), handler, batch=1, get_session=giver, fail_unserved=True)
    assert seen == [1, 3]
    found = jobs.jobs()
    assert [found[i].status for i in "123"] == ["Done", "Failed", "Done"]
    assert found["2"].error == "no session: get_session returned none"
    assert (counts.done, counts.failed, counts.zombies, counts.refusals) == (2, 1, 0, 2)
    assert alerts(caplog) == []


@pytest.mark.story
async def test_a_record_that_cannot_be_marked_as_failed_is_logged_and_recovered_later(
    jobs, giver, nothing_else, caplog
):
    """Told to stop the loop goes on trying no longer."""
    jobs.add(1, 2, 3, status="Pending")
    giver.stop = asyncio.Event()

    async def handler(record, session):
        if record.id == 1:
            giver.refusals = 5  # for the next item, for a try at once, and for three further ones

    counts = await handled(source_of(jobs), handler, batch=2, concurrency=1, get_session=giver, stop=giver.stop)
    assert jobs.statuses() == {"Done": 1, "Processing": 1, "Pending": 1}
    assert giver.calls == 2 + 4
    assert counts.zombies == 1
    (line,) = alerts(caplog)
    assert line.getMessage().startswith("ZOMBIE RECORD ALERT source=jobs id=2 ")
    assert facts(line, "source", "id") == {"source": "jobs", "id": 2}

    async def cleaned() -> bool:
        return await clean(source_of(jobs, threshold_minutes=0.001)) == 1

    await eventually(cleaned)
    await handled(source_of(jobs), nothing)
    assert jobs.statuses() == {"Done": 3}


async def test_marking_a_record_as_failed_is_tried_three_more_times_and_then_logged(jobs, giver, nothing_else, caplog):
    jobs.add(1, 2, status="Pending")
    stop = asyncio.Event()

    async def handler(record, session):
        await session.close()
        session.rollback = broken  # nor can its own session be used any more
        giver.refusals = 2 if record.id == 1 else 3
        if record.id == 2:
            stop.set()
        raise ValueError("oh")

    async def broken():
        raise exc.InterfaceError("rollback", {}, OSError("gone"))

    counts = await handled(source_of(jobs), handler, batch=1, get_session=giver, stop=stop)
    found = jobs.jobs()
    assert (found["1"].status, found["1"].error) == ("Failed", "ValueError: oh")
    assert found["2"].status == "Processing"
    assert (counts.failed, counts.zombies) == (1, 1)
    assert [line.id for line in alerts(caplog)] == [2]


async def test_a_failed_record_is_marked_in_the_session_of_its_handler(jobs, giver):
    """For a sick pool has no other."""
    jobs.add(1, status="Pending")

    async def handler(record, session):
        giver.refusals = 100
        raise ValueError("oh")

    await handled(source_of(jobs), handler, get_session=giver)
    assert jobs.jobs()["1"].error == "ValueError: oh"


def _forms(make):
    async def later():
        return make()

    @asynccontextmanager
    async def manager():
        async with make() as session:
            yield session

    async def generator():
        async with make() as session:
            yield session

    async def manager_later():
        return manager()

    return {
        "plain": make, "coroutine": later, "manager": manager, "generator": generator, "begun": make.begin,
        "manager later": manager_later,
    }  # fmt: skip


@pytest.mark.parametrize("form", ["plain", "coroutine", "manager", "generator", "begun", "manager later"])
async def test_get_session_may_be_any_usual_kind_of_function(jobs, engine, form):
    jobs.add(1, 2, status="Pending")
    get_session = _forms(async_sessionmaker(engine))[form]
    await handled(source_of(jobs), noting, get_session=get_session)
    assert (jobs.statuses(), len(notes(jobs))) == ({"Done": 2}, 2)


def _raising():
    raise RuntimeError("the pool is empty")


@asynccontextmanager
async def _holding_none():
    yield None


@pytest.mark.parametrize(
    ("get_session", "why"),
    [
        (_raising, "no session: the pool is empty"),
        (_holding_none, "no session: get_session returned none"),
        (lambda: 5, "no session: get_session returned a int, which is no AsyncSession"),
    ],
)
async def test_every_form_of_a_refused_session_is_recognised(jobs, giver, get_session, why):
    jobs.add(1, status="Pending")
    first = [get_session]
    get_session = lambda: (first.pop() if first else giver)()  # noqa: E731
    await handled(source_of(jobs), noting, get_session=get_session, fail_unserved=True)
    assert jobs.jobs()["1"].error == why


async def test_a_session_that_does_not_come_in_time_counts_as_refused(jobs, giver, monkeypatch):
    from hub.recovery.loop import sessions

    monkeypatch.setattr(sessions, "SESSION_S", 0.1)
    jobs.add(1, status="Pending")
    waits = [3600]

    async def get_session() -> AsyncSession:
        await asyncio.sleep(waits.pop() if waits else 0)
        return giver.make()

    await handled(source_of(jobs), noting, get_session=get_session, fail_unserved=True)
    assert jobs.jobs()["1"].error == "no session: it took too long"


async def test_a_connection_pool_without_free_connections_counts_as_a_refused_session(pg_jobs, caplog):
    """They connect when they are used: no handler is to find that out for every single record."""
    pg_jobs.fill(100, "Pending")
    engine = create_async_engine(pg_jobs.url, pool_size=1, max_overflow=0, pool_timeout=0.05)
    taken = await engine.connect()
    begun, stop = [], asyncio.Event()

    async def handler(record, session):
        begun.append(record.id)
        await note(session, record)

    running = asyncio.create_task(
        process(
            source_of(pg_jobs), handler, done="Done", get_session=async_sessionmaker(engine), stop=stop, concurrency=1
        )
    )
    await eventually(lambda: "claiming stops" in caplog.text)
    await asyncio.sleep(0.5)
    assert (begun, pg_jobs.statuses()["Pending"] >= 70) == ([], True)
    await taken.close()
    await eventually(lambda: "Pending" not in pg_jobs.statuses())
    stop.set()
    await running
    await engine.dispose()
    assert pg_jobs.statuses()["Done"] >= 70


async def test_leaving_a_session_context_does_not_commit_half_of_the_work(jobs, engine):
    """Some context managers commit when they are left; the loop was cancelled in between."""
    jobs.add(1, status="Pending")
    begun = asyncio.Event()

    async def handler(record, session):
        await note(session, record, "half")
        begun.set()
        await asyncio.sleep(30)

    get_session = async_sessionmaker(engine).begin
    running = asyncio.create_task(process(source_of(jobs), handler, done="Done", get_session=get_session))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (jobs.statuses(), notes(jobs)) == ({"Pending": 1}, [])


async def test_claiming_stops_while_sessions_are_refused(jobs, giver, caplog):
    """A refusing pool leaves no stuck records. The test reads in a thread: in SQLite a reader waits for a writer, which
    may wait for another reader in this event loop."""
    caplog.set_level(logging.INFO, "hub.client")
    jobs.add(*range(40), status="Pending")
    giver.refusals = 10_000
    stop = asyncio.Event()
    running = asyncio.create_task(process(source_of(jobs), nothing, done="Done", get_session=giver, stop=stop, batch=2))

    def said(event):
        return sum(event in line.getMessage() for line in caplog.records)

    await eventually(lambda: said("claiming stops") == 1 and giver.calls > 20)
    assert (await asyncio.to_thread(jobs.statuses))["Pending"] >= 30
    assert said("claiming goes on") == 0
    giver.refusals = 0

    async def done() -> bool:
        return "Pending" not in await asyncio.to_thread(jobs.statuses)

    await eventually(done)
    stop.set()
    await running
    assert (said("claiming stops"), said("claiming goes on")) == (1, 1)
