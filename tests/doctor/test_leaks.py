"""Leases, tasks and nodes that are over leave nothing behind: every key that stays has an end of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.core import Hub
from tests.doctor.test_examine import problems
from tests.world import age_node, borrow, end_graces, listed, publish, push

POOL = "gpu:a100"
FOR_EVER = {"hub:store", "audit:entries", "hub:refusals", "hub:history"}  # one per store; the lists are trimmed
FOR_EVER |= {"hub:ended"}  # this one too, until all nodes have had time to report their leases: see below


def left_for_ever(redis: Redis) -> set[str]:
    """Return the keys that no lifetime will end."""
    return {name for name in redis.scan_iter() if redis.ttl(name) == -1} - FOR_EVER


async def sweep(api: httpx.AsyncClient) -> None:
    answer = (await api.post("/admin/sweep")).json()
    assert (answer["nodes"]["errors"], answer["leases"]["errors"]) == (0, 0)


async def give_back(api: httpx.AsyncClient, slot: str, label: str = POOL) -> dict[str, Any]:
    return dict((await api.post("/session/return", json={"labelKey": label, "browserId": slot})).json())


async def leaves(api: httpx.AsyncClient, _: Redis) -> None:
    await api.delete("/node/n1")


async def is_expired(api: httpx.AsyncClient, redis: Redis) -> None:
    age_node(redis, "n1", 3600)
    await sweep(api)


async def withdraws_and_leaves(api: httpx.AsyncClient, _: Redis) -> None:
    for slot in ("s1", "s2"):
        await api.delete(f"/node/n1/slots/{slot}")
    await api.delete("/node/n1")


@pytest.mark.parametrize("ends", [leaves, is_expired, withdraws_and_leaves])
@pytest.mark.parametrize("lent", [0, 1, 2])
async def test_a_removed_node_leaves_no_keys(
    ends: Callable[..., Any], lent: int, api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    for _ in range(lent):
        assert (await borrow(api, "gpu:a100:eu")).status_code == 200
    await api.post("/admin/nodes/n1/drain")
    await give_back(api, "s1")
    await ends(api, redis)
    await end_graces(hub)
    await hub.usage.fold()  # as each hub does every second
    assert left_for_ever(redis) == set()
    assert await problems(hub) == []


async def test_slots_of_a_node_that_never_registered_leave_no_keys(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    push(redis, POOL, ("s1", "f1"))
    assert (await borrow(api, POOL)).json()["browserId"] == "s1"
    redis.delete(f"inuse:{POOL}")  # its program takes it away
    assert (await give_back(api, "s1"))["note"] == "already returned"
    await hub.usage.fold()
    assert left_for_ever(redis) == set()


@pytest.mark.parametrize("lent", [False, True])
async def test_a_pool_emptied_by_another_program_leaves_no_keys(
    lent: bool, api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    push(redis, POOL, ("s1", "f1"), ("s2", "f1"), lent=lent)
    await sweep(api)
    assert await problems(hub) == []
    redis.delete(f"available:{POOL}", f"inuse:{POOL}")
    await sweep(api)
    assert left_for_ever(redis) == set()
    assert await problems(hub) == []


async def test_a_session_written_before_its_item_counts_until_it_ends(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    redis.hset("session:s1", mapping={"browserId": "s1", "labelKey": POOL, "runId": "r1", "nodeId": "f1"})
    redis.set("borrow_ttl:s1", "1", ex=900)
    await sweep(api)
    push(redis, POOL, ("s1", "f1"), lent=True)
    await sweep(api)
    assert redis.zrange(f"hub:asked:{POOL}", 0, -1) == ["s1"]
    assert "note" not in await give_back(api, "s1")
    assert redis.exists(f"hub:asked:{POOL}", "hub:run:r1") == 0
    assert listed(redis, f"available:{POOL}") == ["s1"]
    assert await problems(hub) == []


async def test_an_ended_lease_is_remembered_until_its_node_has_heard_of_the_end(
    api: httpx.AsyncClient, hub: Hub, redis: Redis
) -> None:
    await publish(api, "n1", **{POOL: ["s1"]})
    await borrow(api, POOL)
    await give_back(api, "s1")
    await hub.clock.tick()
    assert redis.hkeys("hub:ended") == ["s1"]
    redis.hincrby("hub:store", "born_ms", -int(hub.settings.node_timeout_s * 1000))
    await hub.clock.tick()
    assert redis.exists("hub:ended") == 0
