"""Reading of the event history: backwards for the past of one thing, forwards for callers that follow the events. The
stream has a bounded length, so a reader can look through all of it, and no index costs the writers anything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hub.history.events import Event, Wanted, parse_id
from hub.store.store import Store

PAGE = 500  # entries per read, which takes about 1 ms in Redis


@dataclass(frozen=True)
class FoundEvents:
    """The result of a search: events, newest first. `complete`: the limit and trimming have left none out."""

    events: tuple[Event, ...]
    complete: bool


@dataclass(frozen=True)
class EventPage:
    """A page of the events after an id. `oldest`, if set, is the first event kept: some before it are trimmed away."""

    events: tuple[Event, ...]
    last: bool
    oldest: str | None


class History:
    """The reader of the store's event stream."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keep = store.script("store/keep_history")
        self._turn = asyncio.Lock()  # one search through the whole stream at a time

    async def keep(self, entries: int) -> None:
        """Set in the store how many events the scripts keep."""
        await self._keep(most=entries)

    async def find(self, which: Wanted, limit: int) -> FoundEvents:
        """Return the latest events that pass the filter, at most `limit`; raises `StoreUnavailable`."""
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
        """Return a page of the events after this id, oldest first, and whether events in between were trimmed away."""
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
        """Return whether the event with this id is in the stream."""
        return bool(await self._store.read("XRANGE", self._store.keys.history, entry_id, entry_id))

    async def _trimmed(self) -> bool:
        """Return whether any event was ever trimmed away from the stream."""
        keys = self._store.keys
        if not await self._store.read("EXISTS", keys.history):
            return False
        info: dict[str, Any] = await self._store.read("XINFO STREAM", keys.history)
        return int(info["entries-added"]) > int(info["length"])
