"""Sources that do not fit what is there are refused in one sentence that names the source and the field."""

import re

import pytest
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite

from hub.errors import RecordsUnavailable, SourceRefused
from hub.recovery.models import SqlSource
from hub.recovery.sql import SqlRecords
from hub.settings import mask_url
from tests.recovery.databases import STATUSES

PASSWORD = "s3cr3t-Pa%2Fss"


async def refusal(records):
    """Return what `check` says, which is one sentence."""
    with pytest.raises((SourceRefused, RecordsUnavailable)) as refused:
        await records.check()
    said = str(refused.value)
    assert re.fullmatch(r"source jobs, [a-z_]+: [^\n]+\.", said), said
    assert not re.search(r"Traceback|sqlalchemy|<class|\[SQL|Background on|\.\.$", said), said
    return said.removeprefix("source jobs, ")


FIELDS = {
    "status_field": {},
    "updated_at_field": {},
    "error_field": {},
    "attempts_field": {"max_attempts": 2},
    "id_field": {},
}


@pytest.mark.parametrize("field", FIELDS)
async def test_a_missing_column_is_refused(database, opened, field):
    database.make_jobs()
    said = await refusal(opened(database.source(**{field: "nope", **FIELDS[field]})))
    assert said == f"{field}: jobs has no column 'nope'; it has id, status, updated_at, error, attempts."


@pytest.mark.parametrize(
    ("field", "column", "wanted"),
    [
        ("status_field", "real", "an enum, a text or a whole number"),
        ("status_field", "boolean", "an enum, a text or a whole number"),
        ("status_field", "date", "an enum, a text or a whole number"),
        ("updated_at_field", "text", r"a date with a time \(TIMESTAMP or DATETIME\)"),
        ("updated_at_field", "integer", r"a date with a time \(TIMESTAMP or DATETIME\)"),
        ("updated_at_field", "date", r"a date with a time \(TIMESTAMP or DATETIME\)"),
        ("error_field", "integer", "a text"),
        ("error_field", "json", "a text"),
        ("attempts_field", "text", "a whole number"),
        ("attempts_field", "real", "a whole number"),
        ("id_field", "real", "a whole number, a text or a UUID"),
        ("id_field", "timestamp", "a whole number, a text or a UUID"),
    ],
)
async def test_a_column_of_the_wrong_type_is_refused(database, opened, field, column, wanted):
    if (database.kind, field, column) == ("sqlite", "updated_at_field", "text"):
        column = "blob"  # times are texts there
    database.make_jobs()
    database.execute(f"ALTER TABLE jobs ADD odd {column}")
    said = await refusal(opened(database.source(**{field: "odd", **FIELDS[field]})))
    assert re.fullmatch(rf"{field}: the column 'odd' is [A-Z ]+, not {wanted}\.", said), said


@pytest.mark.parametrize(
    ("column", "given", "said"),
    [
        ("enum", {"stuck": "Running"}, "stuck: 'status' may be Pending, Processing, Done, Failed, and not 'Running'."),
        ("enum", {"becomes": "Ready"}, "becomes: 'status' may be Pending, Processing, Done, Failed, and not 'Ready'."),
        ("enum", {"failed": "Dead"}, "failed: 'status' may be Pending, Processing, Done, Failed, and not 'Dead'."),
        ("enum", {"stuck": 1, "becomes": 0, "failed": 2}, "stuck: the column 'status' holds texts, and it is 1."),
        ("text", {"stuck": 1, "becomes": 0, "failed": 2}, "stuck: the column 'status' holds texts, and it is 1."),
        ("integer", {}, "stuck: the column 'status' holds whole numbers, and it is 'Processing'."),
        (
            "integer", {"stuck": 1, "becomes": 2**31, "failed": 2},
            "becomes: 2147483648 does not fit into 'status', which is INTEGER.",
        ),
        (
            "smallint", {"stuck": -32769, "becomes": 0, "failed": 2},
            "stuck: -32769 does not fit into 'status', which is SMALLINT.",
        ),
        (
            "varchar", {"failed": "Failed for good"},
            "failed: 'Failed for good' is longer than the 12 characters of 'status'.",
        ),
    ],
)  # fmt: skip
async def test_a_status_that_the_column_cannot_hold_is_refused(pg, opened, column, given, said):
    pg.make_jobs(status=column)
    assert await refusal(opened(pg.source(**given))) == said


async def test_a_status_that_a_sqlite_column_cannot_hold_is_refused(sqlite, opened):
    sqlite.make_jobs(status="varchar")
    said = await refusal(opened(sqlite.source(becomes="Waiting for it")))
    assert said == "becomes: 'Waiting for it' is longer than the 12 characters of 'status'."


async def test_a_reason_longer_than_its_column_is_refused(database, opened):
    database.make_jobs()
    database.execute("ALTER TABLE jobs ADD short varchar(10)")
    said = await refusal(opened(database.source(error_field="short")))
    assert said == "error_text: it is longer than the 10 characters of 'short'."


async def test_a_limit_beyond_the_range_of_the_counter_column_is_refused(pg, opened):
    pg.make_jobs()
    pg.execute("ALTER TABLE jobs ADD few smallint")
    said = await refusal(opened(pg.source(attempts_field="few", max_attempts=40_000)))
    assert said == "max_attempts: 40000 does not fit into 'few', which is SMALLINT."


async def test_a_generated_column_is_refused(database, opened):
    database.make_jobs()
    database.execute("DROP TABLE jobs")
    database.execute(
        "CREATE TABLE jobs (id integer PRIMARY KEY, state text, updated_at timestamp,"
        " status text GENERATED ALWAYS AS (upper(state)) STORED)"
    )
    assert await refusal(opened(database.source())) == "status_field: the column 'status' is computed by the database."


async def test_a_missing_table_or_schema_is_refused(database, opened):
    database.make_jobs()
    assert await refusal(opened(database.source(table="tasks"))) == "table: there is no table 'tasks'."
    assert await refusal(opened(database.source(table="x.jobs"))) == "table: there is no schema 'x'."


async def test_a_table_with_no_primary_key_or_a_composite_one_is_refused(database, opened):
    database.execute(
        "CREATE TABLE loose (id integer, status text, updated_at timestamp);"
        "CREATE TABLE pairs (a integer, b integer, status text, updated_at timestamp, PRIMARY KEY (a, b))"
    )
    ending = "name the one column that tells records apart."
    assert await refusal(opened(database.source(table="loose"))) == f"id_field: loose has no primary key; {ending}"
    said = await refusal(opened(database.source(table="pairs")))
    assert said == f"id_field: pairs has the primary key a, b; {ending}"
    await opened(database.source(table="loose", id_field="id")).check()


NO_KEY = "(id integer PRIMARY KEY, customer integer, status text, updated_at timestamp)"


@pytest.mark.parametrize(
    ("made", "key"),
    [
        ("CREATE INDEX by_customer ON jobs (customer)", None),
        ("CREATE UNIQUE INDEX few ON jobs (customer) WHERE status = 'x'", None),
        ("CREATE UNIQUE INDEX pair ON jobs (customer, id)", " or customer, id"),
        ("CREATE UNIQUE INDEX one ON jobs (customer)", ""),
    ],
)
async def test_an_id_without_a_unique_constraint_is_refused(database, opened, made, key):
    database.execute(f"CREATE TABLE jobs {NO_KEY}; {made};")
    records = opened(database.source(id_field="customer"))
    if key == "":
        await records.check()
        return
    assert await refusal(records) == (
        f"id_field: nothing keeps 'customer' unique in jobs, whose key is id{key or ''};"
        " name that, or make a unique index on 'customer'."
    )


@pytest.mark.parametrize("key", ["PRIMARY KEY (queue, id)", "UNIQUE (queue, id)"])
async def test_an_id_that_is_unique_within_the_filter_of_the_source_is_accepted(database, opened, key):
    columns = "queue varchar(9) NOT NULL, id integer NOT NULL, status text, updated_at timestamp"
    database.execute(f"CREATE TABLE parts ({columns}, {key})")
    source = {"table": "parts", "id_field": "id"}
    await opened(database.source(**source, where={"queue": "mail"})).check()
    said = await refusal(opened(database.source(**source)))
    assert said.startswith("id_field: nothing keeps 'id' unique in parts, whose key is queue, id;")


async def test_without_a_key_an_id_shared_with_records_outside_the_filter_is_refused(database, opened):
    database.execute("CREATE TABLE loose (queue varchar(9), id integer, status text, updated_at timestamp)")
    database.execute("INSERT INTO loose VALUES ('mail', 1, 'Done', NULL), ('post', 1, 'Done', NULL)")
    source = {"table": "loose", "id_field": "id"}
    await opened(database.source(**source, where={"queue": "mail"})).check()
    assert (await refusal(opened(database.source(**source)))).startswith("id_field: 'id' is not unique in loose:")


async def test_without_a_key_an_id_shared_by_two_records_is_refused(database, opened):
    database.execute("CREATE TABLE loose (id integer, status text, updated_at timestamp)")
    database.execute(
        "INSERT INTO loose VALUES (1, 'Done', NULL), (2, 'Done', NULL), (NULL, 'Done', NULL), (NULL, '', NULL)"
    )
    records = opened(database.source(table="loose", id_field="id"))
    await records.check()
    database.execute("INSERT INTO loose VALUES (2, 'Processing', NULL)")
    assert await refusal(records) == (
        "id_field: 'id' is not unique in loose: several records have '2'; name the column that tells them apart."
    )


async def test_a_view_that_cannot_be_written_is_refused(database, opened):
    database.make_jobs()
    columns = "id, status, updated_at"
    database.execute(f"CREATE VIEW seen AS SELECT {columns} FROM jobs UNION SELECT {columns} FROM jobs")
    said = await refusal(opened(database.source(table="seen", id_field="id")))
    assert said.startswith("table: the database refuses it: ")


@pytest.mark.parametrize("missing", ["SELECT", "UPDATE"])
async def test_a_missing_permission_is_refused(pg, opened, missing):
    pg.make_jobs()
    right = {"SELECT": "UPDATE", "UPDATE": "SELECT"}[missing]
    user = f"user_{pg.name}"
    pg.execute(f"CREATE ROLE {user} LOGIN; GRANT {right} ON jobs TO {user}")
    said = await refusal(opened(pg.source(url=pg.place.url(pg.name, user))))
    assert said == "table: the database refuses it: permission denied for table jobs."
    pg.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")


async def test_a_status_that_a_constraint_of_the_table_forbids_is_refused(database, opened):
    database.execute(
        "CREATE TABLE jobs (id integer PRIMARY KEY, updated_at timestamp, error text, attempts integer,"
        " status text CHECK (status IN ('Processing', 'Done')))"
    )
    database.add(1)
    records = opened(database.source())
    with pytest.raises(SourceRefused, match=r"^source jobs, table: the database refuses it: [^\n]+\.$"):
        await records.reset()
    assert database.statuses() == {"Processing": 1}


@pytest.mark.parametrize("zone", ["Mars/Olympus", "UTC+3", "nonsense", "Berlin1", "UTC2", "CEST", "Europe/Berlin "])
async def test_an_unknown_time_zone_is_refused(pg, opened, zone):
    pg.make_jobs(updated_at="naive")
    said = await refusal(opened(pg.source(time_zone=zone)))
    assert said == f"time_zone: '{zone}' is no time zone; write one such as Europe/Berlin."


@pytest.mark.parametrize("zone", ["Europe/Berlin", "europe/berlin", "EST5EDT", "Etc/GMT+3"])
async def test_a_time_zone_that_the_database_knows_is_accepted(pg, opened, zone):
    pg.make_jobs(updated_at="naive")
    await opened(pg.source(time_zone=zone)).check()


async def test_a_time_zone_that_sqlite_does_not_know_is_refused(sqlite, opened):
    sqlite.make_jobs()
    said = await refusal(opened(sqlite.source(time_zone="Europe/Berlin")))
    assert said == "time_zone: sqlite knows no time zones but UTC, and it is 'Europe/Berlin'."


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("not a url", "it is no URL such as postgresql+asyncpg://host/name"),
        (f"postgresql+asyncpg://hub:{PASSWORD}@host:port/x", "it is no URL such as postgresql+asyncpg://host/name"),
        (f"nosuch+driver://hub:{PASSWORD}@host/x",
         "nosuch+driver is no driver that is known here; postgresql+asyncpg and sqlite+aiosqlite are"),
        (f"postgresql+nosuch://hub:{PASSWORD}@host/x",
         "postgresql+nosuch is no driver that is known here; postgresql+asyncpg and sqlite+aiosqlite are"),
        (f"postgresql://hub:{PASSWORD}@host/x?sslmode=on",
         "sslmode is 'on', and must be one of disable, allow, prefer, require, verify-ca, verify-full"),
        (f"postgres://hub:{PASSWORD}@host/x?timeout=soon", "its option timeout is 'soon', and must be a number"),
        (f"postgresql+asyncpg://hub:{PASSWORD}@h/x?statement_cache_size=x",
         "its option statement_cache_size is 'x', and must be a whole number"),
        (f"postgresql+psycopg2://hub:{PASSWORD}@host/x",
         "postgresql+psycopg2 is not asynchronous; write postgresql+asyncpg://"),
        ("sqlite:///jobs.db", "sqlite is not asynchronous; write sqlite+aiosqlite://"),
        (f"mysql://hub:{PASSWORD}@host/x", "mysql is not asynchronous; write mysql+asyncmy://"),
        (f"mysql+aiomysql://hub:{PASSWORD}@host/x", "the driver aiomysql is not installed; run: pip install aiomysql"),
        (f"postgresql+psycopg://hub:{PASSWORD}@host/x",
         "the driver psycopg is not installed; run: pip install psycopg"),
        ("sqlite+aiosqlite://", "it names no file, and nobody else sees a database in memory"),
    ],
)  # fmt: skip
def test_a_url_that_leads_nowhere_is_refused(url, said):
    with pytest.raises(SourceRefused) as refused:
        SqlRecords(SqlSource(name="jobs", url=url, table="jobs"))
    assert str(refused.value) == f"source jobs, url: {said}."


def test_a_database_whose_clock_is_unknown_is_refused():
    registry.register("strange.aiosqlite", __name__, "Strange")
    known = "postgresql, sqlite, mysql, mariadb"
    with pytest.raises(SourceRefused) as refused:
        SqlRecords(SqlSource(name="jobs", url="strange+aiosqlite:///x", table="jobs"))
    assert str(refused.value) == f"source jobs, url: the clock of strange is not known here; those of {known} are."


class Strange(SQLiteDialect_aiosqlite):
    """A dialect that another package brings along."""

    name = "strange"


@pytest.mark.parametrize(
    "query", ["?nonsense=1", "?command_timeout=soon", "?ssl=perhaps", "?host=/nowhere/at/all", "?host=127.0.0.1:1"]
)
async def test_the_refusal_of_an_unreachable_database_never_shows_the_password(opened, query):
    url = f"postgresql+asyncpg://hub:{PASSWORD}@/x{query}"
    with pytest.raises((SourceRefused, RecordsUnavailable)) as refused:  # some of it when it is opened
        await opened(SqlSource(name="jobs", url=url, table="jobs")).check()
    assert re.fullmatch(r"source jobs, url: [^\n]+\.", str(refused.value))
    assert "s3cr3t" not in str(refused.value)


async def test_a_database_that_refuses_every_login_is_named(pg, opened):
    for url, why in (
        (pg.place.url("nosuch"), 'database "nosuch" does not exist'),
        (pg.place.url(pg.name, "nobody"), 'role "nobody" does not exist'),
    ):
        records = opened(SqlSource(name="jobs", url=url, table="jobs"))
        assert await refusal(records) == f"url: the database does not answer: {why}."


async def test_a_refusal_names_the_file_that_declares_the_source(database, opened):
    source = database.source(table="tasks")
    source.declared_in("HUB_RECOVERY_FILE=/etc/hub/recovery.toml")
    with pytest.raises(SourceRefused) as refused:
        await opened(source).check()
    assert (
        str(refused.value) == "HUB_RECOVERY_FILE=/etc/hub/recovery.toml, source jobs, table: there is no table 'tasks'."
    )


async def test_a_time_column_with_numbers_is_refused(sqlite, opened):
    sqlite.make_jobs()
    sqlite.add(1)
    sqlite.add(2, at="1700000000123")
    said = await refusal(opened(sqlite.source()))
    assert said == "updated_at_field: 'updated_at' holds numbers such as 1700000000123, and no times."


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("'2026-01-01T01:00:00+0000'", "'2026-01-01T01:00:00+0000'"),
        ("'2026-01-01 01:00:00 UTC'", "'2026-01-01 01:00:00 UTC'"),
        ("'garbage'", "'garbage'"),
        ("'01:02'", "'01:02'"),
        ("'now'", "'now'"),
        ("x'323032362d30312d3031'", "\"b'2026-01-01'\""),
    ],
)
async def test_a_time_column_with_texts_that_are_no_times_is_refused(sqlite, opened, at, shown):
    sqlite.make_jobs()
    sqlite.add(1)
    sqlite.add(2, at="NULL")
    sqlite.add(3, status="Done", at="'whenever'")
    records = opened(sqlite.source())
    await records.check()
    sqlite.add(4, at=at)
    said = await refusal(records)
    wanted = f"'updated_at' holds {shown}, which SQLite does not read as a time; write 2026-03-01 12:00:00+00:00."
    assert said == f"updated_at_field: {wanted}"


async def test_an_impossible_port_is_refused(opened):
    said = await refusal(opened(SqlSource(name="jobs", url="postgresql+asyncpg://127.0.0.1:99999/x", table="jobs")))
    assert said.startswith("url: it cannot be used: ")


def test_masking_passwords_does_not_change_the_hint_about_a_url():
    with pytest.raises(SourceRefused) as refused:
        SqlRecords(SqlSource(name="jobs", url="not a url", table="jobs"))
    assert mask_url(str(refused.value)) == str(refused.value)


async def test_a_check_changes_nothing(database, opened):
    database.make_jobs()
    database.add(1)
    before = database.jobs()
    await opened(database.source(error_field="error", attempts_field="attempts", max_attempts=1)).check()
    assert database.jobs() == before
    assert set(STATUSES) > set(database.statuses())
