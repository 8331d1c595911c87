"""The writes of the loop: claims, refreshes and outcomes.

A claim is fenced by time. No other worker takes a record that was updated within the threshold. The lease of a claim
begins, by this process's clock, before the database writes the time of the update, and ends before the threshold. While
the lease lasts, the record belongs to this loop. After the lease, and after a commit whose answer was lost, it belongs
to this loop only while its time of the last update is the value that this loop wrote, its stamp.
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
from hub.recovery.loop.counts import log_event
from hub.recovery.outcomes import Outcome, Parked, stamp
from hub.recovery.rows import Rows
from hub.retries import now_s

MOST_MARGIN_S = 30.0
AT_ONCE = 1000  # ids in one statement
MARGIN = 0.1  # the lease ends by this share of the threshold earlier, for drifting clocks and handlers that clean up


@dataclass(frozen=True)
class Record:
    """A claimed record, as handlers get it: `record.id`, and its columns by name, such as `record["subject"]`."""

    id: Any
    fields: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


class Unreached(Exception):
    """Raised when a handler's session does not see the claimed record, as if it were of another database."""


class Untaken(Exception):
    """Raised when the database left locked records unchanged without an error, so that they are not claimed."""


class Why(Enum):
    """The reasons to cancel a handler, each with its words for the log."""

    LOST = "somebody else has changed the record"
    EXPIRED = "it took longer than the threshold allows"
    HALTED = "the loop was cancelled"


@dataclass(eq=False)
class RecordClaim:
    """A claim of this loop on one record, with its lease, which ends at `ends_s`, and its handler.

    `unreadable` says why the record cannot be read, if it cannot. `why` says why the handler was cancelled, if it was.
    """

    record: Record
    stamps: tuple[Any, ...]
    """The possible values of `updated_at` in the database; more than one after a commit in doubt."""
    ends_s: float
    unreadable: str | None = None
    exact: bool = False
    """Whether the stamp must prove that the record is ours, because the lease alone no longer does."""
    in_doubt: set[Any] = field(default_factory=set)
    """The statuses that commits without an answer may have written; None stands for a deleted record."""
    why: Why | None = None
    asked_s: float = 0.0
    handler: asyncio.Task[Any] | None = None
    committed: bool = False
    """Whether the handler has committed something itself."""

    @property
    def at_work(self) -> bool:
        """Return whether the handler of this claim runs and was not cancelled."""
        return self.why is None and self.handler is not None and not self.handler.done()

    @property
    def left_s(self) -> float:
        """Return the seconds until the lease of this claim ends; 0 or less when it has ended."""
        return self.ends_s - now_s()

    def stop(self, why: Why) -> None:
        """Cancel the handler of this claim for this reason; a second call does nothing."""
        if self.why is None:
            self.why = why
            if why is Why.HALTED and self.handler is not None and self.handler.cancelling():
                self.asked_s = now_s()  # already cancelled with all tasks; a second time would end its clean-up
            else:
                self.insist()

    def insist(self) -> None:
        """Cancel the handler of this claim, even if it was cancelled before."""
        self.asked_s = now_s()
        if self.handler is not None:
            self.handler.cancel()

    def parked(self, outcome: Outcome) -> Parked:
        """Return the outcome with the id and the stamps of this claim, to be parked."""
        return Parked(str(self.record.id), self.stamps, outcome)


class Claims:
    """The statements by which one loop claims records of a table, renews its claims and writes their outcomes.

    A commit that got no answer may have claimed records; these are kept as `doubtful` until they are given back.
    """

    def __init__(self, engine: AsyncEngine, rows: Rows) -> None:
        source = rows.source
        self.engine = engine
        self.lease_s = source.threshold_s - min(MOST_MARGIN_S, source.threshold_s * MARGIN)
        self.tried: list[Any] = []
        """The ids of the latest attempt to claim."""
        self.doubtful: dict[Any, Any] = {}
        """Records without a handler that a commit without an answer may have claimed: id -> stamp."""
        self._warned = False
        self.use(rows)

    def use(self, rows: Rows) -> None:
        """Use `rows`, the columns of the table as read again, from now on, because the table may have changed."""
        self.rows = rows
        self._stamp = stamp(rows)
        # PostgreSQL has years beyond those of Python, so there the time is read as text.
        is_date = self.engine.dialect.name == "postgresql"
        self._time = sa.cast(rows.updated_at, sa.Text()) if is_date else self._stamp
        self._stuck = rows.status == rows.source.stuck
        self._ready = sa.and_(rows.status == rows.source.becomes, *rows.filter)

    async def ready(self, but: Collection[Any] = ()) -> bool:
        """Return whether there is a record to claim, except `but`; unlike a claim it takes no write lock in SQLite."""
        query = sa.select(self.rows.id).where(self._ready, *self._without(but)).limit(1)
        async with reading(self.engine) as connection:
            return (await connection.execute(query)).first() is not None

    async def take(self, limit: int, but: Collection[Any] = ()) -> list[RecordClaim]:
        """Claim up to `limit` records in one transaction, the longest not updated first; return the claims.

        Claims no record in `but`. Raises `SourceRefused` when a trigger writes another time into `updated_at`.
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
        """Give back the records of `doubtful` that this loop did claim; wait for a transaction that has them locked."""
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
        """Give back records whose stamp (time of the last update) did not change by the claim; return their ids."""
        after = await _pairs(connection, sa.select(self.rows.id, self._time).where(self.rows.named(before)))
        alike = [key for key, mark in after.items() if mark == before[key]]
        if alike:
            source = self.rows.source
            await self._set(connection, self.rows.named(alike), self._stuck, status=source.becomes)
            if not self._warned:
                self._warned = True
                why = f"a trigger keeps {source.updated_at_field}, or it holds too few digits"
                log_event(logging.WARNING, "records not claimed", source=source.name, ids=alike[:10], why=why)
        return alike

    async def _check_clock(self, connection: AsyncConnection, taken: list[Any], began_s: float) -> None:
        """Raise `SourceRefused` if a record looks stuck right after its claim: another worker would take it."""
        source = self.rows.source
        is_old = self.rows.clock.older_than(source.threshold_s)
        old = sa.select(self.rows.id).where(self.rows.named(taken), is_old).limit(1)
        if (await connection.execute(old)).first() is not None:
            if now_s() - began_s >= source.threshold_s:
                raise TimeoutError("claiming took longer than the threshold")
            why = f"it is {source.threshold_s:g} s old and more right after it was written; a trigger may set it"
            raise source.refused("updated_at_field", why)

    async def refresh(self, claims: Iterable[RecordClaim]) -> list[RecordClaim]:
        """Renew the leases of these claims in one transaction; return those whose record others changed or deleted.

        A locked record is not renewed and its claim is not returned: as a rule its own handler has changed the record
        and not committed yet, and no other worker can claim it until then.
        """
        held = {claim.record.id: claim for claim in claims}
        ends_s = now_s() + self.lease_s
        async with self.engine.begin() as connection:
            seen = await _pairs(connection, self._those(held).with_for_update(skip_locked=True, key_share=True))
            # The records are locked now. While the lease of a claim lasts, no other worker can have taken its record,
            # unless the handler of the claim has ended.
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
        """Commit the outcome together with the handler's writes; return False if this loop no longer has the record.

        If the handler deleted the record or gave it another status, that is its outcome. Raises `Unreached` when the
        session does not see the claimed record; nothing is written to the record then.
        """
        rows = self.rows
        change = sa.update(rows.table).where(self._one(claim), self._stuck).values(outcome.change(rows))
        changed: Any = await session.execute(change)
        ours = bool(changed.rowcount)
        status: Any = outcome.status
        if not ours:  # lock the record, so that reads inside and outside this transaction agree
            within = sa.select(rows.status, sa.case((self._stuck, 1), else_=0)).where(self._one(claim))
            found = (await session.execute(within.with_for_update(key_share=True))).first()
            status, stuck = found or (None, 0)
            ours = not stuck and await self._is(claim, self._stuck)
        if not ours and claim.committed:
            ours = await self._is(claim, self._decided)
        if not ours or claim.left_s <= 0:  # the lease must last while the record is locked
            await session.rollback()
            return False
        claim.exact = True
        claim.in_doubt.add(status)
        await session.commit()
        if not changed.rowcount:
            await self.check_reached(claim)
        return True

    async def check_reached(self, claim: RecordClaim) -> None:
        """Raise `Unreached` if a new connection sees the record as claimed, though the handler's session does not."""
        if await self._is(claim, self._stuck & self._stamp.in_(claim.stamps)):
            raise Unreached("the session of get_session does not reach the record")

    async def write(self, session: AsyncSession, claim: RecordClaim, outcome: Outcome) -> Any:
        """Write an outcome in a transaction of its own; return the status that the record has then, None if it is gone.

        When the database refuses the text of the error, a plainer text is tried, and at last no text.
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
        if claim.exact or claim.left_s <= 0 or claim.handler is None:  # only another program changes the stamp
            guard.append(self._stamp.in_(claim.stamps))
        look = sa.select(self._stamp).where(*guard).with_for_update(key_share=True)
        marks = (await session.execute(look)).scalars().all()
        if not marks or (claim.left_s <= 0 and marks[0] not in claim.stamps):
            found = (await session.execute(sa.select(self.rows.status).where(self._one(claim)))).scalars().first()
            await session.rollback()
            return found
        claim.stamps = (marks[0],)
        # The UPDATE checks again, because not every session locks a record by reading it.
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
        """Return whether the record fulfils the clause `what`, as read over a connection other than the handler's."""
        async with reading(self.engine) as connection:
            return bool(await _pairs(connection, self._those([claim.record.id], what)))

    async def _set(self, connection: AsyncConnection, *guard: sa.ColumnElement[bool], status: Any = None) -> int:
        rows = self.rows
        change = {rows.updated_at.name: rows.clock.now} | ({} if status is None else {rows.status.name: status})
        return (await connection.execute(sa.update(rows.table).where(*guard).values(change))).rowcount

    def _those(self, ids: Iterable[Any], what: sa.ColumnElement[bool] | None = None) -> sa.Select[Any]:
        what = self._stuck if what is None else what
        return sa.select(self.rows.id, self._stamp).where(self.rows.named(ids), what)

    def _without(self, ids: Iterable[Any]) -> list[sa.ColumnElement[bool]]:
        some = list(islice(ids, AT_ONCE))
        return [self.rows.id.not_in(some)] if some else []

    @property
    def _decided(self) -> sa.ColumnElement[bool]:
        """Return the clause for a status that is neither stuck nor ready: only a handler sets such a status."""
        return sa.and_(sa.not_(self._stuck), self.rows.status != self.rows.source.becomes)

    def _one(self, claim: RecordClaim) -> sa.ColumnElement[bool]:
        return self.rows.named([claim.record.id])

    async def _read(self, connection: AsyncConnection, ids: list[Any]) -> dict[Any, Mapping[str, Any] | Exception]:
        """Return the columns of these records by id; for an unreadable record its error instead."""
        try:
            query = sa.select(self.rows.table).where(self.rows.named(ids))
            records = (await connection.execute(query)).mappings().all()
            return {record[self.rows.id.name]: dict(record) for record in records}
        except sa.exc.SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001 - returned as the reason why this record fails
            if len(ids) == 1:
                return {ids[0]: error}
        found: dict[Any, Mapping[str, Any] | Exception] = {}
        for each in ids:
            found |= await self._read(connection, [each])
        return found


def _claim(key: Any, found: Mapping[str, Any] | Exception, mark: Any, ends_s: float) -> RecordClaim:
    if isinstance(found, Exception):
        return RecordClaim(Record(key, {}), (mark,), ends_s, repr(found))
    return RecordClaim(Record(key, found), (mark,), ends_s)


async def _pairs(connection: AsyncConnection, query: sa.Select[Any]) -> dict[Any, Any]:
    return {each[0]: each[1] for each in await connection.execute(query)}
