"""The writes of the loop: claims, refreshes and outcomes.

A claim is fenced by time. No other worker takes a record that was updated within the threshold, so the record is ours
while the lease holds: it began, by our clock, before the database wrote its time, and ends before the threshold. After
the lease, and after a commit whose answer was lost, the record is ours only while it has the stamp that we wrote.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from hub.recovery.engines import reading
from hub.recovery.faults import is_away
from hub.recovery.loop.counts import say
from hub.recovery.outcomes import Outcome, Parked, stamp
from hub.recovery.rows import Rows
from hub.retries import now_s

MOST_MARGIN_S = 30.0
AT_ONCE = 1000  # ids in one statement
MARGIN = 0.1  # of the threshold: for the drift of clocks, and for a cancelled handler to end


@dataclass(frozen=True)
class Record:
    """A claimed record: `record.id`, and its columns by name, `record["subject"]`."""

    id: Any
    fields: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


class Unreached(Exception):
    """Raised when a session does not reach the claimed record."""


class Untaken(Exception):
    """Raised when locked records stayed unchanged without an error."""


class Why(Enum):
    """The reasons to cancel a handler."""

    LOST = "somebody else has changed the record"
    EXPIRED = "it took longer than the threshold allows"
    HALTED = "the loop was cancelled"


@dataclass(eq=False)
class RecordClaim:
    """A record that is ours until the lease ends."""

    record: Record
    stamps: tuple[Any, ...]
    """The possible values of `updated_at` in the database; more than one after a commit in doubt."""
    ends_s: float
    unreadable: str | None = None
    exact: bool = False
    """Set when the lease alone no longer proves ownership."""
    in_doubt: set[Any] = field(default_factory=set)
    """Statuses of commits without an answer; None for a deleted record."""
    why: Why | None = None
    asked_s: float = 0.0
    handler: asyncio.Task[Any] | None = None
    committed: bool = False
    """Set when the handler has committed something itself."""

    @property
    def at_work(self) -> bool:
        """Return whether the handler runs and was not told to end."""
        return self.why is None and self.handler is not None and not self.handler.done()

    @property
    def left_s(self) -> float:
        """Return the seconds left of the lease; 0 or less when it is over."""
        return self.ends_s - now_s()

    def stop(self, why: Why) -> None:
        """Cancel the handler; the first reason counts."""
        if self.why is None:
            self.why = why
            if why is Why.HALTED and self.handler is not None and self.handler.cancelling():
                self.asked_s = now_s()  # everything is cancelled: not again while the handler cleans up
            else:
                self.insist()

    def insist(self) -> None:
        """Cancel the handler, perhaps again."""
        self.asked_s = now_s()
        if self.handler is not None:
            self.handler.cancel()

    def parked(self, outcome: Outcome) -> Parked:
        """Return the outcome as it is parked."""
        return Parked(str(self.record.id), self.stamps, outcome)


class Claims:
    """The claims of one loop on one table."""

    def __init__(self, engine: AsyncEngine, rows: Rows) -> None:
        source = rows.source
        self.engine = engine
        self.lease_s = source.threshold_s - min(MOST_MARGIN_S, source.threshold_s * MARGIN)
        self.tried: list[Any] = []
        """The ids of the latest attempt to claim."""
        self.doubtful: dict[Any, Any] = {}
        """Records that may be claimed, for the commit got no answer, and have no handler: id -> stamp."""
        self._warned = False
        self.use(rows)

    def use(self, rows: Rows) -> None:
        """Go on with these rows after the table has changed."""
        self.rows = rows
        self._stamp = stamp(rows)
        # As text in PostgreSQL, which has years beyond those of Python.
        is_date = self.engine.dialect.name == "postgresql"
        self._time = sa.cast(rows.updated_at, sa.Text()) if is_date else self._stamp
        self._stuck = rows.status_is(rows.source.stuck)
        self._ready = sa.and_(rows.status_is(rows.source.becomes), *rows.filter)

    async def ready(self, but: Collection[Any] = ()) -> bool:
        """Return whether there is something to claim; unlike a claim it takes no write lock in SQLite."""
        query = sa.select(self.rows.id).where(self._ready, *self._without(but)).limit(1)
        async with reading(self.engine) as connection:
            return (await connection.execute(query)).first() is not None

    async def take(self, limit: int, but: Collection[Any] = ()) -> list[RecordClaim]:
        """Claim up to so many records, those that were updated longest ago first, in one transaction.

        None of those in `but`. Raises `SourceRefused` when something else writes another time into `updated_at`.
        """
        rows, self.tried = self.rows, []
        those = self._ready, *self._without(but)
        first = sa.select(rows.id, self._time).where(*those).order_by(rows.updated_at).limit(limit)
        began_s = now_s()
        async with self.engine.begin() as connection:
            locked = await _pairs(connection, first.with_for_update(skip_locked=True, key_share=True))
            before = {key: mark for key, mark in locked.items() if key not in but}
            self.tried = list(before)
            if not before:
                return []
            changed = await self._set(connection, rows.named(before), self._ready, status=rows.source.stuck)
            if changed != len(before):
                why = "somebody else claims some of these records at this moment, or a trigger keeps them as they are"
                raise Untaken(why)
            alike = await self._alike(connection, before)
            taken = [key for key in before if key not in alike]
            await self._check_clock(connection, taken, began_s)
            stamps = await _pairs(connection, self._those(taken))
            fields = await self._read(connection, taken)
            self.doubtful |= stamps
        for key in stamps:
            del self.doubtful[key]
        return [_claim(key, found, stamps[key], began_s + self.lease_s) for key, found in fields.items()]

    async def give_back_doubtful(self) -> None:
        """Give back the records in doubt that are ours after all; waits for a transaction that is still on its way."""
        async with self.engine.begin() as connection:
            some = list(islice(self.doubtful, AT_ONCE))
            those = sa.select(self.rows.id, self._stamp).where(self.rows.named(some))
            found = await _pairs(connection, those.with_for_update(key_share=True))
            for key in (key for key, mark in found.items() if mark == self.doubtful[key]):
                ours = self.rows.named([key]), self._stuck, self._stamp == self.doubtful[key]
                await self._set(connection, *ours, status=self.rows.source.becomes)
        for key in some:
            del self.doubtful[key]

    async def _alike(self, connection: AsyncConnection, before: Mapping[Any, Any]) -> list[Any]:
        """Give back records whose stamp did not change, which would mark two claims alike; return their ids."""
        after = await _pairs(connection, sa.select(self.rows.id, self._time).where(self.rows.named(before)))
        alike = [key for key, mark in after.items() if mark == before[key]]
        if alike:
            source = self.rows.source
            await self._set(connection, self.rows.named(alike), self._stuck, status=source.becomes)
            if not self._warned:
                self._warned = True
                why = f"a trigger keeps {source.updated_at_field}, or it holds too few digits"
                say(logging.WARNING, "records not claimed", source=source.name, ids=alike[:10], why=why)
        return alike

    async def _check_clock(self, connection: AsyncConnection, taken: list[Any], began_s: float) -> None:
        """Refuse a clock by which a fresh claim is stuck already: another worker would take the record at once."""
        source = self.rows.source
        old = sa.select(self.rows.id).where(self.rows.named(taken), self.rows.older_than(source.threshold_s)).limit(1)
        if (await connection.execute(old)).first() is not None:
            if now_s() - began_s >= source.threshold_s:
                raise TimeoutError("claiming took longer than the threshold")
            why = f"it is {source.threshold_s:g} s old and more right after it was written; a trigger may set it"
            raise source.refused("updated_at_field", why)

    async def refresh(self, claims: Iterable[RecordClaim]) -> list[RecordClaim]:
        """Renew the leases of these claims in one transaction; return the lost ones: ready again, or gone.

        A locked record is left alone and keeps its lease: as a rule its own handler has changed it and not committed
        yet, and no other worker can take it until then.
        """
        held = {claim.record.id: claim for claim in claims}
        ends_s = now_s() + self.lease_s
        async with self.engine.begin() as connection:
            seen = await _pairs(connection, self._those(held).with_for_update(skip_locked=True, key_share=True))
            # The record is locked now. If the lease still holds, no other worker had the record, unless its handler has
            # ended: then it may have been claimed again.
            work = {key: mark for key, mark in seen.items() if held[key].at_work}
            ours = [key for key, mark in work.items() if held[key].left_s > 0 or mark in held[key].stamps]
            fresh: dict[Any, Any] = {}
            if ours:
                await self._set(connection, self.rows.named(ours), self._stuck)
                fresh = await _pairs(connection, self._those(ours))
                for key, mark in fresh.items():
                    held[key].stamps = (seen[key], mark)
            kept = await _pairs(connection, self._those(held.keys() - seen.keys(), self._decided | self._stuck))
        for key, mark in fresh.items():
            held[key].stamps, held[key].ends_s = (mark,), ends_s
        return [claim for key, claim in held.items() if key not in fresh and key not in kept]

    async def finish(self, session: AsyncSession, claim: RecordClaim, outcome: Outcome) -> bool:
        """Commit the outcome with what the handler wrote in its session; return False when the record is not ours.

        A handler that deleted the record or gave it another status has decided itself. Raises `Unreached` when the
        session does not reach the record: nothing was written then.
        """
        rows = self.rows
        change = sa.update(rows.table).where(self._one(claim), self._stuck).values(outcome.change(rows))
        changed: Any = await session.execute(change)
        ours = bool(changed.rowcount)
        status: Any = outcome.status
        if not ours:  # the reads inside and outside agree only with the record locked
            within = sa.select(rows.status, sa.case((self._stuck, 1), else_=0)).where(self._one(claim))
            found = (await session.execute(within.with_for_update(key_share=True))).first()
            status, stuck = found or (None, 0)
            ours = not stuck and await self._is(claim, self._stuck)
        if not ours and claim.committed:
            ours = await self._is(claim, self._decided)
        if not ours or claim.left_s <= 0:  # read with the record locked, as above
            await session.rollback()
            return False
        claim.exact = True
        claim.in_doubt.add(status)
        await session.commit()
        if not changed.rowcount:
            await self.check_reached(claim)
        return True

    async def check_reached(self, claim: RecordClaim) -> None:
        """Raise `Unreached` when others still see the record as it was claimed, though the session does not."""
        if await self._is(claim, self._stuck & self._stamp.in_(claim.stamps)):
            raise Unreached("the session of get_session does not reach the record")

    async def write(self, session: AsyncSession, claim: RecordClaim, outcome: Outcome) -> Any:
        """Write an outcome in its own transaction; return the status of the record now, None if it is gone.

        Where the database refuses the text of the reason, a plainer one is written, in the end none.
        """
        refusal: Exception | None = None
        for plainer in outcome.with_plainer_reasons():
            try:
                return await self._write(session, claim, plainer)
            except sa.exc.StatementError as error:
                if is_away(error):
                    raise
                refusal = refusal or error
                await session.rollback()
        assert refusal is not None
        raise refusal

    async def _write(self, session: AsyncSession, claim: RecordClaim, outcome: Outcome) -> Any:
        guard = [self._one(claim), self._stuck]
        if claim.exact or claim.left_s <= 0 or claim.handler is None:  # without a handler, only others touch it
            guard.append(self._stamp.in_(claim.stamps))
        look = sa.select(self._stamp).where(*guard).with_for_update(key_share=True)
        marks = (await session.execute(look)).scalars().all()
        if not marks or (claim.left_s <= 0 and marks[0] not in claim.stamps):
            found = (await session.execute(sa.select(self.rows.status).where(self._one(claim)))).scalars().first()
            await session.rollback()
            return found
        claim.stamps = (marks[0],)
        # Checked again, because not every session locks a record by reading it.
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

    async def _is(self, claim: RecordClaim, what: sa.ColumnElement[bool]) -> bool:
        """Return whether the record looks like that from outside the handler's transaction."""
        async with reading(self.engine) as connection:
            return bool(await _pairs(connection, self._those([claim.record.id], what)))

    async def _set(self, connection: AsyncConnection, *guard: sa.ColumnElement[bool], status: Any = None) -> int:
        rows = self.rows
        change = {rows.updated_at.name: rows.now} | ({} if status is None else {rows.status.name: status})
        return (await connection.execute(sa.update(rows.table).where(*guard).values(change))).rowcount

    def _those(self, ids: Iterable[Any], what: sa.ColumnElement[bool] | None = None) -> sa.Select[Any]:
        what = self._stuck if what is None else what
        return sa.select(self.rows.id, self._stamp).where(self.rows.named(ids), what)

    def _without(self, ids: Iterable[Any]) -> list[sa.ColumnElement[bool]]:
        some = list(islice(ids, AT_ONCE))
        return [self.rows.id.not_in(some)] if some else []

    @property
    def _decided(self) -> sa.ColumnElement[bool]:
        """Return the clause for a status that only a handler gives: neither stuck nor ready."""
        return sa.and_(sa.not_(self._stuck), sa.not_(self.rows.status_is(self.rows.source.becomes)))

    def _one(self, claim: RecordClaim) -> sa.ColumnElement[bool]:
        return self.rows.named([claim.record.id])

    async def _read(self, connection: AsyncConnection, ids: list[Any]) -> dict[Any, Mapping[str, Any] | Exception]:
        """Return all columns by id, or the error of an unreadable record, so that the others do not wait for it."""
        try:
            return await self._fields(connection, self.rows.named(ids))
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


def _claim(key: Any, found: Mapping[str, Any] | Exception, mark: Any, ends_s: float) -> RecordClaim:
    if isinstance(found, Exception):
        return RecordClaim(Record(key, {}), (mark,), ends_s, repr(found))
    return RecordClaim(Record(key, found), (mark,), ends_s)


async def _pairs(connection: AsyncConnection, query: sa.Select[Any]) -> dict[Any, Any]:
    return {each[0]: each[1] for each in await connection.execute(query)}
