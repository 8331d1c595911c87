"""Clients of the sockets, and what they can see of workers."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from redis import Redis

from hub.jobs.names import dashed
from tests.socket_client import SocketClient
from tests.world import PATIENCE_S, HubProcess, eventually

ANN = "a" * 32
BOB = "b" * 32
ROOT = "c" * 32
JOB = "lab:modifiers:Rotate"
OK = {"status": "ok"}


class Listener:
    """A client that keeps every event it is sent; it reconnects only when told so."""

    def __init__(self, process: HubProcess, token: str | None = "ann", **options: Any) -> None:
        self.told: list[tuple[str, Any]] = []
        self.hung_up_on = 0
        self._url = process.url
        self._auth = {"token": token} if token else None
        self._headers = options.pop("headers", {})
        self._transports = options.pop("transports", ["websocket"])
        self.client = SocketClient(**{"reconnection": False, **options})
        self.client.on("*", self._hear)
        self.client.on("disconnect", self._lose)

    async def _hear(self, event: str, *data: Any) -> None:
        self.told.append((event, *data))

    async def _lose(self, *_: Any) -> None:
        self.hung_up_on += 1

    async def connect(self) -> None:
        """Raises socketio's ConnectionError when refused."""
        await self.client.connect(self._url, self._headers, self._auth, self._transports)

    async def say(self, event: str, *data: Any) -> Any:
        """Send an event; returns what the hub acknowledged it with."""
        return await self.client.call(event, data[0] if len(data) == 1 else data or None, timeout=PATIENCE_S)

    async def join(self, room: str) -> Any:
        return await self.say("room_join", {"room_id": room})

    async def catch_up(self, redis: Redis, room: str) -> None:
        """Forget the events of a joined room that happened before, which may still be on their way to the hub."""
        publish(redis, "mark", f"room:{room}")
        await eventually(lambda: any(event == "mark" for event, _ in self.told))
        self.told.clear()

    async def offer(self, worker: str, job: str = JOB) -> Any:
        """Join the room of a job, as a worker."""
        return await self.say("join_job_room", {"job_name": job, "worker_id": dashed(worker)})

    async def hang_up(self) -> None:
        """Say goodbye; safe when the connection has ended."""
        await self.client.shutdown()


def new_worker() -> str:
    """Return an id for a worker."""
    return uuid4().hex


def publish(redis: Redis, event: str, room: str, data: Any = None, channel: str = "hub:socketio") -> int:
    """Publish an event as the scripts do; returns how many hubs heard it."""
    message = {
        "method": "emit",
        "event": event,
        "data": [data or {}],
        "binary": False,
        "namespace": "/",
        "room": room,
        "skip_sid": None,
        "callback": None,
        "host_id": "store",
    }
    return int(redis.publish(channel, json.dumps(message)))


def connections(redis: Redis, worker: str) -> int:
    """Return how many connections a worker has, over all hubs."""
    return int(redis.scard(f"hub:sockets:{worker}"))


def lives(redis: Redis, worker: str) -> bool:
    """Return whether there is such a worker."""
    return bool(redis.exists(f"hub:worker:{worker}"))


def traces(redis: Redis) -> set[str]:
    """Return the keys that connections have left in Redis."""
    kinds = ("hub:sockets:*", "hub:bound:*", "hub:connections:*", "hub:socket_hubs", "hub:hung_up")
    return {key for kind in kinds for key in redis.keys(kind)}
