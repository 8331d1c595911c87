"""A hub whose store is told the time: what takes minutes in line is played in a second, the same each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis import Redis

from hub.core import Hub
from tests.bench import fleet

TIME = "bench:time"  # seconds and microseconds, as the command TIME answers them
ASKED, TOLD = "redis.call('TIME')", f"redis.call('LRANGE', '{TIME}', 0, 1)"


class Clockwork:
    """The time of one store."""

    def __init__(self, hub: Hub, now_s: int) -> None:
        self.hub = hub
        self.now_s = now_s

    async def advance(self, seconds: int) -> None:
        """Let time pass, while a hub is there to hear."""
        for _ in range(seconds):
            self.now_s += 1
            await self.hub.store.read("LSET", TIME, 0, self.now_s)
            await self.hub.clock.tick()


@asynccontextmanager
async def scripted_hub(redis: Redis) -> AsyncIterator[Clockwork]:
    """A hub in this process whose library, otherwise the hub's own, reads a key where it would ask for the time."""
    async with fleet.hub_on(redis) as opened:
        store = opened.store
        store.library = store.library.replaced(ASKED, TOLD)
        redis.rpush(TIME, *redis.time())
        await store.open()
        now_s = int(redis.time()[0])
        redis.lset(TIME, 0, now_s)
        redis.lset(TIME, 1, 0)
        found = Clockwork(Hub(store, opened.settings), now_s)
        await found.advance(1)
        yield found
