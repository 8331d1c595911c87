"""Every way in which a lease ends counts it once, also when the script runs twice; one that no caller got, never."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import Any

import pytest
from redis import Redis

from hub.capacity.models import BorrowRequest, Lease
from hub.capacity.nodes.models import DrainCall
from hub.core import Hub
from hub.usage.models import KINDS
from tests.capacity.queue.crowd import Crowd, offer, wanted
from tests.usage.figures import DAY_MS, HOUR_MS, age, held_ms, names, sums
from tests.world import SLACK_S, age_lease, age_node, push, sweepers

POOL = "gpu:a100"


@pytest.fixture(params=[1, 2], ids=["each script once", "each script twice"])
async def hub(hub: Hub, request: pytest.FixtureRequest) -> Hub:
    """A hub whose scripts reach Redis again, as they do when redis-py repeats a call that was cut off."""
    call = hub.store.call

    async def again(*arguments: Any) -> Any:
        first = await call(*arguments)
        for _ in range(request.param - 1):
            await call(*arguments)
        return first

    hub.store.call = again  # type: ignore[method-assign]
    await hub.agreed.agree()
    await hub.clock.tick()
    return hub


async def returned(hub: Hub, redis: Redis, lease: Lease) -> None:
    await hub.leases.give_back("s1", POOL, lease.token)


async def returned_without_a_token(hub: Hub, redis: Redis, lease: Lease) -> None:
    await hub.leases.give_back("s1", POOL, "")


async def lapsed(hub: Hub, redis: Redis, lease: Lease) -> None:
    await age_lease(hub, "s1")
    await hub.leases.lapse(["s1"])


async def deleted(hub: Hub, redis: Redis, lease: Lease) -> None:
    redis.delete("borrow_ttl:s1")
    await hub.leases.lapse(["s1"])


async def idle(hub: Hub, redis: Redis, lease: Lease) -> None:
    redis.hset("hub:slot:s1", "watch_idle", 1000)
    await hub.leases.lapse(["s1"])


async def node_left(hub: Hub, redis: Redis, lease: Lease) -> None:
    await hub.nodes.leave("n1")


async def node_expired(hub: Hub, redis: Redis, lease: Lease) -> None:
    age_node(redis, "n1", 3600)
    await hub.nodes.expire("n1", "expire", keep=False)


async def withdrawn(hub: Hub, redis: Redis, lease: Lease) -> None:
    await hub.pools.withdraw("n1", "s1")


async def drained(hub: Hub, redis: Redis, lease: Lease) -> None:
    await hub.nodes.drain("n1", DrainCall(True, left_ms=60_000))
    redis.zadd("hub:drain_deadlines", {"n1": 0})
    await sweepers(hub)[1].sweep()


async def revoked(hub: Hub, redis: Redis, lease: Lease) -> None:
    await hub.leases.give_back("s1", POOL, lease.token, revokes="1", reason="needed")


async def ended_after_a_loss(hub: Hub, redis: Redis, lease: Lease) -> None:
    await hub.store.script("capacity/note_ended")(rest=["s1", lease.token, "0"])


async def repaired(hub: Hub, redis: Redis, lease: Lease) -> None:
    redis.delete("session:s1")
    await hub.store.script("doctor/repair")(kind="slots", rest=["s1"])


HOWS = [
    *(returned, returned_without_a_token, lapsed, deleted, idle, node_left, node_expired, withdrawn, drained, revoked),
    *(ended_after_a_loss, repaired),
]
End = Callable[[Hub, Redis, Lease], Awaitable[None]]


@pytest.mark.parametrize("how", HOWS, ids=lambda how: how.__name__)
async def test_every_end_of_a_lease_counts_it_once_for_each_name(hub: Hub, redis: Redis, how: End) -> None:
    await offer(hub, POOL, "s1")
    lease = await hub.leases.borrow(wanted(POOL))
    redis.hset("hub:slot:s1", mapping={"user": "ann", "team": "ml"})
    age(redis, "s1", HOUR_MS)
    for _ in range(2):
        await how(hub, redis, lease)
    assert redis.llen("hub:usage_ended") == 1
    found = await sums(hub)
    assert redis.llen("hub:usage_ended") == 0
    for kind, name in zip(KINDS, ("ann", "ml", POOL, "s1", "n1"), strict=True):
        of = (await names(hub, kind))[name]
        assert of == found[kind]
        assert (of.leases, of.waited_ms, of.idle_ms, of.refusals) == (1, 0, 0, 0)
        assert abs(of.held_ms - HOUR_MS - held_ms(redis, {})[1]) < 100


async def test_a_lease_that_no_caller_received_counts_nothing(hub: Hub, redis: Redis) -> None:
    await offer(hub, POOL, "s1")
    asked: BorrowRequest = wanted(POOL)
    lease = await hub.leases.borrow(asked)
    await hub.leases.undo(asked, lease)
    assert {figures.leases + figures.held_ms for figures in (await sums(hub)).values()} == {0}


async def test_a_wait_counts_from_the_queue_to_the_grant_and_a_borrow_at_once_waits_for_nothing(
    hub: Hub, redis: Redis
) -> None:
    await offer(hub, POOL, "s1")
    first = await hub.leases.borrow(wanted(POOL))
    crowd = Crowd(hub)
    await crowd.come("bob", POOL)
    ticket = f"hub:ticket:{crowd.requests['bob'].request}"
    redis.hincrby(ticket, "since_ms", -90_000)
    await hub.leases.give_back("s1", POOL, first.token)
    second = await crowd.grant("bob")
    of = (await names(hub, "slot"))["s1"]  # while the second lease goes on
    assert of.leases == 2
    assert 90_000 <= of.waited_ms < 100_000
    await hub.leases.give_back("s1", POOL, second.token)
    assert (await names(hub, "slot"))["s1"].waited_ms == of.waited_ms


async def test_the_time_since_the_last_activity_is_idle(hub: Hub, redis: Redis) -> None:
    await offer(hub, POOL, "s1")
    lease = await hub.leases.borrow(wanted(POOL))
    age(redis, "s1", HOUR_MS)
    clock_ms = int(redis.hget("hub:store", "clock_ms"))  # activity is noted on the clock of the hub
    redis.hset("hub:slot:s1", "active_ms", clock_ms - HOUR_MS // 2)
    await hub.leases.give_back("s1", POOL, lease.token)
    of = (await names(hub, "slot"))["s1"]
    assert 0 <= of.idle_ms - HOUR_MS // 2 <= SLACK_S * 1000


async def test_a_lease_of_another_program_counts_from_its_session(hub: Hub, redis: Redis) -> None:
    push(redis, POOL, ("n1", "s1"), lent=True)
    today = hub.usage.today()
    at = f"{date(1970, 1, 1) + timedelta(days=today - 2)}T00:00:00.0000000Z"
    redis.hset("session:s1", mapping={"browserId": "s1", "labelKey": POOL, "runId": "r1", "borrowedAtUtc": at})
    await hub.leases.give_back("s1", POOL, "")
    _, days = await hub.usage.read("label", today - 9, today)
    assert [(day, days[day].leases) for day in days] == [(today - 2, 1), (today - 1, 0), (today, 0)]
    assert days[today - 2].held_ms == days[today - 1].held_ms == DAY_MS
