"""Two processes that do nothing but call each other over Redis pub/sub, on the client and the loop that hubs have.

`python -m tests.bench.pubsub URL echo` answers; `... caller` makes as many round trips as it finds in the list GO and
puts the seconds each took into the list TOOK.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from redis.asyncio import Redis

from hub.settings import Settings
from hub.store.connection import make_client

THERE, BACK = "bench:there", "bench:back"
GO, TOOK, READY = "bench:go", "bench:took", "bench:ready"


async def echo(client: Redis) -> None:
    """Send back every message."""
    async with _subscribed(client, THERE) as heard:
        while True:
            await client.publish(BACK, await heard())


async def caller(client: Redis) -> None:
    """Measure round trips as they are asked for."""
    async with _subscribed(client, BACK) as heard:
        while True:
            asked = await client.blpop(GO, timeout=1)
            if asked is None:
                continue
            took = []
            for number in range(int(asked[1])):
                started = time.monotonic()
                await client.publish(THERE, str(number))
                assert await heard() == str(number)
                took.append(time.monotonic() - started)
            await client.rpush(TOOK, json.dumps(took))


@asynccontextmanager
async def _subscribed(client: Redis, name: str) -> AsyncIterator[Any]:
    async with client.pubsub(ignore_subscribe_messages=True) as channel:
        await channel.subscribe(name)
        await client.rpush(READY, name)

        async def heard() -> str:
            while True:
                message = await channel.get_message(timeout=1.0)
                if message is not None:
                    return str(message["data"])

        yield heard


if __name__ == "__main__":
    url, role = sys.argv[1:]
    uvloop.run({"echo": echo, "caller": caller}[role](make_client(url, Settings(redis_url=url))))
