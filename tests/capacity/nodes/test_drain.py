"""Draining: nothing of the node is lent any more, what is lent stays, and undraining brings everything back."""

from __future__ import annotations

import pytest

from tests.world import age_node, beat, borrow, give_back, listed, publish, push

LABEL = "a:b"


async def drain(api, node="n1", *, on=True):
    answer = await api.post(f"/admin/nodes/{node}/{'drain' if on else 'undrain'}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def state(held, lent, *, on=True):
    return {"nodeId": "n1", "draining": on, "heldBack": held, "lent": lent, "deadlineSecondsLeft": None}


async def take(api):
    return (await borrow(api, LABEL)).json().get("browserId")


async def test_a_draining_node_lends_nothing_and_keeps_what_is_lent(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2", "s3"]})
    await publish(api, "n2", **{LABEL: ["t1"]})
    lease = (await borrow(api, LABEL)).json()
    assert await drain(api) == state(2, 1)
    assert listed(redis, f"available:{LABEL}") == ["t1"]
    assert [await take(api), await take(api)] == ["t1", None]
    renewed = await api.post("/session/renew", json={"browserId": "s1", "leaseToken": lease["leaseToken"]})
    assert renewed.status_code == 200
    assert await drain(api) == state(2, 1)


async def test_undraining_a_node_offers_its_held_slots_again(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await drain(api)
    assert await drain(api, on=False) == state(0, 0, on=False)
    assert sorted(listed(redis, f"available:{LABEL}")) == ["s1", "s2"]
    assert await drain(api, on=False) == state(0, 0, on=False)
    assert sorted([await take(api), await take(api)]) == ["s1", "s2"]


async def test_a_slot_returned_while_its_node_drains_is_held(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await take(api)
    await drain(api)
    assert (await give_back(api, LABEL, "s1")).json() == {"returned": "s1"}
    assert await take(api) is None
    assert (await api.get("/nodes/n1")).json()["slotList"] == [{"browserId": "s1", "labelKey": LABEL, "state": "held"}]
    await drain(api, on=False)
    assert await take(api) == "s1"


async def test_a_slot_published_while_its_node_drains_is_held(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await drain(api)
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    assert await take(api) is None
    await drain(api, on=False)
    assert sorted([await take(api), await take(api)]) == ["s1", "s2"]


async def test_a_lease_that_lapses_while_its_node_drains_leaves_a_held_slot(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await take(api)
    await drain(api)
    redis.delete("borrow_ttl:s1")
    await api.post("/admin/sweep")
    assert not redis.exists("session:s1")
    assert await take(api) is None


async def test_held_slots_are_shown_as_held_back(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await publish(api, "n2", **{LABEL: ["t1"]})
    await drain(api)
    pool = (await api.get(f"/pools/{LABEL}")).json()
    assert {name: pool[name] for name in ("total", "available", "borrowed", "heldBack")} == {
        "total": 3, "available": 1, "borrowed": 0, "heldBack": 2,
    }  # fmt: skip
    assert (await api.get("/nodes/n1")).json()["draining"]
    draining = (await api.get("/nodes?detail=1&state=draining")).json()
    assert (draining["total"], [node["nodeId"] for node in draining["nodes"]]) == (1, ["n1"])


async def test_a_node_with_more_slots_than_one_batch_is_drained_completely(api, redis):
    await api.post("/node/register", json={"nodeId": "n1", "pools": {LABEL: 500}})
    assert (await drain(api))["heldBack"] == 500
    assert not redis.exists(f"available:{LABEL}")
    assert (await drain(api, on=False))["heldBack"] == 0
    assert redis.llen(f"available:{LABEL}") == 500


async def test_a_drain_outlives_a_new_registration_and_ends_with_the_node(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await drain(api)
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    assert await take(api) is None
    await api.delete("/node/n1")
    await publish(api, "n1", **{LABEL: ["s1"]})
    assert await take(api) == "s1"


async def test_a_draining_node_that_dies_is_expired(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await drain(api)
    age_node(redis, "n1", 3600)
    await api.post("/admin/sweep")
    assert (await api.get("/nodes/n1")).status_code == 404
    assert (await api.get("/nodes?detail=1&state=draining")).json()["total"] == 0
    assert (await api.get(f"/pools/{LABEL}")).status_code == 404


async def test_slots_pushed_by_the_node_itself_are_drained(api, redis):
    await publish(api, "n1")
    push(redis, LABEL, ("s1", "n1"), ("s2", "n1"))
    await drain(api)
    assert await take(api) is None
    await drain(api, on=False)
    assert sorted([await take(api), await take(api)]) == ["s1", "s2"]


@pytest.mark.parametrize("verb", ["drain", "undrain"])
async def test_an_unknown_node_cannot_be_drained(api, redis, verb):
    answer = await api.post(f"/admin/nodes/n1/{verb}")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-node")
    assert redis.keys("hub:duty:*") == []


async def test_draining_is_audited(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await drain(api)
    await drain(api, on=False)
    actions = [entry["action"] for entry in (await api.get("/audit?category=admin")).json()]
    assert actions == ["node.undrain", "node.drain"]


async def test_a_drained_node_is_told_of_the_drain_with_its_next_heartbeat(api):
    await publish(api, "n1")
    await drain(api)
    assert (await beat(api, "n1"))["drain"]
