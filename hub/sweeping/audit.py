"""Finding what other programs wrote into Redis: pools, items, sessions. Slow on purpose, bounded per pass."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hub.capacity.pools import Pools
from hub.errors import ForeignKey
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store

BITE = 100  # slots or sessions per script
SCAN_BITE = 1000
SMALL = 20_000  # keys; a store up to this size is seen whole in every pass
LARGE_CALLS = 5  # scan calls per pass in a larger one: about 2 ms of Redis
_log = get_logger("hub.sweeping")


class Audit:
    """Walks the keyspace, a bounded stretch per pass, and brings the private indexes in line with the lists."""

    def __init__(self, store: Store, settings: Settings, pools: Pools) -> None:
        self._store = store
        self._pools = pools
        self._ttl_ms = int(settings.borrow_ttl_s * 1000)
        self._drop_missing = store.script("sweeping/drop_missing")
        self._adopt_sessions = store.script("sweeping/adopt_sessions")
        self._cursor: Any = "0"
        self._walking = asyncio.Lock()

    async def look(self) -> int:
        """One stretch; returns how many slots and sessions were adopted or forgotten."""
        async with self._walking:
            names = await self._next_keys()
            keys = self._store.keys
            changed = 0
            touched: dict[str, set[str]] = {}
            for place, prefix in (("free", keys.available("")), ("lent", keys.inuse(""))):
                for name in names:
                    label = name[len(prefix) :]
                    if name.startswith(prefix) and self._pools.usable(label):
                        changed += await self._walk(label, place, name, touched.setdefault(label, set()))
            for label, listed in touched.items():
                changed += await self._forget(label, listed)
            prefix = keys.session("")
            slots = [name[len(prefix) :] for name in names if name.startswith(prefix)]
            return changed + await self._take_in(slots)

    async def _next_keys(self) -> list[str]:
        calls = -(-SMALL // SCAN_BITE) if await self._store.read("DBSIZE") <= SMALL else LARGE_CALLS
        found: dict[str, None] = {}
        for _ in range(calls):
            self._cursor, names = await self._store.read("SCAN", self._cursor, "COUNT", SCAN_BITE)
            found.update(dict.fromkeys(names))
            if str(self._cursor) == "0":
                break
        return list(found)

    async def _walk(self, label: str, place: str, name: str, listed: set[str]) -> int:
        try:
            return await self._pools.adopt(label, place, listed)
        except ForeignKey as error:
            _log.warning("foreign key", key=name, why=str(error))
            return 0

    async def _forget(self, label: str, listed: set[str]) -> int:
        (pool,) = await self._pools.describe([label])
        if pool.maintenance or pool.published <= pool.free + pool.lent:
            return 0
        known = await self._store.read("SMEMBERS", self._store.keys.pool_slots(label))
        missing = sorted(set(known) - listed)
        dropped = 0
        for start in range(0, len(missing), BITE):
            _, count = await self._drop_missing(rest=missing[start : start + BITE])
            dropped += count
        if dropped:
            _log.info("audit dropped", pool=label, slots=dropped)
        return dropped

    async def _take_in(self, slots: Sequence[str]) -> int:
        adopted = 0
        for start in range(0, len(slots), BITE):
            bite = slots[start : start + BITE]
            words = await self._adopt_sessions(ttl_ms=self._ttl_ms, rest=bite)
            for slot, word in zip(bite, words, strict=True):
                if word in ("adopted", "over", "stray"):
                    adopted += 1
                    _log.info("audit adopted", session=slot, state=word)
        return adopted
