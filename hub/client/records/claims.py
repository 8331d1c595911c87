"""What the loop does to the table: claiming, refreshing, and writing what became of a record.

A claim is fenced by time. Nobody else takes a record that was updated within the threshold; so it is ours while the
lease holds, which began, by our clock, before the database wrote its time, and ends before the threshold. Later, and
after a commit whose answer was lost, it is ours only as long as it bears the very stamp that we put there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from hub.client.exchange import now_s
from hub.client.records.counts import say
from hub.records.outcomes import Outcome, Parked, stamp
from hub.records.rows import READS, Rows

MOST_MARGIN_S = 30.0
MARGIN = 0.1  # of the threshold: for clocks that do not go equally fast, and for a handler to end when it is cancelled


@dataclass(frozen=True)
class Record:
    """A record as it was claimed: `record.id`, and its columns by name, `record["subject"]`."""

    id: Any
    fields: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


class Why(Enum):
    """Why a handler is cancelled."""

    LOST = "somebody else has changed the record"
    EXPIRED = "it took longer than the threshold allows"
    HALTED = "the loop was cancelled"


@dataclass(eq=False)
class Claim:
    """A record that is ours until the lease ends."""

    record: Record
    stamps: tuple[Any, ...]
    """What `updated_at` may be in the database, as far as we know; more than one after a commit in doubt."""
    ends_s: float
    unreadable: str | None = None
    exact: bool = False
    """Set when the lease alone proves nothing any more."""
    in_doubt: set[Any] = field(default_factory=set)
    """Statuses that were committed, and no answer came."""
    why: Why | None = None
    asked_s: float = 0.0
    handler: asyncio.Task[Any] | None = None

    @property
    def left_s(self) -> float:
        """How long the lease lasts; not above 0 when it is over."""
        return self.ends_s - now_s()

    def stop(self, why: Why) -> None:
        """Cancel its handler; the first reason counts."""
        if self.why is None:
            self.why = why
            self.insist()

    def insist(self) -> None:
        """Cancel its handler, perhaps again."""
        self.asked_s = now_s()
        if self.handler is not None:
            self.handler.cancel()

    def parked(self, outcome: Outcome) -> Parked:
        """The outcome as it is kept elsewhere."""
        return Parked(str(self.record.id), self.stamps, outcome)


class Claims:
    """The claims of one loop on one table."""

    def __init__(self, engine: AsyncEngine, rows: Rows) -> None:
        source = rows.source
        self.engine = engine
        self.rows = rows
        self.lease_s = source.threshold_s - min(MOST_MARGIN_S, source.threshold_s * MARGIN)
        self._stamp = stamp(rows)
        self._stuck = rows.status_is(source.stuck)

    async def ready(self) -> bool:
        """Whether there is something to claim; in SQLite this holds nobody up, and claiming does."""
        query = sa.select(self.rows.id).where(self.rows.status_is(self.rows.source.becomes)).limit(1)
        async with self._reading() as connection:
            return (await connection.execute(query)).first() is not None

    async def take(self, limit: int) -> list[Claim]:
        """Claim up to so many records, those that were updated longest ago first, in one transaction."""
        rows, source = self.rows, self.rows.source
        ready = rows.status_is(source.becomes)
        first = sa.select(rows.id, self._stamp).where(ready).order_by(rows.updated_at).limit(limit)
        ends_s = now_s() + self.lease_s
        async with self.engine.begin() as connection:
            before = await _pairs(connection, first.with_for_update(skip_locked=True))
            if not before:
                return []
            if await self._set(connection, rows.id.in_(before), ready, status=source.stuck) != len(before):
                raise TimeoutError("somebody else claims some of these records at this moment")
            taken = await _pairs(connection, self._those(before))
            # A stamp that was there before, on a column of few digits, would mark two claims alike: next time then.
            if alike := [key for key, mark in taken.items() if mark == before.get(key)]:
                await self._set(connection, rows.id.in_(alike), self._stuck, status=source.becomes)
                say(logging.INFO, "not claimed: the time of the update stays as it was", source=source.name, ids=alike)
            fields = await self._read(connection, [key for key in taken if key not in alike])
        claims = []
        for key, found in fields.items():
            unreadable = repr(found) if isinstance(found, Exception) else None
            record = Record(key, {} if isinstance(found, Exception) else found)
            claims.append(Claim(record, (taken[key],), ends_s, unreadable))
        return claims

    async def refresh(self, claims: Iterable[Claim]) -> list[Claim]:
        """Have the leases of these begin anew, in one transaction; returns those that are lost.

        What somebody has locked is left alone, and keeps its lease as it is: it is the handler as a rule, who has
        changed the record and not committed it yet, and nobody can take it as long as he has not.
        """
        held = {claim.record.id: claim for claim in claims}
        ends_s = now_s() + self.lease_s
        async with self.engine.begin() as connection:
            seen = await _pairs(connection, self._those(held).with_for_update(skip_locked=True))
            # With the record locked: whatever held us up until now, if the lease still holds nobody else had it.
            ours = [key for key, mark in seen.items() if held[key].left_s > 0 or mark in held[key].stamps]
            fresh: dict[Any, Any] = {}
            if ours:
                await self._set(connection, self.rows.id.in_(ours), self._stuck)
                fresh = await _pairs(connection, self._those(ours))
                for key, mark in fresh.items():
                    held[key].stamps = (seen[key], mark)
            locked = await _pairs(connection, self._those(held.keys() - seen.keys()))
        for key, mark in fresh.items():
            held[key].stamps, held[key].ends_s = (mark,), ends_s
        return [claim for key, claim in held.items() if key not in fresh and key not in locked]

    async def finish(self, session: AsyncSession, claim: Claim, outcome: Outcome) -> bool:
        """Make the outcome part of what the handler has begun in its session, and commit both; False: it is not ours.

        A handler that has deleted the record, or has given it another status, has decided itself, and that stands.
        """
        change = sa.update(self.rows.table).where(self._one(claim), self._stuck).values(outcome.change(self.rows))
        changed: Any = await session.execute(change)
        ours = bool(changed.rowcount) or await self._is_ours(claim)
        if not ours or claim.left_s <= 0:  # looked at with the record locked, as above
            await session.rollback()
            return False
        claim.exact = True
        claim.in_doubt.add(outcome.status)
        await session.commit()
        return True

    async def write(self, session: AsyncSession, claim: Claim, outcome: Outcome) -> Any:
        """Write an outcome in a transaction of its own; returns the status the record has now, None if it is gone."""
        guard = [self._one(claim), self._stuck]
        if claim.exact or claim.left_s <= 0:
            guard.append(self._stamp.in_(claim.stamps))
        marks = (await session.execute(sa.select(self._stamp).where(*guard).with_for_update())).scalars().all()
        if not marks or (claim.left_s <= 0 and marks[0] not in claim.stamps):
            found = (await session.execute(sa.select(self.rows.status).where(self._one(claim)))).scalars().first()
            await session.rollback()
            return found
        claim.stamps = (marks[0],)
        # Said again, for not every session has locked the record by looking at it.
        guard = [self._one(claim), self._stuck, self._stamp == marks[0]]
        change = sa.update(self.rows.table).where(*guard).values(outcome.change(self.rows))
        changed: Any = await session.execute(change)
        if not changed.rowcount:
            await session.rollback()
            raise TimeoutError("the record was changed at that moment")
        claim.exact = True
        claim.in_doubt.add(outcome.status)
        await session.commit()
        return outcome.status

    async def _is_ours(self, claim: Claim) -> bool:
        """Whether everybody but the handler's own transaction still sees the record as ours."""
        async with self._reading() as connection:
            return bool(await _pairs(connection, self._those([claim.record.id])))

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        async with self.engine.connect() as connection:
            yield await connection.execution_options(**{READS: True})

    async def _set(self, connection: AsyncConnection, *guard: sa.ColumnElement[bool], status: Any = None) -> int:
        rows = self.rows
        change = {rows.updated_at.name: rows.now} | ({} if status is None else {rows.status.name: status})
        return (await connection.execute(sa.update(rows.table).where(*guard).values(change))).rowcount

    def _those(self, ids: Iterable[Any]) -> sa.Select[Any]:
        return sa.select(self.rows.id, self._stamp).where(self.rows.id.in_(list(ids)), self._stuck)

    def _one(self, claim: Claim) -> sa.ColumnElement[bool]:
        found: sa.ColumnElement[bool] = self.rows.id == claim.record.id
        return found

    async def _read(self, connection: AsyncConnection, ids: list[Any]) -> dict[Any, Mapping[str, Any] | Exception]:
        """All columns, or why a record has something in them that cannot be read: the others are not to wait for it."""
        try:
            return await self._fields(connection, self.rows.id.in_(ids))
        except sa.exc.SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001 - handed on: it is why this record fails
            if len(ids) == 1:
                return {ids[0]: error}
        found: dict[Any, Mapping[str, Any] | Exception] = {}
        for each in ids:
            found |= await self._read(connection, [each])
        return found

    async def _fields(self, connection: AsyncConnection, which: sa.ColumnElement[bool]) -> dict[Any, Any]:
        name = self.rows.id.name
        found = (await connection.execute(sa.select(self.rows.table).where(which))).mappings().all()
        return {each[name]: dict(each) for each in found}


async def _pairs(connection: AsyncConnection, query: sa.Select[Any]) -> dict[Any, Any]:
    return {each[0]: each[1] for each in await connection.execute(query)}
