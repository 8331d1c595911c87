"""A minute after all slots were returned and all waiters are gone, Redis holds nothing new but the figures of usage."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx
import pytest
from redis import Redis

from hub.errors import WaitedInVain
from tests.capacity.queue.crowd import Crowd, offer, wanted
from tests.capacity.queue.test_order import serve
from tests.client.live import LABEL, agent_of
from tests.world import PATIENCE_S, borrow, eventually, give_back, publish

POOL = "pay:chromium"
MINUTE_MS = 60_000
FIGURES = "hub:usage:"


def left_over(redis: Redis, before: set[str]) -> dict[str, int]:
    """Keys that are there for longer than a minute, with what they have left in ms. Figures of a day are kept on
    purpose, and not for ever."""
    left = {key: redis.pttl(key) for key in set(redis.keys("*")) - before}
    kept = {key for key, ms in left.items() if key.startswith(FIGURES) and ms > 0}
    return {key: ms for key, ms in left.items() if key not in kept and (ms == -1 or ms > MINUTE_MS)}


async def test_after_all_waiters_were_served_no_queue_key_is_left(crowd: Crowd, redis: Redis) -> None:
    await offer(crowd.hub, POOL, "s1")
    # What a node has from its first lease on, and the one hash of what ended since the store was opened, stay.
    before = {*redis.keys("*"), "hub:duty:n1", "hub:ended"}
    await crowd.come("holder", POOL, keep_s=60)
    for number, label in enumerate((POOL, f"{POOL}:a", f"{POOL}:b", POOL)):
        await crowd.come(f"w{number}", label, key=f"key-{number}" * (number % 2), keep_s=60)
    await crowd.come("leaves", f"{POOL}:c", key="key-leaves", keep_s=60)
    await crowd.hub.tickets.cancel("key-leaves")
    with suppress(WaitedInVain):
        await crowd.hub.leases.borrow(wanted(f"{POOL}:d", wait_s=0.1, keep_s=60))
    await serve(crowd, times=4)
    assert (await crowd.hub.leases.give_back("s1", POOL))[0] == "returned"
    await crowd.hub.usage.fold()
    try:
        await eventually(lambda: not left_over(redis, before))
    except AssertionError:
        pytest.fail(f"left for longer: {left_over(redis, before)}")


async def test_a_minute_after_all_slots_were_returned_redis_holds_what_it_held_before(start_hub, redis: Redis) -> None:
    """Over HTTP, with a node that makes its slots fresh as the default policy asks: it takes the markers away."""
    hub = start_hub(HUB_NODE_TIMEOUT="3")
    async with agent_of(hub, slots=4), hub.client("runner") as runner:
        await eventually(lambda: redis.llen(f"available:{LABEL}") == 4)
        before = set(redis.keys("*"))

        async def borrow_and_return(number: int) -> None:
            body = {"labelKey": f"{LABEL}:{'abc'[number % 3]}", "runId": f"run-{number}"}
            lent = await runner.post("/session/borrow", json={**body, "maxWaitSeconds": PATIENCE_S - 5})
            assert lent.status_code == 200, lent.text
            back = await runner.post("/session/return", json={**body, "browserId": lent.json()["browserId"]})
            assert back.status_code == 200, back.text

        await asyncio.gather(*map(borrow_and_return, range(40)))
        assert len(set(redis.keys("*")) - before) > 40, "a minute is needed"
        try:
            await eventually(lambda: not left_over(redis, before) and before <= set(redis.keys("*")))
        except AssertionError:
            pytest.fail(f"left for longer: {left_over(redis, before)}, gone: {before - set(redis.keys('*'))}")


@pytest.mark.parametrize(("ttl_s", "kept_s"), [(900, 3600), (7200, 7200)])
async def test_an_idempotency_key_is_remembered_for_an_hour_or_as_long_as_its_lease(
    api: httpx.AsyncClient, redis: Redis, ttl_s: int, kept_s: int
) -> None:
    await publish(api, "n1", **{POOL: ["s1"]})
    for key, call, path in (
        ("a", {"labelKey": POOL, "ttlSeconds": ttl_s}, "/session/borrow"),
        ("b", {"labelKey": POOL, "browserId": "s1"}, "/session/return"),
    ):
        answer = await api.post(path, json=call, headers={"idempotency-key": key, "x-run-id": "r1"})
        assert answer.status_code == 200
    lasts = sorted(redis.ttl(key) for key in redis.keys("hub:request:key-*"))
    assert 3600 - 60 < lasts[0] <= 3600
    assert kept_s - 60 < lasts[1] <= kept_s


async def test_a_setting_decides_how_long_idempotency_keys_are_remembered(make_api, redis: Redis) -> None:
    async with make_api(idempotency_s=120, borrow_ttl_s=60) as api:
        await publish(api, "n1", **{POOL: ["s1"]})
        await api.post("/session/borrow", json={"labelKey": POOL}, headers={"idempotency-key": "a"})
        (key,) = redis.keys("hub:request:key-*")
        assert 60 < redis.ttl(key) <= 120
        assert (await give_back(api, POOL, "s1")).status_code == 200
        assert (await borrow(api, POOL)).status_code == 200
