"""Unwell slots are told to the holder of a lease, the node, the history, lists, and a store that was lost."""

from __future__ import annotations

import asyncio

import pytest

from hub.store.store import SETTLE_MS
from tests.capacity.nodes.test_holds import (
    ILL,
    LABEL,
    hold,
    hold_by_hand,
    offer,
    release,
    release_by_hand,
    shown,
)
from tests.world import beat, borrow, eventually, give_back


async def lent(api):
    await offer(api, "s1")
    lease = (await borrow(api, LABEL)).json()
    return {"browserId": lease["browserId"], "leaseToken": lease["leaseToken"]}


async def watch(api, lease, wait_s=0, **more):
    answer = await api.post("/leases/watch", json={"leases": [lease], "waitSeconds": wait_s, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listening(redis):
    """Wait until a call listens for what happens to the slot."""

    async def listens():
        return redis.pubsub_numsub("hub:revoked_bell:s1")[0][1]

    await eventually(listens)


async def test_a_holder_that_waits_is_told_at_once_that_its_slot_is_unwell_and_well_again(api, redis):
    lease = await lent(api)
    heard = {}
    for change, told in (
        (lambda: hold(api), {"reason": ILL, "heldBy": "node"}),
        (lambda: hold_by_hand(api), {"reason": "fan is broken", "heldBy": "operator"}),
        (lambda: release_by_hand(api), {"reason": ILL, "heldBy": "node"}),
        (lambda: release(api), {"reason": ""}),
    ):
        waits = asyncio.create_task(watch(api, lease, 30, unwell=heard))
        await listening(redis)
        await change()
        assert await waits == {"over": [], "unwell": [{**lease, **told}]}
        heard = {"s1": told["reason"]}
        assert await watch(api, lease, unwell=heard) == {"over": [], "unwell": []}


async def test_a_holder_that_does_not_ask_hears_nothing_of_it(api, redis):
    lease = await lent(api)
    waits = asyncio.create_task(watch(api, lease, 30))
    await listening(redis)
    await hold(api)
    assert await watch(api, lease) == {"over": []}
    assert not waits.done()
    await give_back(api, LABEL, "s1", revoke=True)
    assert list(await waits) == ["over"]


async def test_a_lease_that_is_over_is_not_unwell(api):
    lease = await lent(api)
    await hold(api)
    await give_back(api, LABEL, "s1", revoke=True)
    found = await watch(api, lease, unwell={})
    assert (len(found["over"]), found["unwell"]) == (1, [])


@pytest.mark.parametrize("said", ["s1", ["s1"], {"s1": 7}])
async def test_what_was_heard_is_checked(api, said):
    lease = await lent(api)
    answer = await api.post("/leases/watch", json={"leases": [lease], "unwell": said})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")


async def test_the_history_says_who_held_a_slot_and_why(api):
    await offer(api, "s1")
    for _ in range(2):
        await hold(api)
    await hold_by_hand(api)
    await release(api)
    await release(api)
    await release_by_hand(api)
    events = (await api.get("/history", params={"slot": "s1"})).json()["events"][::-1]
    found = [(each["event"], each["heldBy"], each.get("reason", "")) for each in events if "well" in each["event"]]
    assert found == [
        ("slot.unwell", "node", ILL),
        ("slot.unwell", "operator", "fan is broken"),
        ("slot.well", "node", ""),
        ("slot.well", "operator", ""),
    ]


async def test_the_audit_log_says_what_operators_did(api):
    await offer(api, "s1")
    await hold_by_hand(api)
    await release_by_hand(api)
    entries = (await api.get("/audit", params={"category": "admin"})).json()
    assert [(e["action"], e["details"]) for e in entries[:2]] == [
        ("slot.release", {"slotId": "s1", "nodeId": "n1"}),
        ("slot.hold", {"slotId": "s1", "nodeId": "n1", "reason": "fan is broken"}),
    ]


async def test_a_session_of_an_unwell_slot_says_so(api):
    await lent(api)
    await hold(api)
    one = (await api.get("/sessions/s1")).json()
    (listed,) = (await api.get("/sessions")).json()["sessions"]
    assert [(each["held"], each["heldBy"]) for each in (one, listed)] == [(ILL, "node")] * 2


async def test_a_node_is_told_of_an_operators_hold_and_repeats_it_after_a_wipe(make_api, redis):
    async with make_api() as api:
        await offer(api, "s1", incarnation="one")
        await hold_by_hand(api)
        told = (await beat(api, "n1", incarnation="one"))["operatorHeld"]
        assert told["s1"]["reason"] == "fan is broken"
        forget(api)
        await wipe(api, redis)
        await offer(api, "s1", incarnation="one", operatorHeld=told)
        assert await shown(api) == {"s1": ("fan is broken", "operator")}
        assert (await beat(api, "n1", incarnation="one"))["operatorHeld"] == told
        await release_by_hand(api)
        assert "operatorHeld" not in await beat(api, "n1", incarnation="one")
        await offer(api, "s1", incarnation="one", operatorHeld=told)
        assert await shown(api) == {}
        await api.delete("/node/n1/slots/s1")
        await offer(api, "s1", incarnation="one", operatorHeld=told)
        assert await shown(api) == {}


@pytest.mark.parametrize("lost", [(), ("hub:slot:s1", "hub:slot:s2")])
async def test_holds_lie_beside_what_each_heartbeat_reads_and_go_with_the_node(api, redis, lost):
    await offer(api, "s1", "s2")
    await hold(api)
    await hold_by_hand(api, "s2")
    assert redis.hkeys("hub:duty:n1") == ["version"]
    assert sorted(redis.hkeys("hub:node_holds:n1")) == ["node:s1", "operator:s2"]
    assert list((await beat(api, "n1"))["operatorHeld"]) == ["s2"]
    redis.delete(*lost, "hub:none")
    await api.delete("/node/n1")
    assert not redis.keys("*:n1")


@pytest.mark.parametrize("last", ["a hold", "a release"])
async def test_the_hub_that_took_an_operators_call_brings_it_back_after_a_wipe(make_api, redis, last):
    """Also where the node knows only the call before, or none."""
    async with make_api() as api:
        await offer(api, "s1", incarnation="one")
        await hold_by_hand(api, reason="before")
        told = (await beat(api, "n1", incarnation="one"))["operatorHeld"]
        await (hold_by_hand(api) if last == "a hold" else release_by_hand(api))
        await wipe(api, redis)
        await offer(api, "s1", incarnation="one", operatorHeld=told)
        assert await shown(api) == ({"s1": ("fan is broken", "operator")} if last == "a hold" else {})


async def test_a_node_repeats_its_own_holds_after_a_wipe(make_api, redis):
    async with make_api() as api:
        await offer(api, "s1", "s2", incarnation="one", number=1)
        await hold(api, incarnation="one", number=2)
        await wipe(api, redis)
        await offer(api, "s1", "s2", incarnation="one", number=3, held={"s1": ILL})
        assert await shown(api) == {"s1": (ILL, "node")}


@pytest.mark.parametrize("said", [{"s1": "7"}, {"s1": {"number": 7, "reason": "x"}}, {"s1": {"number": "7"}}, [1]])
async def test_what_a_node_repeats_of_operators_is_checked(api, said):
    answer = await api.post("/node/register", json={"nodeId": "n1", "operatorHeld": said})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")


def forget(api):
    """Let the hub be another one than that which took the calls."""
    api._transport.app.app.state.serving.hub.holds._made.clear()


async def wipe(api, redis):
    """Lose the whole store; the hub opens a new one and says what it knows."""
    redis.flushall()
    await api._transport.app.app.state.serving.hub.clock.tick()
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
