"""Tests of the crowds that the benchmarks of the queue use, and of their artificial time."""

from tests.bench import fleet
from tests.bench.clockwork import scripted_hub
from tests.bench.crowd import POOL, Crowd, Place, label


async def offered(redis, *slots):
    await fleet.register(redis, [0])
    async with fleet.hub_on(redis) as hub:
        await fleet.publish(hub, fleet.node_id(0), POOL, slots, policy="reuse")
        return [await hub.leases.borrow(fleet.wanted(POOL)) for _ in slots]


async def test_a_crowd_of_tickets_can_wait_give_up_and_be_served(redis):
    (held,) = await offered(redis, "s1")
    async with fleet.hub_on(redis) as hub:
        crowd = Crowd(hub, "h1")
        await crowd.gather(redis, [Place(label(1), "t1"), Place(label(2), "t2")])
        await crowd.enter(Place(label(2), "t3", priority=1))
        await crowd.cancel(Place(label(1), "t1"))
        await crowd.hand_over(held.slot, held.token)
        slot, token = await crowd.pick_up(Place(label(2), "t3"))
    assert (slot, redis.hget("session:s1", "leaseToken"), redis.hget("session:s1", "labelKey")) == (
        "s1",
        token,
        label(2),
    )
    assert redis.zrange(f"hub:line:{label(2)}", 0, -1) == ["t2"]


async def test_the_scripts_of_a_benchmark_run_on_the_clock_that_the_benchmark_sets(redis):
    await offered(redis, "s1")
    async with scripted_hub(redis) as time:
        crowd, started = Crowd(time.hub, time.hub.clock.hub_id), time.now_s
        await crowd.enter(Place(POOL, "t1"))
        await time.advance(100)
        await crowd.enter(Place(POOL, "t2"))
        clock_ms = int(redis.hget("hub:store", "clock_ms"))
    came = [int(redis.hget(f"hub:ticket:{ticket}", "since_ms")) for ticket in ("t1", "t2")]
    assert came == [1000 * started, 1000 * (started + 100)]
    assert clock_ms - redis.zscore("hub:hubs", time.hub.clock.hub_id) == 0
    assert clock_ms >= 100_000
