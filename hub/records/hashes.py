"""HashRecords: hashes of other programs in Redis, named by a set, or by a sorted set of when each was updated last."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from typing import Any

from hub.errors import RecordsUnavailable, SourceRefused, StoreFault, StoreUnavailable
from hub.records.models import RedisSource, Reset, Stuck
from hub.records.nominees import Nominees
from hub.settings import Settings, mask_url
from hub.store.connection import make_client
from hub.store.elsewhere import Elsewhere
from hub.store.keys import Keys
from hub.store.scripts import load
from hub.store.store import Store

BITE = 150  # records per script: about 2 ms
ROOM = 1_000  # records kept beyond those asked for, until the longest stuck of them are picked
FIRST_MS = 100_000_000_000  # a score from here on is in ms, as in lua/include/record_time.lua
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HashRecords:
    """Nominates what is stuck; the script that resets it looks again. A batch is one script, of at most `BITE` records.

    Where the index is sorted, its scores are times of the last update as well: what is overdue by its score is looked
    at, and the later of score and field counts.
    """

    def __init__(self, source: RedisSource, store: Store | None, settings: Settings | None = None) -> None:
        """Raises `SourceRefused` when the URL is none. `settings` tell how long its Redis is waited for.

        Without a URL it is the store's Redis.
        """
        self.source = source
        self._own = source.url is None
        self._shown = mask_url(source.url) if source.url else "the hub's own Redis"
        self._redis = Elsewhere(_client(source, store, settings or Settings()))
        self._look = load("records/look", Keys())
        self._reset = load("records/reset", Keys())
        self._nominees = Nominees()
        self._fields = {
            "status_field": source.status_field,
            "updated_at_field": source.updated_at_field,
            "attempts_field": source.attempts_field or "",
            "stuck": str(source.stuck),
        }

    async def check(self) -> None:
        """Look whether index and records are as declared, by one bite of them; a missing index is an empty one."""
        with self._told():
            async with aclosing(self._members(await self._kind(), math.inf)) as walk:
                async for ids in walk:
                    for id in ids:
                        await self._check_record(id)
                    break

    async def count(self) -> int:
        """How many are stuck now."""
        found: set[str] = set()
        async for some in self._stuck(self.source.threshold_s, None):
            found.update(stuck.id for stuck in some)
        return len(found)

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """The first of those that are stuck, the longest first; perhaps only of these ids, or of a greater age."""
        kept: dict[str, Stuck] = {}
        async for some in self._stuck(max(self.source.threshold_s, older_than_s or 0), ids):
            kept.update((stuck.id, stuck) for stuck in some)
            if len(kept) > 2 * limit + ROOM:
                kept = {stuck.id: stuck for stuck in nlargest(limit, kept.values(), _age_s)}
        return nlargest(limit, kept.values(), _age_s)

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Bring one batch back, the longest stuck first, or those of these ids that are stuck."""
        if ids is not None:
            return await self._bring_back(list(dict.fromkeys(ids)))
        return await self._nominees.next_batch(min(self.source.batch_size, BITE), self.look, self._bring_back)

    async def close(self) -> None:
        """Let go of connections, but for the hub's own."""
        if not self._own:
            await self._redis.close()

    async def _bring_back(self, ids: Sequence[str]) -> Reset:
        source = self.source
        words: list[int] = []
        for start in range(0, len(ids), BITE):
            bite = ids[start : start + BITE]
            with self._told():
                words += await self._redis.call(
                    self._reset,
                    self._keys(bite),
                    bite,
                    **self._fields,
                    becomes=str(source.becomes),
                    failed=str(source.failed),
                    error_field=source.error_field or "",
                    error_text=source.error_text,
                    max_attempts=source.max_attempts or 0,
                    threshold_us=_us(source.threshold_s),
                )
        outcomes = list(zip(ids, words, strict=True))
        return Reset(tuple(id for id, word in outcomes if word == 1), tuple(id for id, word in outcomes if word == 2))

    async def _stuck(self, older_than_s: float, ids: Sequence[str] | None) -> AsyncIterator[list[Stuck]]:
        """Those that are stuck, in no order, perhaps one of them twice."""
        older_than_us = _us(older_than_s)
        with self._told():
            walk = self._members(await self._kind(), older_than_us) if ids is None else _bites(list(dict.fromkeys(ids)))
            async for bite in walk:
                now_us, *found = await self._redis.call(self._look, self._keys(bite), bite, **self._fields)
                pairs = ((id, answer) for id, answer in zip(bite, found, strict=True) if answer)
                some = [self._read(id, answer, int(now_us)) for id, answer in pairs]
                yield [stuck for stuck, age_us in some if age_us > older_than_us]

    def _read(self, id: str, answer: Sequence[str], now_us: int) -> tuple[Stuck, int]:
        updated_us, attempts = answer
        age_us = now_us - int(updated_us)
        counted = int(attempts) if self.source.attempts_field else None
        updated_at = _EPOCH + timedelta(microseconds=min(int(updated_us), now_us))
        return Stuck(id, str(self.source.stuck), age_us / 1_000_000, updated_at, counted), age_us

    async def _members(self, kind: str, older_than_us: float) -> AsyncGenerator[list[str]]:
        """The ids that the index names, a bite at a time; of a sorted one those that are overdue by their score."""
        if kind == "set":
            cursor: int | str = 0
            while True:
                cursor, some = await self._redis.read("SSCAN", self.source.index, cursor, "COUNT", BITE)
                async for bite in _bites(list(some)):
                    yield bite
                if not int(cursor):
                    return
        elif kind == "zset":
            for low, high in await self._overdue(older_than_us):
                # From the top down: what others take out below, or move up, is not missed by that.
                for top in range(high, low, -BITE):
                    yield list(await self._redis.read("ZRANGE", self.source.index, max(low, top - BITE), top - 1))

    async def _overdue(self, older_than_us: float) -> list[tuple[int, int]]:
        """The ranks of overdue members: from, and up to but without. Scores in s come before those in ms."""
        index = self.source.index
        if older_than_us == math.inf:
            return [(0, int(await self._redis.read("ZCARD", index)))]
        seconds, microseconds = await self._redis.read("TIME")
        before_us = int(seconds) * 1_000_000 + int(microseconds) - int(older_than_us)
        in_s, in_ms = (f"({before_us // 10**6}.{before_us % 10**6:06}", f"({before_us // 1000}.{before_us % 1000:03}")
        high_s, low_ms, high_ms = [
            int(await self._redis.read("ZCOUNT", index, "-inf", score)) for score in (in_s, f"({FIRST_MS}", in_ms)
        ]
        return [(0, high_s), (low_ms, high_ms)]

    async def _kind(self) -> str:
        kind = str(await self._redis.read("TYPE", self.source.index))
        if kind not in ("set", "zset", "none"):
            raise self.source.refused("index", f"{self.source.index} is a {kind}, neither a set nor a sorted set")
        return kind

    async def _check_record(self, id: str) -> None:
        source, key = self.source, self._keys([id])[1]
        kind = await self._redis.read("TYPE", key)
        if kind not in ("hash", "none"):
            raise source.refused("key", f"{key} is a {kind}, no hash")
        if source.attempts_field and kind == "hash":
            found = await self._redis.read("HGET", key, source.attempts_field)
            if found and not (found.isascii() and found.isdigit()):
                raise source.refused(
                    "attempts_field", f"{source.attempts_field} of {key} is {found!r}, no whole number"
                )

    def _keys(self, ids: Sequence[str]) -> list[str]:
        return [self.source.index, *(self.source.key.replace("{id}", id) for id in ids)]

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say what Redis says in a sentence that names the source."""
        field = "index" if self._own else "url"
        try:
            yield
        except StoreUnavailable as error:
            why = f"{self._shown} {mask_url(str(error)).rstrip('.')}"
            raise RecordsUnavailable(self.source.refused(field, why).detail) from None
        except StoreFault as error:
            raise self._refused(field, error) from None

    def _refused(self, field: str, fault: StoreFault) -> SourceRefused:
        if fault.facts.get("spread"):
            return self.source.refused(
                "key", f"{self._shown} is a cluster, and index and keys are not in one slot of it"
            )
        return self.source.refused(field, f"{self._shown} refuses a command: {mask_url(str(fault)).rstrip('.')}")


def _client(source: RedisSource, store: Store | None, settings: Settings) -> Any:
    if source.url is None:
        if store is None:
            raise TypeError("a source without a URL is in the store")
        return store.client
    try:
        return make_client(source.url, settings)
    except (ValueError, TypeError):
        raise source.refused("url", f"{mask_url(source.url)} is no URL of a Redis") from None


def _age_s(stuck: Stuck) -> float:
    return stuck.age_s


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)


async def _bites(ids: Sequence[str]) -> AsyncIterator[list[str]]:
    for start in range(0, len(ids), BITE):
        yield list(ids[start : start + BITE])
