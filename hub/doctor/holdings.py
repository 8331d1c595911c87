"""The check of how much each user and room holds, as quotas count it, against the records of tasks, jobs and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from hub.observability.logs import get_logger
from hub.store.lenient import read_each
from hub.store.scan import keys_of
from hub.store.store import Store

KINDS = ("tasks", "schemas", "schedules", "providers", "rooms")
BATCH = 200  # records read at a time
COUNTS = 3  # how often to count at most, while records are made during each count
_log = get_logger("hub.doctor")
_OPEN = ("pending", "claimed", "running")


class HeldByOwner(NamedTuple):
    """An owner (a user or a room), the number kept of what it holds, and the number as counted; all as text."""

    owner: str
    kept: str
    counted: str


class Holdings:
    """The counter of what each owner holds, by the kinds of quotas."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def words(self, kinds: Sequence[str]) -> list[list[str]]:
        """Return for each kind ["differs"] if the kept number of any owner is wrong, else []."""
        found = await self.wrong()
        return [["differs"] if found[kind] else [] for kind in kinds]

    async def wrong(self) -> dict[str, list[HeldByOwner]]:
        """Return by kind the owners whose kept number differs from the records, users first. Of the kind "rooms" also
        return each room that holds nothing and is still open.

        If a record was made during a count, count again: the count may be wrong, even if the kept number is the same
        before and after it. After `COUNTS` such counts return none, and log that.
        """
        for _ in range(COUNTS):
            made, before = await self._made(), await self._kept()
            counted = await self._counted()
            after = await self._kept()
            if made == await self._made():
                return {
                    kind: [
                        HeldByOwner(owner, str(before[kind][owner]), str(counted[kind][owner]))
                        for owner in sorted(before[kind].keys() | counted[kind].keys(), reverse=True)
                        if before[kind][owner] == after[kind][owner] != counted[kind][owner]
                    ]
                    for kind in KINDS
                }
        _log.warning("holdings not counted", why="records were made during each count", counts=COUNTS)
        return {kind: [] for kind in KINDS}

    async def _made(self) -> str | None:
        """Return the time of the newest record in us; it changes with each new record, as no two have the same time."""
        made: str | None = await self._store.read("HGET", self._store.keys.store, "last_us")
        return made

    async def _kept(self) -> dict[str, Counter[str]]:
        asked = (("ZRANGE", self._store.keys.used(kind), 0, -1, "WITHSCORES") for kind in KINDS)
        found = await read_each(self._store, asked, [])
        kept = {
            kind: Counter({owner: int(held) for owner, held in rows}) for kind, rows in zip(KINDS, found, strict=True)
        }
        kept["rooms"].update(f"room:{room}" for room in await self._openers())
        return kept

    async def _openers(self) -> dict[str, str]:
        """Return, for each room that holds something, the user who opened it by storing the first thing there."""
        found: list[dict[str, str]] = await read_each(self._store, [("HGETALL", self._store.keys.room_openers)], {})
        return found[0]

    async def _counted(self) -> dict[str, Counter[str]]:
        counted: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}

        def add(kind: str, user: str, room: str, amount: str | int) -> None:
            for owner in (f"user:{user}", f"room:{room}"):
                counted[kind][owner] += int(amount)

        async for _, (status, user, room, size) in self._records("task", "status", "user", "room", "bytes"):
            if status in _OPEN and user is not None and room and size:
                add("tasks", user, room, size)
        async for _, (user, room, size) in self._records("schedule", "user", "room", "bytes"):
            if user is not None and room and size:
                add("tasks", user, room, size)
                add("schedules", user, room, 1)
        async for full, (user, size) in self._records("provider", "user", "bytes"):
            if user is not None and size:
                add("schemas", user, _room_of(full), size)
                add("providers", user, _room_of(full), 1)
        async for full, (user, size) in self._records("job", "by", "bytes"):
            if user is not None and size:
                add("schemas", user, _room_of(full), size)
        for room, user in (await self._openers()).items():
            owner = f"room:{room}"
            counted["rooms"][f"user:{user}"] += 1
            counted["rooms"][owner] = int(any(counted[kind][owner] for kind in KINDS))
        return counted

    async def _records(self, kind: str, *fields: str) -> AsyncIterator[tuple[str, Sequence[str | None]]]:
        """Yield the id and the values of these fields of every record of a kind, such as "task"."""
        key = getattr(self._store.keys, kind)
        nothing = (None,) * len(fields)
        seen: set[str] = set()
        async for names in keys_of(self._store, begin := key("")):
            for start in range(0, len(names), BATCH):
                batch = [name for name in names[start : start + BATCH] if name not in seen]
                seen.update(batch)
                found = await read_each(self._store, (("HMGET", name, *fields) for name in batch), nothing)
                for name, record in zip(batch, found, strict=True):
                    if record[-1] is None or str(record[-1]).isdecimal():
                        yield name[len(begin) :], record


def _room_of(full: str) -> str:
    return full.partition(":")[0]
