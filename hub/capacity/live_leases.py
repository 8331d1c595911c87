"""The live leases as the store describes them: of one slot, of several, and pages of an index. Nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence

from hub.capacity.models import LeaseHolder, LeaseRecord
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store


class LiveLeases:
    """The live leases of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, slot: str) -> LeaseRecord | None:
        """Return the live lease of a slot, None when there is none."""
        (found,) = await self.find_all([slot])
        return found

    async def find_all(self, slots: Sequence[str]) -> list[LeaseRecord | None]:
        """Return the live lease of each slot, None for a slot that is not lent."""
        keys = self._store.keys
        fields = ("labelKey", "poolLabel", "runId", "nodeId", "borrowedAtUtc", "ttlSeconds", "holder")
        rows = await read_each(self._store, [("HMGET", keys.session(key_part(slot)), *fields) for slot in slots])
        left = await self._left([key_part(slot) for slot in slots])
        return [_record(slot, row, ms) for slot, row, ms in zip(slots, rows, left, strict=True)]

    async def _left(self, slots: Sequence[str]) -> list[int]:
        """Return the ms until each slot's lease lapses, at least 0; exact to half a second, a tick of the hub clock."""
        if not slots:
            return []
        keys = self._store.keys
        clock, deadlines = await self._store.read_all(
            [("HGET", keys.store, "clock_ms"), ("ZMSCORE", keys.deadlines, *slots)]
        )
        return [max(0, int(float(deadline or 0)) - int(clock or 0)) for deadline in deadlines]

    async def page(self, index: str, offset: int, limit: int) -> tuple[int, list[str]]:
        """Return how many slots the sorted set `index` holds, and at most `limit` of them from `offset` on."""
        total, slots = await self._store.read_all(
            [("ZCARD", index), ("ZRANGE", index, offset, offset + limit - 1)],
        )
        return int(total), list(slots)


def _record(slot: str, row: Sequence[str | None] | None, left_ms: int) -> LeaseRecord | None:
    """Return the lease that a session hash describes; None for no hash, or one that another program made unreadable."""
    if row is None or not row[0]:
        return None
    label, pool, run, node, since, ttl_s, holder = (text or "" for text in row)
    try:
        return LeaseRecord(slot, label, pool, run, node, since, float(ttl_s or 0), left_ms, LeaseHolder.read(holder))
    except ValueError:
        return None
