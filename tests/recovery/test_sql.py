"""Records that are rows of a table: which of them are stuck, and what a reset makes of them."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from hub.recovery.models import Reset
from tests.recovery.databases import STATUSES, Job

TEXT = "Stuck: not updated within the threshold"
IDS = {
    "integer": ("1", "2"),
    "text": ("a/1", "it's; --"),
    "uuid": (str(uuid.UUID(int=1)), str(uuid.UUID(int=2))),
}
NUMBERS = {name: number for number, name in enumerate(STATUSES)}


async def test_stuck_records_are_reset_and_others_stay_as_they_are(database, opened):
    database.make_jobs()
    database.add(1, 2)
    database.add(3, age_s=600)
    database.add(4, status="Done")
    database.add(5, status="Pending")
    database.add(6, at="NULL")
    records = opened(database.source())
    assert await records.count() == 2
    assert await records.reset() == Reset(reset=("1", "2"))
    assert (await records.count(), await records.reset()) == (0, Reset())
    assert database.jobs() == {
        "1": Job("Pending", fresh=True),
        "2": Job("Pending", fresh=True),
        "3": Job("Processing", fresh=False),
        "4": Job("Done", fresh=False),
        "5": Job("Pending", fresh=False),
        "6": Job("Processing", fresh=None),
    }


async def test_the_reason_is_written_where_the_source_says(database, opened):
    database.make_jobs()
    database.add(1, error="old")
    database.add(2, error="old", age_s=10)
    await opened(database.source(error_field="error", error_text="It's stuck: 100 %")).reset()
    assert {name: job.error for name, job in database.jobs().items()} == {"1": "It's stuck: 100 %", "2": "old"}


async def test_resets_are_counted_and_a_record_at_the_limit_fails(database, opened):
    database.make_jobs()
    database.add(1)
    database.add(2, attempts=1)
    database.add(3, attempts=2)
    database.add(4, attempts=7)
    records = opened(database.source(attempts_field="attempts", max_attempts=2, error_field="error"))
    assert [(each.id, each.attempts) for each in await records.look(10)] == [("1", 0), ("2", 1), ("3", 2), ("4", 7)]
    assert await records.reset() == Reset(reset=("1", "2"), failed=("3", "4"))
    assert database.jobs() == {
        "1": Job("Pending", True, TEXT, 1),
        "2": Job("Pending", True, TEXT, 2),
        "3": Job("Failed", True, TEXT, 2),
        "4": Job("Failed", True, TEXT, 7),
    }


@pytest.mark.parametrize("status", ["enum", "text", "varchar"])
async def test_a_status_may_be_an_enum_or_a_text(database, opened, status):
    database.make_jobs(status=status)
    database.add(1)
    database.add(2, attempts=1)
    records = opened(database.source(attempts_field="attempts", max_attempts=1))
    assert await records.reset() == Reset(reset=("1",), failed=("2",))
    assert database.statuses() == {"Failed": 1, "Pending": 1}


@pytest.mark.parametrize("column", ["smallint", "integer", "bigint"])
async def test_a_status_may_be_a_whole_number(database, opened, column):
    database.make_jobs(status=column)
    database.add(1, 2, status=1)
    database.add(3, status=2)
    source = database.source(stuck=1, becomes=0, failed=3)
    assert (await opened(source).reset()).count == 2
    assert database.statuses() == {0: 2, 2: 1}
    assert await opened(source).look(10) == []


@pytest.mark.parametrize("kind", IDS)
async def test_an_id_may_be_a_number_a_text_or_a_uuid(database, opened, kind):
    one, other = IDS[kind]
    if database.kind == "sqlite" and kind == "uuid":
        one, other = one.replace("-", ""), other.replace("-", "")  # as SQLAlchemy keeps them there
    database.make_jobs(id=kind)
    for each in (one, other):
        quoted = each.replace("'", "''")
        database.execute(
            f"INSERT INTO jobs (id, status, updated_at) VALUES ('{quoted}', 'Processing', {database.ago(7200)})"
        )
    records = opened(database.source())
    assert sorted(each.id for each in await records.look(10)) == sorted((one, other))
    assert [each.id for each in await records.look(10, ids=[other])] == [other]
    assert await records.reset(ids=[other]) == Reset(reset=(other,))
    assert await records.reset() == Reset(reset=(one,))


async def test_a_reset_by_ids_resets_only_stuck_records(database, opened):
    database.make_jobs()
    database.add(1, 2)
    database.add(3, age_s=5)
    database.add(4, status="Done")
    records = opened(database.source())
    assert await records.reset(ids=["2", "3", "4", "99"]) == Reset(reset=("2",))
    assert await records.reset(ids=[]) == Reset()
    assert database.statuses() == {"Done": 1, "Pending": 1, "Processing": 2}


@pytest.mark.parametrize(
    "text",
    ["x", "", "1.5", str(2**31), "1; DROP TABLE jobs", "1_0", " 1", "+1", "\uff11", "\u0663", "1\n", "-", "9" * 5000],
)
async def test_a_text_that_is_no_number_is_refused_as_an_id(pg, opened, text):
    pg.make_jobs()
    records = opened(pg.source())
    for call in (records.look(1, ids=[text]), records.reset(ids=["1", text])):
        with pytest.raises(
            ValueError, match=r"^source jobs, id: .* is no id here; each is a whole number of its size$"
        ):
            await call


async def test_a_text_that_is_no_uuid_is_refused_as_an_id(pg, opened):
    pg.make_jobs(id="uuid")
    with pytest.raises(ValueError, match=r"^source jobs, id: '17' is no id here; each is a UUID$"):
        await opened(pg.source()).reset(ids=["17"])


async def test_batches_are_bounded_and_begin_with_the_longest_stuck(database, opened):
    database.make_jobs()
    for number in range(1, 8):
        database.add(number, age_s=10_000 - number * 100)
    records = opened(database.source(batch_size=3))
    assert [await records.reset() for _ in range(4)] == [
        Reset(reset=("1", "2", "3")), Reset(reset=("4", "5", "6")), Reset(reset=("7",)), Reset(),
    ]  # fmt: skip
    assert database.statuses() == {"Pending": 7}


async def test_listing_stuck_records_shows_what_a_reset_would_touch_and_changes_nothing(database, opened):
    database.make_jobs()
    database.add(1, age_s=7200.5)
    database.add(2, age_s=90_000)
    database.add(3, age_s=600)
    before = database.jobs()
    found = await opened(database.source()).look(10)
    assert [(each.id, each.status, each.attempts) for each in found] == [
        ("2", "Processing", None),
        ("1", "Processing", None),
    ]
    for stuck, age_s in zip(found, (90_000, 7200.5), strict=True):
        assert 0 <= stuck.age_s - age_s < 30
        assert abs(datetime.now(UTC) - timedelta(seconds=stuck.age_s) - stuck.updated_at) < timedelta(seconds=30)
    assert database.jobs() == before


async def test_a_list_of_stuck_records_is_bounded_and_may_begin_above_the_threshold(database, opened):
    database.make_jobs()
    database.add(1, age_s=90_000)
    database.add(2, age_s=7200)
    database.add(3, age_s=600)
    records = opened(database.source())

    async def seen(**asked):
        return [each.id for each in await records.look(**asked)]

    assert await seen(limit=1) == ["1"]
    assert await seen(limit=10, older_than_s=80_000) == ["1"]
    assert await seen(limit=10, older_than_s=60) == ["1", "2"]
    assert await seen(limit=10, older_than_s=100_000, ids=["1"]) == []


async def test_fields_and_tables_may_have_any_name(database, opened):
    database.execute(
        'CREATE TABLE "Work Items" ("Key" integer PRIMARY KEY, "order" text, "When" timestamp, "why?" text,'
        ' "%n" integer)'
    )
    database.execute(f"""INSERT INTO "Work Items" VALUES (1, 'it''s', {database.ago(7200, naive=True)}, NULL, NULL)""")
    source = database.source(
        table="Work Items", status_field="order", updated_at_field="When", error_field="why?", attempts_field="%n",
        max_attempts=3, stuck="it's", becomes='"new"', failed="%s",
    )  # fmt: skip
    records = opened(source)
    await records.check()
    assert [each.status for each in await records.look(5)] == ["it's"]
    assert await records.reset() == Reset(reset=("1",))
    assert tuple(database.execute('SELECT "order", "why?", "%n" FROM "Work Items"')[0]) == ('"new"', TEXT, 1)


async def test_the_table_and_its_enum_may_be_in_other_schemas(pg, opened):
    pg.execute(
        f"CREATE SCHEMA work; CREATE SCHEMA kinds; CREATE TYPE kinds.state AS ENUM {STATUSES};"
        "CREATE TABLE work.jobs (id serial PRIMARY KEY, status kinds.state, updated_at timestamptz, error text);"
        f"INSERT INTO work.jobs (status, updated_at) VALUES ('Processing', {pg.ago(7200)}), ('Processing', now())"
    )
    records = opened(pg.source(table="work.jobs"))
    await records.check()
    assert await records.reset() == Reset(reset=("1",))


async def test_a_column_of_a_domain_works_like_its_base_type(pg, opened):
    pg.execute(
        "CREATE DOMAIN state AS varchar(12) CHECK (VALUE <> ''); CREATE DOMAIN moment AS timestamptz;"
        "CREATE DOMAIN number AS bigint CHECK (VALUE > 0);"
    )
    pg.make_jobs(id="number", status="state", updated_at="moment")
    pg.add(1)
    assert await opened(pg.source()).reset() == Reset(reset=("1",))


async def test_an_id_may_be_one_part_of_the_primary_key(pg, opened):
    pg.execute(
        "CREATE TABLE jobs (id uuid, day date, status text, updated_at timestamptz, PRIMARY KEY (id, day))"
        " PARTITION BY RANGE (day); CREATE TABLE jobs_1 PARTITION OF jobs DEFAULT;"
        f"INSERT INTO jobs SELECT gen_random_uuid(), current_date, 'Processing', {pg.ago(7200)}"
        " FROM generate_series(1, 3)"
    )
    assert (await opened(pg.source(id_field="id")).reset()).count == 3


async def test_a_writable_view_works_like_a_table(pg, opened):
    pg.make_jobs()
    pg.execute("CREATE VIEW mine AS SELECT * FROM jobs WHERE id < 10")
    pg.add(9, 10)
    records = opened(pg.source(table="mine", id_field="id"))
    await records.check()
    assert await records.reset() == Reset(reset=("9",))


async def test_a_record_that_the_database_refuses_to_change_does_not_stop_the_reset_of_others(database, opened):
    database.make_jobs()
    database.fill(20)
    for number in (3, 17):
        database.execute(f"UPDATE jobs SET attempts = -1 WHERE id = {number}")
    forbid(database)
    records = opened(database.source())
    done = await records.reset()
    assert (done.count, database.statuses()) == (18, {"Pending": 18, "Processing": 2})
    with pytest.raises(Exception, match=r"^source jobs, table: the database refuses it: .*not this one") as refused:
        await records.reset()
    assert refused.type.__name__ == "SourceRefused"


def forbid(database):
    """A trigger that refuses to change records with -1 attempts."""
    if database.kind == "sqlite":
        database.execute(
            "CREATE TRIGGER guard BEFORE UPDATE ON jobs WHEN old.attempts = -1 BEGIN"
            " SELECT RAISE(ABORT, 'not this one'); END"
        )
        return
    if database.kind == "mariadb":
        database.execute(
            "CREATE TRIGGER guard BEFORE UPDATE ON jobs FOR EACH ROW"
            " IF old.attempts = -1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF"
        )
        return
    database.execute(
        "CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF old.attempts = -1 THEN RAISE 'not this one'; END IF; RETURN new; END $$;"
        "CREATE TRIGGER guard BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION guard()"
    )
