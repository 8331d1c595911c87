"""The search for pools, items and lease records that other programs wrote into Redis; a bounded part per pass."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from hub.batched import batched
from hub.capacity.holds import Holds
from hub.capacity.pools import Pools
from hub.errors import ForeignKey, StoreUnavailable
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.cancelling import retrieve_error
from hub.store.store import Store
from hub.sweeping.batches import in_batches

BATCH = 100  # slots or lease records per script
SCAN_BATCH = 1000
SMALL = 20_000  # a store with at most this many keys is searched as a whole in every pass
POOLS = 500  # pools per pass whose lists are checked, in about 3 ms of Redis
LARGE_CALLS = 3  # calls of SCAN per pass in a larger store, which take about 1 ms of Redis
_log = get_logger("hub.sweeping")


class Reconciler:
    """The search of the keyspace. Each pass reads a bounded part of it and corrects the hub's indexes by the lists."""

    def __init__(self, store: Store, settings: Settings, pools: Pools, holds: Holds) -> None:
        self._store = store
        self._pools = pools
        self._holds = holds
        self._causes: Mapping[str, Mapping[str, int]] | None = None  # why slots are held back, as of this pass
        self._ttl_ms = int(settings.borrow_ttl_s * 1000)
        self._drop_missing = store.script("sweeping/drop_missing")
        self._adopt_sessions = store.script("sweeping/adopt_sessions")
        self._cursor: Any = "0"
        self._pool_offset = 0
        self.errors = 0  # records that could not be read, in the part whose result `look` returned last
        self._walking: asyncio.Task[tuple[int, int]] | None = None

    async def look(self, patience_s: float) -> int:
        """Search the next part of the keyspace; return how many slots and leases were adopted or forgotten.

        If a search is running already, wait for its result. A search may be long, by a list of many slots or a busy
        Redis: after `patience_s` the caller gets 0, the search goes on, and a later call returns its result.
        """
        if self._walking is None or _cut_off(self._walking):
            self._walking = asyncio.create_task(self._stretch(), name="audit")
            self._walking.add_done_callback(retrieve_error)
        walking = self._walking
        await asyncio.wait([walking], timeout=patience_s)
        self.errors = 0
        if not walking.done() or self._walking is not walking:
            return 0
        self._walking = None
        changed, self.errors = walking.result()
        return changed

    async def _stretch(self) -> tuple[int, int]:
        """Search one part of the keyspace; return (how many slots and leases changed, how many could not be read)."""
        names = await self._next_keys()
        keys = self._store.keys
        changed = 0
        self._causes = None
        touched: dict[str, set[str]] = {}
        for place, prefix in (("free", keys.available("")), ("lent", keys.inuse(""))):
            for name in names:
                label = name[len(prefix) :]
                if name.startswith(prefix) and self._pools.usable(label):
                    changed += await self._walk(label, place, name, touched.setdefault(label, set()))
        # A pool whose two lists were deleted still has the hub's own set of its slots.
        prefix = keys.pool_slots("")
        for label in (name[len(prefix) :] for name in names if name.startswith(prefix)):
            touched.setdefault(label, set())
        for label in dict.fromkeys([*touched, *await self._next_pools()]):
            changed += await self._forget(label, touched.get(label, set()))
        prefix = keys.session("")
        adopted, failed = await self._take_in([name[len(prefix) :] for name in names if name.startswith(prefix)])
        return changed + adopted, failed

    async def _next_pools(self) -> list[str]:
        """Return the next `POOLS` labels of pools that should have slots, because their lists may have been deleted."""
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
        """Forget slots of a pool that are in none of its lists, and return how many; slots in `listed` are in one."""
        try:
            (pool,) = await self._pools.describe([label])
        except ForeignKey as error:
            _log.warning("key has the wrong type", pool=label, why=str(error))
            return 0
        unlisted = pool.published - pool.free - pool.lent
        if pool.maintenance or unlisted <= 0:
            return 0
        if self._causes is None:
            self._causes = await self._holds.causes()
        if sum(self._causes.get(label, {}).values()) == unlisted:  # held back, all of them
            return 0
        known = await self._store.read("SMEMBERS", self._store.keys.pool_slots(label))
        dropped = 0
        for batch in batched(sorted(set(known) - listed), BATCH):
            _, count = await self._drop_missing(rest=batch)
            dropped += count
        if dropped:
            _log.info("slots removed by another program", pool=label, slots=dropped)
        return dropped

    async def _adopt(self, slots: Sequence[str]) -> list[str]:
        return list(await self._adopt_sessions(ttl_ms=self._ttl_ms, rest=slots))

    async def _take_in(self, slots: Sequence[str]) -> tuple[int, int]:
        words, failed = await in_batches(slots, BATCH, self._adopt)
        adopted = [(slot, word) for slot, word in words if word in ("adopted", "over", "stray")]
        for slot, word in adopted:
            _log.info("session of another program adopted", session=slot, state=word)
        return len(adopted), failed


def _cut_off(walking: asyncio.Task[tuple[int, int]]) -> bool:
    """Return whether an earlier search ended because Redis did not answer; its result is of no use then."""
    return walking.done() and not walking.cancelled() and isinstance(walking.exception(), StoreUnavailable)
