"""Database sessions for handlers, and the circuit breaker that stops claims while no session can be had."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from hub.recovery.engines import READS
from hub.recovery.loop.counts import Counts, log_event
from hub.recovery.loop.shutdown import Interrupted, Shutdown
from hub.retries import now_s, pause_s

REFUSALS = 5  # the breaker opens after this many in a row, as one alone may be an accident
SESSION_S = 30.0  # longest wait for a session, as a pool of SQLAlchemy waits by default
CLOSE_S = 10.0
AGAIN_S = 300.0  # a trouble that goes on is logged again after this long

GetSession = Callable[[], Any]


class SessionRefused(Exception):
    """Raised when `get_session` gave no session that reaches the database."""


class SessionTrouble:
    """A failure that may last: it is logged when it begins and ends, and each repetition makes the pauses longer."""

    def __init__(self, source: str, begins: str, over: str) -> None:
        self._source = source
        self._begins, self._over = begins, over
        self._count = 0
        self._until_s = 0.0
        self._said_s = 0.0

    @property
    def on(self) -> bool:
        """Return whether the last try failed."""
        return self._count > 0

    @property
    def rest_s(self) -> float:
        """Return the seconds to pause from now until the next try."""
        return max(0.0, self._until_s - now_s())

    def met(self, why: object) -> None:
        """Note a failure with its reason; each failure in a row makes the pause longer."""
        if not self._count or now_s() - self._said_s > AGAIN_S:
            self._said_s = now_s()
            log_event(logging.WARNING, self._begins, source=self._source, why=why)
        self._until_s = now_s() + pause_s(self._count)
        self._count += 1

    def over(self) -> None:
        """Note a success, which ends the trouble."""
        if self._count:
            log_event(logging.INFO, self._over, source=self._source, failures=self._count)
        self._count, self._until_s = 0, 0.0


class Breaker(SessionTrouble):
    """A circuit breaker: after `REFUSALS` refused sessions in a row it is on, and nothing is claimed. The first session
    that is given turns it off."""

    def __init__(self, source: str) -> None:
        super().__init__(source, "claiming stops: sessions are refused", "claiming goes on: sessions can be had")
        self._refusals = 0

    def refused(self, why: object) -> None:
        """Note that a session was refused, and why."""
        self._refusals += 1
        # The refusals of one batch come together, and make the pause longer only once.
        if self._refusals >= REFUSALS and not self.rest_s:
            self.met(why)

    def granted(self) -> None:
        """Note that a session was given; this turns the breaker off."""
        self._refusals = 0
        self.over()


class HeldSession:
    """A session that a handler uses, and the means to close it."""

    def __init__(self, session: AsyncSession, stack: AsyncExitStack, shutdown: Shutdown) -> None:
        self.session = session
        self._stack = stack
        self._shutdown = shutdown
        self._closed = False

    async def close(self) -> None:
        """Close the session; only log an error, because everything is written by now. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._shutdown.timeout(self._let_go(), CLOSE_S)
        except Exception as error:  # noqa: BLE001 - everything is written by now
            log_event(logging.INFO, "session not closed", why=repr(error))

    async def _let_go(self) -> None:
        # Roll back first: some context managers commit on leaving, and nothing more may be committed.
        try:
            if self.session is not None and self.session.in_transaction():
                await self.session.rollback()
        finally:
            await self._stack.aclose()


class DatabaseSessions:
    """The sessions that `get_session` gives; each error of it becomes `SessionRefused`."""

    def __init__(
        self, get_session: GetSession, shutdown: Shutdown, counts: Counts, breaker: Breaker | None = None
    ) -> None:
        self._get_session = get_session
        self._shutdown = shutdown
        self._counts = counts
        self._breaker = breaker

    async def get(self, seconds: float = SESSION_S, *, cut: bool = False) -> HeldSession:
        """Return a session; raises `SessionRefused`. With `cut`, a halt of the loop ends the wait in the same way."""
        stack = AsyncExitStack()
        self._counts.add("sessions")
        try:
            session = await self._shutdown.timeout(self._opened(stack), min(SESSION_S, seconds), cut=cut)
        except Exception as error:
            await HeldSession(None, stack, self._shutdown).close()  # type: ignore[arg-type]
            why = "it took too long" if isinstance(error, TimeoutError) and not str(error) else error
            if not isinstance(error, Interrupted):
                self._counts.add("refusals")
                if self._breaker is not None:
                    self._breaker.refused(why)
            raise SessionRefused(f"no session: {why or repr(why)}") from error
        if self._breaker is not None:
            self._breaker.granted()
        return HeldSession(session, stack, self._shutdown)

    async def probe(self) -> bool:
        """Return whether a session can be had and answers a query; note that in the breaker."""
        try:
            held = await DatabaseSessions(self._asked, self._shutdown, self._counts, self._breaker).get(cut=True)
        except SessionRefused:
            return False
        await held.close()
        return True

    @asynccontextmanager
    async def _asked(self) -> AsyncIterator[AsyncSession]:
        async with AsyncExitStack() as stack:
            session = await self._opened(stack)
            await session.execute(sa.text("SELECT 1"))
            await session.rollback()
            yield session

    async def _opened(self, stack: AsyncExitStack) -> AsyncSession:
        given = self._get_session()
        if inspect.isawaitable(given):
            given = await given
        if inspect.isasyncgen(given):
            given = asynccontextmanager(lambda: given)()
        if not _is_session(given) and hasattr(type(given), "__aenter__"):
            given = await stack.enter_async_context(given)
        elif _is_session(given):
            stack.push_async_callback(given.close)
        if given is None:
            raise SessionRefused("get_session returned none")
        if not _is_session(given):
            raise SessionRefused(f"get_session returned a {type(given).__name__}, which is no AsyncSession")
        session = cast(AsyncSession, given)
        await _connected(session)
        return session


async def _connected(session: AsyncSession) -> None:
    """Connect the session now instead of with its first statement, so that a pool without connections raises here."""
    if isinstance(getattr(session, "bind", None), AsyncConnection):
        return
    if session.in_transaction():
        await session.connection()
        return
    await session.connection(execution_options={READS: True})
    await session.rollback()


def _is_session(given: Any) -> bool:
    # An object like `async_scoped_session` counts too; a synchronous `Session` does not.
    return isinstance(given, AsyncSession) or inspect.iscoroutinefunction(getattr(given, "commit", None))


def on(engine: AsyncEngine) -> GetSession:
    """Return a function that gives sessions on this engine, each with a connection of its own."""

    @asynccontextmanager
    async def get_session() -> AsyncIterator[AsyncSession]:
        async with engine.connect() as connection, AsyncSession(connection, expire_on_commit=False) as session:
            yield session

    return get_session
