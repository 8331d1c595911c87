"""Slots with the policy `fresh`: after a lease they are lent to no caller until their node has made them fresh."""

from __future__ import annotations

import pytest

from tests.capacity.nodes.waiting import waiting
from tests.world import age_node, beat, borrow, give_back, listed

LABEL, FREE, LENT = "a:b", "available:a:b", "inuse:a:b"


async def offer(api, *slots, node="n1", policy="fresh", **more):
    body = {"nodeId": node, "policy": policy, "slots": [{"labelKey": LABEL, "slotId": slot} for slot in slots], **more}
    answer = await api.post("/node/register", json=body)
    assert answer.status_code == 200, answer.text
    return [row["status"] for row in answer.json()["slots"]]


async def used(api, slot="s1"):
    """Lend and return the only slot; return the number of that end."""
    lease = (await borrow(api, LABEL)).json()
    await give_back(api, LABEL, slot)
    return (await beat(api, "n1"))["ends"][slot], lease["leaseToken"]


async def refused(api):
    return (await borrow(api, LABEL)).json().get("code") == "no-capacity"


async def lent_and_waited_for(api, redis):
    """Lend the only slot, and return a borrow that waits for it."""
    await borrow(api, LABEL)
    return await waiting(api, redis)


async def test_a_returned_slot_is_not_handed_to_a_waiter_before_it_is_fresh(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api, "s1")
        waiter = await lent_and_waited_for(api, redis)
        await give_back(api, LABEL, "s1")
        orders = await beat(api, "n1")
        assert (orders["recycle"], list(orders["ends"]), waiter.done()) == (["s1"], ["s1"], False)
        await beat(api, "n1", recycled=orders["ends"])
        assert (await waiter).json()["browserId"] == "s1"


async def test_under_the_policy_recycle_a_waiter_gets_a_returned_slot_as_it_is(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api, "s1", policy="recycle")
        waiter = await lent_and_waited_for(api, redis)
        await give_back(api, LABEL, "s1")
        assert (await waiter).json()["browserId"] == "s1"


async def test_a_late_word_about_an_earlier_end_frees_nothing(api):
    await offer(api, "s1")
    first, _ = await used(api)
    await beat(api, "n1", recycled={"s1": first})
    second, _ = await used(api)
    assert int(second) > int(first)
    for late in ({"s1": first}, ["s1"], {"s1": str(int(second) + 10**12)}, {"s1": "0"}):
        await beat(api, "n1", recycled=late)
        assert await refused(api), late
    for _ in range(2):
        await beat(api, "n1", recycled={"s1": second})
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_only_its_node_makes_a_slot_fresh(api):
    await offer(api, "s1", incarnation="one")
    number, _ = await used(api)
    await offer(api, node="n2")
    await beat(api, "n2", recycled={"s1": number})
    await offer(api, "s1", incarnation="two")
    assert (await beat(api, "n1", incarnation="one", recycled={"s1": number})).get("superseded")
    assert await refused(api)
    await beat(api, "n1", incarnation="two", recycled={"s1": number})
    assert not await refused(api)


@pytest.mark.parametrize("how", ["operator", "footprint", "node leaves", "node is expired", "undrained", "undone"])
async def test_it_is_held_back_however_the_lease_ends(make_api, redis, how):
    async with make_api(revoke_grace_s=0, sweeper_expire=True) as api:
        await offer(api, "s1")
        await borrow(api, LABEL)
        if how == "operator":
            await give_back(api, LABEL, "s1", revoke=True)
        elif how == "footprint":
            redis.delete("borrow_ttl:s1")
            await api.post("/admin/sweep")
        elif how == "node leaves":
            await api.delete("/node/n1")
        elif how == "node is expired":
            age_node(redis, "n1", 3600)
            redis.delete("node_alive:n1")
            await api.post("/admin/sweep")
        elif how == "undrained":
            await api.post("/admin/nodes/n1/drain")
            await give_back(api, LABEL, "s1")
            await api.post("/admin/nodes/n1/undrain")
        else:
            await give_back(api, LABEL, "s1")
        await offer(api, "s1")
        assert await refused(api)
        assert list((await beat(api, "n1"))["ends"]) == ["s1"]
        await beat(api, "n1", recycled=(await beat(api, "n1"))["ends"])
        assert not await refused(api)


async def test_a_node_that_publishes_again_says_what_it_made_fresh(api):
    await offer(api, "s1")
    number, _ = await used(api)
    assert await offer(api, "s1") == ["unchanged"]
    assert await refused(api)
    await offer(api, "s1", madeFresh={"s1": number})
    assert not await refused(api)
    await give_back(api, LABEL, "s1")
    await offer(api, "s1", policy="reuse")
    assert not await refused(api)


@pytest.mark.parametrize(("endpoint", "word"), [("", "unchanged"), ("ws://elsewhere", "published")])
async def test_a_slot_that_gets_the_policy_is_made_fresh_once(api, endpoint, word):
    slots = [{"labelKey": LABEL, "slotId": "s1", "webSocketEndpoint": endpoint}]
    await offer(api, policy="recycle", slots=[{**slots[0], "webSocketEndpoint": ""}])
    assert await offer(api, slots=slots) == [word]
    assert await refused(api)
    await beat(api, "n1", recycled=(await beat(api, "n1"))["ends"])
    assert await offer(api, slots=slots) == ["unchanged"]
    assert not await refused(api)


async def test_a_used_slot_that_is_withdrawn_and_published_again_is_lent_as_a_new_one(api, redis):
    await offer(api, "s1")
    await used(api)
    await api.delete("/node/n1/slots/s1")
    await offer(api, "s1")
    assert not await refused(api)
    assert redis.keys("hub:last_end:*") == []


async def test_a_lease_that_the_node_reports_and_that_is_over_makes_its_slot_used(api):
    """The node believes in a lease; the hub that ended it knows that it is over."""
    await offer(api, "s1")
    number, token = await used(api)
    await beat(api, "n1", recycled={"s1": number})
    await api.delete("/node/n1/slots/s1")
    await offer(api, "s1", lent={"s1": token})
    assert await refused(api)
    await offer(api, "s1", lent={"s1": token}, madeFresh={"s1": (await beat(api, "n1"))["ends"]["s1"]})
    assert not await refused(api)


@pytest.mark.parametrize("first", ["a borrow", "a sweep"])
async def test_a_program_that_knows_the_lists_only_does_not_break_it(make_api, redis, first):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        await offer(api, "s1")
        await borrow(api, LABEL)
        (item,) = redis.lrange(LENT, 0, -1)
        redis.lrem(LENT, 1, item)
        redis.delete("session:s1", "borrow_ttl:s1")
        redis.rpush(FREE, item)
        if first == "a borrow":
            assert await refused(api)
        await hub.pools.adopt(LABEL, "free", set())
        assert (await refused(api), listed(redis, FREE)) == (True, [])
        redis.rpush(FREE, item)
        await hub.pools.adopt(LABEL, "free", set())
        assert (await refused(api), listed(redis, FREE)) == (True, [])
        await beat(api, "n1", recycled=(await beat(api, "n1"))["ends"])
        assert not await refused(api)


async def test_what_a_beat_and_a_publication_say_of_freshness_is_checked(api):
    for said in ({"s1": 7}, {"s1": "x"}, {"a b": "7"}, "s1"):
        answer = await api.post("/node/heartbeat", json={"nodeId": "n1", "recycled": said})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value"), said
    answer = await api.post("/node/register", json={"nodeId": "n1", "madeFresh": {"s1": 7}})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")


async def test_a_slot_that_is_not_made_fresh_in_time_is_named_and_stays_held_back(api, redis):
    await offer(api, "s1")
    await used(api)
    calm = (await api.get("/console/overview")).json()
    orders = (await api.get("/nodes/n1")).json()["orders"]
    assert [(each["order"], each["slots"]) for each in orders] == [("recycle", ["s1"])]
    redis.hincrby("hub:store", "clock_ms", 121_000)
    await beat(api, "n1")
    found = [each for each in (await look(api))["troubles"] if each["name"] == "not-fresh"]
    assert [each["name"] for each in calm["troubles"] if each["name"] == "not-fresh"] == []
    assert [each["title"] for each in found] == ["1 slot is not made fresh"]
    assert "s1 of n1" in found[0]["text"]
    assert "hub_slots_not_fresh 1.0" in (await api.get("/metrics")).text
    assert await refused(api)
    why = (await api.get("/why/slot/s1")).json()
    assert (why["state"], [step["event"] for step in why["next"]]) == ("held", ["slot.fresh"])


async def test_a_pool_is_held_back_only_when_its_slots_are_not_made_fresh_in_time(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api, "s1")
        waiter = await lent_and_waited_for(api, redis)
        await give_back(api, LABEL, "s1")
        assert "held-back" not in [each["name"] for each in (await look(api))["troubles"]]
        redis.hincrby("hub:store", "clock_ms", 121_000)
        await beat(api, "n1")
        assert "held-back" in [each["name"] for each in (await look(api))["troubles"]]
        waiter.cancel()


async def look(api):
    """Return the overview, made anew: a hub keeps it for two seconds."""
    api._transport.app.app.state.overview.changed()
    return (await api.get("/console/overview")).json()
