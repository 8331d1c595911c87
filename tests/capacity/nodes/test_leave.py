"""Leaving, and being removed: everything of the node is gone at once, and nothing of other nodes."""

from __future__ import annotations

import pytest

from tests.world import beat, borrow, end_graces, listed, picture, publish, push

KEPT = ("recycle:", "audit:", "hub:request:", "hub:end_reason:", "hub:usage:")  # they have a lifetime
LABEL = "a:b"


@pytest.mark.parametrize("path", ["/node/n1", "/admin/nodes/n1", "/api/v1/node/n1"])
async def test_a_leaving_node_takes_its_slots_and_their_leases_with_it(api, redis, path):
    await publish(api, "n1", **{LABEL: ["s1", "s2"], "c:d": ["s3"]})
    await publish(api, "n2", **{LABEL: ["t1"]})
    await borrow(api, LABEL)
    await api.post("/results/browser/s1/test", json={"testId": "t"})
    assert (await api.delete(path)).json() == {"left": "n1", "slots": 3, "ended": 1}
    assert redis.smembers("nodes") == {"n2"}
    assert listed(redis, f"available:{LABEL}") == ["t1"]
    left = [key for key in redis.keys("*") if key.endswith((":s1", ":s2", ":s3", ":n1", ":c:d"))]
    assert all(key.startswith(KEPT) for key in left), left
    assert (await beat(api, "n1"))["known"] is False


async def test_leaving_a_second_time_answers_that_the_node_is_not_registered(api):
    await publish(api, "n1")
    await api.delete("/node/n1")
    answer = (await api.delete("/node/n1")).json()
    assert answer == {"left": "n1", "slots": 0, "ended": 0, "note": "not registered"}


async def test_leaving_an_empty_store_writes_nothing(api, redis):
    await api.delete("/node/n1")
    assert picture(redis) == {}
    assert not redis.exists("hub:leaving", "hub:duty:n1")


async def test_slots_pushed_by_a_node_that_left_are_gone_after_a_sweep(api, redis):
    await publish(api, "n1")
    push(redis, LABEL, ("s1", "n1"))
    await api.post("/admin/sweep")
    assert (await api.delete("/node/n1")).json()["slots"] == 1
    assert redis.keys("available:*") == []


async def test_a_node_with_more_slots_than_one_batch_leaves_completely(api, hub, redis):
    await api.post("/node/register", json={"nodeId": "n1", "pools": {LABEL: 400, "c:d": 300}})
    for _ in range(5):
        await borrow(api, LABEL)
    assert (await api.delete("/node/n1")).json() == {"left": "n1", "slots": 700, "ended": 5}
    await end_graces(hub)
    await hub.usage.fold()
    assert all(redis.ttl(key) > 0 for key in redis.keys("hub:usage:*"))
    left = {key for key in redis.keys("*") if not key.startswith(KEPT)}
    assert left - {"hub:ended"} == {"hub:store", "hub:history"}


async def test_an_interrupted_removal_of_a_node_is_finished_by_the_next_sweep(api, hub, redis):
    await api.post("/node/register", json={"nodeId": "n1", "pools": {LABEL: 200}})
    await hub.nodes._leave(id="n1", part="n1", limit=10, incarnation="")
    assert redis.llen(f"available:{LABEL}") == 190
    assert (await borrow(api, "x:y")).status_code == 503
    await api.post("/admin/sweep")
    assert not redis.exists(f"available:{LABEL}", "hub:leaving")


async def test_a_node_that_registers_while_it_is_being_removed_starts_afresh(api, hub, redis):
    await api.post("/node/register", json={"nodeId": "n1", "pools": {LABEL: 200}})
    await hub.nodes._leave(id="n1", part="n1", limit=10, incarnation="")
    await publish(api, "n1", **{LABEL: ["s1"]})
    await api.post("/admin/sweep")
    assert listed(redis, f"available:{LABEL}") == ["s1"]


async def test_removal_by_an_operator_is_audited(api):
    await publish(api, "n1")
    await api.delete("/admin/nodes/n1")
    assert [entry["action"] for entry in (await api.get("/audit?category=admin")).json()] == ["node.remove"]
