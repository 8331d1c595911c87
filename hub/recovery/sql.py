"""SqlRecords: the records of a source that are rows of a table in PostgreSQL, SQLite, MySQL or MariaDB."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.batched import batched
from hub.errors import HubError, RecordsUnavailable, SourceRefused
from hub.recovery.aside import Aside
from hub.recovery.engines import make_engine, reading
from hub.recovery.faults import is_away, translated_errors
from hub.recovery.models import Reset, SqlSource, Stuck
from hub.recovery.nominees import longest
from hub.recovery.outcomes import Outcomes, settle
from hub.recovery.rows import Rows
from hub.recovery.tables import check_unique, reflect
from hub.recovery.zones import check_newest

OPERATION_S = 45.0  # time limit of a call; a single statement has a shorter one
REFUSED_S = 15.0  # time limit of a reset that meets only records that the database refuses to change
TRIES = 100  # refused transactions while a batch is halved; its other records are tried last
FEW = 32  # records that are tried last, at a time
IDS_MAX = 1_000  # ids of a caller in one statement
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class SqlRecords:
    """The records of one SQL source. Making it raises `SourceRefused` for a URL of a database that is not known.

    With an index on (status, updated_at) every query of a pass is fast, however large the table is.
    """

    def __init__(self, source: SqlSource) -> None:
        self.engine = make_engine(source)
        self.source = source
        self._rows: Rows | None = None
        self._aside = Aside()

    async def rows(self) -> Rows:
        """Return the columns and clauses of the table, read from the database once, and again after an error."""
        async with self._bounded():
            return await self._current_rows()

    async def check(self) -> None:
        """Check that the table is as declared and may be read and written; change nothing; raise `SourceRefused`."""
        self._rows = None
        async with self._bounded():
            rows = await self._current_rows()
            async with self.engine.connect() as connection:
                await connection.execute(_choice(rows, None).limit(0))
                await connection.execute(_update(rows, []))
                unread = _unread(rows)
                odd = None if unread is None else (await connection.execute(unread)).first()
                await connection.rollback()
            if odd is not None:
                raise self.source.refused("updated_at_field", _no_time(rows, odd[0]))
            async with reading(self.engine) as connection:
                await check_newest(connection, rows)
                await check_unique(connection, rows)

    async def count(self) -> int:
        """Return how many records are stuck now."""
        async with self._bounded(), self._reading() as (rows, connection):
            asked = sa.select(sa.func.count()).select_from(rows.table).where(*_stuck(rows))
            return int((await connection.execute(asked)).scalar_one())

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """Return up to `limit` stuck records, the longest stuck first; `ids` and `older_than_s` narrow the search.

        Raises `ValueError` with a sentence for a text that cannot be an id of this table.
        """
        age_s = max(self.source.threshold_s, older_than_s or 0)
        found: list[Stuck] = []
        for wanted in await self._ids(ids, IDS_MAX):
            async with self._bounded(), self._reading() as (rows, connection):
                asked = _first(rows, wanted, age_s).limit(limit)
                counted = [] if rows.attempts is None else [sa.func.coalesce(rows.attempts, 0)]
                shown = asked.add_columns(rows.clock.age_s, rows.clock.at_s, *counted)
                found += [_shown(self.source, *row) for row in await connection.execute(shown)]
        return longest(limit, found)  # sorted here: SQLite sorts texts of several formats wrongly

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Reset one batch of stuck records, the longest stuck first, or the stuck records among `ids`.

        Records that the database refuses to change are left out, so that the others are reset. When no other record is
        left, the refusal is raised; later calls try these records again. Raises `ValueError` with a sentence for a text
        that cannot be an id of this table.
        """
        if ids is not None:
            return await self._reset_these(await self._ids(ids, min(self.source.batch_size, IDS_MAX)))
        try:
            async with self._bounded():
                done = await self._reset_next(await self._current_rows())
        except RecordsUnavailable:
            self._aside.end()
            raise
        except SourceRefused:  # the table may have changed, and with it the type of the ids that were left out
            self._aside = Aside()
            raise
        if not done.count:
            self._raise_refusal(self._aside)
        return done

    async def write_parked(self, outcomes: Outcomes) -> int:
        """Write parked outcomes into the table, up to a time limit; return how many were written."""
        rows = await self.rows()
        with self._translated():
            return await settle(self.engine, rows, outcomes)

    async def close(self) -> None:
        """Close the connections to the database."""
        await self.engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Run the block; raise its errors as errors of the hub, after which the table is read anew."""
        try:
            with translated_errors(self.source):
                yield
        except HubError:
            self._rows = None
            raise

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        """Run the block for `OPERATION_S` at most; raise its errors as errors of the hub."""
        with self._translated():
            async with asyncio.timeout(OPERATION_S):
                yield

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[tuple[Rows, AsyncConnection]]:
        rows = await self._current_rows()
        async with reading(self.engine) as connection:
            yield rows, connection

    async def _current_rows(self) -> Rows:
        if self._rows is None:
            self._rows = await reflect(self.engine, self.source)
        return self._rows

    async def _ids(self, texts: Sequence[str] | None, size: int) -> list[list[Any] | None]:
        """Return these texts as values of the id column, in lists of at most `size`; [None] for no texts."""
        if texts is None:
            return [None]
        rows = await self.rows()
        ids = list(dict.fromkeys(rows.to_id(text) for text in texts))
        return [list(some) for some in batched(ids, size)]

    async def _reset_these(self, parts: Sequence[list[Any] | None]) -> Reset:
        aside, done = Aside(), Reset()
        for part in parts:
            async with self._bounded():
                done += (await self._try(await self._current_rows(), part, aside))[1]
        if not done.count:
            self._raise_refusal(aside)
        return done

    async def _reset_next(self, rows: Rows) -> Reset:
        """Reset one batch of records that were not refused; if there are none, try the refused records once more."""
        aside, until = self._aside, time.monotonic() + REFUSED_S
        while time.monotonic() < until:
            found, done = await self._try(rows, None, aside, until, TRIES)
            if not done.count and (aside.full or not found):
                if not (part := aside.take(FEW)):
                    break
                _, done = await self._try(rows, part, aside, until)
            if done.count:
                return done
        return Reset()

    def _raise_refusal(self, aside: Aside) -> None:
        refusal, left = aside.end()
        with self._translated():
            if refusal is not None:
                raise refusal
            if left:
                some = "1 record as it was" if left == 1 else f"{left} records as they were"
                raise self.source.refused("table", f"the database left {some}")

    async def _try(
        self, rows: Rows, ids: list[Any] | None, aside: Aside, until: float = inf, tries: float = inf
    ) -> tuple[bool, Reset]:
        """Reset the stuck records among `ids`, or a batch; return whether there were any, and the result.

        When the database refuses a batch, its two halves are tried, and so on, until the faulty records are found.
        """
        parts, found, done = deque([ids]), False, Reset()
        while parts:
            part = parts.popleft()
            chosen, more, refusal = await self._transact(rows, part, aside)
            found, done = found or bool(chosen), done + more
            whole = chosen if part is None else part
            if refusal is None:
                aside.refuse(_unchanged(chosen, more), None)
            elif len(whole) == 1:
                aside.refuse(whole, refusal)
            else:
                tries -= 1
                parts.extend((whole[: len(whole) // 2], whole[len(whole) // 2 :]))
            if refusal is not None and (tries <= 0 or time.monotonic() >= until):
                aside.put_off([each for rest in parts for each in rest or ()], refusal)
                break
        return found, done

    async def _transact(
        self, rows: Rows, ids: list[Any] | None, aside: Aside
    ) -> tuple[list[Any], Reset, Exception | None]:
        """Reset in one transaction; return the ids of the chosen records, the result, and the refusal or None."""
        chosen: list[Any] = []
        try:
            async with self.engine.begin() as connection:
                chosen = list(await connection.execute(_choice(rows, ids, aside.ids if ids is None else ())))
                return _names(chosen), await _change(connection, rows, chosen), None
        except sa.exc.StatementError as error:
            if is_away(error) or not chosen:
                raise
            return _names(chosen), Reset(), error


def _names(chosen: list[Any]) -> list[Any]:
    """Return the first column of the rows, the ids, each once: the id column need not be unique."""
    return list(dict.fromkeys(row[0] for row in chosen))


def _unchanged(ids: list[Any], done: Reset) -> list[Any]:
    changed = {*done.reset, *done.failed}
    return [each for each in ids if str(each) not in changed]


def _first(rows: Rows, ids: list[Any] | None, age_s: float, but: Sequence[Any] = ()) -> sa.Select[Any]:
    """Return the query for the ids of records stuck for longer than `age_s`, the longest first, without `but`."""
    asked = sa.select(rows.id).where(*_stuck(rows, age_s)).order_by(rows.updated_at)
    if but:
        asked = asked.where(rows.id.not_in(_listed(rows, but)))
    return asked if ids is None else asked.where(rows.id.in_(_listed(rows, ids)))


def _listed(rows: Rows, ids: Sequence[Any]) -> sa.BindParameter[Any]:
    """Return the ids as a parameter for `IN`, of the type of the id column."""
    return sa.bindparam(None, list(ids), type_=rows.id.type, expanding=True)


def _stuck(rows: Rows, age_s: float | None = None) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the clauses for stuck records; a record whose id is NULL is left out, because it cannot be named."""
    source = rows.source
    older = rows.clock.older_than(source.threshold_s if age_s is None else age_s)
    clauses = rows.status == source.stuck, older, *rows.filter
    return (*clauses, rows.id.is_not(None)) if rows.id.nullable else clauses


def _shown(source: SqlSource, record: Any, age_s: float, at_s: float, attempts: int | None = None) -> Stuck:
    try:
        at = _1970 + timedelta(seconds=at_s)
    except OverflowError:
        at = datetime.min.replace(tzinfo=UTC)  # the year is out of the range of Python
    return Stuck(str(record), str(source.stuck), age_s, at, attempts)


def _unread(rows: Rows) -> sa.Select[Any] | None:
    """Return the query for a value in `updated_at` that is no time; None if the type of the column allows only times.

    SQLite stores any text there, MySQL dates with month 0. A record with such a value would never be found.
    """
    if rows.clock.is_time is None:
        return None
    held = sa.type_coerce(rows.updated_at, sa.types.NullType())
    odd = *rows.filter, rows.status == rows.source.stuck, rows.updated_at.is_not(None), sa.not_(rows.clock.is_time)
    return sa.select(held).where(*odd).limit(1)


def _no_time(rows: Rows, held: Any) -> str:
    name = rows.updated_at.name
    if isinstance(held, int | float):
        return f"{name!r} holds numbers such as {held}, and no times"
    if rows.source.url.startswith("sqlite"):
        return (
            f"{name!r} holds {str(held)[:40]!r}, which SQLite does not read as a time; write 2026-03-01 12:00:00+00:00"
        )
    return f"{name!r} holds {str(held)[:19]!r}, which is no time, so that its record is never found; write one, or NULL"


def _worn_out(rows: Rows) -> sa.ColumnElement[bool]:
    """Return the clause for records that were reset `max_attempts` times, and fail instead of one more reset."""
    return sa.func.coalesce(rows.attempts, 0) >= rows.source.max_attempts


def _choice(rows: Rows, ids: list[Any] | None, but: Sequence[Any] = ()) -> sa.Select[Any]:
    """Return the query that chooses and locks a batch; it skips rows that other transactions have locked."""
    chosen = _first(rows, ids, rows.source.threshold_s, but).limit(rows.source.batch_size)
    if rows.attempts is not None:
        chosen = chosen.add_columns(sa.case((_worn_out(rows), 1), else_=0))  # some databases have no booleans
    return chosen.with_for_update(skip_locked=True)


def _update(rows: Rows, ids: list[Any]) -> sa.Update:
    """Return the UPDATE that resets these ids, if they still have the stuck status and age."""
    source = rows.source
    becomes: Any = source.becomes
    values: list[tuple[Any, Any]] = [(rows.updated_at, rows.clock.now)]
    if rows.error is not None:
        values.append((rows.error, source.error_text))
    if rows.attempts is not None:
        worn_out, kind = _worn_out(rows), rows.status.type
        becomes = sa.case((worn_out, sa.literal(source.failed, kind)), else_=sa.literal(source.becomes, kind))
        count = sa.func.coalesce(rows.attempts, 0)
        values.append((rows.attempts, sa.case((worn_out, count), else_=count + 1)))
    # The status is set first: MySQL sets columns in turn, and the status depends on the count before its change.
    return (
        sa.update(rows.table)
        .where(rows.id.in_(_listed(rows, ids)), *_stuck(rows))
        .ordered_values((rows.status, becomes), *values)
    )


async def _change(connection: AsyncConnection, rows: Rows, chosen: list[Any]) -> Reset:
    if not chosen:
        return Reset()
    ids = [row[0] for row in chosen]
    change = _update(rows, ids)
    if rows.returning:
        changed = set((await connection.scalars(change.returning(rows.id))).all())
    else:
        await connection.execute(change)
        changed = set(ids)  # the rows are locked, so all of them were changed
    worn_out = {row[0] for row in chosen if rows.attempts is not None and row[1]}
    return Reset(
        reset=tuple(str(each) for each in ids if each in changed - worn_out),
        failed=tuple(str(each) for each in ids if each in changed & worn_out),
    )
