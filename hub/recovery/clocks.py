"""SQL clauses for time. The database measures the age of every record by its own clock; this process never does.

The tests run on real servers: PostgreSQL, SQLite and MariaDB, which stands for MySQL too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

_FLOAT: sa.Float[float] = sa.Float()
_DAY_MS = sa.literal_column("86400000.0", _FLOAT)
_JULIAN_NOW = sa.literal_column("julianday('now')", _FLOAT)
_JULIAN_1970 = sa.literal_column("2440587.5", _FLOAT)
_DATED: sa.ColumnElement[str] = sa.literal_column("'____-__-__%'")
_NONE: sa.ColumnElement[int] = sa.literal_column("0")


@dataclass(frozen=True)
class Clock:
    """The SQL clauses for the column of the last update's time. Age and time are NULL in a record without a time."""

    now: sa.ColumnElement[Any]
    """The current time of the database, in the form in which a write puts it into the column."""
    age_s: sa.ColumnElement[float]
    """The seconds from the time in the column to now."""
    at_s: sa.ColumnElement[float]
    """The time in the column, in seconds since 1970."""
    older_than: Callable[[float], sa.ColumnElement[bool]]
    """The function that returns the clause for "more than so many seconds ago"."""
    is_time: sa.ColumnElement[bool] | None = None
    """The clause for a value that is a time; None where the type of the column allows only times."""


def postgresql(column: sa.ColumnElement[Any], zone: str) -> Clock:
    """Return the SQL clauses of time for PostgreSQL. Intervals are in seconds, because a day may have 23 hours."""
    now: sa.ColumnElement[Any] = sa.func.now()
    aware = getattr(column.type, "timezone", False)

    def local(moment: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return sa.func.timezone(sa.literal(zone, sa.Text()), moment)

    # When clocks are put back, an hour comes twice. PostgreSQL takes the later one: no record counts as stuck early.
    moment = column if aware else local(column)

    def older_than(seconds: float) -> sa.ColumnElement[bool]:
        cutoff = now - sa.func.make_interval(*[_NONE] * 6, sa.literal(float(seconds), sa.Double()))
        # '-infinity' is no time: no age can be computed from it.
        clauses = [sa.func.isfinite(column, type_=sa.Boolean()), moment < cutoff]
        return sa.and_(*clauses) if aware else sa.and_(column < local(cutoff), *clauses)

    return Clock(
        now=now if aware else local(now),
        age_s=sa.cast(sa.extract("epoch", now - moment), sa.Double()),
        at_s=sa.cast(sa.extract("epoch", moment), sa.Double()),
        older_than=older_than,
    )


def sqlite(column: sa.ColumnElement[Any], zone: str) -> Clock:
    """Return the SQL clauses of time for SQLite: times are texts, with or without T, fractions and an offset.

    SQLite computes in milliseconds: it cuts its own time down to them and rounds the times it reads. So a threshold is
    rounded up to a whole millisecond. Numbers, and times without a date, count as no time.
    """
    julian = sa.func.julianday(column, type_=_FLOAT)
    text = sa.type_coerce(column, sa.String())
    dated = sa.and_(sa.func.typeof(column) == sa.literal_column("'text'"), text.like(_DATED))
    age_ms = sa.func.round((_JULIAN_NOW - julian) * _DAY_MS, type_=_FLOAT)

    def older_than(seconds: float) -> sa.ColumnElement[bool]:
        whole_ms = math.ceil(round(seconds * 1000, 3))
        return sa.and_(dated, age_ms > sa.literal(float(whole_ms), _FLOAT))

    return Clock(
        # Six digits after the point, as SQLAlchemy writes them, so that such texts sort by time.
        now=sa.func.strftime("%Y-%m-%d %H:%M:%f", _JULIAN_NOW).concat("000"),
        age_s=age_ms / sa.literal_column("1000.0", _FLOAT),
        at_s=sa.func.round((julian - _JULIAN_1970) * _DAY_MS, type_=_FLOAT) / sa.literal_column("1000.0", _FLOAT),
        older_than=older_than,
        is_time=sa.and_(dated, julian.is_not(None)),
    )


def mysql(column: sa.ColumnElement[Any], zone: str) -> Clock:
    """Return the SQL clauses of time for MySQL and MariaDB, whose sessions `make_engine` sets to UTC.

    A date with month or day 0 (0000-00-00, 2022-11-00) is no time: it has no age, and it sorts before all times.
    """
    now: sa.ColumnElement[Any] = sa.literal_column("utc_timestamp(6)", sa.DateTime())
    usec: sa.ColumnElement[Any] = sa.literal_column("MICROSECOND")
    second = sa.literal_column("1000000.0", _FLOAT)
    epoch = sa.literal_column("timestamp'1970-01-01 00:00:00'", sa.DateTime())

    age: sa.ColumnElement[float] = sa.func.timestampdiff(usec, column, now, type_=_FLOAT)

    def older_than(seconds: float) -> sa.ColumnElement[bool]:
        cutoff = sa.func.timestampadd(usec, sa.literal(-round(seconds * 1_000_000), sa.BigInteger()), now)
        return sa.and_(column < cutoff, age.is_not(None))

    return Clock(
        now=now,
        age_s=age / second,
        at_s=sa.func.timestampdiff(usec, epoch, column, type_=_FLOAT) / second,
        older_than=older_than,
        is_time=age.is_not(None),
    )


CLOCKS: dict[str, Callable[[sa.ColumnElement[Any], str], Clock]] = {
    "postgresql": postgresql,
    "sqlite": sqlite,
    "mysql": mysql,
    "mariadb": mysql,
}
