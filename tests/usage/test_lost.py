"""After a loss of the store hubs give back the figures that they remember; each lease still counts once."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from hub.core import Hub
from hub.store.connection import open_store
from hub.store.store import SETTLE_MS
from hub.usage import memory as memory_module
from tests.capacity.queue.crowd import offer, wanted
from tests.usage.figures import DAY_MS, age, sums
from tests.world import settings_for

POOL = "gpu:a100"


async def use(hub: Hub, redis: Redis, slot: str, days: int) -> None:
    """Hold a slot from so many days ago until now."""
    await offer(hub, POOL, slot)
    lease = await hub.leases.borrow(wanted(POOL))
    age(redis, lease.slot, days * DAY_MS)
    await hub.leases.give_back(lease.slot, POOL, lease.token)
    await hub.usage.fold()


async def remember(hub: Hub, days: int) -> None:
    for _ in range(days + 1):
        await hub.usage.memory.look(hub.usage.today())


@pytest.fixture(autouse=True)
def _one_look(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory_module, "LOOK_S", 3600.0)


async def test_figures_come_back_after_a_wipe_and_several_hubs_that_give_them_back_count_nothing_twice(
    hub: Hub, redis: Redis, redis_server: Any
) -> None:
    async with open_store(settings_for(redis_server.url)) as store:
        other = Hub(store, settings_for(redis_server.url))
        for each in (hub, other):
            await each.clock.tick()
        await use(hub, redis, "s1", 5)
        await remember(other, 10)
        await use(hub, redis, "s2", 5)
        before = await sums(hub)
        await remember(hub, 10)
        redis.flushall()
        for each in (other, hub, other):
            await each.clock.tick()
        assert redis.keys("hub:usage:*")
        await remember(hub, 10)
        await remember(other, 10)
        redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
        assert await sums(hub) == before
        await use(hub, redis, "s3", 0)
        for each in (hub, other):  # a late hub
            await each.usage.memory.recall()
            await remember(each, 10)
        assert {figures.leases for figures in (await sums(hub)).values()} == {3}
        assert len(set((await sums(hub)).values())) == 1


async def test_nothing_is_added_to_the_figures_while_hubs_give_them_back(hub: Hub, redis: Redis) -> None:
    await hub.clock.tick()
    await use(hub, redis, "s1", 0)
    before = await sums(hub)
    await remember(hub, 1)
    redis.flushall()
    await hub.clock.tick()
    redis.hset("hub:store", mapping={"settle_ms": int(redis.hget("hub:store", "clock_ms")) + 60_000})
    today = hub.usage.today()
    now_ms = today * DAY_MS
    redis.rpush("hub:usage_ended", f"{now_ms}\x1f{now_ms + 1000}\x1f\x1fs1\x1fn1\x1f{POOL}\x1f\x1f")
    hub.usage.refused(POOL)
    await hub.usage.fold()
    assert await sums(hub) == before
    redis.hincrby("hub:store", "clock_ms", 61_000)
    after = await sums(hub)
    assert {(figures.leases, figures.refusals) for figures in after.values()} == {(2, 1)}


async def test_what_a_hub_remembers_is_bounded_and_the_latest_days_stay(
    hub: Hub, redis: Redis, monkeypatch: Any
) -> None:
    monkeypatch.setattr(memory_module, "KEEP_BYTES", 400)
    await use(hub, redis, "s1", 30)
    await remember(hub, 60)
    today = hub.usage.today()
    kept = sorted(hub.usage.memory._packed)
    assert kept == list(range(kept[0], today + 1))
    assert 2 <= len(kept) < 10
