"""A return that comes twice ends one lease: the slot may have gone to the next in line between the two."""

import asyncio

import pytest

from hub.errors import KeyReused
from tests.capacity.queue.crowd import offer

POOL = "pay:chromium"


async def held_and_awaited(crowd):
    await offer(crowd.hub, POOL, "s1")
    await crowd.come("first", POOL, run="r1")
    await crowd.come("second", POOL, run="r2")
    return (await crowd.grant("first")).token


@pytest.mark.parametrize("named", ["token", "run"])
async def test_a_late_repeat_of_a_return_does_not_end_the_lease_of_the_next_holder(crowd, redis, named):
    token = await held_and_awaited(crowd)
    said = {"token": token} if named == "token" else {"run": "r1"}
    assert (await crowd.hub.leases.give_back("s1", POOL, **said))[0] == "returned"
    second = await crowd.grant("second")
    assert (await crowd.hub.leases.give_back("s1", POOL, **said))[0] in ("not lent", "stale token")
    assert redis.hget("session:s1", "leaseToken") == second.token


async def test_two_hubs_that_return_a_slot_at_once_without_a_token_end_one_lease(hubs, crowd, redis):
    await held_and_awaited(crowd)
    words = await asyncio.gather(*(hub.leases.give_back("s1", POOL) for hub in hubs))
    assert sorted(word for word, _, _ in words) in (["not lent", "returned"], ["returned", "returned"])
    second = await crowd.grant("second")
    if words[0][0] != words[1][0]:
        assert redis.hget("session:s1", "leaseToken") == second.token
    assert len(redis.lrange(f"available:{POOL}", 0, -1)) + len(redis.lrange(f"inuse:{POOL}", 0, -1)) == 1


async def test_a_return_without_token_that_arrived_before_the_lease_was_known_does_not_end_it(crowd, redis):
    await held_and_awaited(crowd)
    await crowd.hub.leases.give_back("s1", POOL)
    second = await crowd.grant("second")
    known_ms = int(redis.hget("hub:slot:s1", "seen_ms"))
    assert known_ms >= int(redis.hget("hub:slot:s1", "granted_ms"))
    assert (await crowd.hub.leases.give_back("s1", POOL, arrived_ms=known_ms - 1))[0] == "not lent"
    assert redis.hget("session:s1", "leaseToken") == second.token
    assert (await crowd.hub.leases.give_back("s1", POOL, arrived_ms=known_ms))[0] == "returned"
    assert not redis.hexists("hub:slot:s1", "seen_ms")


async def test_a_repeated_return_with_its_key_gets_the_same_answer_and_ends_nothing(crowd, redis):
    await held_and_awaited(crowd)
    for _ in range(3):
        assert (await crowd.hub.leases.give_back("s1", POOL, key="key-1"))[0] == "returned"
        second = await crowd.grant("second")
    assert redis.hget("session:s1", "leaseToken") == second.token
    with pytest.raises(KeyReused):
        await crowd.hub.leases.give_back("s2", POOL, key="key-1")


async def test_the_next_holder_can_return_the_slot_by_naming_its_run(crowd, redis):
    await held_and_awaited(crowd)
    await crowd.hub.leases.give_back("s1", POOL, run="r1")
    await crowd.grant("second")
    assert (await crowd.hub.leases.give_back("s1", POOL, run="r2"))[0] == "returned"
    assert len(redis.lrange(f"available:{POOL}", 0, -1)) == 1
