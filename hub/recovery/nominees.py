"""The stuck records that one search has found, kept for several batches, so that not every batch searches anew."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from heapq import nlargest

from hub.recovery.models import Reset, Stuck

ROOM = 1_000  # records that a search keeps beyond twice its limit before it drops all but the longest stuck
MOST = 100_000  # records kept of one search, the longest stuck first; the next search finds the others
KEPT_S = 60.0  # the records of a search are used for this long; a reset checks again that each is stuck
WALK_S = 30.0  # a search ends after this long, with what it has found: half the time limit of a step of a pass


class Nominees:
    """The ids of probably stuck records that were given to no batch yet; `walk` searches for stuck records."""

    def __init__(self, walk: Callable[[], AsyncGenerator[list[Stuck]]]) -> None:
        self._walk = walk
        self._ids: deque[str] = deque()
        self._until = 0.0

    async def count(self) -> int:
        """Search for stuck records, for `WALK_S` at most; keep their ids, and return how many were found."""
        self._ids.clear()
        seen: set[str] = set()
        end = time.monotonic() + WALK_S

        async def seen_walk() -> AsyncGenerator[list[Stuck]]:
            async with aclosing(self._walk()) as walk:
                async for some in walk:
                    seen.update(stuck.id for stuck in some)
                    yield some
                    if time.monotonic() >= end:
                        break

        self._ids.extend(stuck.id for stuck in await longest_of(MOST, seen_walk()))
        self._until = time.monotonic() + KEPT_S
        return len(seen)

    def first(self, limit: int) -> list[str]:
        """Return up to `limit` ids that the last search found, the longest stuck first; none after `KEPT_S`."""
        if time.monotonic() > self._until:
            self._ids.clear()
        return [self._ids[number] for number in range(min(limit, len(self._ids)))]

    async def next_batch(self, size: int, bring_back: Callable[[Sequence[str]], Awaitable[Reset]]) -> Reset:
        """Give batches of ids of stuck records to `bring_back` until it resets a record; return its result then.

        Searches anew when all ids are used; returns an empty result when that search finds nothing to reset either.
        """
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


async def longest_of(limit: int, walk: AsyncIterable[list[Stuck]]) -> list[Stuck]:
    """Return up to `limit` of the records that a search finds, the longest stuck first; a record may come twice."""
    kept: dict[str, Stuck] = {}
    async for some in walk:
        kept.update((stuck.id, stuck) for stuck in some)
        if len(kept) > 2 * limit + ROOM:
            kept = {stuck.id: stuck for stuck in longest(limit, kept.values())}
    return longest(limit, kept.values())


def longest(limit: int, found: Iterable[Stuck]) -> list[Stuck]:
    """Return up to `limit` of these stuck records, the longest stuck first."""
    return nlargest(limit, found, lambda stuck: stuck.age_s)
