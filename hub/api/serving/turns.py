"""Turns of reading: the hub takes a bounded number of pieces from sockets in each turn of the loop, so that thousands
of clients that send at once do not hold up other callers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

PER_TURN: Final = 10  # actions in one turn of the loop, about a millisecond


class Turns:
    """A queue of actions that runs at most `PER_TURN` of them in one turn of the loop, in the order in which they were
    asked for."""

    def __init__(self) -> None:
        self._left = PER_TURN
        self._waiting: deque[Callable[[], None]] = deque()
        self._counting = False

    def ask(self, act: Callable[[], None]) -> None:
        """Run `act` now when this turn of the loop has room for it; else queue it for a later turn."""
        if self._left:
            self._do(act)
        else:
            self._waiting.append(act)

    async def take(self) -> None:
        """Wait until this turn of the loop, or a later one, has room for the caller."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ask(partial(_give, turn))
        if not turn.done():
            await turn

    def _do(self, act: Callable[[], None]) -> None:
        self._left -= 1
        if not self._counting:
            self._counting = True
            asyncio.get_running_loop().call_soon(self._next)
        act()

    def _next(self) -> None:
        self._counting = False
        self._left = PER_TURN
        while self._waiting and self._left:
            self._do(self._waiting.popleft())


def _give(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
