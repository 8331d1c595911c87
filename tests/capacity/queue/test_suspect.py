"""A node that has been silent for half its timeout is lent from no more, until it beats again."""

import pytest

from hub.store.store import SETTLE_MS
from tests.capacity.queue.crowd import Crowd
from tests.world import add_node, age_node, beat, borrow, give_back, listed, publish

pytestmark = pytest.mark.usefixtures("no_rounds")
POOL = "gpu:a100"


async def test_slots_of_a_suspect_node_are_not_lent_and_its_next_heartbeat_offers_them_again(api, redis):
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    await publish(api, "n2", **{POOL: ["t1"]})
    age_node(redis, "n1", 31)
    assert (await borrow(api, POOL)).json()["browserId"] == "t1"
    assert (await borrow(api, POOL)).json()["code"] == "no-capacity"
    assert (await beat(api, "n1"))["known"] is True
    assert sorted(listed(redis, f"available:{POOL}")) == ["s1", "s2"]
    assert {(await borrow(api, POOL)).json()["browserId"] for _ in range(2)} == {"s1", "s2"}


async def test_a_node_silent_for_just_under_half_the_timeout_still_lends(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    age_node(redis, "n1", 29)
    assert (await borrow(api, POOL)).json()["browserId"] == "s1"


async def test_leases_of_a_suspect_node_last_and_their_slots_come_back_to_it(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    lease = (await borrow(api, POOL)).json()
    age_node(redis, "n1", 40)
    renewed = await api.post("/session/renew", json={"browserId": "s1", "leaseToken": lease["leaseToken"]})
    assert renewed.status_code == 200
    assert (await give_back(api, POOL, "s1")).json() == {"returned": "s1"}
    assert (await borrow(api, POOL)).json()["code"] == "no-capacity"
    await beat(api, "n1")
    assert (await borrow(api, POOL)).json()["browserId"] == "s1"


@pytest.mark.parametrize("skew_s", [-3600, 0, 3600])
async def test_a_node_that_writes_redis_itself_is_not_suspect_even_with_a_wrong_clock(api, redis, skew_s):
    await publish(api, "n1", **{POOL: ["s1"]})
    age_node(redis, "n1", 50 - skew_s)
    redis.zadd("hub:beats", {"n1": int(redis.hget("hub:store", "clock_ms")) - 50_000})
    redis.set("node_alive:n1", "1", ex=90)
    assert (await borrow(api, POOL)).json()["browserId"] == "s1"


async def test_a_suspect_node_heard_by_its_alive_key_alone_lends_again(hub, api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    age_node(redis, "n1", 40)
    assert (await borrow(api, POOL)).json()["code"] == "no-capacity"
    await hub.queue.look_after()
    assert redis.llen(f"available:{POOL}") == 0
    redis.set("node_alive:n1", "1", ex=90)
    await hub.queue.look_after()
    assert (await borrow(api, POOL)).json()["browserId"] == "s1"
    assert redis.exists("hub:suspects", "hub:aside:n1") == 0


async def test_a_stale_node_that_expiry_leaves_alone_does_not_lend(make_api, redis):
    async with make_api(sweeper_expire=False) as api:
        await publish(api, "n1", **{POOL: ["s1"]})
        age_node(redis, "n1", 100)
        assert (await api.post("/admin/sweep")).json()["nodes"]["refreshed"] == 1
        assert redis.exists("node_alive:n1") == 1
        assert (await borrow(api, POOL)).json()["code"] == "no-capacity"


async def test_a_node_goes_on_draining_after_it_was_suspect(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    age_node(redis, "n1", 40)
    await borrow(api, POOL)
    await api.post("/admin/nodes/n1/drain")
    assert (await beat(api, "n1"))["drain"] is True
    assert (await borrow(api, POOL)).json()["code"] == "no-capacity"
    await api.post("/admin/nodes/n1/undrain")
    assert (await borrow(api, POOL)).json()["browserId"] == "s1"


async def test_held_slots_beyond_one_batch_are_offered_again_with_the_next_heartbeat(hub, api, redis):
    slots = [f"s{n}" for n in range(300)]
    await add_node(hub, "n1")
    await publish(api, "n1", **{POOL: slots})
    age_node(redis, "n1", 40)
    for _ in range(2):
        await borrow(api, POOL)
    assert redis.llen(f"available:{POOL}") == 0
    for expected in (256, 300):
        await beat(api, "n1")
        assert redis.llen(f"available:{POOL}") == expected


async def test_after_a_restart_a_waiter_gets_a_reported_slot_of_a_node_that_has_many_unreported_ones(hub, api, redis):
    """After a restart: what the node has yet to report is not lent, what it has reported is lent at its next beat."""
    unreported = [f"s{n}" for n in range(9)]
    await publish(api, "n1", **{POOL: ["known", *unreported]})
    redis.hset("hub:store", "run_id", "before")
    redis.function_flush()
    await hub.clock.tick()
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await publish(api, "n1", **{POOL: ["known"]})
    age_node(redis, "n1", 31)
    assert (await borrow(api, POOL)).json()["code"] == "no-capacity"
    crowd = Crowd(hub)
    try:
        await crowd.come("first", POOL)
        await crowd.come("second", POOL)
        assert (await beat(api, "n1"))["known"] is True
        assert listed(redis, f"inuse:{POOL}") == ["known"]
        assert redis.smembers("hub:aside:n1") == set(unreported)
        await publish(api, "n1", **{POOL: unreported[:2]})
        assert len(listed(redis, f"inuse:{POOL}")) == 2
    finally:
        await crowd.go_home()
