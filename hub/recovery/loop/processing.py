"""The function `process`, which claims records batch by batch and calls a handler for each.

While it runs it counts in a `Counts`, whose `on_change` it calls, and which Prometheus shows as
`record_loop_records_total` and `record_loop_sessions_total`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from hub.errors import RecordsUnavailable
from hub.recovery.engines import make_engine
from hub.recovery.file import with_threshold
from hub.recovery.loop.claims import Claims, RecordClaim
from hub.recovery.loop.counts import Counts, say
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
from hub.recovery.tables import reflect

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
    loop = Loop(source, handler, done, shutdown, batch, at_once, poll_s, counts)
    loop.until_empty, loop.fail_unserved = until_empty, fail_unserved
    loop.beat_s = beat_s(source, heartbeat)
    loop.open(get_session, park)
    with shown(source.name, loop.counts):
        await _seen_through(asyncio.create_task(loop.run()), shutdown)
    return loop.counts


async def _seen_through(running: asyncio.Task[None], shutdown: Shutdown) -> None:
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


class Loop:
    """One run of `process`. Its asyncio tasks are cancelled only when all of the process are; then the loop halts."""

    until_empty = False
    beat_s: float | None = None
    fail_unserved = False

    def __init__(
        self,
        source: SqlSource,
        handler: Handler,
        done: str | int,
        shutdown: Shutdown,
        batch: int,
        concurrency: int,
        poll_s: float,
        counts: Counts | None,
    ) -> None:
        self.counts = Counts() if counts is None else counts
        self._source = source
        self._handler = handler
        self._done = done
        self._shutdown = shutdown
        self._batch = batch
        self._concurrency = concurrency
        self._poll_s = poll_s
        self._breaker = Breaker(source.name)
        self._trouble = SessionTrouble(source.name, "records cannot be claimed", "records can be claimed again")
        self._settling = SessionTrouble(
            source.name, "parked outcomes cannot be written", "parked outcomes can be written again"
        )
        self._working: set[asyncio.Task[None]] = set()
        self._engines: list[AsyncEngine] = []
        self._outcomes: Outcomes | None = None
        self._is_to_park = True
        self._settler: asyncio.Task[None] | None = None

    def open(self, get_session: GetSession | None, park: str | Literal[False] | None) -> None:
        """Make engines, sessions and parked outcomes, without connecting. Raises `SourceRefused`."""
        self._engines.append(make_engine(self._source))
        if get_session is None:
            self._engines.append(make_engine(self._source, self._concurrency))
        self._own = DatabaseSessions(on(self._engines[0]), self._shutdown, self.counts)
        self._sessions = DatabaseSessions(
            get_session or on(self._engines[1]), self._shutdown, self.counts, self._breaker
        )
        self._outcomes = outcomes(self._source, park)
        self._is_to_park = park is not False

    async def run(self) -> None:
        """Claim and handle until told to end or, with `until_empty`, until nothing is left; then end all tasks."""
        heartbeat: asyncio.Task[None] | None = None
        try:
            rows = await self._reflected()
            if rows is None:
                return
            say(logging.INFO, "processing begins", source=self._source.name, parking=self._outcomes is not None)
            if self._outcomes is None and self._is_to_park:
                why = "no Redis is named: what cannot be written is handled again; set HUB_REDIS_URL, or park=False"
                say(logging.WARNING, "nothing to park in", source=self._source.name, why=why)
            claims = Claims(self._engines[0], rows)
            items = Items(
                claims, self._handler, self._done, self._sessions, self._breaker, self._shutdown, self.counts,
                self._outcomes, self._own, self._concurrency, self.fail_unserved,
            )  # fmt: skip
            items.parked_some = True  # an earlier run may have parked outcomes
            if self.beat_s is not None:
                heartbeat = asyncio.create_task(ClaimHeartbeat(claims, items, self.beat_s).beat_for_ever())
            intake = Intake(claims, self._look, self._shutdown, self._trouble, items.claimed)
            while not self._shutdown.told and await self._turn(claims, intake, items):
                pass
            if claims.doubtful:
                await intake.ready()
        finally:
            await self._end(heartbeat, self._settler)
            say(logging.INFO, "processing ended", source=self._source.name, **self.counts.numbers())

    async def _reflected(self) -> Rows | None:
        """Return the table's `Rows` once the database answers, None when told to end before; raises `SourceRefused`."""
        while not self._shutdown.told:
            try:
                rows = await self._shutdown.timeout(self._look(), CLAIM_S)
            except RecordsUnavailable as error:
                self._trouble.met(error)
            except (TimeoutError, Interrupted) as error:
                self._trouble.met(repr(error))
            else:
                self._trouble.over()
                return rows
            await self._shutdown.sleep(self._trouble.rest_s)
        return None

    async def _look(self) -> Rows:
        rows = await reflect(self._engines[0], self._source)
        _check_done(rows, self._done)
        return rows

    async def _turn(self, claims: Claims, intake: Intake, items: Items) -> bool:
        """Claim once, and wait until it is time for the next claim; return False when nothing is left to claim."""
        self._settle(claims, items)
        rest_s = max(items.writing.rest_s, self._trouble.rest_s, self._breaker.rest_s)
        if rest_s > 0 or (self._breaker.is_open and not await self._sessions.probe()):
            await self._shutdown.sleep(max(rest_s, self._breaker.rest_s))
            return True
        room = min(self._batch - len(self._working), intake.most)
        taken = await intake.take(room)
        for claim in taken or ():
            self._start(items, claim)
        if taken is None:
            await self._shutdown.sleep(self._trouble.rest_s)
        elif not taken and not self._working and self.until_empty:
            return await self._more(claims, intake, items)
        elif len(taken) < room:
            await self._shutdown.sleep(self._poll_s, self._working)
        # Claim again once half of the batch is done: a long handler does not delay the other records, and one claim is
        # for many records.
        while len(self._working) > self._batch // 2 and not self._shutdown.told:
            await self._shutdown.sleep(None, self._working)
        return True

    def _start(self, items: Items, claim: RecordClaim) -> None:
        self.counts.add("claimed", claim.record.id)
        task = asyncio.create_task(items.work(claim))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _more(self, claims: Claims, intake: Intake, items: Items) -> bool:
        """Return whether, though nothing was claimed and nothing runs, locked or parked records may still follow."""
        self._settle(claims, items)
        while self._settler is not None and not self._settler.done() and not self._shutdown.told:
            await self._shutdown.sleep(None, [self._settler])
        more = await intake.ready()
        if more:
            await self._shutdown.sleep(self._poll_s)
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
            say(logging.INFO, "parked outcomes written", source=self._source.name, written=written, left=left)

    # -- the end ------------------------------------------------------------------------------------------------------

    async def _end(self, *tasks: asyncio.Task[None] | None) -> None:
        """Wait for the running handlers, end the other tasks of the loop, and close all connections."""
        while self._working:
            await self._shutdown.wait(self._working)
        for task in tasks:
            while task is not None and not task.done():
                task.cancel()  # repeated: on Python 3.11 a task in a bounded wait may miss a cancellation
                await self._shutdown.wait([task], CANCEL_S)
        closing = [engine.dispose for engine in self._engines]
        for close in closing + ([self._outcomes.close] if self._outcomes else []):
            try:
                await self._shutdown.timeout(close(), CLOSE_S)
            except Exception as error:  # noqa: BLE001 - nothing more can be done with the connection
                say(logging.INFO, "connections not closed", source=self._source.name, why=repr(error))


def _check_done(rows: Rows, done: str | int) -> None:
    source, kind = rows.source, rows.status.type
    if type(done) is not type(source.stuck):
        raise source.refused("done", f"{done!r} is of another type than {source.stuck!r}")
    if done in (source.stuck, source.becomes):
        raise source.refused("done", f"{done!r} is a status of records that are not done")
    if isinstance(kind, sa.Enum) and done not in kind.enums:
        raise source.refused("done", f"{rows.status.name!r} may be {', '.join(kind.enums)}, and not {done!r}")
    length = getattr(kind, "length", None)
    if length is not None and len(str(done)) > length:
        raise source.refused("done", f"{done!r} is longer than the {length} characters of {rows.status.name!r}")
