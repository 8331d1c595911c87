"""A node that is cordoned with a reason: nothing more of it is lent, and everything else stays as it is."""

from __future__ import annotations

import pytest

from tests.capacity.nodes.test_drain_lost import drain, register, state, told
from tests.client.fake_hub import eventually
from tests.client.live import LABEL, client_of, until_slots
from tests.client.live import agent_of as live_agent_of
from tests.world import beat, borrow, give_back, listed

WHY = "disk is being replaced"


async def cordon(api, reason=WHY):
    answer = await api.post("/admin/nodes/n1/cordon", json={"reason": reason})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def service(api):
    found = (await api.get("/nodes/n1")).json()
    return found.get("service"), found.get("reason"), found["draining"], found["deadlineSecondsLeft"]


async def test_a_cordoned_node_lends_no_more_and_keeps_its_leases(api, redis):
    await register(api)
    lease = (await borrow(api, "a:b")).json()
    assert await cordon(api) == {
        "nodeId": "n1", "draining": False, "cordoned": True, "reason": WHY, "heldBack": 0, "lent": 1,
        "deadlineSecondsLeft": None,
    }  # fmt: skip
    assert await service(api) == ("cordoned", WHY, False, None)
    renewed = await api.post(
        "/session/renew", json={"browserId": lease["browserId"], "leaseToken": lease["leaseToken"]}
    )
    assert renewed.status_code == 200
    await give_back(api, "a:b", lease["browserId"])
    assert (await state(api))[1] == ["held"]
    assert (await borrow(api, "a:b")).status_code == 503
    await drain(api, on=False)
    assert await service(api) == (None, None, False, None)
    assert (await borrow(api, "a:b")).status_code == 200


async def test_a_cordoned_node_is_told_of_the_cordon_and_not_to_drain(api, redis):
    await register(api)
    await cordon(api)
    answer = await beat(api, "n1", incarnation="first")
    assert (answer["drain"], answer["drainCall"]["on"], answer["drainCall"]["reason"]) == (False, True, WHY)
    again = await beat(api, "n1", incarnation="first", version=answer["version"])
    assert (again["drain"], "lent" in again) == (False, False)


async def test_a_node_reports_its_cordon_to_a_new_hub_with_an_empty_store(make_api, redis):
    async with make_api() as first:
        await register(first)
        await cordon(first)
        call = await told(first)
    redis.flushall()
    async with make_api() as other:
        await register(other, 2, drainCall=call)
        assert await service(other) == ("cordoned", WHY, False, None)
        assert listed(redis, "available:a:b") == []


async def test_the_hub_restores_a_cordon_that_the_node_had_not_heard_of(api, redis):
    await register(api)
    await cordon(api)
    redis.flushall()
    await beat(api, "n1", incarnation="first")  # the hub notices the loss
    await register(api, 2)
    assert await service(api) == ("cordoned", WHY, False, None)


@pytest.mark.parametrize("cordoned_last", [True, False])
async def test_the_last_of_several_drain_and_cordon_calls_decides_the_state_of_a_node(api, redis, cordoned_last):
    await register(api)
    for is_cordon in (not cordoned_last, cordoned_last):
        await (cordon(api) if is_cordon else drain(api, deadlineSeconds=600))
    kind, reason, draining, left_s = await service(api)
    if cordoned_last:
        assert (kind, reason, draining, left_s) == ("cordoned", WHY, False, None)
    else:
        assert (kind, reason, draining) == ("draining", None, True)
        assert 590 < left_s <= 600


async def test_a_cordon_is_shown_in_the_node_list_in_why_and_in_the_history(api, redis):
    await register(api)
    await cordon(api)
    for kind, ids in (("cordoned", ["n1"]), ("draining", [])):
        found = (await api.get("/nodes", params={"detail": 1, "state": kind})).json()["nodes"]
        assert [each["nodeId"] for each in found] == ids
    for path in ("/why/node/n1", "/why/slot/s1"):
        assert f"cordoned ({WHY})" in (await api.get(path)).text
    assert "node.cordoned" in (await api.get("/history", params={"kind": "node"})).text
    audit = (await api.get("/audit", params={"take": 10})).json()
    assert WHY in str(audit)


@pytest.mark.parametrize("bad", ["", "   ", "two\nlines", "x" * 201, 5, None])
async def test_an_unreadable_reason_of_a_cordon_is_refused(api, redis, bad):
    await register(api)
    answer = await api.post("/admin/nodes/n1/cordon", json={} if bad is None else {"reason": bad})
    assert (answer.status_code, answer.json()["member"]) == (400, "reason")
    assert (await service(api))[0] is None


@pytest.mark.slow
@pytest.mark.story
async def test_an_agent_stays_cordoned_when_store_and_hub_have_lost_the_cordon(start_hub):
    hub = start_hub()
    async with live_agent_of(hub) as agent, client_of(hub) as client:
        async with hub.client() as raw:
            (await raw.post("/admin/nodes/n1/cordon", json={"reason": WHY})).raise_for_status()
        await eventually(lambda: agent._state.drain_call is not None)
        assert not agent.draining
        hub.kill()
        hub.redis.flushall()
        start_hub(HUB_PORT=str(hub.port))
        await until_slots(client, list(agent.slots))
        assert (await client.node("n1"))["reason"] == WHY
        assert (await client.pool(LABEL))["available"] == 0
