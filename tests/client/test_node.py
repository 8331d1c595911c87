"""The agent of a node: it survives faults of the hub and carries out the orders of the hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import httpx
import pytest

from hub.client import NodeAgent, Unauthorized
from hub.errors import BadInput, HubUnavailable, InvalidLabel, SlotLent
from tests.client.fake_hub import FakeHub, Reset, agent_of, eventually, problem
from tests.world import SLACK_S

pytestmark = pytest.mark.usefixtures("quick")
ORDERS = "GET /nodes/n1/orders"
REGISTER, BEAT, SLOTS, LEAVE = "POST /node/register", "POST /node/heartbeat", "POST /node/n1/slots", "DELETE /node/n1"


async def until_stopped() -> None:
    await asyncio.sleep(60)


async def test_a_node_registers_beats_at_the_pace_of_the_hub_and_leaves(hub: FakeHub) -> None:
    async with agent_of(hub, secret="secret") as agent:
        assert list(hub.nodes["n1"]) == list(agent.slots) == ["n1-gpu.a100-1", "n1-gpu.a100-2"]
        await eventually(lambda: len(hub.said(BEAT)) >= 5)
    assert hub.nodes == {}
    assert hub.seen[0].headers["x-hub-secret"] == "secret"
    assert hub.seen[-1].what == LEAVE
    beats = [seen.at for seen in hub.said(BEAT)]
    pauses = sorted(after - before for before, after in pairwise(beats))
    assert 0.03 < pauses[0] <= pauses[len(pauses) // 2] < 0.3  # the machine may stretch one of them


async def test_a_node_waits_for_its_hub_as_long_as_it_takes(hub: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    hub.say(REGISTER, httpx.ConnectError("refused"), (503, "store-unavailable"), Reset(), (500, "internal"))
    async with agent_of(hub):
        assert len(hub.said(REGISTER)) == 5
    assert caplog.text.count("does not get through to the hub") == 1


@pytest.mark.parametrize(
    ("refusal", "kind"), [((401, "unauthorized"), Unauthorized), ((400, "invalid-label"), InvalidLabel)]
)
async def test_a_permanently_refused_registration_is_raised(
    hub: FakeHub, refusal: tuple[int, str], kind: type[Exception]
) -> None:
    hub.say(REGISTER, refusal)
    with pytest.raises(kind):
        await agent_of(hub).run()
    assert len(hub.seen) == 1


async def test_failing_heartbeats_are_repeated_with_back_off_and_cancel_nothing(
    hub: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    refused = lambda seen: problem(503, "stopping", "30")  # noqa: E731
    hub.say(BEAT, Reset(), refused, refused, (500, "internal"), (400, "invalid-value"))
    hub.say(BEAT, lambda seen: ["a", "captive", "portal"], lambda seen: {"known": True, "lent": 5})
    async with agent_of(hub):
        await eventually(lambda: len(hub.said(BEAT)) >= 9)
    times = [seen.at for seen in hub.said(BEAT)]
    assert max(after - before for before, after in pairwise(times)) < SLACK_S  # and not 30 s
    assert "node n1 reaches the hub again" in caplog.text


async def test_a_hub_that_does_not_know_the_node_gets_its_registration_at_once(hub: FakeHub) -> None:
    hub.pace_ms = 100
    async with agent_of(hub) as agent:
        await agent.publish([{"labelKey": "gpu:b", "slotId": "x"}])
        hub.lent, hub.version = {"x": "7"}, 1
        await eventually(lambda: agent.lent == {"x": "7"})
        hub.nodes, hub.lent, hub.version = {}, {}, 0
        hub.pace_ms = 60_000  # told by the beat that finds it out
        await eventually(lambda: len(hub.said(REGISTER)) == 2)
        again = hub.said(REGISTER)[1]
        assert hub.lent == {"x": "7"}
    assert [slot["slotId"] for slot in again.body["slots"]] == ["x", "n1-gpu.a100-1", "n1-gpu.a100-2"]
    assert again.body["lent"] == {"x": "7"}
    told = next(seen.at for seen in reversed(hub.seen) if seen.what == BEAT and seen.at < again.at)
    assert again.at - told < SLACK_S


async def test_a_hub_that_lost_slots_of_the_node_gets_them_and_is_asked_for_the_leases(hub: FakeHub) -> None:
    """It goes on with the version of before, so a node that took that over would not hear what it has missed."""
    forgetful = lambda seen: {"known": False, "nextBeatMs": 40, "version": 0}  # noqa: E731
    async with agent_of(hub) as agent:
        hub.say(REGISTER, lambda seen: {**hub.play(seen), "version": hub.version})
        hub.say(BEAT, forgetful)
        hub.nodes, hub.lent, hub.version = {"n1": {}}, {"n1-gpu.a100-1": "7"}, 3
        await eventually(lambda: agent.lent == {"n1-gpu.a100-1": "7"})
        assert sorted(hub.nodes["n1"]) == sorted(agent.slots)
    assert len(hub.said(REGISTER)) == 2


async def test_slots_of_an_earlier_process_of_the_node_are_withdrawn(hub: FakeHub) -> None:
    hub.nodes["n1"] = {"dead": {}, "n1-gpu.a100-1": {}}
    async with agent_of(hub):
        assert sorted(hub.nodes["n1"]) == ["n1-gpu.a100-1", "n1-gpu.a100-2"]


async def test_slots_are_published_and_withdrawn_while_the_node_runs(hub: FakeHub) -> None:
    async with agent_of(hub) as agent:
        results = await agent.publish([{"labelKey": "gpu:b", "slotId": "x", "endpoint": "tcp://x"}])
        old = {"browserId": "x", "labelKey": "gpu:b"}
        assert results == [{"slotId": "x", "label": "gpu:b", **old, "status": "published"}]
        assert hub.nodes["n1"]["x"] == {"slotId": "x", "labelKey": "gpu:b", "endpoint": "tcp://x"}
        hub.lent["x"] = "5"
        assert await agent.withdraw("x")
        assert not await agent.withdraw("x")
        assert "x" not in hub.nodes["n1"]
        assert "x" not in agent.slots


async def test_a_slot_that_is_lent_is_not_withdrawn_where_only_a_free_one_may_be(hub: FakeHub) -> None:
    async with agent_of(hub) as agent:
        first, second = agent.slots
        hub.lent[first] = "5"  # as no heartbeat has told yet
        with pytest.raises(SlotLent):
            await agent.withdraw(first, only_free=True)
        assert not await agent.withdraw(second, only_free=True)
        assert [*agent.slots] == [*hub.nodes["n1"]] == [first]
        hub.version += 1
        await eventually(lambda: first in agent.lent)
        hub.lent.clear()  # a hub that has lost its store does not know yet
        with pytest.raises(SlotLent):
            await agent.withdraw(first, only_free=True)


async def test_a_node_that_the_hub_forgot_during_an_outage_registers_again(hub: FakeHub) -> None:
    async with agent_of(hub):
        hub.nodes.clear()
        hub.say(REGISTER, Reset(), (503, "store-unavailable"))
        await eventually(lambda: len(hub.said(REGISTER)) == 4)
        await eventually(lambda: len(hub.nodes.get("n1", ())) == 2)


async def test_a_node_with_many_slots_registers_in_batches(hub: FakeHub) -> None:
    async with agent_of(hub, pools={"gpu:a100": 2500}) as agent:
        assert len(hub.nodes["n1"]) == 2500
        assert len(hub.said(SLOTS)) >= 2
        hub.say(SLOTS, Reset())
        hub.nodes.clear()
        await eventually(lambda: len(hub.nodes.get("n1", ())) == 2500)
        assert len(agent.slots) == 2500


async def test_a_failed_look_for_leftover_slots_does_not_stop_the_node(
    hub: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    hub.say("GET /nodes/n1", (404, "not-found"))
    async with agent_of(hub):
        await eventually(lambda: hub.said(BEAT))
    assert "could not look at what the hub has of it" in caplog.text


async def test_leftover_slots_that_could_not_be_looked_for_at_the_start_are_withdrawn_later(hub: FakeHub) -> None:
    """Otherwise the hub would lend slots that do not exist, for as long as the node beats."""
    hub.nodes["n1"] = {"dead": {}}
    hub.say("GET /nodes/n1", Reset(), (503, "store-unavailable"))
    async with agent_of(hub) as agent:
        await eventually(lambda: sorted(hub.nodes["n1"]) == sorted(agent.slots))
        beats = len(hub.said(BEAT))
        await eventually(lambda: len(hub.said(BEAT)) > beats + 1)
    assert len(hub.said("GET /nodes/n1")) == 3


async def test_publishing_to_a_hub_that_forgot_the_node_registers_it(hub: FakeHub) -> None:
    hub.pace_ms = 10_000
    async with agent_of(hub) as agent:
        hub.nodes.clear()
        results = await agent.publish([{"labelKey": "gpu:b", "slotId": "x"}])
        assert [result["browserId"] for result in results] == ["x"]
        assert sorted(hub.nodes["n1"]) == ["n1-gpu.a100-1", "n1-gpu.a100-2", "x"]


async def test_publications_that_failed_are_sent_when_the_hub_is_back(hub: FakeHub) -> None:
    async with agent_of(hub) as agent:
        hub.say(SLOTS, *[Reset()] * 2)
        hub.say("DELETE /node/n1/slots/n1-gpu.a100-1", *[Reset()] * 2)
        with pytest.raises(HubUnavailable):
            await agent.publish([{"labelKey": "gpu:b", "slotId": "x"}])
        with pytest.raises(HubUnavailable):
            await agent.withdraw("n1-gpu.a100-1")
        await eventually(lambda: sorted(hub.nodes["n1"]) == ["n1-gpu.a100-2", "x"])


async def test_a_slot_that_the_hub_refuses_is_not_kept(hub: FakeHub) -> None:
    async with agent_of(hub) as agent:
        hub.say(SLOTS, (400, "invalid-value"))
        with pytest.raises(BadInput):
            await agent.publish([{"labelKey": "bad", "slotId": "x"}])
        assert "x" not in agent.slots


async def test_the_callbacks_hear_of_every_change_in_order_and_of_nothing_else(hub: FakeHub) -> None:
    heard: list[Any] = []

    async def on_lent(lent: Mapping[str, str]) -> None:
        heard.append(dict(lent))
        raise ValueError("a callback may fail")

    async with agent_of(hub, on_lent=on_lent, on_drain=heard.append) as agent:
        for lent, drain in [({"s1": "5"}, False), ({"s1": "5"}, True), ({}, True), ({}, False)]:
            hub.lent, hub.drain, hub.version = lent, drain, hub.version + 1
            beats = len(hub.said(BEAT))
            await eventually(lambda beats=beats: len(hub.said(BEAT)) > beats + 1)
            assert agent.draining == drain
            assert agent.lent == lent
    assert heard == [{"s1": "5"}, True, {}, False]
    assert agent.callback_errors == 2


async def test_a_node_that_verifies_a_token_hears_at_once_of_all_its_leases(hub: FakeHub) -> None:
    hub.pace_ms = 100_000
    async with agent_of(hub) as agent:
        await eventually(lambda: len(hub.said(BEAT)) == 1)
        hub.lent, hub.version = {"s1": "5"}, 1
        for valid in (False, True):
            hub.say("GET /leases/s1/verify", lambda _, valid=valid: {"slotId": "s1", "valid": valid})
            assert (await agent.verify("s1", "5"))["valid"] is valid
        await eventually(lambda: agent.lent == {"s1": "5"})
        hub.say("GET /leases/s1/verify", lambda _: {"slotId": "s1", "valid": True})
        await agent.verify("s1", "5")  # which it knows
        assert len(hub.said(BEAT)) == 2


async def test_a_hub_without_long_polls_for_orders_is_asked_once_per_heartbeat(hub: FakeHub) -> None:
    hub.say(ORDERS, *[(404, "not-found")] * 1000)
    async with agent_of(hub, on_lent=lambda lent: None):
        await eventually(lambda: len(hub.said(BEAT)) > 3)
        assert 1 <= len(hub.said(ORDERS)) <= len(hub.said(BEAT)) + 1


async def test_only_a_node_with_on_lent_waits_for_orders(hub: FakeHub) -> None:
    async with agent_of(hub, on_drain=lambda drain: None):
        await eventually(lambda: len(hub.said(BEAT)) > 2)
    assert hub.said(ORDERS) == []


async def test_a_refused_secret_stops_the_block_and_is_raised(hub: FakeHub) -> None:
    async def work() -> None:
        async with agent_of(hub):
            hub.say(BEAT, (401, "unauthorized"))
            await until_stopped()

    with pytest.raises(Unauthorized):
        await work()
    assert hub.said(LEAVE) == []


async def test_run_leaves_when_it_is_stopped_or_cancelled(hub: FakeHub) -> None:
    for end in (NodeAgent.stop, None):
        agent = agent_of(hub)
        task = asyncio.create_task(agent.run())
        await eventually(lambda: hub.nodes)
        if end is not None:
            end(agent)
            await task
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert hub.nodes == {}


async def test_run_can_be_stopped_while_no_hub_answers(hub: FakeHub) -> None:
    hub.say(REGISTER, *[Reset()] * 1000)
    agent = agent_of(hub)
    task = asyncio.create_task(agent.run())
    await eventually(lambda: len(hub.seen) > 1)
    agent.stop()
    await task


async def test_leaving_a_hub_that_is_away_takes_no_longer_than_its_limit(
    hub: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent_of(hub):
        hub.say(LEAVE, *[Reset()] * 1000)
        begun = time.monotonic()
    assert time.monotonic() - begun < SLACK_S
    assert "could not tell that node n1 leaves (" in caplog.text
    assert "its slots stay until the hub expires it as silent" in caplog.text


async def test_a_refused_leave_is_logged_once(hub: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    async with agent_of(hub):
        hub.say(LEAVE, (403, "forbidden"))
    assert "could not tell that node n1 leaves (told forbidden); its slots stay" in caplog.text
    assert len(hub.said(LEAVE)) == 1


async def test_a_node_can_ask_if_a_token_is_valid(hub: FakeHub) -> None:
    async with agent_of(hub) as agent:
        assert await agent.verify("s1", "7") == {"path": "/leases/s1/verify"}
