"""What databases are asked that no test has at hand, word by word."""

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql, oracle

from hub.records import sql
from hub.records.clocks import CLOCKS
from hub.records.models import SqlSource
from hub.records.rows import Rows

COLUMNS = {
    "mysql": (mysql.dialect(), mysql.DATETIME(fsp=6)),
    "mssql": (mssql.dialect(), mssql.DATETIME2()),
    "mssql aware": (mssql.dialect(), mssql.DATETIMEOFFSET()),
    "oracle date": (oracle.dialect(), oracle.DATE()),
    "oracle naive": (oracle.dialect(), oracle.TIMESTAMP()),
    "oracle aware": (oracle.dialect(), oracle.TIMESTAMP(timezone=True)),
}


def rows(column):
    """A table with the count before the status, as MySQL minds."""
    dialect, kind = COLUMNS[column]
    columns = [sa.Column("tries", sa.Integer), sa.Column("id", sa.Integer, primary_key=True)]
    columns += [sa.Column("status", sa.String(20)), sa.Column("at", kind)]
    table = sa.Table("jobs", sa.MetaData(), *columns)
    source = SqlSource(name="jobs", url="x://", table="jobs", attempts_field="tries", max_attempts=3)
    c, clock = table.c, CLOCKS[dialect.name](table.c.at, "UTC")
    return Rows(source, table, c.id, c.status, c.at, None, c.tries, clock, dialect.update_returning), dialect


def said(statement, dialect):
    """As it is sent, with its values."""
    dialect.server_version_info = (16,)  # the mssql dialect knows no limits until it is told
    options = {"literal_binds": True, "render_postcompile": True}
    return " ".join(str(statement.compile(dialect=dialect, compile_kwargs=options)).split())


WORN_OUT = "CASE WHEN (coalesce(jobs.tries, 0) >= 3) THEN 1 ELSE 0 END AS anon_1"
OLD = {
    "mysql": "jobs.at < timestampadd(MICROSECOND, -3600000000, utc_timestamp(6))",
    "mssql": "jobs.at < dateadd(second, -3600, dateadd(microsecond, 0, sysutcdatetime()))",
    "mssql aware": "jobs.at < dateadd(second, -3600, dateadd(microsecond, 0, sysdatetimeoffset()))",
    "oracle date": "jobs.at < CAST(sys_extract_utc(systimestamp) - numtodsinterval(3600.0, 'SECOND') AS DATE)",
    "oracle naive": "jobs.at < sys_extract_utc(systimestamp) - numtodsinterval(3600.0, 'SECOND')",
    "oracle aware": "jobs.at < systimestamp - numtodsinterval(3600.0, 'SECOND')",
}
NOW = {
    "mysql": "utc_timestamp(6)",
    "mssql": "sysutcdatetime()",
    "mssql aware": "sysdatetimeoffset()",
    "oracle date": "sys_extract_utc(systimestamp)",
    "oracle naive": "sys_extract_utc(systimestamp)",
    "oracle aware": "systimestamp",
}


@pytest.mark.parametrize("column", ["mysql", "mssql", "mssql aware"])
def test_a_batch_is_locked_and_what_others_locked_is_skipped(column):
    found, dialect = rows(column)
    where = f"WHERE jobs.status = 'Processing' AND {OLD[column]} ORDER BY jobs.at"
    assert (
        said(sql._choice(found, None), dialect)
        == {
            "mysql": f"SELECT jobs.id, {WORN_OUT} FROM jobs {where} LIMIT 500 FOR UPDATE SKIP LOCKED",
            "mssql": f"SELECT TOP 500 jobs.id, {WORN_OUT} FROM jobs WITH (UPDLOCK, READPAST, ROWLOCK) {where}",
        }[dialect.name]
    )


@pytest.mark.parametrize("column", ["oracle date", "oracle naive", "oracle aware"])
async def test_oracle_finds_a_batch_and_then_locks_it_for_it_cannot_do_both(column):
    found, dialect = rows(column)
    asked = []

    class Connection:
        """Answers two ids to whatever it is asked."""

        async def scalars(self, statement):
            asked.append(said(statement, dialect))
            return [1, 2]

        async def execute(self, statement):
            asked.append(said(statement, dialect))
            return []

    Connection.dialect = dialect
    await sql._lock(Connection(), found, None)
    stuck = f"WHERE jobs.status = 'Processing' AND {OLD[column]}"
    assert asked == [
        f"SELECT jobs.id FROM jobs {stuck} ORDER BY jobs.at FETCH FIRST 500 ROWS ONLY",
        f"SELECT jobs.id, {WORN_OUT} FROM jobs {stuck} AND jobs.id IN (1, 2) FOR UPDATE SKIP LOCKED",
    ]


@pytest.mark.parametrize("column", COLUMNS)
def test_the_status_is_set_before_the_count_that_decides_it(column):
    found, dialect = rows(column)
    worn_out = "CASE WHEN (coalesce(jobs.tries, 0) >= 3) THEN"
    change = (
        f"UPDATE jobs SET status={worn_out} 'Failed' ELSE 'Pending' END, at={NOW[column]},"
        f" tries={worn_out} coalesce(jobs.tries, 0) ELSE coalesce(jobs.tries, 0) + 1 END"
        f" WHERE jobs.id IN (1, 2) AND jobs.status = 'Processing' AND {OLD[column]}"
    )
    assert said(sql._update(found, [1, 2]), dialect) == change


def test_an_age_has_fractions_and_more_than_a_day():
    older = {name: said(sa.select(rows(name)[0].older_than(90_000.5)), rows(name)[1]) for name in COLUMNS}
    assert "-90000500000," in older["mysql"]
    assert "dateadd(second, -90000, dateadd(microsecond, -500000, " in older["mssql"]
    assert "numtodsinterval(90000.5, 'SECOND')" in older["oracle naive"]


@pytest.mark.parametrize(
    ("column", "age"),
    [
        ("mysql", "timestampdiff(MICROSECOND, jobs.at, utc_timestamp(6)) / 1000000.0"),
        ("mssql", "datediff_big(microsecond, jobs.at, sysutcdatetime()) / (1000000.0 + 0.0)"),
        ("mssql aware", "datediff_big(microsecond, jobs.at, sysdatetimeoffset()) / (1000000.0 + 0.0)"),
        (
            "oracle aware",
            "((EXTRACT(day FROM {i}) * 24 + EXTRACT(hour FROM {i})) * 60 + EXTRACT(minute FROM {i})) * 60"
            " + EXTRACT(second FROM {i})".format(i="sys_extract_utc(systimestamp) - sys_extract_utc(jobs.at)"),
        ),
    ],
)
def test_an_age_is_counted_by_the_database(column, age):
    found, dialect = rows(column)
    assert said(sa.select(found.age_s.label("age")), dialect) == f"SELECT {age} AS age FROM jobs"
