"""The work on a claimed record: get a session, call the handler, write the outcome."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from hub.recovery.faults import is_away, may_pass
from hub.recovery.loop.claims import Claims, Record, RecordClaim, Unreached, Why
from hub.recovery.loop.counts import Counts, log_event, reason
from hub.recovery.loop.sessions import Breaker, DatabaseSessions, HeldSession, SessionRefused, SessionTrouble
from hub.recovery.loop.shutdown import Interrupted, Shutdown
from hub.recovery.outcomes import Outcome, Outcomes
from hub.retries import now_s, pause_s

Handler = Callable[[Record, AsyncSession], Awaitable[Mapping[str, Any] | None]]

FURTHER_TRIES = 3
ROUNDS = 1000  # records whose further tries are remembered
WRITE_S = 30.0  # time limit of one statement or commit, for a database that hangs
PARK_S = 10.0
INSIST_S = 5.0  # a cancelled handler may clean up for this long before it is cancelled again
LOOK_S = 1.0  # longest sleep between looks at a lease: sleeps do not count the time a machine was suspended
LEAST_SHARE = 0.5  # share of the lease that must be left for a handler to begin


@dataclass(eq=False)
class Items:
    """The claimed records of a loop and the work on them. `work` never raises, so that no record ends the loop."""

    claims: Claims
    handler: Handler
    done: str | int
    sessions: DatabaseSessions
    own: DatabaseSessions
    """Sessions of the loop itself, for outcomes that no handler's session can write."""
    breaker: Breaker
    shutdown: Shutdown
    counts: Counts
    outcomes: Outcomes | None
    concurrency: int
    fail_unserved: bool

    def __post_init__(self) -> None:
        self.claimed: dict[Any, RecordClaim] = {}
        """All claims whose outcome is not written yet: a second claim of a record would be taken for the first."""
        self.parked_some = True  # an earlier run may have parked outcomes
        self.committed = asyncio.Event()
        """Set when a handler has committed something itself."""
        self._rounds: dict[Any, int] = {}
        self._source = source = self.claims.rows.source
        self.writing = SessionTrouble(source.name, "outcomes cannot be written", "outcomes can be written again")
        self._places = asyncio.Semaphore(self.concurrency)
        self.shutdown.when_halted(self._halt)

    def _halt(self) -> None:
        for claim in self.claimed.values():
            claim.stop(Why.HALTED)

    async def work(self, claim: RecordClaim) -> None:
        """Handle a claimed record and write or park its outcome. Never raises."""
        self.claimed[claim.record.id] = claim
        try:
            if not await self.shutdown.acquire(self._places, claim.left_s):
                await self._give_back(claim)  # long handlers, kept alive by heartbeats, have all places
                return
            try:
                await self._work(claim)
            finally:
                self._places.release()
        except Exception as error:  # noqa: BLE001 - a fault of the loop costs one record, which recovery resets
            self._alert(claim, repr(error))
        finally:
            del self.claimed[claim.record.id]

    async def _work(self, claim: RecordClaim) -> None:
        if not self._may_begin(claim):
            await self._give_back(claim)
            return
        if claim.unreadable is not None:
            failed = Outcome(self._source.failed, f"The record cannot be read: {claim.unreadable}")
            await self._write_or_park(claim, failed, self.own)
            return
        try:
            held = await self.sessions.get(claim.left_s * LEAST_SHARE, cut=True)
        except SessionRefused as error:
            await (self._give_back(claim) if self.shutdown.halted else self._unserved(claim, error))
            return
        try:
            if self._may_begin(claim):
                await self._handle(claim, held)
            else:
                await held.close()
                await self._give_back(claim)
        finally:
            await held.close()

    def _may_begin(self, claim: RecordClaim) -> bool:
        late = claim.left_s < self.claims.lease_s * LEAST_SHARE
        return not (late or self.shutdown.is_ending or self.breaker.on)

    async def _give_back(self, claim: RecordClaim) -> None:
        await self._write_or_park(claim, Outcome(self._source.becomes), self.own)

    async def _unserved(self, claim: RecordClaim, refusal: SessionRefused) -> None:
        """Give back a record for which there is no session, or fail it if `fail_unserved`. While the breaker is open,
        nothing is claimed, so the record is not claimed and given back without end."""
        log_event(logging.WARNING, "record not handled", **self._names(claim), why=refusal)
        failed = Outcome(self._source.failed, str(refusal))
        await self._write_or_park(claim, failed if self.fail_unserved else Outcome(self._source.becomes), self.own)

    # -- the handler --------------------------------------------------------------------------------------------------

    async def _handle(self, claim: RecordClaim, held: HeldSession) -> None:
        with self._listening(claim, held.session):
            claim.handler = handler = asyncio.create_task(_call(self.handler, claim.record, held.session))
            await self._ended(claim, handler)
        result, error = (None, None) if handler.cancelled() else handler.result()
        succeeded = not handler.cancelled() and error is None
        if claim.why is Why.LOST:
            self._lost(claim)
        elif claim.why is Why.EXPIRED or claim.left_s <= 0:
            await self._failed(claim, held, TimeoutError(f"{Why.EXPIRED.value} ({self._source.threshold_s:g} s)"))
        elif succeeded:
            await self._succeeded(claim, held, result)
        elif claim.why is Why.HALTED or (handler.cancelled() and self.shutdown.halted):
            await held.close()
            await self._give_back(claim)
        elif error is not None and may_pass(error) and not self._is_enough(claim):
            # The handler's writes were lost with the connection, through no fault of the handler.
            log_event(logging.WARNING, "record is handled again", **self._names(claim), why=reason(error))
            self.writing.met(repr(error))
            await held.close()
            await self._give_back(claim)
        else:
            await self._failed(claim, held, error or RuntimeError("the handler was cancelled"))

    @contextmanager
    def _listening(self, claim: RecordClaim, session: AsyncSession) -> Iterator[None]:
        """Note commits of the handler while the block runs: a commit may have written an old time into the record."""

        def note_commit(of: Any) -> None:
            if not of.in_nested_transaction():  # the end of a savepoint is no commit
                claim.committed = True
                self.committed.set()

        inner = getattr(session, "sync_session", None)
        if inner is None:  # not an `AsyncSession`, but an object that stands in for one
            yield
            return
        sa.event.listen(inner, "after_commit", note_commit)
        try:
            yield
        finally:
            sa.event.remove(inner, "after_commit", note_commit)

    async def _ended(self, claim: RecordClaim, handler: asyncio.Task[Any]) -> None:
        """Wait until the handler has ended. When the lease ends or the loop halts, cancel it, if need be repeatedly."""
        while not handler.done():
            await self.shutdown.wait([handler], min(LOOK_S, max(0.0, claim.left_s)) if claim.why is None else LOOK_S)
            if handler.done():
                return
            if claim.left_s <= 0:
                claim.stop(Why.EXPIRED)
            elif self.shutdown.halted:
                claim.stop(Why.HALTED)
            if claim.why is not None and now_s() - claim.asked_s > INSIST_S:
                log_event(
                    logging.ERROR, "handler does not heed its cancellation", **self._names(claim), why=claim.why.value
                )
                claim.insist()

    async def _succeeded(self, claim: RecordClaim, held: HeldSession, result: Any) -> None:
        """Commit the handler's writes and the new status in one transaction. If that fails, the record is handled
        again if the handler wrote anything; otherwise only the status is written again."""
        session = held.session
        used = session.in_transaction()
        outcome: Outcome | None = None
        try:
            outcome = self._outcome(result)
            await self.shutdown.timeout(session.flush(), claim.left_s)
            ours = await self.shutdown.timeout(self.claims.finish(session, claim, outcome), WRITE_S)
        except Exception as error:  # noqa: BLE001 - the kind of error decides what happens to the record
            if isinstance(error, Unreached):
                await held.close()
                log_event(logging.ERROR, "record failed", **self._names(claim), why=error)
                await self._write_or_park(claim, Outcome(self._source.failed, str(error)), self.own, error)
                return
            again = used or not (outcome and outcome.is_plain)
            if not _is_cut(error) or (again and self._is_enough(claim)):
                await self._failed(claim, held, error)
                return
            log_event(logging.WARNING, "outcome not written", **self._names(claim), why=repr(error))
            self.writing.met(repr(error))  # this makes the loop pause: the fault may last
            await held.close()
            given = Outcome(self._source.becomes) if again or outcome is None else outcome
            await self._write_or_park(claim, given, self.sessions, error)
            return
        self._rounds.pop(claim.record.id, None)
        if ours:
            self.writing.over()
            self.counts.add("done", claim.record.id)
        elif claim.left_s <= 0:
            await self._failed(claim, held, TimeoutError(Why.EXPIRED.value))
        else:
            self._lost(claim)

    def _is_enough(self, claim: RecordClaim) -> bool:
        """Count one more try of this record; return whether it has had `FURTHER_TRIES` before."""
        count = self._rounds.pop(claim.record.id, 0) + 1
        if count > FURTHER_TRIES:
            return True
        self._rounds[claim.record.id] = count
        while len(self._rounds) > ROUNDS:
            del self._rounds[next(iter(self._rounds))]
        return False

    def _outcome(self, result: Any) -> Outcome:
        if result is None:
            return Outcome(self.done, None, self._restarted(self.done))
        if not isinstance(result, Mapping):
            raise TypeError(f"the handler returned a {type(result).__name__}, neither none nor a mapping of columns")
        rows = self.claims.rows
        values = {str(name): value for name, value in result.items()}
        if unknown := [name for name in values if name not in rows.table.c or name == rows.id.name]:
            raise ValueError(f"the handler returned {unknown[0]!r}, which is no column that can be set")
        status = values.pop(rows.status.name, self.done)
        if status == self._source.stuck:
            raise ValueError(f"the handler returned the status {status!r}, in which records get stuck")
        return Outcome(status, None, self._restarted(status) | values)

    def _restarted(self, status: Any) -> dict[str, Any]:
        """Return the column value that sets the count of resets to 0 in a done record; {} if the count stays."""
        source, attempts = self._source, self.claims.rows.attempts
        if attempts is None or not source.restart_attempts or status in (source.becomes, source.failed):
            return {}
        return {attempts.name: 0}

    async def _failed(self, claim: RecordClaim, held: HeldSession, error: BaseException) -> None:
        """Mark the record as failed, first in the handler's session, because the pool may have no other session."""
        log_event(logging.ERROR, "record failed", **self._names(claim), why=reason(error))
        outcome = Outcome(self._source.failed, reason(error))
        trouble: Exception | None = None
        try:
            await self.shutdown.timeout(held.session.rollback(), WRITE_S)
            await self._write(claim, outcome, held)
            self.writing.over()
            return
        except Exception as raised:  # noqa: BLE001 - `_write_or_park` tries again, and logs it if it fails
            trouble = raised
        await held.close()
        await self._write_or_park(claim, outcome, self.sessions, trouble)

    # -- outcomes -----------------------------------------------------------------------------------------------------

    async def _write_or_park(
        self, claim: RecordClaim, outcome: Outcome, sessions: DatabaseSessions, tried: Exception | None = None
    ) -> None:
        """Write an outcome; if that fails, park it in Redis; without Redis try until the lease ends, then alert."""
        attempt = -1 if tried is None else 0
        while (trouble := await self._tries(claim, outcome, sessions, attempt)) is not None:
            self.writing.met(repr(trouble))
            if (unparked := await self._park(claim, outcome, trouble)) is None:
                return
            passes = isinstance(trouble, SessionRefused) or _is_cut(trouble)
            if not passes or claim.left_s <= 0 or self.shutdown.is_ending:
                self._alert(claim, f"{trouble!r}; {unparked}")
                return
            sessions, attempt = self.own, max(attempt, 0) + FURTHER_TRIES

    async def _park(self, claim: RecordClaim, outcome: Outcome, trouble: Exception) -> str | None:
        """Park the outcome in Redis; return None when it is parked, else why it is not."""
        if self.outcomes is None:
            return "nothing to park in"
        try:
            await self.shutdown.timeout(self.outcomes.park(claim.parked(outcome)), PARK_S)
        except Exception as error:  # noqa: BLE001 - logged and counted by the caller
            return f"not parked: {error!r}"
        self.parked_some = True
        self.counts.add("parked", claim.record.id)
        log_event(logging.WARNING, "outcome parked", **self._names(claim), status=outcome.status, why=repr(trouble))
        return None

    async def _tries(
        self, claim: RecordClaim, outcome: Outcome, sessions: DatabaseSessions, first: int
    ) -> Exception | None:
        """Try to write the outcome three times, each after a longer pause, with one more try at once if `first` < 0.

        Returns None when it is written, else the last error. If `sessions` gives none, the loop's own are used."""
        trouble: Exception | None = None
        for attempt in range(first, max(first, 0) + FURTHER_TRIES):
            if attempt >= 0:
                await self.shutdown.pause(pause_s(attempt))
            try:
                held = await sessions.get()
            except SessionRefused as error:
                trouble, sessions = error, self.own
                continue
            try:
                await self._write(claim, outcome, held)
                return None
            except Exception as error:  # noqa: BLE001 - returned after the last try
                trouble = error
                sessions = self.own if isinstance(error, Unreached) else sessions
            finally:
                await held.close()
        return trouble

    async def _write(self, claim: RecordClaim, outcome: Outcome, held: HeldSession) -> None:
        found = await self.shutdown.timeout(self.claims.write(held.session, claim, outcome), WRITE_S)
        if found not in claim.in_doubt:
            await self.shutdown.timeout(self.claims.check_reached(claim), WRITE_S)
            self._lost(claim)
        elif found == self._source.becomes:
            self.counts.add("returned", claim.record.id)
        elif found == self._source.failed:
            self.counts.add("failed", claim.record.id)
        else:
            self.counts.add("done", claim.record.id)

    def _lost(self, claim: RecordClaim) -> None:
        self.counts.add("lost", claim.record.id)
        log_event(logging.WARNING, "record lost", **self._names(claim), why=Why.LOST.value)

    def _alert(self, claim: RecordClaim, why: str) -> None:
        self.counts.add("zombies", claim.record.id)
        log_event(logging.CRITICAL, "ZOMBIE RECORD ALERT", **self._names(claim), why=why)

    def _names(self, claim: RecordClaim) -> dict[str, Any]:
        return {"source": self._source.name, "id": claim.record.id}


def _is_cut(error: Exception) -> bool:
    """Return whether the error is that of an unreachable database, and not a fault that the handler left behind."""
    return may_pass(error) or (isinstance(error, OSError | TimeoutError | Interrupted) and is_away(error))


async def _call(handler: Handler, record: Record, session: AsyncSession) -> tuple[Any, BaseException | None]:
    """Call the handler; return its result and None, or None and its error; raise only a cancellation."""
    try:
        result: Any = handler(record, session)
        return (await result if inspect.isawaitable(result) else result), None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - returned, so that `sys.exit` in a handler does not end the loop
        return None, error
