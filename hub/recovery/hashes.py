"""HashRecords: hashes of other programs in Redis, whose ids are in a set or in a sorted set by last update."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime, timedelta

from hub.batched import batched
from hub.errors import RecordsUnavailable, SourceRefused, StoreFault, StoreUnavailable
from hub.recovery.addresses import open_redis
from hub.recovery.members import BATCH, Members
from hub.recovery.models import RedisSource, Reset, Stuck
from hub.recovery.nominees import Nominees, longest, longest_of
from hub.settings import Settings, mask_url
from hub.store.external import ExternalRedis
from hub.store.library import script
from hub.store.store import Store

SHOWN = 60  # characters of a value that an error shows; a longer value is no time and no number
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HashRecords:
    """The hashes of a source. The script that resets a batch, `BATCH` records at most, checks again that each is stuck.

    The scores of a sorted index are times of the last update too: only records whose score is older than the threshold
    are read, and the later of score and field is the time of the last update.
    """

    def __init__(self, source: RedisSource, store: Store | None, settings: Settings | None = None) -> None:
        """Make the client of the source's Redis, whose waits `settings` limit; raise `SourceRefused` for a faulty URL.

        A source without a URL has its records in the store's Redis.
        """
        self.source = source
        self._own = source.url is None
        self._redis, self._shown = _opened(source, store, settings or Settings())
        self._members = Members(self._redis, source)
        self._check = script("check")
        self._find = script("find")
        self._reset = script("reset")
        self._nominees = Nominees(lambda: self._stuck(source.threshold_s, self._members.onward))
        self._fields = {
            "status_field": source.status_field,
            "updated_at_field": source.updated_at_field,
            "attempts_field": source.attempts_field or "",
            "stuck": str(source.stuck),
            "time_zone": source.time_zone or "",
            "where": json.dumps({name: _text(value) for name, value in source.where.items()}),
        }

    async def check(self) -> None:
        """Check the index and one batch of its records; a missing index counts as empty.

        Raises `SourceRefused` for a field that no record has and for a time that cannot be read.
        """
        with self._translated():
            async with aclosing(self._members.walk(math.inf)) as walk:
                async for ids in walk:
                    if ids:
                        await self._check_batch(ids[:BATCH])
                        break

    async def count(self) -> int:
        """Return how many stuck records a search of 30 s finds; the next search goes on where this one ended."""
        return await self._nominees.count()

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """Return up to `limit` stuck records, the longest stuck first; `ids` and `older_than_s` narrow the search."""
        threshold_s = max(self.source.threshold_s, older_than_s or 0)
        if ids is not None:
            return longest(limit, await self._look_at(list(dict.fromkeys(ids)), threshold_s))
        # If enough of the records that were counted a moment ago are still stuck, the index is not searched again.
        found = await self._look_at(self._nominees.first(BATCH), threshold_s)
        if len(found) >= limit:
            return longest(limit, found)
        return await longest_of(limit, self._stuck(threshold_s, self._members.walk))

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Reset one batch of stuck records, the longest stuck first, or the stuck records among `ids`."""
        if ids is not None:
            return await self._bring_back(list(dict.fromkeys(ids)))
        return await self._nominees.next_batch(min(self.source.batch_size, BATCH), self._bring_back)

    async def close(self) -> None:
        """Close the connection to the source's Redis; the hub's own connection stays open."""
        if not self._own:
            await self._redis.close()

    async def _bring_back(self, ids: Sequence[str]) -> Reset:
        source = self.source
        words: list[int] = []
        for batch in batched(ids, BATCH):
            with self._translated():
                words += await self._redis.call(
                    self._reset,
                    self._keys(batch),
                    batch,
                    **self._fields,
                    becomes=str(source.becomes),
                    failed=str(source.failed),
                    error_field=source.error_field or "",
                    error_text=source.error_text,
                    max_attempts=source.max_attempts or 0,
                    threshold_us=_us(source.threshold_s),
                )
        return Reset.of(ids, words)

    async def _stuck(
        self, older_than_s: float, members: Callable[[float], AsyncGenerator[list[str]]]
    ) -> AsyncGenerator[list[Stuck]]:
        """Yield lists of stuck records older than this, in no order; a record may come twice."""
        with self._translated():
            async with aclosing(members(_us(older_than_s))) as walk:
                async for ids in walk:
                    yield await self._look_at(ids, older_than_s)

    async def _look_at(self, ids: Sequence[str], older_than_s: float = 0) -> list[Stuck]:
        """Return the records among these ids that are stuck, with their ages."""
        older_than_us = _us(max(self.source.threshold_s, older_than_s))
        found: list[Stuck] = []
        with self._translated():
            for batch in batched(ids, BATCH):
                now_us, *answers = await self._redis.call(self._find, self._keys(batch), batch, **self._fields)
                pairs = ((id, answer) for id, answer in zip(batch, answers, strict=True) if answer)
                some = [self._read(id, answer, int(now_us)) for id, answer in pairs]
                found += [stuck for stuck, age_us in some if age_us > older_than_us]
        return found

    def _read(self, id: str, answer: Sequence[str], now_us: int) -> tuple[Stuck, int]:
        updated_us, attempts = answer
        age_us = now_us - int(updated_us)
        counted = int(attempts) if self.source.attempts_field else None
        updated_at = _EPOCH + timedelta(microseconds=min(int(updated_us), now_us))
        return Stuck(id, str(self.source.stuck), age_us / 1_000_000, updated_at, counted), age_us

    async def _check_batch(self, ids: Sequence[str]) -> None:
        source = self.source
        answers = await self._redis.call(self._check, self._keys(ids), ids, **self._fields)
        pairs = list(zip(ids, answers, strict=True))
        for id, (kind, _, _, attempts, _) in pairs:
            key = self._key(id)
            if kind not in ("hash", "none"):
                raise source.refused("key", f"{key} is a {kind}, no hash")
            if source.attempts_field and attempts and not (attempts.isascii() and attempts.isdigit()):
                raise source.refused(
                    "attempts_field", f"{source.attempts_field} of {key} is {_short(attempts)}, no whole number"
                )
        hashes = [(id, *answer) for id, answer in pairs if answer[0] == "hash"]
        for field, place in (("status_field", 2), ("updated_at_field", 3)):
            if hashes and all(found[place] is None for found in hashes):
                named = getattr(source, field)
                raise source.refused(field, f"none of the {len(hashes)} hashes looked at has {named!r}")
        for id, _, _, updated_at, _, wrong in hashes:
            if wrong:
                raise self._refused_time(self._key(id), updated_at, wrong)

    def _refused_time(self, key: str, updated_at: str, wrong: str) -> SourceRefused:
        field = self.source.updated_at_field
        is_what = f"{field} of {key} is {_short(updated_at)}"
        match wrong:
            case "naive":
                why = (
                    f'{is_what}, without an offset from UTC; write one, or say time_zone = "UTC" if that is what it is'
                )
            case "late":
                why = f"{is_what}, more than a day ahead; Unix times are read in s or ms"
            case "ahead":
                return self.source.refused(
                    "index", f"the score of {key} is more than a day ahead; it must be a time in s or ms"
                )
            case _:
                why = f"{is_what}, which is no Unix time in s or ms and no ISO-8601 text"
        return self.source.refused("updated_at_field", why)

    def _keys(self, ids: Sequence[str]) -> list[str]:
        return [self.source.index, *map(self._key, ids)]

    def _key(self, id: str) -> str:
        return self.source.key.replace("{id}", id)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Run the block; raise errors of Redis as `RecordsUnavailable` or `SourceRefused`, which name the source."""
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


def _opened(source: RedisSource, store: Store | None, settings: Settings) -> tuple[ExternalRedis, str]:
    if source.url is not None:
        return open_redis(source.url, source, settings)
    if store is None:
        raise TypeError("a source without a URL is in the store")
    return ExternalRedis(store.client), "the hub's own Redis"


def _short(value: str) -> str:
    """Return a value of a record in quotes, cut to `SHOWN` characters, for the sentence of an error."""
    return repr(value if len(value) <= SHOWN else f"{value[:SHOWN]}...")


def _text(value: bool | int | str) -> str:
    """Return a value as the text that other programs write into a hash: true as "true"."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
