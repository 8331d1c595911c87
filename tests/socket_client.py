"""A client of the sockets that leaves nothing open."""

from __future__ import annotations

from typing import Any

import aiohttp
import socketio

from tests.world import PATIENCE_S


class SocketClient(socketio.AsyncClient):
    """A client whose `shutdown` closes every HTTP session it ever made.

    The library forgets some: when a connect is refused, and when it sends while it resets. The warning about that would
    fail a later test.
    """

    def __init__(self, **options: Any) -> None:
        self._sessions: list[aiohttp.ClientSession] = []
        super().__init__(http_session=self._new_session, **options)

    async def connect(self, *place: Any, **options: Any) -> None:
        """Connect; left to itself the library gives the hub one second to take the namespace."""
        await super().connect(*place, **{"wait_timeout": PATIENCE_S, **options})

    def _new_session(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession()
        self._sessions.append(session)
        return session

    async def shutdown(self) -> None:
        """Hang up or stop trying; safe when the connection has ended."""
        await super().shutdown()
        for session in self._sessions:
            await session.close()
