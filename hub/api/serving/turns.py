"""Turns of reading: a bounded part of what clients say in each turn of the loop, so that thousands that talk at once
hold up no other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

PER_TURN: Final = 10  # about a millisecond


class Turns:
    """Has things done in the order in which they are asked for, at once while not too much has been done in this turn
    of the loop."""

    def __init__(self) -> None:
        self._left = PER_TURN
        self._waiting: deque[Callable[[], None]] = deque()
        self._counting = False

    def ask(self, act: Callable[[], None]) -> None:
        """Have it done."""
        if self._left:
            self._do(act)
        else:
            self._waiting.append(act)

    async def take(self) -> None:
        """Wait until the caller may go on."""
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
