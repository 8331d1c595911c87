"""The doctor leaves alone: healthy stores in use, what others wrote, what a sweep is about to repair."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import examine
from hub.settings import Settings
from hub.store.connection import open_store
from tests.world import HubProcess, RedisServer, age_node, borrow, listed, picture, publish, push, settings_for

POOL = "gpu:a100"


async def problems(hub: Hub, *, repair: bool = False, settings: Settings | None = None) -> list[str]:
    """Return what an examination finds on a store on which no hub sweeps, as short lines."""
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)
    found = await examine(hub.store, repair=repair, settings=settings or hub.settings, pause_s=0.01)
    return [f"{each.invariant} {each.subject}: {each.problem}" for each in found]


async def use_it(api: httpx.AsyncClient, name: int, rounds: dict[int, int]) -> None:
    """One client that does all that can be done, in no particular order, until cancelled; `rounds` says how often."""
    rolls, node = random.Random(name), f"n{name}"
    while True:
        await publish(api, node, **{POOL: [f"{node}-s{i}" for i in range(3)], "gpu:h100": [f"{node}-h"]})
        await api.post(f"/admin/nodes/{node}/{rolls.choice(['drain', 'undrain'])}")
        for label in ("gpu:a100:eu", POOL, "gpu:h100", "gpu:*"):
            answer = await borrow(api, label, run=f"r{rolls.randrange(3)}")
            if answer.status_code == 200:
                lease = answer.json()
                body = {"browserId": lease["browserId"], "labelKey": label, "leaseToken": lease["leaseToken"]}
                await api.post("/session/renew", json=body)
                if rolls.random() < 0.9:
                    await api.post("/session/return", json=body)
        await api.delete(f"/node/{node}/slots/{node}-s{rolls.randrange(3)}")
        if rolls.random() < 0.3:
            await api.delete(f"/node/{node}")
        rounds[name] = rounds.get(name, 0) + 1


async def test_a_healthy_store_in_use_has_no_findings(make_api: Callable[..., Any], hub: Hub) -> None:
    rounds: dict[int, int] = {}
    looks = 0
    async with make_api(borrow_wildcards=True) as api:
        users = [asyncio.create_task(use_it(api, name, rounds)) for name in range(4)]
        while looks <= 5 or len(rounds) < 4 or min(rounds.values()) < 12:
            assert await examine(hub.store, settings=hub.settings, pause_s=0.05) == []
            assert not any(user.done() for user in users)
            looks += 1
        for user in users:
            user.cancel()
        await asyncio.wait(users)
        await api.get("/nodes")  # what they had under way is through before the store is closed
    assert await problems(hub) == []


async def test_an_examination_changes_nothing(api: httpx.AsyncClient, hub: Hub, redis: Redis) -> None:
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    await borrow(api, POOL)
    redis.delete("session:s1")
    await problems(hub)
    before = picture(redis, own=True)
    await examine(hub.store, settings=hub.settings, pause_s=0.01)
    assert picture(redis, own=True) == before


async def test_the_doctor_does_not_report_items_of_other_programs_that_no_sweep_has_adopted_yet(
    hub: Hub, redis: Redis
) -> None:
    push(redis, POOL, ("s1", "f1"), ("s2", "f1"))
    push(redis, POOL, ("s3", "f1"), ("s4", "f2"), lent=True)
    redis.hset("session:s3", mapping={"browserId": "s3", "labelKey": POOL, "runId": "r1"})
    redis.set("borrow_ttl:s3", "1", ex=60)
    redis.rpush("available:gpu:a100", "junk", "junk", '{"nodeId":"f1"}')
    redis.rpush("available:nolabel", '{"nodeId":"f1","browserId":"s1"}')
    redis.set("unrelated", "1")
    assert await problems(hub) == []
    await hub.pools.adopt(POOL, "free", set())
    await hub.pools.adopt(POOL, "lent", set())
    assert await problems(hub) == []


async def test_keys_outside_the_prefix_are_not_examined(redis: Redis, redis_server: RedisServer) -> None:
    settings = settings_for(redis_server.url, key_prefix="{one}:")
    redis.zadd("hub:deadlines", {"s1": 1})
    redis.set("hub:what", "1")
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        assert await problems(hub) == []
        redis.zadd("{one}:hub:deadlines", {"s1": 1})
        assert await problems(hub) == ["C12 {one}:hub:deadlines s1: names what does not belong there"]
        assert len(await problems(hub, repair=True)) == 1
        assert await problems(hub) == []
    assert redis.exists("hub:deadlines", "hub:what") == 2


@pytest.mark.parametrize(
    ("setting", "switch", "keep", "reported"),
    [(True, None, False, 1), (False, None, False, 0), (True, "false", False, 0), (False, "true", False, 1),
     (True, None, True, 0)],
)  # fmt: skip
async def test_dead_nodes_are_reported_only_where_expiry_is_on(
    setting: bool, switch: str | None, keep: bool, reported: int, api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    await publish(api, "n1", **{POOL: ["s1"]})
    await hub.clock.tick()
    age_node(redis, "n1", 3600)
    if switch:
        redis.hset("hub:store", "expire", switch)
    settings = hub.settings.model_copy(update={"sweeper_expire": setting, "sweeper_keep_if_available": keep})
    assert len(await problems(hub, settings=settings)) == reported


async def test_a_node_that_never_beat_through_a_hub_is_dead_by_its_last_seen(hub: Hub, redis: Redis) -> None:
    redis.sadd("nodes", "f1", "f2", "f3")
    redis.hset("node:f1", "LastSeen", "2020-01-01T00:00:00Z")
    redis.hset("node:f2", "LastSeen", "2020-01-01T00:00:00Z")
    redis.set("node_alive:f2", "1", ex=60)
    assert await problems(hub) == [
        f"C10 node {node}: silent for longer than its timeout and a sweep interval, and still on the books"
        for node in ("f1", "f3")
    ]


async def test_the_doctor_does_not_report_a_node_whose_id_differs_from_its_key_part(
    api: httpx.AsyncClient, hub: Hub
) -> None:
    await publish(api, "rack 7/blade:3", **{POOL: ["s1"]})
    await borrow(api, POOL)
    await hub.store.read("HDEL", hub.store.keys.node("rack-7-blade-3"), "HubId")
    assert await problems(hub) == []


async def test_the_doctor_leaves_out_a_fault_that_the_next_sweep_repairs(live_hub: HubProcess, redis: Redis) -> None:
    settings = settings_for(live_hub.redis_url, node_timeout_s=8, node_sweep_interval_s=10, borrow_ttl_sweep_s=10)
    async with live_hub.client("node") as node, live_hub.client("runner") as runner, open_store(settings) as store:
        await publish(node, "n1", **{POOL: ["s1", "s2"]})
        assert (await borrow(runner, POOL)).json()["browserId"] == "s1"
        redis.delete("borrow_ttl:s1")
        assert await examine(store, settings=settings, pause_s=0.02) == []
        assert listed(redis, "available:gpu:a100") == ["s2", "s1"]
