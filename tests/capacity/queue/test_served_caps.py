"""Caps on what pools serve, where other programs lend and take slots, and the counts of held slots."""

from __future__ import annotations

import httpx
import pytest

from hub.core import Hub
from hub.sweeping.reconciler import Reconciler
from tests.world import borrow, publish, push, sweepers

POOL = "gpu:a100"


@pytest.fixture
async def capped(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """A hub with a cap of one lease on what the pool serves."""
    answer = await api.put(f"/admin/caps/{POOL}", json={"cap": 1, "served": True, "by": "ann"})
    assert answer.status_code == 200, answer.text
    return api


def served(redis) -> set[str]:
    found: set[str] = redis.smembers(f"hub:served:{POOL}")
    return found


async def test_a_lease_of_another_program_counts_whichever_of_its_traces_is_found_first(capped, hub: Hub, redis):
    session = {"browserId": "f1", "labelKey": POOL, "runId": "x", "nodeId": "nf", "poolLabel": POOL}
    redis.hset("session:f1", mapping=session)
    redis.set("borrow_ttl:f1", "1", ex=600)
    _, leases = sweepers(hub)
    await leases.sweep()
    push(redis, POOL, ("f1", "nf"), lent=True)
    push(redis, POOL, ("f2", "nf"))
    for _ in range(2):
        await leases.sweep()
        await Reconciler(hub.store, hub.settings, hub.pools, hub.holds).look(10.0)
    assert served(redis) == {"f1"}
    assert (await borrow(capped, POOL)).json()["code"] == "capped"


async def test_a_lease_that_another_program_takes_away_counts_no_longer(capped, hub: Hub, redis):
    await publish(capped, "n1", **{POOL: ["s1", "s2"]})
    assert (await borrow(capped, POOL)).status_code == 200
    (item,) = redis.lrange(f"inuse:{POOL}", 0, -1)
    redis.lrem(f"inuse:{POOL}", 1, item)
    redis.delete("session:s1", "borrow_ttl:s1")
    for _ in range(3):
        await Reconciler(hub.store, hub.settings, hub.pools, hub.holds).look(10.0)
        redis.hincrby("hub:store", "clock_ms", 30_000)
    assert served(redis) == set()
    assert (await borrow(capped, POOL)).status_code == 200


async def test_the_held_slots_of_a_node_are_counted(api: httpx.AsyncClient):
    await publish(api, "n1", **{POOL: ["s1", "s2", "s3"]})
    for slot in ("s1", "s2"):
        held = await api.post(f"/admin/slots/{slot}/hold", json={"reason": "its fan", "by": "ann"})
        assert held.status_code == 200, held.text
    assert (await api.post("/node/n1/slots/s1/hold", json={"reason": "no answer"})).status_code == 200
    assert (await api.get("/nodes", params={"detail": "true"})).json()["nodes"][0]["held"] == 2


async def test_a_cap_counts_the_leases_that_are_live_as_it_is_set(api: httpx.AsyncClient):
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    assert (await borrow(api, POOL)).status_code == 200
    answer = await api.put(f"/admin/caps/{POOL}", json={"cap": 1, "served": True, "by": "ann"})
    assert answer.status_code == 200, answer.text
    assert (await borrow(api, POOL)).json()["code"] == "capped"
