"""Bringing a store to the newest format while hubs run, those of the version before among them: see `formats`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from hub.errors import UnknownReply
from hub.store.formats import FIRST, MIGRATIONS, newest
from hub.store.scan import keys_of, pattern
from hub.store.store import Store

BATCH = 200  # keys that are looked for, and changed, in one go
SILENT_S = 5.0  # a hub that was silent for longer has given up what it was doing, and opens the store anew


class Way(NamedTuple):
    """How far a store has come on its way to the next format."""

    to: int
    generation: str  # of the store: another server goes through its keys in another order
    since_ms: int  # when it was begun, by the time of Redis
    cursor: str

    @classmethod
    def read(cls, text: str) -> Way | None:
        """What was noted; None for nothing."""
        match text.split(" "):
            case [to, generation, since_ms, cursor]:
                return cls(int(to), generation, int(since_ms), cursor)
        return None

    def __str__(self) -> str:
        return f"{self.to} {self.generation} {self.since_ms} {self.cursor}"


class Step(NamedTuple):
    """What came of a step: keys that were changed, and how it goes on. `on`: at once. `other`: somebody else has gone
    on from there. `waits`: once hubs of another version are gone. `later`: once nodes have reported. `over`: no more.
    """

    changed: int
    word: Literal["on", "other", "waits", "later", "over"]
    others: Mapping[str, float] = MappingProxyType({})  # libraries that are waited for -> seconds since one was used


async def format_of(store: Store) -> int:
    """The format of the store."""
    return int(await store.read("HGET", store.keys.store, "format") or FIRST)


async def step(store: Store) -> Step:
    """Do a bounded part of what leads the store to the next format; raises `StoreUnavailable`. Several may do so."""
    known, was = await store.read("HMGET", store.keys.store, "format", "migrating")
    number = int(known or FIRST)
    if number >= newest():
        return Step(0, "over")
    generation = str(await store.read("HGET", store.keys.store, "generation"))
    way = Way.read(was or "")
    if way is None or (way.to, way.generation) != (number + 1, generation):
        way = Way(number + 1, generation, await _now_ms(store), "0")
    migration = MIGRATIONS[number - FIRST]
    match_ = pattern(store.keys.prefix + migration.keys)
    cursor, names = await store.read("SCAN", way.cursor, "MATCH", match_, "COUNT", BATCH)
    changed = int(await store.read("EVAL", migration.script, len(names), *names, "0")) if names else 0
    if str(cursor) != "0":
        return Step(changed, await _note(store, was, str(way._replace(cursor=str(cursor))), number))
    # Whoever was there after it was begun may have written the form before behind its back.
    silent_s = max(SILENT_S, (await _now_ms(store) - way.since_ms) / 1000)
    others = {name: idle_s for name, idle_s in (await store.libraries()).items() if idle_s <= silent_s}
    if others:
        await _note(store, was, "", number)
        return Step(changed, "waits", others)
    return Step(changed, await _note(store, was, "", way.to))


async def count(store: Store) -> list[tuple[str, int]]:
    """What each migration that is to come would change now: what it says of itself, and how many keys. Nothing is
    changed."""
    found = []
    for migration in MIGRATIONS[await format_of(store) - FIRST :]:
        keys = 0
        async for names in keys_of(store, store.keys.prefix + migration.keys):
            keys += int(await store.read("EVAL", migration.script, len(names), *names, "1")) if names else 0
        found.append((migration.about, keys))
    return found


async def _note(store: Store, was: str | None, now: str, format_: int) -> Literal["on", "other", "later"]:
    """Note how far it has come, unless somebody else has come further since, or it cannot be over yet."""
    match await store.script("store/migrate")(was=was or "", now=now, format=format_):
        case ["ok"]:
            return "on"
        case ["other"]:
            return "other"
        case ["later"]:
            return "later"
        case reply:
            raise UnknownReply("store/migrate", reply)


async def _now_ms(store: Store) -> int:
    seconds, micros = await store.read("TIME")
    return int(seconds) * 1000 + int(micros) // 1000
