"""A store that was lost forgets no drain: its node reports it, its hub remembers it, and the last call wins."""

from __future__ import annotations

import pytest

from tests.client.fake_hub import eventually
from tests.client.live import LABEL, client_of, until_slots
from tests.client.live import agent_of as live_agent_of
from tests.world import beat, listed

SLOT = {"slotId": "s1", "labelKey": "a:b"}


async def register(api, number=1, **more):
    body = {"nodeId": "n1", "incarnation": "first", "number": number, "slots": [SLOT], **more}
    answer = await api.post("/node/register", json=body)
    assert answer.status_code == 200, answer.text


async def drain(api, on=True, **body):
    answer = await api.post(f"/admin/nodes/n1/{'drain' if on else 'undrain'}", json=body)
    assert answer.status_code == 200, answer.text


async def told(api):
    return (await beat(api, "n1", incarnation="first"))["drainCall"]


async def state(api):
    found = (await api.get("/nodes/n1")).json()
    return found["draining"], [each["state"] for each in found["slotList"]]


async def test_a_node_reports_the_drain_it_was_told_of_with_its_deadline(make_api, redis):
    async with make_api() as first:
        await register(first)
        await drain(first, deadlineSeconds=600)
        call = await told(first)
        assert (call["on"], 590_000 < call["leftMs"] <= 600_000) == (True, True)
    redis.flushall()
    async with make_api() as other:  # a hub that knows nothing of it
        await register(other, 2, drainCall={**call, "leftMs": 300_000})
        assert await state(other) == (True, ["held"])
        assert 290 < (await other.get("/nodes/n1")).json()["deadlineSecondsLeft"] <= 300
        assert listed(redis, "available:a:b") == []
        assert (await told(other))["number"] == call["number"]


async def test_a_late_report_of_a_drain_does_not_undo_a_later_call(api, redis):
    await register(api)
    await drain(api)
    call = await told(api)
    await drain(api, on=False)
    later = await told(api)
    assert (later["on"], int(later["number"]) > int(call["number"])) == (False, True)
    await register(api, 2, drainCall=call)
    assert await state(api) == (False, ["free"])


@pytest.mark.parametrize("on", [True, False])
async def test_the_hub_restores_the_last_drain_call_that_it_was_told_of(api, redis, hub, on):
    """The node has heard of the call before that only."""
    await register(api)
    await drain(api, on=not on)
    call = await told(api)
    await drain(api, on=on)
    redis.flushall()
    await beat(api, "n1", incarnation="first")  # the hub notices the loss
    await register(api, 2, drainCall=call)
    assert await state(api) == (on, ["held" if on else "free"])
    assert not redis.exists("hub:drain_call:n1")


async def test_a_node_that_left_does_not_drain_when_it_comes_back(api, redis):
    await register(api)
    await drain(api)
    await api.delete("/node/n1")
    redis.flushall()
    await beat(api, "n1")
    answer = await api.post("/node/register", json={"nodeId": "n1", "incarnation": "second", "slots": [SLOT]})
    assert answer.status_code == 200
    assert await state(api) == (False, ["free"])


@pytest.mark.parametrize("bad", [5, {}, {"on": 1, "number": "5"}, {"on": True, "number": "x"}, {"on": True}])
async def test_an_invalid_report_of_a_drain_is_refused(api, redis, bad):
    answer = await api.post("/node/register", json={"nodeId": "n1", "incarnation": "first", "drainCall": bad})
    assert (answer.status_code, answer.json()["code"], answer.json()["member"]) == (400, "invalid-value", "drainCall")


@pytest.mark.slow
@pytest.mark.story
async def test_an_agent_goes_on_draining_when_store_and_hub_have_lost_the_drain(start_hub):
    hub = start_hub()
    async with live_agent_of(hub) as agent, client_of(hub) as client:
        async with hub.client() as raw:
            (await raw.post("/admin/nodes/n1/drain")).raise_for_status()
        await eventually(lambda: agent.draining)
        hub.kill()
        hub.redis.flushall()
        start_hub(HUB_PORT=str(hub.port))
        await until_slots(client, list(agent.slots))
        assert (await client.node("n1"))["draining"]
        assert (await client.pool(LABEL))["available"] == 0
