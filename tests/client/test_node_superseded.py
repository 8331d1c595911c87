"""Two agents with one node id, and calls of an agent that a hub carries out late."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from hub.client import SyncNodeAgent
from hub.errors import Superseded
from tests import world
from tests.client.fake_hub import FakeHub, agent_of, eventually
from tests.client.live import LABEL, client_of, until_slots
from tests.client.live import agent_of as live_agent_of
from tests.world import HubProcess, wait_until

REGISTER, BEAT, LEAVE = "POST /node/register", "POST /node/heartbeat", "DELETE /node/n1"
FIRST, SECOND = "n1-gpu.a100-1", "n1-gpu.a100-2"


def superseded(seen: Any) -> dict[str, Any]:
    return {"nodeId": "n1", "known": True, "superseded": True, "nextBeatMs": 40, "version": 0}


async def test_an_agent_replaced_by_a_newer_process_stops_and_changes_nothing(hub: FakeHub, quick: None) -> None:
    async def work() -> None:
        async with agent_of(hub):
            hub.say(BEAT, superseded)
            await asyncio.sleep(60)

    with pytest.raises(Superseded, match="another process is node n1 by now"):
        await work()
    assert hub.said(LEAVE) == []
    assert len(hub.nodes["n1"]) == 2


def test_the_agent_for_threads_stops_when_it_is_replaced_as_well(hub: FakeHub, quick: None) -> None:
    agent = SyncNodeAgent("n1", url="http://hub", transport=hub.transport())
    agent.start()
    hub.say(BEAT, superseded)
    wait_until(lambda: agent.failure is not None)
    with pytest.raises(Superseded):
        agent.stop()


async def test_calls_of_an_agent_name_its_process_and_have_rising_numbers(hub: FakeHub, quick: None) -> None:
    hub.say(REGISTER, lambda seen: {**hub.play(seen), "term": "17"})
    async with agent_of(hub) as agent:
        await agent.publish([{"labelKey": "gpu:b", "slotId": "x"}])
        await agent.withdraw("x")
        hub.nodes.clear()
        await eventually(lambda: len(hub.said(REGISTER)) == 2)
    incarnation = hub.seen[0].body["incarnation"]
    spoken = [seen for seen in hub.seen if seen.what in (REGISTER, "POST /node/n1/slots", "DELETE /node/n1/slots/x")]
    numbers = [int(seen.body.get("number") or seen.query["number"]) for seen in spoken]
    assert numbers == sorted(set(numbers))
    said = {(seen.body or seen.query)["incarnation"] for seen in hub.seen if seen.method != "GET"}
    assert said == {incarnation}
    assert [seen.body.get("term") for seen in hub.said(REGISTER)] == [None, "17"]
    assert agent_of(hub)._state.incarnation != incarnation


@pytest.mark.story
async def test_a_rolling_restart_keeps_all_leases(live_hub: HubProcess) -> None:
    old = live_agent_of(live_hub, slots=2)
    leaving = asyncio.create_task(old.run())
    async with client_of(live_hub) as client:
        await until_slots(client, list(old.slots))
        slot = await client.acquire(LABEL, ttl=600)
        async with live_agent_of(live_hub, slots=2) as new:
            old.stop()  # it may have been superseded before
            await asyncio.wait([leaving])
            assert leaving.exception() is None or isinstance(leaving.exception(), Superseded)
            await eventually(lambda: new.lent == {slot.id: slot.token})
            assert (await client.verify(slot.id, slot.token))["valid"]
            await until_slots(client, list(new.slots))
            assert "node process replaced" in live_hub.log()


@pytest.mark.story
async def test_the_older_of_two_running_agents_of_a_node_ends_within_a_heartbeat(live_hub: HubProcess) -> None:
    old = asyncio.create_task(live_agent_of(live_hub).run())
    async with client_of(live_hub) as client:
        await until_slots(client, [FIRST])
        async with live_agent_of(live_hub) as new:
            await asyncio.wait([old])
            assert isinstance(old.exception(), Superseded)
            beats = live_hub.redis.zscore("hub:beats", "n1")
            await eventually(lambda: live_hub.redis.zscore("hub:beats", "n1") > beats)
            assert list(new.slots) == [FIRST]


@pytest.mark.story
@pytest.mark.parametrize("undone", ["withdrawn", "published"])
async def test_a_difference_between_the_slots_of_agent_and_hub_is_repaired_within_a_heartbeat(
    live_hub: HubProcess, undone: str
) -> None:
    """By a plain client that names no process, as a call without a number was: nothing else would tell the agent."""
    async with live_agent_of(live_hub, slots=2) as agent, client_of(live_hub) as client, live_hub.client("node") as raw:
        await until_slots(client, [FIRST, SECOND])
        await _a_quiet_beat(live_hub)
        if undone == "withdrawn":
            (await raw.delete(f"/node/n1/slots/{FIRST}")).raise_for_status()
        else:
            offer = {"slots": [{"slotId": "dead", "labelKey": LABEL}]}
            (await raw.post("/node/n1/slots", json=offer)).raise_for_status()
        await until_slots(client, list(agent.slots))
        assert await _all_free(client, 2)


async def test_slots_that_differ_permanently_are_not_compared_at_every_heartbeat(hub: FakeHub, quick: None) -> None:
    hub.say(BEAT, *[lambda seen: {**hub.play(seen), "lent": {}, "version": 1, "offers": "9-9"}] * 12)
    async with agent_of(hub):
        await eventually(lambda: len(hub.said(BEAT)) > 12)
    assert len(hub.said("GET /nodes/n1")) == 2  # once at the start


@pytest.mark.story
async def test_a_late_withdrawal_from_a_hub_that_stood_still_withdraws_nothing(start_hub) -> None:
    """An agent makes a slot fresh: its withdrawal hangs in one hub, is repeated at another, and the slot is back."""
    first = start_hub(HUB_NODE_TIMEOUT="600")
    other = start_hub(HUB_NODE_TIMEOUT="600")
    query = {"incarnation": "p1", "number": "2"}
    async with first.client("node") as raw, other.client("node") as also, client_of(other) as client:
        report = {"nodeId": "n1", "incarnation": "p1", "number": 1, "slots": [{"slotId": "s1", "labelKey": LABEL}]}
        (await raw.post("/node/register", json=report)).raise_for_status()
        first.signal(signal.SIGSTOP)
        try:
            hanging = asyncio.create_task(raw.delete("/node/n1/slots/s1", params=query))
            await asyncio.sleep(0)
            again = await also.delete("/node/n1/slots/s1", params={**query, "number": "3"})
            assert again.json() == {"withdrawn": "s1", "ended": False}
            report = {"incarnation": "p1", "number": 4, "slots": report["slots"]}
            (await also.post("/node/n1/slots", json=report)).raise_for_status()
        finally:
            os.kill(first.process.pid, signal.SIGCONT)
        late = await hanging
        assert late.status_code in (200, 503)  # carried out to no effect, or not at all
        await until_slots(client, ["s1"])
        assert (await client.acquire(LABEL)).id == "s1"


async def _a_quiet_beat(hub: HubProcess) -> None:
    """Until the agent has said everything and was told everything."""
    beats = hub.redis.zscore("hub:beats", "n1")
    await eventually(lambda: hub.redis.zscore("hub:beats", "n1") > beats)
    await eventually(lambda: hub.redis.hexists("hub:duty:n1", "offers"))


async def _all_free(client: Any, count: int) -> bool:
    async def free() -> bool:
        return bool((await client.pool(LABEL))["available"] == count)

    await world.eventually(free)
    return True
