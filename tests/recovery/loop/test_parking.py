"""Outcomes that cannot be written are parked in Redis, and written once when the database is back."""

from __future__ import annotations

import asyncio
import json
from unittest import mock

import pytest
import sqlalchemy as sa
from redis.asyncio import Redis
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from hub.errors import RecordsUnavailable, StoreUnavailable
from hub.recovery.engines import make_engine
from hub.recovery.loop import process, processing
from hub.recovery.outcomes import Outcomes, settle
from hub.recovery.sql import SqlRecords
from hub.recovery.tables import reflect
from hub.store.keys import Keys
from tests.recovery.loop.world import alerts, handled, note, notes, nothing, noting, source_of


class Failing(AsyncSession):
    """Its commits fail, and nothing of it stays."""

    async def commit(self):
        await self.rollback()
        raise exc.OperationalError("COMMIT", {}, OSError("cut"))


class World:
    """A loop whose outcomes cannot be written; it stops before it writes what was parked."""

    def __init__(self, jobs, url):
        self.jobs, self.url = jobs, url
        self.stop = asyncio.Event()
        self.engine = make_engine(source_of(jobs))
        self.redis = Redis.from_url(url, decode_responses=True)
        self.given = 0

    def get_session(self):
        self.given += 1
        return async_sessionmaker(self.engine, class_=Failing)() if self.given == 1 else None

    async def park(self, handler, **options):
        """Run one record through a loop that cannot write to its database, so that the outcome is parked."""

        async def stopping(record, session):
            self.stop.set()
            return await handler(record, session)

        self.jobs.add(1, status="Pending")
        park = {"park": self.url, **options}
        with mock.patch.object(processing, "on", return_value=lambda: None):  # nor has the loop one of its own
            return await process(
                source_of(self.jobs), stopping, done="Done", get_session=self.get_session, stop=self.stop, **park
            )

    async def parked(self):
        return [json.loads(each) for each in (await self.redis.hgetall("hub:outcomes:jobs")).values()]

    async def settle(self):
        rows = await reflect(self.engine, source_of(self.jobs))
        return await settle(self.engine, rows, Outcomes(self.redis, Keys(), "jobs"))


@pytest.fixture
async def world(jobs, redis_server):
    found = World(jobs, redis_server.url)
    yield found
    await found.redis.aclose()
    await found.engine.dispose()


async def values(record, session):
    return {"attempts": 7}


async def raising(record, session):
    raise ValueError("oh")


async def computed(record, session):
    return {"attempts": sa.func.length("seven")}


@pytest.mark.parametrize(
    ("handler", "status", "error", "attempts"),
    [
        (nothing, "Done", None, None),
        (values, "Done", None, 7),
        (noting, "Pending", None, None),  # its writes are gone
        (computed, "Pending", None, None),  # what it returned cannot be kept
        (raising, "Failed", "ValueError: oh", None),
    ],
)
async def test_a_known_outcome_is_parked_and_written_once(world, jobs, caplog, handler, status, error, attempts):
    counts = await world.park(handler)
    assert (counts.parked, counts.zombies, alerts(caplog)) == (1, 0, [])
    assert jobs.jobs()["1"].status == "Processing"
    assert 0 < await world.redis.ttl("hub:outcomes:jobs") <= 7 * 86_400
    assert await world.settle() == 1
    found = jobs.jobs()["1"]
    assert (found.status, found.error, found.attempts, found.fresh) == (status, error, attempts, True)
    assert notes(jobs) == []
    jobs.execute("UPDATE jobs SET status = 'Processing'")
    assert (await world.settle(), await world.parked()) == (0, [])


async def test_the_next_loop_writes_outcomes_that_another_has_parked(world, jobs):
    await world.park(noting)
    counts = await handled(source_of(jobs), noting, park=world.url)
    assert (counts.settled, counts.done) == (1, 1)
    assert (jobs.statuses(), notes(jobs)) == ({"Done": 1}, ["seen 1"])


async def test_recovery_writes_parked_outcomes(world, jobs):
    await world.park(nothing)
    records = SqlRecords(source_of(jobs))
    assert await records.write_parked(Outcomes(world.redis, Keys(), "jobs")) == 1
    await records.close()
    assert jobs.statuses() == {"Done": 1}


async def test_the_environment_names_the_redis_for_parked_outcomes(world, monkeypatch):
    monkeypatch.setenv("HUB_REDIS_URL", world.url)
    monkeypatch.setenv("HUB_KEY_PREFIX", "p:")
    assert (await world.park(nothing, park=None)).parked == 1
    assert await world.redis.hlen("p:hub:outcomes:jobs") == 1


async def test_a_parked_outcome_is_not_written_over_a_later_claim(world, jobs):
    await world.park(nothing)
    jobs.execute(f"UPDATE jobs SET updated_at = {jobs.ago(0.5)}")
    before = jobs.jobs()
    assert (await world.settle(), await world.parked()) == (0, [])
    assert jobs.jobs() == before


@pytest.mark.parametrize("jobs", ["postgresql"], indirect=True)
async def test_a_parked_outcome_whose_row_is_locked_waits(world, jobs):
    await world.park(nothing)
    async with world.engine.begin() as connection:
        await connection.exec_driver_sql("SELECT * FROM jobs FOR UPDATE")
        assert await world.settle() == 0
    assert len(await world.parked()) == 1
    assert await world.settle() == 1


async def test_two_concurrent_writers_write_each_parked_outcome_once(world, jobs):
    await world.park(values)
    jobs.execute("UPDATE jobs SET attempts = 1")
    assert sum(await asyncio.gather(world.settle(), world.settle())) == 1
    assert jobs.jobs()["1"].attempts == 7


async def test_a_parked_outcome_that_cannot_be_read_or_written_is_dropped_with_a_log_line(world, jobs, caplog):
    await world.park(values)
    (good,) = (await world.redis.hgetall("hub:outcomes:jobs")).items()
    bad = {**json.loads(good[1]), "values": {"attempts": "seven"}, "status": None}
    await world.redis.hset("hub:outcomes:jobs", mapping={"x": "{", "y": "{}", "z": json.dumps(bad)})
    await world.settle()
    assert await world.parked() == []
    assert caplog.text.count("parked outcome dropped") >= 2


async def test_without_a_redis_for_parked_outcomes_an_unwritten_outcome_is_logged(world, jobs, caplog):
    counts = await world.park(noting, park=False)
    assert (counts.parked, counts.zombies) == (0, 1)
    assert "ZOMBIE RECORD ALERT" in caplog.text
    assert jobs.statuses() == {"Processing": 1}


async def test_with_redis_away_an_unwritten_outcome_is_logged(world, jobs, caplog):
    counts = await world.park(noting, park="redis://127.0.0.1:1")
    assert (counts.parked, counts.zombies) == (0, 1)
    assert [line.id for line in alerts(caplog)] == [1]


async def test_writing_parked_outcomes_raises_different_errors_for_a_dead_redis_and_a_dead_database(world, jobs):
    rows = await reflect(world.engine, source_of(jobs))
    away = Redis.from_url("redis://127.0.0.1:1")
    with pytest.raises(StoreUnavailable):
        await settle(world.engine, rows, Outcomes(away, Keys(), "jobs"))
    await away.aclose()
    await world.park(nothing)
    gone = make_engine(source_of(jobs, url="postgresql+asyncpg://x@127.0.0.1:1/x"))
    with pytest.raises(RecordsUnavailable):
        await settle(gone, rows, Outcomes(world.redis, Keys(), "jobs"))
    await gone.dispose()
    assert len(await world.parked()) == 1


async def test_the_writes_of_a_handler_are_made_once_although_the_answer_to_its_commit_was_lost(world, jobs):
    class Lost(AsyncSession):
        async def commit(self):
            await super().commit()
            raise exc.OperationalError("COMMIT", {}, OSError("cut"))

    jobs.add(1, status="Pending")
    seen = []

    async def handler(record, session):
        seen.append(record.id)
        await note(session, record)

    counts = await handled(source_of(jobs), handler, get_session=async_sessionmaker(world.engine, class_=Lost))
    assert (seen, notes(jobs), jobs.statuses()) == ([1], ["seen 1"], {"Done": 1})
    assert (counts.done, counts.lost, counts.returned) == (1, 0, 0)
