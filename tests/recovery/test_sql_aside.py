"""Records that the database refuses to change, or leaves as they are: everything behind them is brought back all the
same, and they are tried again."""

import sqlite3
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from hub.errors import SourceRefused
from hub.recovery import aside, sql
from hub.recovery.faults import is_away
from hub.recovery.models import Reset

REFUSED = r"^source jobs, table: the database refuses it: .*not this one.*\.$"


async def a_pass(records):
    """Return the ids that one pass brought back, and what it says in the end."""
    done = []
    try:
        while batch := (await records.reset()).reset:
            done += map(int, batch)
    except SourceRefused as refused:
        return done, str(refused)
    return done, None


def forbid(database, where, silently=False):
    """A trigger that refuses to change some records, or leaves them as they are."""
    where = where.replace("id", "old.id")
    if database.kind == "sqlite":
        refuse = "RAISE(IGNORE)" if silently else "RAISE(ABORT, 'not this one')"
        database.execute(f"CREATE TRIGGER guard BEFORE UPDATE ON jobs WHEN {where} BEGIN SELECT {refuse}; END")
        return
    refuse = "RETURN NULL" if silently else "RAISE 'not this one'"
    database.execute(
        "CREATE OR REPLACE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {where} THEN {refuse}; END IF; RETURN new; END $$;"
        "CREATE TRIGGER guard BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION guard()"
    )


def allow(database):
    database.execute("DROP TRIGGER guard" + (" ON jobs" if database.kind == "postgresql" else ""))


@pytest.fixture
def jobs(database):
    """Ten of them, the first the longest stuck."""
    database.make_jobs()
    for number in range(1, 11):
        database.add(number, age_s=7200 - number)
    return database


@pytest.mark.parametrize(("bad", "size"), [(1, 1), (2, 2), (3, 4), (7, 2), (9, 500)])
async def test_a_batch_of_refused_records_does_not_keep_later_records_stuck(jobs, opened, bad, size):
    forbid(jobs, f"id <= {bad}")
    records = opened(jobs.source(batch_size=size))
    for again in range(2):
        done, said = await a_pass(records)
        assert done == ([] if again else list(range(bad + 1, 11)))
        assert "not this one" in said, "tried again with every pass"
    allow(jobs)
    done, said = await a_pass(records)
    assert (sorted(done), said) == (list(range(1, bad + 1)), None)
    assert await a_pass(records) == ([], None)


@pytest.mark.parametrize("size", [1, 2, 4, 500])
async def test_records_that_the_database_leaves_unchanged_do_not_keep_others_stuck(jobs, opened, size):
    forbid(jobs, "id <= 2", silently=True)
    records = opened(jobs.source(batch_size=size))
    done, said = await a_pass(records)
    assert done == list(range(3, 11))
    assert said == "source jobs, table: the database left 2 records as they were."
    assert await a_pass(records) == ([], said)
    allow(jobs)
    assert await a_pass(records) == ([1, 2], None)


async def test_new_stuck_records_do_not_wait_for_refused_ones(jobs, opened):
    forbid(jobs, "id <= 10")
    records = opened(jobs.source(batch_size=2))
    await a_pass(records)
    jobs.add(11, 12)
    done, said = await a_pass(records)
    assert sorted(done) == [11, 12]
    assert "not this one" in said


async def test_records_of_a_batch_that_failed_without_a_known_reason_are_tried_last(jobs, opened, monkeypatch):
    monkeypatch.setattr(sql, "TRIES", 2)
    monkeypatch.setattr(sql, "FEW", 3)
    forbid(jobs, "id IN (1, 3, 4)")
    done, said = await a_pass(opened(jobs.source(batch_size=6)))
    assert sorted(done) == [2, 5, 6, 7, 8, 9, 10]
    assert done[-1] == 2
    assert "not this one" in said


async def test_a_call_that_meets_only_refused_records_ends_and_the_next_pass_continues_behind_them(
    jobs, opened, monkeypatch
):
    clock = iter(range(1000))  # each look at it takes a second
    monkeypatch.setattr(sql, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(sql, "REFUSED_S", 3)
    forbid(jobs, "id <= 9")
    records = opened(jobs.source(batch_size=1))
    passes = [await a_pass(records) for _ in range(12)]
    assert passes[0][0] == [], "the time was over"
    assert [10] in [done for done, _ in passes]
    assert all("not this one" in said for _, said in passes)


async def test_the_number_of_remembered_refused_records_is_bounded(jobs, opened, monkeypatch):
    monkeypatch.setattr(aside, "AT_MOST", 4)
    monkeypatch.setattr(sql, "REFUSED_S", 1)
    forbid(jobs, "id <= 6")
    records = opened(jobs.source(batch_size=5))
    assert "not this one" in (await a_pass(records))[1]
    allow(jobs)
    assert sorted((await a_pass(records))[0]) == [int(each) for each, job in jobs.jobs().items() if job.fresh]
    assert jobs.statuses() == {"Pending": 10}


async def test_a_unique_key_that_refuses_a_whole_batch_does_not_stop_the_reset_of_others(pg, opened):
    pg.execute(
        "CREATE TABLE jobs (id serial PRIMARY KEY, customer integer, status text, updated_at timestamptz);"
        "CREATE UNIQUE INDEX one_waits ON jobs (customer) WHERE status = 'Pending';"
        "INSERT INTO jobs (customer, status, updated_at) SELECT n, 'Pending', now() FROM generate_series(1, 150) n;"
        "INSERT INTO jobs (customer, status, updated_at)"
        f" SELECT n, 'Processing', {pg.ago(9000)} FROM generate_series(1, 150) n;"
        f"INSERT INTO jobs (customer, status, updated_at) SELECT n, 'Processing', {pg.ago(7200)}"
        " FROM generate_series(1001, 1040) n"
    )
    done, said = await a_pass(opened(pg.source(batch_size=150)))
    assert len(done) == 40
    assert said == (
        'source jobs, table: the database refuses it: duplicate key value violates unique constraint "one_waits".'
    )


async def test_a_rule_checked_only_at_the_commit_does_not_stop_the_reset_of_others(pg, opened):
    pg.execute("CREATE TABLE states (name text PRIMARY KEY); INSERT INTO states VALUES ('Processing'), ('Failed')")
    pg.make_jobs()
    pg.execute("ALTER TABLE jobs ADD FOREIGN KEY (status) REFERENCES states DEFERRABLE INITIALLY DEFERRED")
    pg.add(1, 2, attempts=0)
    pg.add(3, attempts=1)
    done = await opened(pg.source(attempts_field="attempts", max_attempts=1)).reset()
    assert done == Reset(failed=("3",))


async def test_a_record_without_an_id_is_ignored(database, opened):
    database.execute("CREATE TABLE jobs (id text, status text, updated_at timestamp, error text, attempts integer)")
    for number in range(1, 6):
        database.add(number, age_s=7200 - number)
    database.execute("UPDATE jobs SET id = NULL WHERE id IN ('1', '2')")
    records = opened(database.source(id_field="id", batch_size=2))
    assert await records.count() == 3
    assert [each.id for each in await records.look(10)] == ["3", "4", "5"]
    assert await a_pass(records) == ([3, 4, 5], None)


async def test_a_pass_brings_the_other_records_back_although_refused_ones_share_an_id(database, opened):
    database.execute("CREATE TABLE jobs (id text, status text, updated_at timestamp, error text, attempts integer)")
    database.add(1, 1, 1, age_s=9000)
    database.add(2)
    forbid(database, "id = '1'")
    done, said = await a_pass(opened(database.source(id_field="id", batch_size=3)))
    assert done == [2]
    assert "not this one" in said


async def test_ids_of_every_type_of_sqlite_work(sqlite, opened):
    sqlite.execute("CREATE TABLE jobs (id text PRIMARY KEY, status text, updated_at timestamp)")
    with sqlite3.connect(sqlite.place) as connection:
        rows = [(each, "Processing", "2026-01-01") for each in (b"\xff", "x\0y", "z", None)]
        connection.executemany("INSERT INTO jobs VALUES (?, ?, ?)", rows)
    connection.close()
    records = opened(sqlite.source())
    assert set((await records.reset()).reset) == {str(b"\xff"), "x\0y", "z"}
    assert await records.reset() == Reset()


async def test_a_value_that_sqlalchemy_refuses_is_treated_like_a_refusal_of_the_database(sqlite, opened, monkeypatch):
    """An error of SQLAlchemy itself about a value is no error of the driver."""
    sqlite.make_jobs()
    sqlite.fill(10)
    real = sql._update

    def update(rows, ids):
        unsent = sa.literal("text", sa.LargeBinary()).is_not(None)
        return real(rows, ids).where(unsent) if 1 in ids else real(rows, ids)

    monkeypatch.setattr(sql, "_update", update)
    done, said = await a_pass(opened(sqlite.source()))
    assert sorted(done) == list(range(2, 11))
    assert said.startswith("source jobs, table: the database refuses it: memoryview")


@pytest.mark.parametrize("size", [300, 10_000])
async def test_more_ids_than_one_statement_takes_are_reset(database, opened, size):
    database.make_jobs()
    database.fill(40)
    records = opened(database.source(batch_size=size))
    ids = [str(number) for number in range(40, 33_000)]
    assert [each.id for each in await records.look(5, ids=ids)] == ["40"]
    assert await records.reset(ids=[*ids, "40", "7"]) == Reset(reset=("40", "7"))
    assert database.statuses() == {"Pending": 2, "Processing": 38}


async def test_refused_records_that_were_named_are_reported(jobs, opened):
    forbid(jobs, "id <= 3")
    records = opened(jobs.source(batch_size=2))
    assert await records.reset(ids=["1", "2", "3", "4"]) == Reset(reset=("4",))
    with pytest.raises(SourceRefused, match=REFUSED):
        await records.reset(ids=["1", "3"])
    assert await records.reset(ids=["9"]) == Reset(reset=("9",))


async def test_a_lost_connection_is_an_outage_even_when_the_driver_raises_a_value_error(sqlite, opened):
    """aiosqlite raises a ValueError."""
    sqlite.make_jobs()
    records = opened(sqlite.source())
    rows = await records.rows()
    async with records.engine.connect() as connection:
        raw = await connection.get_raw_connection()
        await raw.driver_connection.close()
        with pytest.raises(sa.exc.StatementError) as raised:
            await connection.execute(sql._choice(rows, None))
        assert is_away(raised.value)
        await connection.invalidate()
