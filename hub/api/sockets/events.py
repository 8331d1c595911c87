"""The events that scripts publish for the Socket.IO clients of all hubs, brought to the connections of this hub."""

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
from hub.store.notifications import CONFIRMATIONS, MESSAGES
from hub.store.store import Store

IDLE_S = 1.0  # the time without an event after which the reader checks its connection to Redis
AGAIN_S = 0.5  # between the loss of a subscription and the next one
_log = get_logger("hub.sockets")


class Channel:
    """The events that the scripts of one store publish for Socket.IO clients. Most are for connections of other hubs:
    `wanted` returns whether a connection of this hub is in a room of a namespace."""

    def __init__(self, store: Store, wanted: Callable[[str, str], bool]) -> None:
        self._store = store
        self._wanted = wanted
        self._subscribed = asyncio.Event()

    async def hears(self, seconds: float) -> bool:
        """Return whether the subscription is in force, so that every event from now on is received. Wait at most
        `seconds` for the subscription."""
        if not self._subscribed.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._subscribed.wait(), seconds)
        return self._subscribed.is_set()

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the events that are wanted here, without an end; subscribe again after an outage."""
        while True:
            try:
                async for event in self._heard():
                    yield event
            except Exception as error:  # noqa: BLE001 - subscribe again; the error is counted below
                if not isinstance(translated(error), StoreUnavailable):  # the hub clock reports outages
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
                    await monitor.check()
                    continue
                monitor.note_message()
                if message["type"] in CONFIRMATIONS:
                    self._subscribed.set()
                elif message["type"] in MESSAGES and (event := self._read(message["data"])):
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
    """python-socketio's manager of rooms, on the store's own Redis clients, so that it works with Sentinel and
    fakeredis too.

    python-socketio's own Redis manager opens connections itself, and does not tell when its subscription is in force.
    """

    name = "store"

    def __init__(self, store: Store) -> None:
        super().__init__(channel=store.keys.socketio)
        self._store = store
        self.channel_of_store = Channel(store, self.has)
        self._entered: dict[str, set[str | None]] = {}
        self._leaving = asyncio.Lock()
        self.thread: asyncio.Task[None] | None = None  # python-socketio starts it with the first connection

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
        """Disconnect a client as python-socketio does, but only one client at a time, with a turn of the loop in
        between: it takes some milliseconds to leave the thousands of rooms that a client may be in."""
        if not options.get("ignore_queue"):  # the client may be at another hub; its own hub then calls this again
            return await super().disconnect(sid, namespace, **options)
        async with self._leaving:
            await asyncio.sleep(0)
            return await super().disconnect(sid, namespace, **options)

    def basic_enter_room(self, sid: str, namespace: str, room: str | None, eio_sid: str | None = None) -> None:
        """Enter a room as python-socketio does, and remember the room for `basic_disconnect`."""
        super().basic_enter_room(sid, namespace, room, eio_sid)
        self._entered.setdefault(sid, set()).add(room)

    def basic_leave_room(self, sid: str, namespace: str, room: str | None) -> None:
        """Leave a room as python-socketio does."""
        super().basic_leave_room(sid, namespace, room)
        self._entered.get(sid, set()).discard(room)

    def basic_disconnect(self, sid: str, namespace: str, **_: Any) -> None:
        """Leave all rooms of a client that has disconnected, from the list that `basic_enter_room` keeps.
        python-socketio searches the rooms of all clients instead, which takes 2 ms with 5,000 connections."""
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
        with suppress(StoreUnavailable):  # the hubs that should receive this event do not reach the store either
            publish = "SPUBLISH" if self._store.in_cluster else "PUBLISH"
            await self._store.read(publish, self.channel, orjson.dumps(data).decode())
