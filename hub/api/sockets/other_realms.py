"""Rooms of other realms, for clients that know no realms. Such a client names no realm when it connects; the room that
it joins, or its worker, shows later which realm is meant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from hub.api.handling.context import Serving
from hub.api.realms.others import ServedRealms
from hub.api.sockets.events import Channel, Events
from hub.errors import StoreUnavailable
from hub.observability.realms import within
from hub.settings.realms import DEFAULT
from hub.store.cancelling import cancel_all


@dataclass(frozen=True)
class RealmPlace:
    """The realm of a Socket.IO room: its `Serving`, the channel of its events, and its name where it is not the realm
    of the connection."""

    serving: Serving
    channel: Channel
    realm: str | None = None

    def room(self, name: str) -> str:
        """Return the name under which this hub keeps the room. Two realms may have rooms with the same name."""
        return name if self.realm is None else f"{self.realm or DEFAULT}/{name}"

    @contextmanager
    def within(self) -> Iterator[None]:
        """Run a block as a part of this realm, for logs and metrics."""
        with nullcontext() if self.realm is None else within(self.realm):
            yield


class OtherRealms:
    """The other realms in which a connection of this realm has joined a room; the hub receives their events too."""

    def __init__(self, realms: ServedRealms | None, own: str, events: Events) -> None:
        self._realms = realms
        self._own = own
        self._events = events
        self._places: dict[str, tuple[RealmPlace, asyncio.Task[None]]] = {}

    def find(self, room: str, worker: str) -> RealmPlace | None:
        """Return the place of a room or a worker in another realm; None for one in this realm, and at a hub without
        realms.

        Raises `UnknownRealm` when this hub does not serve the realm, and `StoreUnavailable` when the realm's store is
        not open.
        """
        if self._realms is None:
            return None
        part = self._realms.of_room(room, worker)
        if part.name == self._own:
            return None
        if (serving := part.serving) is None:
            raise StoreUnavailable(
                f"Realm {part.name or DEFAULT} is away: its store does not answer; try again in a moment."
            )
        known = self._places.get(part.name)
        if known is None or known[0].serving is not serving:
            self._places[part.name] = known = self._listen(part.name, serving)
        return known[0]

    def is_there(self, place: RealmPlace) -> bool:
        """Return whether a realm is still served from the same store as when its room was joined: the store may have
        moved, or the realm may be gone."""
        known = self._places.get(place.realm or "")
        part = self._realms.parts.get(place.realm or "") if self._realms else None
        return known is not None and known[0] is place and part is not None and part.serving is place.serving

    async def tidy(self) -> None:
        """Stop receiving the events of realms that are gone or whose store has moved."""
        over = [name for name, (place, _) in self._places.items() if not self.is_there(place)]
        await cancel_all([self._places.pop(name)[1] for name in over])

    async def close(self) -> None:
        """Stop receiving the events of all other realms."""
        await cancel_all([reading for _, reading in self._places.values()])

    def _listen(self, name: str, serving: Serving) -> tuple[RealmPlace, asyncio.Task[None]]:
        def wanted(namespace: str, room: str) -> bool:
            return self._events.has(namespace, place.room(room))

        place = RealmPlace(serving, Channel(serving.hub.store, wanted), name)
        if known := self._places.get(name):
            known[1].cancel()
        return place, asyncio.create_task(self._read(place), name="events-of-realm")

    async def _read(self, place: RealmPlace) -> None:
        with place.within():
            async for event in place.channel.events():
                if event["method"] == "emit":
                    await self._events.deliver({**event, "room": place.room(event["room"])})
