"""The check of how many slots each class has, in each pool and in all, against the records of the slots."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from hub.store.lenient import read_each
from hub.store.scan import keys_of
from hub.store.store import Store

KINDS = ("slot_class", "pool_classes")  # keys that keep such a number: of all slots of a class, and of those of a pool
BATCH = 200  # records read at a time


class Stock(NamedTuple):
    """A pool, '' for all, a class, and the number kept of its slots and the number as counted, as text."""

    pool: str
    name: str
    kept: str
    counted: str


class Stocks:
    """The counter of slots by class."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def wrong(self) -> dict[str, list[Stock]]:
        """Return by kind of key the numbers that differ from the records, without those that changed meanwhile."""
        before = await self._kept()
        counted = await self._counted()
        after = await self._kept()
        found: dict[str, list[Stock]] = {kind: [] for kind in KINDS}
        for pool, name in sorted(before.keys() | counted.keys()):
            kept, number = before.get((pool, name), "0"), str(counted[pool, name])
            if kept == after.get((pool, name), "0") != number:
                found[KINDS[pool != ""]].append(Stock(pool, name, kept, number))
        return found

    async def _kept(self) -> dict[tuple[str, str], str]:
        keys = self._store.keys
        kept = {}
        async for names in keys_of(self._store, begin := keys.slot_class("")):
            for name, count in zip(names, await self._read("HGET", names, "slots"), strict=True):
                kept["", name[len(begin) :]] = count or "0"
        async for names in keys_of(self._store, begin := keys.pool_classes("")):
            for name, counts in zip(names, await self._read("HGETALL", names), strict=True):
                kept |= {(name[len(begin) :], each): count for each, count in (counts or {}).items()}
        return kept

    async def _counted(self) -> Counter[tuple[str, str]]:
        counted: Counter[tuple[str, str]] = Counter()
        seen: set[str] = set()
        async for names in keys_of(self._store, self._store.keys.slot("")):
            fresh = [name for name in names if name not in seen]
            seen.update(fresh)
            for start in range(0, len(fresh), BATCH):
                for record in await self._read("HMGET", fresh[start : start + BATCH], "pool", "class"):
                    if record and record[0] and record[1]:
                        counted.update([(record[0], record[1]), ("", record[1])])
        return counted

    async def _read(self, command: str, names: list[str], *fields: str) -> list[Any]:
        return await read_each(self._store, [(command, name, *fields) for name in names])
