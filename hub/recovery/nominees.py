"""What one walk over all records has found, kept for the batches that follow: a walk for each would be too many."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from heapq import nlargest

from hub.recovery.models import Reset, Stuck

MOST = 100_000  # records found by one walk, the longest stuck first; the rest is found by the next one
KEPT_S = 60.0  # for which they count as found; a reset looks again in any case
WALK_S = 30.0  # after which a walk makes do with what it has seen: half of what a pass waits for one answer


class Nominees:
    """The ids of records that are probably stuck, and that no batch has had yet. `walk` finds them, in any order."""

    def __init__(self, walk: Callable[[], AsyncGenerator[list[Stuck]]]) -> None:
        self._walk = walk
        self._ids: deque[str] = deque()
        self._until = 0.0

    async def count(self) -> int:
        """How many are stuck among those that a walk sees within `WALK_S`; they are nominated."""
        self._ids.clear()
        seen: set[str] = set()
        kept: dict[str, Stuck] = {}
        end = time.monotonic() + WALK_S
        async with aclosing(self._walk()) as walk:
            async for some in walk:
                seen.update(stuck.id for stuck in some)
                kept.update((stuck.id, stuck) for stuck in some)
                if len(kept) > 2 * MOST:
                    kept = {stuck.id: stuck for stuck in longest(MOST, kept.values())}
                if time.monotonic() >= end:
                    break
        self._ids.extend(stuck.id for stuck in longest(MOST, kept.values()))
        self._until = time.monotonic() + KEPT_S
        return len(seen)

    def first(self, limit: int) -> list[str]:
        """The first of those that were found lately, the longest stuck first."""
        if time.monotonic() > self._until:
            self._ids.clear()
        return [self._ids[number] for number in range(min(limit, len(self._ids)))]

    async def next_batch(self, size: int, bring_back: Callable[[Sequence[str]], Awaitable[Reset]]) -> Reset:
        """What the first batch has done of which anything was stuck; nothing when a walk finds nothing more."""
        walked = False
        while self.first(1) or not walked:
            if not self._ids:
                await self.count()
                walked = True
            batch = [self._ids.popleft() for _ in range(min(size, len(self._ids)))]
            done = await bring_back(batch) if batch else Reset()
            if done.count:
                return done
        return Reset()


def longest(limit: int, found: Iterable[Stuck]) -> list[Stuck]:
    """The first of these records, the longest stuck first."""
    return nlargest(limit, found, lambda stuck: stuck.age_s)
