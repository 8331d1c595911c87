"""The clock of Redis is set back while borrowers wait, or another server takes over whose clock is behind."""

from __future__ import annotations

import asyncio

import pytest
from redis import Redis

from tests.capacity.queue.crowd import Crowd, offer, wanted
from tests.capacity.queue.test_order import serve

POOL = "pay:chromium"
HOUR_MS = 3_600_000


def set_back(redis: Redis) -> None:
    """Make everything that was stored by the time of Redis an hour older than it is: as if it had been set back."""
    pipe = redis.pipeline()
    for field in ("tick_ms", "leader_until_ms", "line_ms"):
        if redis.hexists("hub:store", field):
            pipe.hincrbyfloat("hub:store", field, HOUR_MS)
    for line in redis.keys("hub:line:*"):
        for ticket in redis.zrange(line, 0, -1):
            pipe.zincrby(line, HOUR_MS, ticket)
            pipe.hincrbyfloat(f"hub:ticket:{ticket}", "score", HOUR_MS)
    for pace in redis.keys("hub:pace:*"):
        pipe.hincrby(pace, "mark_ms", HOUR_MS)
    pipe.execute()


async def test_a_newcomer_queues_behind_earlier_waiters_although_the_clock_was_set_back(
    crowd: Crowd, redis: Redis
) -> None:
    await offer(crowd.hub, POOL, "s1")
    for name in ("holder", "first", "second"):
        await crowd.come(name, POOL)
    set_back(redis)
    for name in ("third", "fourth", "fifth"):
        await crowd.come(name, POOL)
    place = await crowd.hub.tickets.prospect(wanted(POOL))
    assert place.position == 6
    await serve(crowd, times=5)
    assert crowd.served == ["holder", "first", "second", "third", "fourth", "fifth"]


async def test_priority_is_worth_the_same_seconds_after_the_clock_was_set_back(crowd: Crowd, redis: Redis) -> None:
    await offer(crowd.hub, POOL, "s1")
    for name in ("holder", "first"):
        await crowd.come(name, POOL, wait_s=600)  # longer than the half minute that follows
    set_back(redis)
    clock_ms = int(redis.hget("hub:store", "clock_ms") or 0)
    pipe = redis.pipeline()  # half a minute later, in which the hubs were heard
    pipe.hset("hub:store", "clock_ms", clock_ms + 30_000)
    pipe.zadd("hub:hubs", dict.fromkeys(redis.zrange("hub:hubs", 0, -1), clock_ms + 30_000))
    pipe.execute()
    await crowd.come("normal", POOL)
    await crowd.come("urgent", POOL, priority=20)
    await crowd.come("pressing", POOL, priority=60)
    await serve(crowd, times=4)
    assert crowd.served == ["holder", "pressing", "first", "urgent", "normal"]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"borrow_queue_max_per_label": 9000, "borrow_queue_max_per_run": 9000}])
async def test_waiters_who_come_in_a_repeated_hour_keep_their_order(crowd: Crowd, redis: Redis) -> None:
    """More of them than a counter within one millisecond would tell apart."""
    await offer(crowd.hub, POOL, "s1")
    await crowd.come("holder", POOL)
    await crowd.come("first", POOL, wait_s=600)
    set_back(redis)
    borrow = crowd.hub.store.script("capacity/borrow")

    async def come(ticket: str) -> None:
        made = wanted(POOL, key=ticket)
        await borrow(
            label=made.label, ttl_ms=made.ttl_ms, idle_ms=0, run=made.run, holder="", request=ticket,
            attempt=made.attempt, fingerprint="", keep_s=600, keyed=1, repeated=0, hub=crowd.hub.queue.hub_id,
            alternatives="", prefer="", wait_ms=600_000, limit_ms=-1, priority=0, max_label=9000, max_run=9000,
        )  # fmt: skip

    tickets = [f"key-{number}" for number in range(5000)]
    for start in range(0, len(tickets), 100):  # sent together, in this order
        await asyncio.gather(*(come(ticket) for ticket in tickets[start : start + 100]))
    assert redis.zrange(f"hub:line:{POOL}", 1, -1) == tickets
