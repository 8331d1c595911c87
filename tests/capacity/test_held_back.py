"""Why slots of a pool are held back, and what answers about pools, waiters and slots say of unwell slots."""

from __future__ import annotations

import asyncio

from tests.capacity.nodes.test_holds import ILL, LABEL, hold, hold_by_hand, offer, release, waiting
from tests.world import beat, borrow, give_back


async def pool(api, label=LABEL):
    found = (await api.get(f"/pools/{label}")).json()
    (listed,) = [each for each in (await api.get("/pools")).json()["pools"] if each["label"] == label]
    assert found == listed
    return found


async def desired(api, **query):
    found = (await api.get(f"/autoscale/{LABEL}", params=query)).json()
    return found["desired"], found["free"], found.get("heldBackBy")


async def test_a_pool_says_for_which_causes_its_slots_are_held_back(make_api):
    async with make_api(revoke_grace_s=5) as api:
        await offer(api, "s1", "s2", "s3", policy="fresh")
        await offer(api, "s4", "s5", node="n2")
        await offer(api, "s6", node="n3", label="a:c")
        assert "heldBackBy" not in await pool(api)
        await hold(api)
        await hold(api, "s6", node="n3")
        await borrow(api, LABEL)
        await give_back(api, LABEL, "s2")
        await borrow(api, LABEL)
        await give_back(api, LABEL, "s3", revoke=True)
        await beat(api, "n1", recycled={"s3": (await beat(api, "n1"))["ends"]["s3"]})
        await hold_by_hand(api, "s4")
        await api.post("/admin/nodes/n2/drain")
        found = await pool(api)
        assert found["heldBack"] == 5
        assert found["heldBackBy"] == {"unwell": 2, "not fresh": 1, "in grace": 1, "draining": 1}
        assert (await pool(api, "a:c"))["heldBackBy"] == {"unwell": 1}


async def test_a_lent_slot_that_is_unwell_is_not_held_back_yet(api):
    await offer(api, "s1")
    await borrow(api, LABEL)
    await hold(api)
    assert "heldBackBy" not in await pool(api)


async def test_a_held_slot_is_no_capacity_for_an_autoscaler(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api, "s1", "s2")
        assert await desired(api) == (0, 2, None)
        await hold(api)
        assert await desired(api) == (0, 1, {"unwell": 1})
        assert (await desired(api, headroom=1))[0] == 2
        await borrow(api, LABEL)
        assert (await desired(api))[0] == 2
        waiter = await waiting(api, redis)
        assert (await desired(api))[0] == 3
        await release(api)
        await waiter
        assert await desired(api) == (2, 0, None)


async def test_why_names_who_holds_a_slot_and_what_ends_that(api):
    await offer(api, "s1")
    await hold(api)
    found = (await api.get("/why/slot/s1")).json()
    assert (found["state"], found["facts"]["held"], found["facts"]["heldBy"]) == ("held", ILL, "node")
    assert "its node n1 holds it: does not answer" in found["because"]
    await hold_by_hand(api)
    found = (await api.get("/why/slot/s1")).json()
    assert "an operator holds it: fan is broken" in found["because"]
    assert [step["event"] for step in found["next"]] == ["slot.well"]


async def test_why_of_a_waiter_counts_the_slots_that_are_unwell(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api, "s1", "s2")
        await hold(api)
        await borrow(api, LABEL)
        waiter = asyncio.create_task(
            api.post("/session/borrow", json={"labelKey": LABEL}, headers={"idempotency-key": "w"})
        )
        (await waiting(api, redis)).cancel()
        found = (await api.get("/why/ticket/w")).json()
        assert "1 of them is unwell and held back" in found["because"]
        await release(api)
        assert (await waiter).json()["browserId"] == "s1"


async def test_the_metric_counts_slots_that_are_unwell(api):
    await offer(api, "s1", "s2")
    await hold(api)
    await hold_by_hand(api)
    await hold_by_hand(api, "s2")
    assert "hub_slots_unwell 2.0" in (await api.get("/metrics")).text
