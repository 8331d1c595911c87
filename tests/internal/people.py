"""Submitters of `@internal` jobs, listeners to events, and what a worker of taskiq would read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis
from taskiq_redis import RedisStreamBroker

from hub.core import Hub
from hub.jobs.dispatch import Dispatch
from hub.jobs.models import TaskRecord
from hub.store.keys import Keys
from tests.world import eventually

KEYS = Keys()
USER = uuid.UUID(int=7).hex


async def submit(hub: Hub, full: str, payload: Any, room: str = "room", task: str = "", **key: str) -> TaskRecord:
    """Submit a task; `payload` may be JSON text. `key` and `fingerprint` are those of the request."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return await Dispatch(hub.store).submit(room, full, text, USER, task or uuid.uuid4().hex, **key)


async def ended(hub: Hub, task: TaskRecord, status: str) -> TaskRecord:
    """Wait until a task has this status, and return it."""

    async def has_ended() -> bool:
        return (await hub.tasks.get(task.id)).status == status

    await eventually(has_ended)
    return await hub.tasks.get(task.id)


@contextmanager
def events_heard(redis: Redis) -> Iterator[list[tuple[str, str, dict[str, Any]]]]:
    """The events told to sockets while the block runs, as (event, room, data); complete when it has ended."""
    heard: list[tuple[str, str, dict[str, Any]]] = []
    channel = redis.pubsub(ignore_subscribe_messages=True)
    channel.subscribe(KEYS.socketio)
    while redis.pubsub_numsub(KEYS.socketio)[0][1] == 0:
        pass
    yield heard
    redis.publish(KEYS.socketio, "over")
    while (message := channel.get_message(timeout=5)) is None or message["data"] != "over":
        if message is not None:
            said = json.loads(message["data"])
            heard.append((said["event"], said["room"], said["data"][0]))
    channel.close()


async def read_as_taskiq(redis_url: str, count: int, **options: Any) -> list[Any]:
    """Return the messages that the stream broker of taskiq-redis is given, acknowledged."""
    broker = RedisStreamBroker(redis_url, consumer_id="0", xread_block=1000, **options)
    await broker.startup()
    found: list[Any] = []
    listening = broker.listen()
    async for message in listening:
        found.append(broker.formatter.loads(message.data))
        await message.ack()  # type: ignore[misc]
        if len(found) == count:
            break
    await listening.aclose()
    await broker.shutdown()
    return found
