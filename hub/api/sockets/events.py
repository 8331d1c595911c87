"""The events that scripts publish for all hubs, brought to the connections of this one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import orjson
from socketio.async_pubsub_manager import AsyncPubSubManager

from hub.errors import StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.cancelling import cancel_all
from hub.store.faults import translated
from hub.store.monitor import ConnectionMonitor
from hub.store.notifications import HEARD, SAID
from hub.store.store import Store

IDLE_S = 1.0  # how often the reader looks up
AGAIN_S = 0.5  # before a lost channel is listened to again
_log = get_logger("hub.sockets")


class Channel:
    """What the scripts of one store publish for sockets. Most is for connections of other hubs: `wanted` says of a
    namespace and a room whether anybody here is in it.
    """

    def __init__(self, store: Store, wanted: Callable[[str, str], bool]) -> None:
        self._store = store
        self._wanted = wanted
        self._subscribed = asyncio.Event()

    async def hears(self, seconds: float) -> bool:
        """Return whether every event published from now on will be heard, once that is known or the time is up."""
        if not self._subscribed.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._subscribed.wait(), seconds)
        return self._subscribed.is_set()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the events that are wanted here, for ever; listen again after an outage."""
        while True:
            try:
                async for event in self._heard():
                    yield event
            except Exception as error:  # noqa: BLE001 - it must be listened to again; told apart and counted below
                if not isinstance(translated(error), StoreUnavailable):  # of an outage the hub clock tells
                    metrics.unhandled.inc()
                    _log.error("event channel unreachable", why=repr(error))
            self._subscribed.clear()
            await asyncio.sleep(AGAIN_S)

    async def _heard(self) -> AsyncIterator[dict[str, Any]]:
        async with self._store.client.pubsub() as subscription:
            subscribe = subscription.ssubscribe if self._store.in_cluster else subscription.subscribe
            await subscribe(self._store.keys.socketio)
            monitor = ConnectionMonitor(subscription)
            while True:
                message = await subscription.get_message(timeout=IDLE_S)
                if message is None:
                    await monitor.look()
                    continue
                monitor.heard()
                if message["type"] in HEARD:
                    self._subscribed.set()
                elif message["type"] in SAID and (event := self._read(message["data"])):
                    yield event

    def _read(self, text: str) -> dict[str, Any] | None:
        try:
            event: dict[str, Any] = orjson.loads(text)
            if event["method"] == "emit" and not self._wanted(event["namespace"], event["room"]):
                return None
        except (ValueError, KeyError, TypeError) as error:
            _log.debug("event message unreadable", why=repr(error))
            return None
        return event


class Events(AsyncPubSubManager):  # type: ignore[misc]
    """python-socketio's manager on the clients of the store, whatever server that is, Sentinel's or fakeredis.

    Its own Redis manager opens connections itself, and never tells from when on it hears anything.
    """

    name = "store"

    def __init__(self, store: Store) -> None:
        super().__init__(channel=store.keys.socketio)
        self._store = store
        self.channel_of_store = Channel(store, self.has)
        self._entered: dict[str, set[str | None]] = {}
        self._leaving = asyncio.Lock()
        self.thread: asyncio.Task[None] | None = None  # set with the first connection

    async def deliver(self, event: dict[str, Any]) -> None:
        """Send an event to the connections of this hub that are in its room."""
        await self._handle_emit(event)

    def has(self, namespace: str, room: str) -> bool:
        """Return whether any connection of this hub is in the room."""
        return room in self.rooms.get(namespace, ())

    async def close(self) -> None:
        """Stop listening."""
        if self.thread is not None:
            await cancel_all([self.thread])

    async def disconnect(self, sid: str, namespace: str | None = None, **options: Any) -> Any:
        """Disconnect as python-socketio does, one by one: to leave thousands of rooms takes some milliseconds."""
        if not options.get("ignore_queue"):  # for whichever hub it is, which then comes here
            return await super().disconnect(sid, namespace, **options)
        async with self._leaving:
            await asyncio.sleep(0)
            return await super().disconnect(sid, namespace, **options)

    def basic_enter_room(self, sid: str, namespace: str, room: str | None, eio_sid: str | None = None) -> None:
        """Enter a room as python-socketio does, and remember it for the end of the connection."""
        super().basic_enter_room(sid, namespace, room, eio_sid)
        self._entered.setdefault(sid, set()).add(room)

    def basic_leave_room(self, sid: str, namespace: str, room: str | None) -> None:
        """Leave a room as python-socketio does."""
        super().basic_leave_room(sid, namespace, room)
        self._entered.get(sid, set()).discard(room)

    def basic_disconnect(self, sid: str, namespace: str, **_: Any) -> None:
        """As python-socketio does, which looks through the rooms of everybody: 2 ms each with 5,000 connections."""
        for room in self._entered.pop(sid, ()):
            super().basic_leave_room(sid, namespace, room)
        self.callbacks.pop(sid, None)
        for pending in (self.pending_connect, self.pending_disconnect):
            if sid in pending.get(namespace, ()):
                pending[namespace].remove(sid)
                if not pending[namespace]:
                    del pending[namespace]

    def _listen(self) -> AsyncIterator[dict[str, Any]]:
        return self.channel_of_store.events()

    async def _publish(self, data: dict[str, Any]) -> None:
        with suppress(StoreUnavailable):  # who should have heard it is at a hub that hears nothing either
            publish = "SPUBLISH" if self._store.in_cluster else "PUBLISH"
            await self._store.read(publish, self.channel, orjson.dumps(data).decode())
