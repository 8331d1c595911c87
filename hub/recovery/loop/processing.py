"""The function `process`, which claims records batch by batch and calls a handler for each.

While it runs it counts in a `Counts`, whose `on_change` it calls, and which Prometheus shows as
`record_loop_records_total` and `record_loop_sessions_total`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Literal

from hub.errors import RecordsUnavailable
from hub.recovery.engines import make_engine
from hub.recovery.file import with_threshold
from hub.recovery.loop.claims import Claims, RecordClaim
from hub.recovery.loop.counts import Counts, log_event
from hub.recovery.loop.exposed import shown
from hub.recovery.loop.heartbeat import ClaimHeartbeat
from hub.recovery.loop.intake import CLAIM_S, Intake
from hub.recovery.loop.items import Handler, Items
from hub.recovery.loop.options import beat_s, check, outcomes, places
from hub.recovery.loop.sessions import Breaker, DatabaseSessions, GetSession, SessionTrouble, on
from hub.recovery.loop.shutdown import Interrupted, Shutdown
from hub.recovery.models import SqlSource
from hub.recovery.outcomes import Outcomes, settle
from hub.recovery.rows import Rows
from hub.recovery.tables import check_status, reflect

SETTLE_S = 60.0
CLOSE_S = 5.0
CANCEL_S = 1.0  # after this long an asyncio task that has not ended is cancelled again


async def process(
    source: SqlSource,
    handler: Handler,
    *,
    done: str | int = "Completed",
    get_session: GetSession | None = None,
    batch: int = 10,
    concurrency: int | None = None,
    heartbeat: bool | float = False,
    poll_s: float = 1.0,
    stop: asyncio.Event | None = None,
    until_empty: bool = False,
    park: str | Literal[False] | None = None,
    fail_unserved: bool = False,
    counts: Counts | None = None,
) -> Counts:
    """Claim records of status `source.becomes`, `batch` at a time; call `handler(record, session)` for each.

    The handler's writes in its session, the columns in the mapping that it may return, and the status `done` are one
    transaction. If a handler raises, its record gets the status `source.failed` and the reason in the error field. At
    most `concurrency` handlers run at once (10; 1 for SQLite without `get_session`). A handler runs at least once for a
    record, and never two at once for the same: a handler that takes longer than the threshold is cancelled and has
    failed. Handlers must not block the event loop.

    With `heartbeat` (True: every quarter of the threshold; or a number of seconds) records are refreshed while their
    handlers run, so a handler may take any time. But a handler that keeps a lock on its record, or in SQLite any lock,
    must commit now and then, or write to its record last. It needs sessions of READ COMMITTED.

    `get_session` returns a session on the same database: an `AsyncSession`, a context manager of one, or None. It may
    be asynchronous. Without it each handler gets a connection of its own, where a statement may take 30 s. A record for
    which there is no session is given back, for its handler never ran; with `fail_unserved` it becomes `source.failed`.
    After some refused sessions in a row nothing is claimed until there are sessions again.

    A handler that lost its connection runs again, up to three times. While the database does not answer, outcomes are
    parked in the Redis of `park`, else of `HUB_REDIS_URL` or `REDIS_URL`, under `HUB_KEY_PREFIX`. With `park=False` the
    loop tries to write an outcome while the claim lasts; then it logs `ZOMBIE RECORD ALERT`.
    The loop ends when `stop` is set and the running handlers have ended; with `until_empty` also when no record is left
    to claim. A cancelled loop cancels its handlers and waits for them. It looks for records every `poll_s` seconds.
    Returns the counts. Raises `SourceRefused` for a source that does not fit its database.
    """
    check(source, handler, get_session, stop, park, poll_s, batch=batch, concurrency=concurrency)
    source, shutdown = with_threshold(source), Shutdown(stop or asyncio.Event())
    at_once = places(source, get_session, batch, concurrency)
    loop = Loop(
        source, handler, done, get_session, shutdown, batch, at_once, beat_s(source, heartbeat), poll_s, until_empty,
        park, fail_unserved, Counts() if counts is None else counts,
    )  # fmt: skip
    with shown(source.name, loop.counts):
        await _wait_for_end(asyncio.create_task(loop.run()), shutdown)
    return loop.counts


async def _wait_for_end(running: asyncio.Task[None], shutdown: Shutdown) -> None:
    """Wait until the loop has ended. A cancellation halts the loop, and is raised again once the loop has ended."""
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
            shutdown.halt()
    if cancelled is not None:
        raise cancelled from running.exception()
    running.result()


@dataclass(eq=False)
class Loop:
    """One run of `process`. Its asyncio tasks are cancelled only when all of the process are; then the loop halts."""

    source: SqlSource
    handler: Handler
    done: str | int
    get_session: GetSession | None
    shutdown: Shutdown
    batch: int
    concurrency: int
    beat_s: float | None
    poll_s: float
    until_empty: bool
    park: str | Literal[False] | None
    fail_unserved: bool
    counts: Counts

    def __post_init__(self) -> None:
        """Make engines, sessions and parked outcomes, without connecting. Raises `SourceRefused`."""
        name, get_session = self.source.name, self.get_session
        self._breaker = Breaker(name)
        self._trouble = SessionTrouble(name, "records cannot be claimed", "records can be claimed again")
        self._settling = SessionTrouble(
            name, "parked outcomes cannot be written", "parked outcomes can be written again"
        )
        self._working: set[asyncio.Task[None]] = set()
        self._settler: asyncio.Task[None] | None = None
        self._engines = [make_engine(self.source)]
        self._own = DatabaseSessions(on(self._engines[0]), self.shutdown, self.counts)
        if get_session is None:
            self._engines.append(make_engine(self.source, self.concurrency))
            get_session = on(self._engines[1])
        self._sessions = DatabaseSessions(get_session, self.shutdown, self.counts, self._breaker)
        self._outcomes = outcomes(self.source, self.park)

    async def run(self) -> None:
        """Claim and handle until told to end or, with `until_empty`, until nothing is left; then end all tasks."""
        heartbeat: asyncio.Task[None] | None = None
        try:
            rows = await self._reflected()
            if rows is None:
                return
            log_event(logging.INFO, "processing begins", source=self.source.name, parking=self._outcomes is not None)
            if self._outcomes is None and self.park is not False:
                why = "no Redis is named: what cannot be written is handled again; set HUB_REDIS_URL, or park=False"
                log_event(logging.WARNING, "nothing to park in", source=self.source.name, why=why)
            claims = Claims(self._engines[0], rows)
            items = Items(
                claims, self.handler, self.done, self._sessions, self._own, self._breaker, self.shutdown, self.counts,
                self._outcomes, self.concurrency, self.fail_unserved,
            )  # fmt: skip
            if self.beat_s is not None:
                heartbeat = asyncio.create_task(ClaimHeartbeat(claims, items, self.beat_s).beat_for_ever())
            intake = Intake(claims, self._read_table, self.shutdown, self._trouble, items.claimed)
            while not self.shutdown.is_ending and await self._turn(claims, intake, items):
                pass
            if claims.doubtful:
                await intake.ready()
        finally:
            await self._end(heartbeat, self._settler)
            log_event(logging.INFO, "processing ended", source=self.source.name, **self.counts.numbers())

    async def _reflected(self) -> Rows | None:
        """Return the table's `Rows` once the database answers, None when told to end before; raises `SourceRefused`."""
        while not self.shutdown.is_ending:
            try:
                rows = await self.shutdown.timeout(self._read_table(), CLAIM_S)
            except RecordsUnavailable as error:
                self._trouble.met(error)
            except (TimeoutError, Interrupted) as error:
                self._trouble.met(repr(error))
            else:
                self._trouble.over()
                return rows
            await self.shutdown.sleep(self._trouble.rest_s)
        return None

    async def _read_table(self) -> Rows:
        rows = await reflect(self._engines[0], self.source)
        _check_done(rows, self.done)
        return rows

    async def _turn(self, claims: Claims, intake: Intake, items: Items) -> bool:
        """Claim once, and wait until it is time for the next claim; return False when nothing is left to claim."""
        self._settle(claims, items)
        rest_s = max(items.writing.rest_s, self._trouble.rest_s, self._breaker.rest_s)
        if rest_s > 0 or (self._breaker.on and not await self._sessions.probe()):
            await self.shutdown.sleep(max(rest_s, self._breaker.rest_s))
            return True
        room = min(self.batch - len(self._working), intake.most)
        taken = await intake.take(room)
        for claim in taken or ():
            self._start(items, claim)
        if taken is None:
            await self.shutdown.sleep(self._trouble.rest_s)
        elif not taken and not self._working and self.until_empty:
            return await self._more(claims, intake, items)
        elif len(taken) < room:
            await self.shutdown.sleep(self.poll_s, self._working)
        # Claim again once half of the batch is done: a long handler does not delay the other records, and one claim is
        # for many records.
        while len(self._working) > self.batch // 2 and not self.shutdown.is_ending:
            await self.shutdown.sleep(None, self._working)
        return True

    def _start(self, items: Items, claim: RecordClaim) -> None:
        self.counts.add("claimed", claim.record.id)
        task = asyncio.create_task(items.work(claim))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _more(self, claims: Claims, intake: Intake, items: Items) -> bool:
        """Return whether, though nothing was claimed and nothing runs, locked or parked records may still follow."""
        self._settle(claims, items)
        while self._settler is not None and not self._settler.done() and not self.shutdown.is_ending:
            await self.shutdown.sleep(None, [self._settler])
        more = await intake.ready()
        if more:
            await self.shutdown.sleep(self.poll_s)
        return more is not False

    # -- parked outcomes ----------------------------------------------------------------------------------------------

    def _settle(self, claims: Claims, items: Items) -> None:
        """Start to write parked outcomes in the background, so that a slow Redis does not delay the claims."""
        running = self._settler is not None and not self._settler.done()
        if self._outcomes is not None and items.parked_some and not running and not self._settling.rest_s:
            self._settler = asyncio.create_task(self._write_parked(self._outcomes, claims, items))

    async def _write_parked(self, outcomes: Outcomes, claims: Claims, items: Items) -> None:
        try:
            items.parked_some = False
            async with asyncio.timeout(SETTLE_S):
                written = await settle(claims.engine, claims.rows, outcomes)
                left = await outcomes.count()
        except Exception as error:  # noqa: BLE001 - the outcomes stay parked; `met` logs the error
            items.parked_some = True
            self._settling.met(repr(error))
            return
        self._settling.over()
        self.counts.add("settled", some=written)
        items.parked_some = items.parked_some or left > 0
        if written:
            log_event(logging.INFO, "parked outcomes written", source=self.source.name, written=written, left=left)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _end(self, *tasks: asyncio.Task[None] | None) -> None:
        """Wait for the running handlers, end the other tasks of the loop, and close all connections."""
        while self._working:
            await self.shutdown.wait(self._working)
        for task in tasks:
            while task is not None and not task.done():
                task.cancel()  # repeated: on Python 3.11 a task in a bounded wait may miss a cancellation
                await self.shutdown.wait([task], CANCEL_S)
        closing = [engine.dispose for engine in self._engines]
        for close in closing + ([self._outcomes.close] if self._outcomes else []):
            try:
                await self.shutdown.timeout(close(), CLOSE_S)
            except Exception as error:  # noqa: BLE001 - nothing more can be done with the connection
                log_event(logging.INFO, "connections not closed", source=self.source.name, why=repr(error))


def _check_done(rows: Rows, done: str | int) -> None:
    source = rows.source
    if type(done) is not type(source.stuck):
        raise source.refused("done", f"{done!r} is of another type than {source.stuck!r}")
    if done in (source.stuck, source.becomes):
        raise source.refused("done", f"{done!r} is a status of records that are not done")
    check_status(rows.status, source, "done", done)
