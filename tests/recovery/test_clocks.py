"""The statements that MySQL gets, word by word."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from hub.recovery import sql
from hub.recovery.clocks import CLOCKS
from hub.recovery.models import SqlSource
from hub.recovery.rows import Rows

DIALECT = mysql.dialect()
WORN_OUT = "(coalesce(jobs.tries, 0) >= 3)"
OLD = (
    "jobs.at < timestampadd(MICROSECOND, -3600000000, utc_timestamp(6))"
    " AND timestampdiff(MICROSECOND, jobs.at, utc_timestamp(6)) IS NOT NULL"
)


def rows():
    """Return a table with the count before the status, as MySQL minds."""
    columns = [sa.Column("tries", sa.Integer), sa.Column("id", sa.Integer, primary_key=True)]
    columns += [sa.Column("status", sa.String(20)), sa.Column("at", mysql.DATETIME(fsp=6))]
    table = sa.Table("jobs", sa.MetaData(), *columns)
    source = SqlSource(name="jobs", url="x://", table="jobs", attempts_field="tries", max_attempts=3)
    c, clock = table.c, CLOCKS["mysql"](table.c.at, "UTC")
    return Rows(source, table, c.id, c.status, c.at, None, c.tries, clock, DIALECT.update_returning)


def said(statement):
    """Return a statement as it is sent, with its values."""
    options = {"literal_binds": True, "render_postcompile": True}
    return " ".join(str(statement.compile(dialect=DIALECT, compile_kwargs=options)).split())


def test_a_batch_locks_its_records_and_skips_locked_ones():
    assert said(sql._choice(rows(), None)) == (
        f"SELECT jobs.id, CASE WHEN {WORN_OUT} THEN 1 ELSE 0 END AS anon_1 FROM jobs"
        f" WHERE jobs.status = 'Processing' AND {OLD} ORDER BY jobs.at LIMIT 500 FOR UPDATE SKIP LOCKED"
    )


def test_the_status_is_set_before_the_count_that_decides_it():
    assert said(sql._update(rows(), [1, 2])) == (
        f"UPDATE jobs SET status=CASE WHEN {WORN_OUT} THEN 'Failed' ELSE 'Pending' END, at=utc_timestamp(6),"
        f" tries=CASE WHEN {WORN_OUT} THEN coalesce(jobs.tries, 0) ELSE coalesce(jobs.tries, 0) + 1 END"
        f" WHERE jobs.id IN (1, 2) AND jobs.status = 'Processing' AND {OLD}"
    )


def test_an_age_may_have_fractions_and_exceed_a_day():
    assert "-90000500000," in said(sa.select(rows().clock.older_than(90_000.5)))


def test_an_age_is_computed_by_the_database():
    age = "timestampdiff(MICROSECOND, jobs.at, utc_timestamp(6)) / 1000000.0"
    assert said(sa.select(rows().clock.age_s.label("age"))) == f"SELECT {age} AS age FROM jobs"
