"""Turns at the one process that checks payloads, fair among users: a user with many checks does not hold up others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class JobTurns:
    """Turns, one at a time, round robin over the users that wait; the turns of one user come in the order of asking."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # user -> its requests; the first user is next
        self._taken = False

    @asynccontextmanager
    async def of(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn for this user, and hold it while the block runs."""
        await self._take(user)
        try:
            yield
        finally:
            self._pass_on(user)

    async def _take(self, user: str) -> None:
        if not self._taken:
            self._taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the turn was given to it at the same moment
                self._pass_on(user)
            raise

    def _pass_on(self, user: str) -> None:
        """Give the turn to the next user; the user that had it goes to the end."""
        if user in self._waiting:
            self._waiting[user] = self._waiting.pop(user)
        while self._waiting:
            other = next(iter(self._waiting))
            queue = self._waiting[other]
            turn = queue.popleft()
            if not queue:
                del self._waiting[other]
            if not turn.done():  # a done one was cancelled because its caller has gone
                turn.set_result(None)
                return
        self._taken = False
