"""Sessions for handlers, and the circuit breaker for refusals."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from hub.recovery.engines import READS
from hub.recovery.loop.counts import Counts, say
from hub.recovery.loop.shutdown import Interrupted, Shutdown
from hub.retries import now_s, pause_s

REFUSALS = 5  # in a row: one is an accident, and a sick pool shows before the next batch
SESSION_S = 30.0  # the default wait of a pool of SQLAlchemy
CLOSE_S = 10.0
AGAIN_S = 300.0  # an ongoing trouble is logged again

GetSession = Callable[[], Any]


class SessionRefused(Exception):
    """Raised when no session could be had."""


class SessionTrouble:
    """A trouble that is logged when it begins and when it ends, with growing rests between tries."""

    def __init__(self, source: str, begins: str, over: str) -> None:
        self._source = source
        self._begins, self._over = begins, over
        self._count = 0
        self._until_s = 0.0
        self._said_s = 0.0

    @property
    def on(self) -> bool:
        """Return whether the trouble goes on."""
        return self._count > 0

    @property
    def rest_s(self) -> float:
        """Return the seconds to rest from now on."""
        return max(0.0, self._until_s - now_s())

    def met(self, why: object) -> None:
        """Note a failure; the rest grows with each in a row."""
        if not self._count or now_s() - self._said_s > AGAIN_S:
            self._said_s = now_s()
            say(logging.WARNING, self._begins, source=self._source, why=why)
        self._until_s = now_s() + pause_s(self._count)
        self._count += 1

    def over(self) -> None:
        """Note a success."""
        if self._count:
            say(logging.INFO, self._over, source=self._source, failures=self._count)
        self._count, self._until_s = 0, 0.0


class Breaker:
    """A circuit breaker that opens after some refusals in a row; probes follow, and one session closes it."""

    def __init__(self, source: str) -> None:
        self.trouble = SessionTrouble(
            source, "claiming stops: sessions are refused", "claiming goes on: sessions can be had"
        )
        self._refusals = 0

    @property
    def is_open(self) -> bool:
        """Return whether nothing is to be claimed."""
        return self.trouble.on

    @property
    def rest_s(self) -> float:
        """Return the seconds until the next probe."""
        return self.trouble.rest_s

    def refused(self, why: object) -> None:
        """Note a refusal."""
        self._refusals += 1
        # The refusals of one batch come at once and count as one reason to rest.
        if self._refusals >= REFUSALS and not self.trouble.rest_s:
            self.trouble.met(why)

    def granted(self) -> None:
        """Note a session that was had."""
        self._refusals = 0
        self.trouble.over()


class HeldSession:
    """A session, and how to release it."""

    def __init__(self, session: AsyncSession, stack: AsyncExitStack, shutdown: Shutdown) -> None:
        self.session = session
        self._stack = stack
        self._shutdown = shutdown
        self._closed = False

    async def close(self) -> None:
        """Release the session; log a failure, which changes nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._shutdown.timeout(self._let_go(), CLOSE_S)
        except Exception as error:  # noqa: BLE001 - everything is written by now
            say(logging.INFO, "session not closed", why=repr(error))

    async def _let_go(self) -> None:
        # Nothing may be committed from here on: some context managers commit unless something was raised.
        try:
            if self.session is not None and self.session.in_transaction():
                await self.session.rollback()
        finally:
            await self._stack.aclose()


class DatabaseSessions:
    """The source of sessions; every kind of refusal is `SessionRefused`."""

    def __init__(
        self, get_session: GetSession, shutdown: Shutdown, counts: Counts, breaker: Breaker | None = None
    ) -> None:
        self._get_session = get_session
        self._shutdown = shutdown
        self._counts = counts
        self._breaker = breaker

    async def get(self, seconds: float = SESSION_S, *, cut: bool = False) -> HeldSession:
        """Return a session; raises `SessionRefused`, also when the loop is halted and the wait may be cut off."""
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
        """Return whether a session can be had that reaches the database."""
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
    """Connect a session that would connect later, so that a sick pool shows at once."""
    if isinstance(getattr(session, "bind", None), AsyncConnection):
        return
    if session.in_transaction():
        await session.connection()
        return
    await session.connection(execution_options={READS: True})
    await session.rollback()


def _is_session(given: Any) -> bool:
    # Also a stand-in such as `async_scoped_session`; a `Session` cannot be awaited.
    return isinstance(given, AsyncSession) or inspect.iscoroutinefunction(getattr(given, "commit", None))


def on(engine: AsyncEngine) -> GetSession:
    """Return a maker of sessions on an engine, each connected from the beginning."""

    @asynccontextmanager
    async def get_session() -> AsyncIterator[AsyncSession]:
        async with engine.connect() as connection, AsyncSession(connection, expire_on_commit=False) as session:
            yield session

    return get_session
