"""Records that are rows of a table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import DATETIME
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.errors import HubError
from hub.records.faults import is_away, spoken
from hub.records.models import Reset, SqlSource, Stuck
from hub.records.outcomes import Outcomes, settle
from hub.records.rows import READS, Rows, make_engine, reflect

OPERATION_S = 45.0  # of a whole call, whatever a driver waits for; a statement has less
_MSSQL_LOCKS = "WITH (UPDLOCK, READPAST, ROWLOCK)"  # how it says FOR UPDATE SKIP LOCKED
_ORACLE_MOST = 1000  # values that it takes in a list
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class SqlRecords:
    """The rows of one source, in any database whose clock is known; raises `SourceRefused` when it names none.

    What a pass asks is answered by an index on (status, updated_at), whatever else the table holds.
    """

    def __init__(self, source: SqlSource) -> None:
        self.engine = make_engine(source)
        self._source = source
        self._rows: Rows | None = None

    @property
    def source(self) -> SqlSource:
        """As it was declared."""
        return self._source

    async def rows(self) -> Rows:
        """The table as it was found, looked at once, and again after anything failed."""
        async with self._bounded():
            return await self._found()

    async def check(self) -> None:
        """Look whether the table is as declared and may be read and written; changes nothing."""
        self._rows = None
        async with self._bounded():
            rows = await self._found()
            async with self.engine.connect() as connection:
                await connection.execute(_choice(rows, None).limit(0))
                await connection.execute(_update(rows, []))
                odd = _numbers(rows)
                number = None if odd is None else await connection.scalar(odd)
                await connection.rollback()
            if number is not None:
                name = rows.updated_at.name
                raise self._source.refused("updated_at_field", f"{name!r} holds numbers such as {number}, and no times")

    async def count(self) -> int:
        """How many are stuck now."""
        async with self._bounded(), self._reading() as (rows, connection):
            asked = sa.select(sa.func.count()).select_from(rows.table).where(*_stuck(rows))
            return int((await connection.execute(asked)).scalar_one())

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """The first of those that are stuck, the longest first; perhaps only of these ids, or of a greater age.

        Raises `ValueError`, in a sentence, for a text that is no id here.
        """
        wanted = await self._ids(ids)
        async with self._bounded(), self._reading() as (rows, connection):
            asked = _first(rows, wanted, max(self._source.threshold_s, older_than_s or 0)).limit(limit)
            shown = asked.add_columns(rows.age_s, rows.at_s, *_counted(rows))
            found = [_shown(self._source, *row) for row in await connection.execute(shown)]
        return sorted(found, key=_age_s, reverse=True)  # texts of several shapes sort by time only nearly

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Bring one batch back, the longest stuck first, or those of these ids (at most a batch) that are stuck.

        Records that the database refuses to change stay as they are and do not keep the others from being reset; the
        refusal is raised once nothing else is left. Raises `ValueError`, in a sentence, for a text that is no id here.
        """
        wanted = await self._ids(ids)
        async with self._bounded():
            return await self._reset(await self._found(), wanted)

    async def write_parked(self, outcomes: Outcomes) -> int:
        """Write the outcomes that wait for this database; how many."""
        rows = await self.rows()
        async with self._bounded():
            return await settle(self.engine, rows, outcomes)

    async def close(self) -> None:
        """Let go of connections."""
        await self.engine.dispose()

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        """Bound what is done inside; whatever fails there is said in a sentence, and the table looked at again."""
        try:
            with spoken(self._source):
                async with asyncio.timeout(OPERATION_S):
                    yield
        except HubError:
            self._rows = None
            raise

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[tuple[Rows, AsyncConnection]]:
        rows = await self._found()
        async with self.engine.connect() as connection:
            await connection.execution_options(**{READS: True})
            yield rows, connection

    async def _found(self) -> Rows:
        if self._rows is None:
            self._rows = await reflect(self.engine, self._source)
        return self._rows

    async def _ids(self, texts: Sequence[str] | None) -> list[Any] | None:
        if texts is None:
            return None
        rows = await self.rows()
        return [rows.to_id(text) for text in texts]

    async def _reset(self, rows: Rows, ids: list[Any] | None) -> Reset:
        chosen: list[Any] = []
        try:
            async with self.engine.begin() as connection:
                chosen = await _lock(connection, rows, ids)
                return await _change(connection, rows, chosen)
        except sa.exc.DBAPIError as error:
            if is_away(error) or len(chosen) < 2:
                raise
            return await self._reset_halves(rows, [row[0] for row in chosen], error)

    async def _reset_halves(self, rows: Rows, ids: list[Any], refusal: sa.exc.DBAPIError) -> Reset:
        """One bad record is found in a few steps; raises when all of them are bad."""
        done = Reset()
        for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
            try:
                more = await self._reset(rows, half)
            except sa.exc.DBAPIError as error:
                if is_away(error):
                    raise
            else:
                done = Reset(done.reset + more.reset, done.failed + more.failed)
        if not done.count:
            raise refusal
        return done


def _first(rows: Rows, ids: list[Any] | None, age_s: float) -> sa.Select[Any]:
    """Ids of those that are stuck for longer than this, the longest first."""
    asked = sa.select(rows.id).where(*_stuck(rows, age_s)).order_by(rows.updated_at)
    return asked if ids is None else asked.where(rows.id.in_(ids))


def _stuck(rows: Rows, age_s: float | None = None) -> tuple[sa.ColumnElement[bool], ...]:
    source = rows.source
    return rows.status_is(source.stuck), rows.older_than(source.threshold_s if age_s is None else age_s)


def _counted(rows: Rows) -> list[sa.ColumnElement[Any]]:
    return [] if rows.attempts is None else [sa.func.coalesce(rows.attempts, 0)]


def _shown(source: SqlSource, record: Any, age_s: float, at_s: float, attempts: int | None = None) -> Stuck:
    try:
        at = _1970 + timedelta(seconds=at_s)
    except OverflowError:
        at = datetime.min.replace(tzinfo=UTC)  # a year that Python does not have
    return Stuck(str(record), str(source.stuck), age_s, at, attempts)


def _numbers(rows: Rows) -> sa.Select[Any] | None:
    """In SQLite a column of times may hold numbers, and records with those would never be found."""
    if not isinstance(rows.updated_at.type, DATETIME):
        return None
    held = sa.type_coerce(rows.updated_at, sa.types.NullType())
    number = sa.func.typeof(rows.updated_at).in_(("integer", "real"))
    return sa.select(held).where(rows.status_is(rows.source.stuck), number).limit(1)


def _age_s(stuck: Stuck) -> float:
    return stuck.age_s


def _worn_out(rows: Rows) -> sa.ColumnElement[bool]:
    """Whether a record was brought back as often as it may be."""
    return sa.func.coalesce(rows.attempts, 0) >= rows.source.max_attempts


def _choice(rows: Rows, ids: list[Any] | None) -> sa.Select[Any]:
    """A batch, locked where the database can; what somebody else has locked is theirs."""
    chosen = _first(rows, ids, rows.source.threshold_s).limit(rows.source.batch_size)
    if rows.attempts is not None:
        chosen = chosen.add_columns(sa.case((_worn_out(rows), 1), else_=0))  # not every database has truth values
    return chosen.with_hint(rows.table, _MSSQL_LOCKS, "mssql").with_for_update(skip_locked=True)


async def _lock(connection: AsyncConnection, rows: Rows, ids: list[Any] | None) -> list[Any]:
    choice = _choice(rows, ids)
    if connection.dialect.name == "oracle":  # it locks no first rows of a sorted choice: find them, then lock those
        first = _first(rows, ids, rows.source.threshold_s).limit(min(rows.source.batch_size, _ORACLE_MOST))
        found = list(await connection.scalars(first))
        choice = _choice(rows, found).order_by(None).limit(None)
    return list(await connection.execute(choice))


def _update(rows: Rows, ids: list[Any]) -> sa.Update:
    """The one guarded change of a batch: status and age are looked at again."""
    source = rows.source
    becomes: Any = source.becomes
    values: list[tuple[Any, Any]] = [(rows.updated_at, rows.now)]
    if rows.error is not None:
        values.append((rows.error, source.error_text))
    if rows.attempts is not None:
        worn_out, kind = _worn_out(rows), rows.status.type
        becomes = sa.case((worn_out, sa.literal(source.failed, kind)), else_=sa.literal(source.becomes, kind))
        count = sa.func.coalesce(rows.attempts, 0)
        values.append((rows.attempts, sa.case((worn_out, count), else_=count + 1)))
    # The status first: MySQL would decide by a count that it has changed already.
    return sa.update(rows.table).where(rows.id.in_(ids), *_stuck(rows)).ordered_values((rows.status, becomes), *values)


async def _change(connection: AsyncConnection, rows: Rows, chosen: list[Any]) -> Reset:
    if not chosen:
        return Reset()
    ids = [row[0] for row in chosen]
    change = _update(rows, ids)
    if rows.returning:
        changed = set((await connection.scalars(change.returning(rows.id))).all())
    else:
        await connection.execute(change)
        changed = set(ids)  # they are locked
    worn_out = {row[0] for row in chosen if rows.attempts is not None and row[1]}
    return Reset(
        reset=tuple(str(each) for each in ids if each in changed - worn_out),
        failed=tuple(str(each) for each in ids if each in changed & worn_out),
    )
