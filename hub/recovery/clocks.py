"""What time it is in a database, as clauses: every age is measured by the database, never by us.

All are tested on the real thing with every change; that of MySQL on a MariaDB.
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
    """The clauses of time for one column; those of its value are NULL where it holds no time."""

    now: sa.ColumnElement[Any]
    """What a write puts there: the time of the database as the column holds it."""
    age_s: sa.ColumnElement[float]
    """Seconds since the time it holds."""
    at_s: sa.ColumnElement[float]
    """The time it holds, in seconds since 1970."""
    older_than: Callable[[float], sa.ColumnElement[bool]]
    """Whether it is more than so many seconds ago."""
    is_time: sa.ColumnElement[bool] | None = None
    """Whether what it holds is a time; None where its type sees to that."""


def postgresql(column: sa.ColumnElement[Any], zone: str) -> Clock:
    """`now()` is the start of the transaction. An interval of seconds alone, for days have 23 hours sometimes."""
    now: sa.ColumnElement[Any] = sa.func.now()
    aware = getattr(column.type, "timezone", False)

    def local(moment: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return sa.func.timezone(sa.literal(zone, sa.Text()), moment)

    # Where clocks are put back an hour comes twice; PostgreSQL takes the later, so that nothing is taken too early.
    moment = column if aware else local(column)

    def older_than(seconds: float) -> sa.ColumnElement[bool]:
        cutoff = now - sa.func.make_interval(*[_NONE] * 6, sa.literal(float(seconds), sa.Double()))
        # '-infinity' is no time, and no age can be computed of it.
        clauses = [sa.func.isfinite(column, type_=sa.Boolean()), moment < cutoff]
        return sa.and_(*clauses) if aware else sa.and_(column < local(cutoff), *clauses)

    return Clock(
        now=now if aware else local(now),
        age_s=sa.cast(sa.extract("epoch", now - moment), sa.Double()),
        at_s=sa.cast(sa.extract("epoch", moment), sa.Double()),
        older_than=older_than,
    )


def sqlite(column: sa.ColumnElement[Any], zone: str) -> Clock:
    """Times are texts, with or without T, fractions and an offset; SQLite knows them to the millisecond.

    It cuts its own time off and rounds or cuts what it reads: a record is older for certain when it is so by a whole
    millisecond. Numbers, times without a date and the like are no times, though SQLite makes some of them.
    """
    julian = sa.func.julianday(column, type_=_FLOAT)
    text = sa.type_coerce(column, sa.String())
    dated = sa.and_(sa.func.typeof(column) == sa.literal_column("'text'"), text.like(_DATED))
    age_ms = sa.func.round((_JULIAN_NOW - julian) * _DAY_MS, type_=_FLOAT)

    def older_than(seconds: float) -> sa.ColumnElement[bool]:
        whole_ms = math.ceil(round(seconds * 1000, 3))
        return sa.and_(dated, age_ms > sa.literal(float(whole_ms), _FLOAT))

    return Clock(
        # Six digits, as SQLAlchemy writes them, so that such texts sort by time.
        now=sa.func.strftime("%Y-%m-%d %H:%M:%f", _JULIAN_NOW).concat("000"),
        age_s=age_ms / sa.literal_column("1000.0", _FLOAT),
        at_s=sa.func.round((julian - _JULIAN_1970) * _DAY_MS, type_=_FLOAT) / sa.literal_column("1000.0", _FLOAT),
        older_than=older_than,
        is_time=sa.and_(dated, julian.is_not(None)),
    )


def mysql(column: sa.ColumnElement[Any], zone: str) -> Clock:
    """For sessions in UTC, which `make_engine` sees to: a TIMESTAMP is shown in the zone of the session.

    A date with a zero in it (0000-00-00, 2022-11-00) is no time: it has no age, and it sorts before all times.
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
