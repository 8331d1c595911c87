"""Checks of the time zone of a column that stores none. In a wrong zone fresh records look stuck: never guess it."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.recovery.clocks import CLOCKS
from hub.recovery.models import SqlSource
from hub.recovery.rows import Rows

AHEAD_S = 300.0  # a time further in the future is not that of a clock that is slightly wrong
JUST_NOW_S = 30.0  # a record that is younger than this if read in one zone was written in that zone
YEAR_S = 366 * 86_400.0  # a time further in the future is not that of any clock
UTC = ("UTC", "Etc/UTC", "Z", "GMT")

# The zones of all sessions that may write to the table: that of this session, and those configured for other roles,
# in this database or everywhere.
_ZONES = sa.text("""
    SELECT current_setting('TimeZone')
    UNION SELECT substr(each, 10)
      FROM pg_catalog.pg_db_role_setting s
     CROSS JOIN LATERAL unnest(s.setconfig) each
     WHERE lower(each) LIKE 'timezone=%'
       AND s.setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
       AND CASE WHEN s.setrole = 0 THEN s.setdatabase <> 0
                ELSE has_table_privilege(s.setrole, CAST(:place AS regclass), 'INSERT, UPDATE') END
""")


async def check_zone(connection: AsyncConnection, source: SqlSource) -> None:
    """Raise `SourceRefused` if the database does not know the source's time zone."""
    zone = source.time_zone
    if zone in UTC:
        return
    if connection.dialect.name != "postgresql":
        raise source.refused("time_zone", f"{connection.dialect.name} knows no time zones but UTC, and it is {zone!r}")
    # PostgreSQL accepts any name, and reads UTC+3 as three hours west of Greenwich.
    names = sa.table("pg_timezone_names", sa.column("name", sa.Text()), schema="pg_catalog")
    known = sa.exists(sa.select(names.c.name).where(sa.func.lower(names.c.name) == zone.lower()))
    if not await connection.scalar(sa.select(known)):
        raise source.refused("time_zone", f"{zone!r} is no time zone; write one such as Europe/Berlin")


async def refuse_to_guess(connection: AsyncConnection, rows: Rows) -> None:
    """Raise `SourceRefused` if neither source nor column has a zone, and a role that writes is not in UTC."""
    if "time_zone" in rows.source.model_fields_set:
        return
    if foreign := await _foreign(connection, rows):
        name = rows.updated_at.name
        ages = await _ages_in_words(connection, rows, foreign)
        raise rows.source.refused(
            "time_zone",
            f"the column {name!r} has no time zone, and clocks of the database are in {', '.join(foreign)}{ages};"
            f' write time_zone = "{foreign[0]}", or "UTC" if that is what it holds',
        )


async def check_newest(connection: AsyncConnection, rows: Rows) -> None:
    """Raise `SourceRefused` if the newest record is in the future in the source's zone, or fresh in another zone."""
    source = rows.source
    age_s = await _newest_s(connection, rows)
    if age_s is None:
        return
    zones = await _foreign(connection, rows)
    ages = {zone: await _newest_s(connection, rows, zone) for zone in zones}
    fresh = [zone for zone, other_s in ages.items() if other_s is not None and abs(other_s) < JUST_NOW_S]
    if age_s >= -AHEAD_S and (abs(age_s) < JUST_NOW_S or not fresh):
        return
    shown = await _ages_in_words(connection, rows, zones or [each for each in ("UTC",) if source.time_zone not in UTC])
    which = f'write time_zone = "{fresh[0]}"' if fresh else "time_zone must say what clock the column holds"
    raise source.refused("time_zone", f"in {rows.updated_at.name!r}{shown.removeprefix(':')}; {which}")


async def _foreign(connection: AsyncConnection, rows: Rows) -> list[str]:
    """Return the zones, other than the source's, of roles that may write to the table; [] if the column has a zone."""
    if connection.dialect.name != "postgresql" or getattr(rows.updated_at.type, "timezone", False):
        return []
    quoted = connection.dialect.identifier_preparer.format_table(rows.table)
    found = [str(zone) for zone in await connection.scalars(_ZONES, {"place": quoted})]
    ours = rows.source.time_zone
    return sorted(zone for zone in found if zone != ours and not (zone in UTC and ours in UTC))


async def _newest_s(connection: AsyncConnection, rows: Rows, zone: str | None = None) -> float | None:
    """Return the age in s of the newest record if its time is read in this zone; None without records."""
    clock = rows.clock if zone is None else CLOCKS[connection.dialect.name](rows.updated_at, zone)
    source = rows.source
    ages = []
    for status in (source.stuck, source.becomes, source.failed):
        newest = sa.select(clock.age_s).where(rows.status == status, *rows.filter, clock.older_than(-YEAR_S))
        ages.append(await connection.scalar(newest.order_by(rows.updated_at.desc()).limit(1)))
    return min((age for age in ages if age is not None), default=None)


async def _ages_in_words(connection: AsyncConnection, rows: Rows, zones: Iterable[str]) -> str:
    """Return in words, for an error, how old the newest record is if its time is read in each of these zones."""
    parts = []
    for zone in (rows.source.time_zone, *zones):
        if (age_s := await _newest_s(connection, rows, zone)) is not None:
            how = "ahead of the database's clock" if age_s < 0 else "old"
            parts.append(f"{_long(abs(age_s))} {how} if it is in {zone}")
    return f": the newest record is {', and '.join(parts)}" if parts else ""


def _long(seconds: float) -> str:
    minutes = round(seconds / 60)
    hours = f"{minutes // 60} h " if minutes >= 60 else ""
    return f"{hours}{minutes % 60} min"
