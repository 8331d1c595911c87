"""What one walk over all records has found, kept for the batches that follow: a walk for each would be too many."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from hub.records.models import Reset, Stuck

MOST = 10_000  # records found by one walk, the longest stuck first; the rest is found by the next one
KEPT_S = 60.0  # for which they count as found; whoever resets one looks again in any case


class Nominees:
    """The ids of records that are probably stuck, and that no batch has had yet."""

    def __init__(self) -> None:
        self._ids: deque[str] = deque()
        self._until = 0.0

    async def next_batch(
        self,
        size: int,
        look: Callable[[int], Awaitable[list[Stuck]]],
        bring_back: Callable[[Sequence[str]], Awaitable[Reset]],
    ) -> Reset:
        """What the first batch has done of which anything was stuck; nothing when nothing is."""
        if time.monotonic() > self._until:
            self._ids.clear()
        walked = False
        while self._ids or not walked:
            if not self._ids:
                self._ids.extend(stuck.id for stuck in await look(MOST))
                self._until = time.monotonic() + KEPT_S
                walked = True
            done = await bring_back([self._ids.popleft() for _ in range(min(size, len(self._ids)))])
            if done.count:
                return done
        return Reset()
