"""Finding what other programs wrote into Redis: pools, items, sessions. Slow on purpose, bounded per pass."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hub.batched import batched
from hub.capacity.pools import Pools
from hub.errors import ForeignKey, StoreUnavailable
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store
from hub.sweeping.batches import each

BATCH = 100  # slots or sessions per script
SCAN_BATCH = 1000
SMALL = 20_000  # keys; a store up to this size is seen whole in every pass
POOLS = 500  # pools looked at per pass for lists that are gone: about 3 ms of Redis
LARGE_CALLS = 3  # scan calls per pass in a larger one: about 1 ms of Redis
_log = get_logger("hub.sweeping")


class Reconciler:
    """Walks the keyspace, a bounded stretch per pass, and brings the private indexes in line with the lists."""

    def __init__(self, store: Store, settings: Settings, pools: Pools) -> None:
        self._store = store
        self._pools = pools
        self._ttl_ms = int(settings.borrow_ttl_s * 1000)
        self._drop_missing = store.script("sweeping/drop_missing")
        self._adopt_sessions = store.script("sweeping/adopt_sessions")
        self._cursor: Any = "0"
        self._pool_offset = 0
        self.errors = 0  # records that could not be looked at, of the stretch that was answered for last
        self._walking: asyncio.Task[tuple[int, int]] | None = None

    async def look(self, patience_s: float) -> int:
        """One stretch; returns how many slots and sessions were adopted or forgotten.

        A caller that asks while one is under way waits for that one. A list of many slots, or a busy Redis, makes it
        long: a caller whose patience is over gets 0, it goes on by itself, and the next caller is told what it found.
        """
        if self._walking is None or _cut_off(self._walking):
            self._walking = asyncio.create_task(self._stretch(), name="audit")
            self._walking.add_done_callback(_seen)
        walking = self._walking
        await asyncio.wait([walking], timeout=patience_s)
        self.errors = 0
        if not walking.done() or self._walking is not walking:
            return 0
        self._walking = None
        changed, self.errors = walking.result()
        return changed

    async def _stretch(self) -> tuple[int, int]:
        """(changed, records that could not be looked at)."""
        names = await self._next_keys()
        keys = self._store.keys
        changed = 0
        touched: dict[str, set[str]] = {}
        for place, prefix in (("free", keys.available("")), ("lent", keys.inuse(""))):
            for name in names:
                label = name[len(prefix) :]
                if name.startswith(prefix) and self._pools.usable(label):
                    changed += await self._walk(label, place, name, touched.setdefault(label, set()))
        # A pool whose lists are both gone is still among the published ones.
        prefix = keys.pool_slots("")
        for label in (name[len(prefix) :] for name in names if name.startswith(prefix)):
            touched.setdefault(label, set())
        for label in dict.fromkeys([*touched, *await self._next_pools()]):
            changed += await self._forget(label, touched.get(label, set()))
        prefix = keys.session("")
        adopted, failed = await self._take_in([name[len(prefix) :] for name in names if name.startswith(prefix)])
        return changed + adopted, failed

    async def _next_pools(self) -> list[str]:
        """A stretch of the pools that should have slots: their lists may be gone as a whole."""
        total, labels = await self._pools.labels(self._pool_offset, POOLS)
        self._pool_offset = 0 if self._pool_offset + POOLS >= total else self._pool_offset + POOLS
        return labels

    async def _next_keys(self) -> list[str]:
        calls = -(-SMALL // SCAN_BATCH) if await self._store.read("DBSIZE") <= SMALL else LARGE_CALLS
        found: dict[str, None] = {}
        for _ in range(calls):
            self._cursor, names = await self._store.read("SCAN", self._cursor, "COUNT", SCAN_BATCH)
            found.update(dict.fromkeys(names))
            if str(self._cursor) == "0":
                break
        return list(found)

    async def _walk(self, label: str, place: str, name: str, listed: set[str]) -> int:
        try:
            return await self._pools.adopt(label, place, listed)
        except ForeignKey as error:
            _log.warning("key has the wrong type", key=name, why=str(error))
            return 0

    async def _forget(self, label: str, listed: set[str]) -> int:
        """Forget slots of a pool that are in none of its lists; those in `listed` were seen there."""
        try:
            (pool,) = await self._pools.describe([label])
        except ForeignKey as error:
            _log.warning("key has the wrong type", pool=label, why=str(error))
            return 0
        if pool.maintenance or pool.published <= pool.free + pool.lent:
            return 0
        known = await self._store.read("SMEMBERS", self._store.keys.pool_slots(label))
        dropped = 0
        for batch in batched(sorted(set(known) - listed), BATCH):
            _, count = await self._drop_missing(rest=batch)
            dropped += count
        if dropped:
            _log.info("slots removed by another program", pool=label, slots=dropped)
        return dropped

    async def _take_in(self, slots: Sequence[str]) -> tuple[int, int]:
        words, failed = await each(slots, BATCH, lambda batch: self._adopt_sessions(ttl_ms=self._ttl_ms, rest=batch))
        adopted = [(slot, word) for slot, word in words if word in ("adopted", "over", "stray")]
        for slot, word in adopted:
            _log.info("session of another program adopted", session=slot, state=word)
        return len(adopted), failed


def _cut_off(walking: asyncio.Task[tuple[int, int]]) -> bool:
    """Whether a stretch ended because Redis was away, with nobody waiting for it: nobody need be told."""
    return walking.done() and not walking.cancelled() and isinstance(walking.exception(), StoreUnavailable)


def _seen(walking: asyncio.Task[tuple[int, int]]) -> None:
    """A failure is for the next who asks; there may be none."""
    if not walking.cancelled():
        walking.exception()
