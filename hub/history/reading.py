"""Reading the history: backwards for what happened to one thing, forwards for those who follow. The stream is bounded,
so that looking through all of it costs the rare reader little and writers nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hub.history.events import Event, Wanted, parse_id
from hub.store.store import Store

PAGE = 500  # entries per call: about 1 ms of Redis


@dataclass(frozen=True)
class FoundEvents:
    """Events, newest first. `complete`: there are no older ones, neither beyond the limit nor trimmed."""

    events: tuple[Event, ...]
    complete: bool


@dataclass(frozen=True)
class EventPage:
    """Events that follow an id. `oldest`: what lies between that id and this one has been trimmed."""

    events: tuple[Event, ...]
    last: bool
    oldest: str | None


class History:
    """Reads what happened from the stream."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()  # one reader of the whole stream at a time

    async def keep(self, entries: int) -> None:
        """Tell the scripts how many entries to keep."""
        await self._store.read("HSET", self._store.keys.store, "history_max", entries)

    async def find(self, which: Wanted, limit: int) -> FoundEvents:
        """The latest events that fit; raises `StoreUnavailable`."""
        events: list[Event] = []
        end = "+"
        async with self._turn:
            while True:
                entries = await self._store.read("XREVRANGE", self._store.keys.history, end, "-", "COUNT", PAGE)
                events += (event for event in map(Event.read, entries) if which.fits(event))
                if len(events) > limit or len(entries) < PAGE:
                    break
                end = f"({entries[-1][0]}"
        trimmed = len(events) <= limit and await self._trimmed()
        return FoundEvents(tuple(events[:limit]), complete=len(events) <= limit and not trimmed)

    async def after(self, entry_id: str) -> EventPage:
        """The events that follow an id, oldest first, and whether some of them are gone."""
        key = self._store.keys.history
        first, entries = await self._store.read_all(
            [("XRANGE", key, "-", "+", "COUNT", 1), ("XRANGE", key, f"({entry_id}", "+", "COUNT", PAGE)]
        )
        oldest = first[0][0] if first else None
        start = parse_id(entry_id, "id")
        gap = oldest is not None and parse_id(oldest, "id") > start
        if gap and start == (0, 0):
            gap = await self._trimmed()
        return EventPage(tuple(map(Event.read, entries)), len(entries) < PAGE, oldest if gap else None)

    async def has(self, entry_id: str) -> bool:
        """Whether the event with this id is there."""
        return bool(await self._store.read("XRANGE", self._store.keys.history, entry_id, entry_id))

    async def _trimmed(self) -> bool:
        """Whether the stream has ever lost an entry."""
        keys = self._store.keys
        if not await self._store.read("EXISTS", keys.history):
            return False
        info: dict[str, Any] = await self._store.read("XINFO STREAM", keys.history)
        return int(info["entries-added"]) > int(info["length"])
