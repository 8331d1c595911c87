"""Nodes that are silent while expiry is off, and alive keys that others write, lengthen and cut short."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.core import Hub
from tests.world import age_node, beat, publish, wait_until

OLD = "2020-01-01T00:00:00.0000000Z"


@pytest.fixture
async def off(make_api: Callable[..., Any]) -> Any:
    """A hub that may not expire."""
    async with make_api(sweeper_expire=False, node_timeout_s=60) as api:
        yield api


async def sweep(api: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await api.post("/admin/sweep")).json()["nodes"]
    return found


async def test_a_stale_node_kept_by_a_sweep_is_shown_as_silent_everywhere(off: httpx.AsyncClient, redis: Redis) -> None:
    await publish(off, "n1", **{"a:b": ["s1"]})
    age_node(redis, "n1", 600)
    for _ in range(3):
        swept = await sweep(off)
        assert swept["expired"] == 0
        shown = (await off.get("/nodes/n1")).json()
        assert (shown["state"], shown.get("kept", False), shown["sinceBeatMs"] >= 600_000) == ("stale", True, True)
    assert 0 < redis.ttl("node_alive:n1") <= 30
    why = (await off.get("/why/node/n1")).json()
    assert why["state"] == "stale"
    assert why["facts"]["sinceBeatSeconds"] >= 600
    assert "expiry is off" in why["because"]
    rows = (await off.get("/nodes", params={"detail": 1, "state": "stale"})).json()["nodes"]
    assert [row["nodeId"] for row in rows] == ["n1"]
    await beat(off, "n1")
    shown = (await off.get("/nodes/n1")).json()
    assert (shown["state"], shown.get("kept", False), shown["sinceBeatMs"] < 60_000) == ("alive", False, True)


def refreshed(text: str) -> float:
    return float(re.findall(r"(?m)^hub_nodes_refreshed_total (\S+)$", text)[0])


@pytest.mark.parametrize("beats", [True, False], ids=["beats through a hub", "writes Redis itself"])
async def test_a_fleet_of_silent_nodes_that_are_kept_is_neither_healthy_nor_ready(
    off: httpx.AsyncClient, redis: Redis, beats: bool
) -> None:
    await publish(off, "n1", **{"a:b": ["s1"]})
    age_node(redis, "n1", 600)
    if not beats:
        redis.zrem("hub:beats", "n1")
    before = refreshed((await off.get("/metrics")).text)
    for _ in range(2):
        await sweep(off)
        redis.delete("node_alive:n1")  # as if the 30 s were over
    await sweep(off)
    assert redis.exists("node_alive:n1")
    seen = (await off.get("/console/overview")).json()
    counts = {name: seen["nodes"][name] for name in ("registered", "alive", "suspect", "silent")}
    assert counts == {"registered": 1, "alive": 0, "suspect": 0, "silent": 1}
    troubles = {each["name"]: each["text"] for each in seen["troubles"]}
    assert troubles.keys() >= {"nobody-alive", "expiry-off"}
    assert "1 node is kept although silent" in troubles["expiry-off"]
    refused = await off.get("/ready")
    assert (refused.status_code, refused.json()["detail"]) == (503, "No node was heard within 2 minutes.")
    text = (await off.get("/metrics")).text
    assert refreshed(text) == before + 3
    assert "hub_nodes_registered 1.0" in text


async def test_a_kept_node_that_writes_redis_itself_is_stale_until_it_writes(
    off: httpx.AsyncClient, redis: Redis
) -> None:
    redis.sadd("nodes", "f1")
    redis.hset("node:f1", "LastSeen", OLD)
    await sweep(off)
    shown = (await off.get("/nodes/f1")).json()
    assert (shown["state"], shown.get("kept", False)) == ("stale", True)
    redis.set("node_alive:f1", "1", ex=90)
    await sweep(off)
    shown = (await off.get("/nodes/f1")).json()
    assert (shown["state"], shown.get("kept", False)) == ("alive", False)


@pytest.mark.parametrize(("timeout_s", "lives_s"), [(20, 90), (300, 300)])
async def test_a_registered_node_without_heartbeats_lives_as_long_as_an_alive_key(
    make_api: Callable[..., Any], redis: Redis, timeout_s: float, lives_s: int
) -> None:
    async with make_api(node_timeout_s=timeout_s) as api:
        await api.post("/node/register", json={"nodeId": "n1"})
        assert lives_s - 30 < redis.ttl("node_alive:n1") <= lives_s
        await beat(api, "n1")
        assert timeout_s - 15 < redis.ttl("node_alive:n1") <= timeout_s


def taken_away(redis: Redis) -> None:
    redis.delete("node_alive:n1")


def ends_early(redis: Redis) -> None:
    redis.pexpire("node_alive:n1", 1)
    wait_until(lambda: not redis.exists("node_alive:n1"))


@pytest.mark.parametrize("cut_short", [taken_away, ends_early])
async def test_a_shortened_alive_key_is_noticed_one_timeout_after_it_was_written(
    api: httpx.AsyncClient, hub: Hub, redis: Redis, cut_short: Callable[[Redis], None]
) -> None:
    await publish(api, "n1", **{"a:b": ["s1"]})
    age_node(redis, "n1", 600)
    redis.set("node_alive:n1", "1", ex=90)  # by the node, whose clock is ten minutes behind
    assert (await sweep(api))["expired"] == 0
    assert (await api.get("/nodes/n1")).json()["state"] == "alive"
    cut_short(redis)
    assert (await sweep(api))["expired"] == 0  # for it was heard a moment ago
    redis.hincrby("hub:store", "clock_ms", hub.nodes.timeout_ms // 2)
    assert (await sweep(api))["expired"] == 0
    redis.hincrby("hub:store", "clock_ms", hub.nodes.timeout_ms // 2 + 2000)
    assert (await sweep(api))["expired"] == 1
