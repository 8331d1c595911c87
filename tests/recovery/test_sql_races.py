"""Several services on one table, rows that another session holds, and services that are killed."""

import asyncio
import secrets
import signal
import sqlite3
from collections import Counter
from itertools import chain

import asyncpg
import pytest

from hub.errors import RecordsUnavailable
from hub.recovery import engines
from hub.recovery.models import Reset
from tests.forks import begin
from tests.world import clean_environment, wait_until

ROWS = 4000  # so many that none is done with them before it is killed, though this machine stands still for a while


async def reset_until_empty(records):
    done = []
    while batch := (await records.reset()).reset:
        done += batch
    return done


@pytest.mark.race
async def test_concurrent_services_reset_each_record_once(database, opened):
    database.make_jobs()
    database.fill(600)
    database.fill(50, age_s=10, first=1001)
    services = [opened(database.source(batch_size=20, attempts_field="attempts", max_attempts=9)) for _ in range(4)]
    done = await asyncio.gather(*(reset_until_empty(service) for service in services))
    assert Counter(chain(*done)) == Counter(map(str, range(1, 601)))
    assert database.statuses() == {"Pending": 600, "Processing": 50}
    assert database.execute("SELECT DISTINCT attempts FROM jobs WHERE id < 1000") == [(1,)]


@pytest.mark.race
def test_concurrent_processes_reset_each_record_once(database, tmp_path):
    database.make_jobs()
    database.fill(600)
    slow_down(database)
    services = [Service(database.source(batch_size=20), tmp_path) for _ in range(2)]
    for service in services:
        service.begin()
    done = [service.finish() for service in services]
    assert Counter(chain(*done)) == Counter(map(str, range(1, 601)))


@pytest.mark.race
def test_a_killed_service_leaves_only_whole_batches(database, tmp_path):
    database.make_jobs()
    database.fill(ROWS)
    slow_down(database)
    source = database.source(batch_size=40)
    counts = []
    for _ in range(3):
        service = Service(source, tmp_path)
        service.begin()
        service.first_batch()
        service.process.kill()
        service.process.wait()
        wait_until(lambda: not others(database))
        counts.append(database.statuses()["Pending"])
    assert counts == sorted(set(counts)), "each had a part in it"
    assert [count % 40 for count in counts] == [0, 0, 0]
    assert max(counts) < ROWS, "the last was killed before it was done"
    database.execute("DROP TRIGGER slow" + (" ON jobs" if database.kind == "postgresql" else ""))
    last = Service(source, tmp_path)
    last.begin()
    assert len(last.finish()) == ROWS - counts[-1]
    assert database.statuses() == {"Pending": ROWS}


class Service:
    """`tests.recovery.resetting` in a process, ready to begin."""

    def __init__(self, source, folder):
        self._path = folder / f"service-{secrets.token_hex(4)}"
        with self._path.open("wb") as out:
            words = [source.model_dump_json()]
            self.process = begin(words, clean_environment(), out, out, module="tests.recovery.resetting")
        wait_until(lambda: self._said() == ["ready"], why=self._path.read_text)

    def _said(self):
        """Return the lines that are whole."""
        return self._path.read_text().rpartition("\n")[0].splitlines()

    def begin(self):
        self.process.send_signal(signal.SIGUSR1)

    def first_batch(self):
        wait_until(lambda: len(self._said()) > 1, why=self._path.read_text)
        return self._said()[1].split()

    def finish(self):
        assert self.process.wait(60) == 0, self._path.read_text()
        return " ".join(self._said()[1:]).split()


def slow_down(database):
    """Each change takes some milliseconds."""
    if database.kind == "sqlite":
        database.execute(
            "CREATE TRIGGER slow AFTER UPDATE ON jobs BEGIN SELECT count(*) FROM (WITH RECURSIVE c(n) AS"
            " (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 10000) SELECT n FROM c); END"
        )
        return
    if database.kind == "mariadb":
        database.execute("CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW SET @slept = sleep(0.002)")
        return
    database.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.002); RETURN new; END $$;"
        "CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION slow()"
    )


def others(database):
    """Return sessions that have not noticed yet that their client is gone."""
    if database.kind == "sqlite":
        return []
    if database.kind == "mariadb":
        return database.execute(
            "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
        )
    return database.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


async def test_a_row_locked_by_another_session_is_left_alone(pg, opened):
    pg.make_jobs()
    pg.add(1, 2, 3)
    records = opened(pg.source())
    await records.check()
    somebody = await asyncpg.connect(host=str(pg.place.folder), user="postgres", database=pg.name)
    async with somebody.transaction():
        await somebody.execute("UPDATE jobs SET error = 'still here', updated_at = now() WHERE id = 2")
        assert await records.reset() == Reset(reset=("1", "3"))
        assert await records.reset() == Reset()
    await somebody.close()
    assert (await records.reset(), pg.statuses()) == (Reset(), {"Pending": 2, "Processing": 1})


async def test_with_sqlite_a_reset_waits_for_another_writer_and_then_reports_it(sqlite, opened, monkeypatch):
    monkeypatch.setattr(engines, "BUSY_S", 0.2)
    sqlite.make_jobs()
    sqlite.add(1)
    records = opened(sqlite.source())
    assert await records.count() == 1
    somebody = sqlite3.connect(sqlite.place, isolation_level=None)
    somebody.execute("BEGIN IMMEDIATE")
    assert await records.count() == 1, "reading goes on"
    with pytest.raises(
        RecordsUnavailable, match=r"^source jobs, url: the database does not answer: database is locked\.$"
    ):
        await records.reset()
    somebody.execute("ROLLBACK")
    somebody.close()
    assert await records.reset() == Reset(reset=("1",))
