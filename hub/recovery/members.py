"""Reading of the ids in an index batch by batch: a set, or a sorted set by the time of the last update."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator

from hub.recovery.models import RedisSource
from hub.store.external import ExternalRedis

BATCH = 150  # ids per script, which takes about 2 ms
FIRST_MS = 100_000_000_000  # a score below is a Unix time in s, others are in ms, as in lua/record_times.lua


class Members:
    """The ids of an index, read about a batch at a time; of a sorted index only the overdue ids are read."""

    def __init__(self, redis: ExternalRedis, source: RedisSource) -> None:
        self._redis = redis
        self._source = source
        self._cursor = 0  # where the next call of `onward` begins in a set
        self._rank = math.inf  # the next call of `onward` begins below this rank in a sorted set

    async def walk(self, older_than_us: float) -> AsyncGenerator[list[str]]:
        """Yield all ids in the index of a source, a batch at a time, from its beginning; an id may come twice."""
        if await self._kind() == "set":
            async for _, ids in self._scan(0):
                yield ids
        else:
            for low, top in await self._overdue(older_than_us):
                yield await self._range(low, top)

    async def onward(self, older_than_us: float) -> AsyncGenerator[list[str]]:
        """Yield all ids in the index, from where the last call was broken off, so that such callers see all in turn."""
        if await self._kind() == "set":
            begin = self._cursor
            for start in (begin, 0) if begin else (0,):
                async for cursor, ids in self._scan(start):
                    self._cursor = cursor
                    yield ids
                    if not start and begin and cursor == begin:
                        return
        else:
            batches = await self._overdue(older_than_us)
            first = next((number for number, (low, _) in enumerate(batches) if low < self._rank), 0)
            for low, top in batches[first:] + batches[:first]:
                self._rank = low
                yield await self._range(low, top)
            self._rank = math.inf

    async def _kind(self) -> str:
        kind = str(await self._redis.read("TYPE", self._source.index))
        if kind not in ("set", "zset", "none"):
            raise self._source.refused("index", f"{self._source.index} is a {kind}, neither a set nor a sorted set")
        return kind

    async def _scan(self, start: int) -> AsyncIterator[tuple[int, list[str]]]:
        """Yield the ids in the index, a Redis set, from a cursor on, as pairs of the next cursor and some ids."""
        cursor = start
        while True:
            answer, some = await self._redis.read("SSCAN", self._source.index, cursor, "COUNT", BATCH)
            cursor = int(answer)
            yield cursor, list(some)
            if not cursor:
                return

    async def _range(self, low: int, top: int) -> list[str]:
        return list(await self._redis.read("ZRANGE", self._source.index, low, top - 1))

    async def _overdue(self, older_than_us: float) -> list[tuple[int, int]]:
        """Return the overdue members of a sorted index as ranges of ranks, a batch each: (first, behind the last).

        Scores in s and in ms have ranges of their own. The ranges go from the top down, so that no member is missed
        when other programs remove or move members meanwhile.
        """
        index = self._source.index
        if older_than_us == math.inf:
            ranges = [(0, int(await self._redis.read("ZCARD", index)))]
        else:
            seconds, microseconds = await self._redis.read("TIME")
            before_us = int(seconds) * 1_000_000 + int(microseconds) - int(older_than_us)
            in_s = f"({before_us // 10**6}.{before_us % 10**6:06}"
            in_ms = f"({before_us // 1000}.{before_us % 1000:03}"
            high_s, low_ms, high_ms = [
                int(await self._redis.read("ZCOUNT", index, "-inf", score)) for score in (in_s, f"({FIRST_MS}", in_ms)
            ]
            ranges = [(low_ms, high_ms), (0, high_s)]
        return [(max(low, top - BATCH), top) for low, high in ranges for top in range(high, low, -BATCH)]
