"""A node sends heartbeats while its program is busy, unless the program hangs for too long."""

from __future__ import annotations

import threading

import pytest

from hub.client import SyncNodeAgent
from hub.errors import HubUnavailable
from tests.client.fake_hub import FakeHub, agent_of, eventually
from tests.client.live import LABEL, client_of
from tests.client.live import agent_of as live_agent_of
from tests.world import HubProcess, wait_until

pytestmark = pytest.mark.usefixtures("quick")
BEAT = "POST /node/heartbeat"


def some_beats(hub: FakeHub) -> None:
    """Stands in the way of the event loop until the hub was heard some times more."""
    beats = len(hub.said(BEAT))
    wait_until(lambda: len(hub.said(BEAT)) > beats + 3)


@pytest.mark.story
async def test_a_blocked_event_loop_does_not_make_its_node_expire(start_hub) -> None:
    hub: HubProcess = start_hub(HUB_NODE_TIMEOUT="6")
    async with live_agent_of(hub) as agent, client_of(hub) as client:
        slot = await client.acquire(LABEL, ttl=600, wait=60)
        begun = clock_ms(hub)
        wait_until(lambda: clock_ms(hub) > begun + 8_000, 120)  # nothing of this process's event loop runs meanwhile
        assert (await client.verify(slot.id, slot.token))["valid"]
        await eventually(lambda: agent.lent == {slot.id: slot.token})
        events = [fact["event"] for _, fact in hub.redis.xrange("hub:history")]
    assert "grant.lent" in events
    assert not {"node.expired", "node.suspect"} & set(events)


def clock_ms(hub: HubProcess) -> int:
    return int(hub.redis.hget("hub:store", "clock_ms") or 0)


async def test_a_node_beats_and_receives_orders_while_its_event_loop_is_blocked(hub: FakeHub) -> None:
    heard: list[bool] = []
    async with agent_of(hub, on_drain=heard.append) as agent:
        hub.lent, hub.drain, hub.version = {"s1": "5"}, True, 1
        some_beats(hub)
        assert (agent.lent, agent.draining, heard) == ({"s1": "5"}, True, [])
        hub.nodes.clear()  # a hub that has lost its store is told at once as well
        wait_until(lambda: len(hub.nodes.get("n1", ())) == 2)
        await eventually(lambda: heard == [True])


async def test_a_node_beats_only_while_every_liveness_check_passes(
    hub: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    well, asked = True, threading.Event()

    def gets_on() -> bool:
        asked.set()
        return well

    async with agent_of(hub) as agent:
        agent.alive_while(lambda: True)
        agent.alive_while(gets_on)
        some_beats(hub)
        well = False
        await eventually(lambda: "gets_on says that it does not get on" in caplog.text)
        beats = len(hub.said(BEAT))
        for _ in range(3):
            asked.clear()
            await eventually(asked.is_set)
        assert len(hub.said(BEAT)) == beats
        well = True
        some_beats(hub)
    assert caplog.text.count("sends no heartbeats") == 1
    assert "sends heartbeats again" in caplog.text
    assert hub.nodes == {}


async def test_a_liveness_check_that_raises_counts_as_failed(hub: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    async with agent_of(hub) as agent:
        agent.alive_while(lambda: 1 / 0)
        await eventually(lambda: "raised ZeroDivisionError" in caplog.text)


async def test_the_node_of_a_hanging_program_expires_and_comes_back_with_the_program(
    hub: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    async with agent_of(hub, max_silence=1.0):
        await eventually(lambda: len(hub.said(BEAT)) > 40)  # for longer than that: a loop that runs is heard
        assert "sends no heartbeats" not in caplog.text
        wait_until(lambda: "nothing was heard of its program for" in caplog.text)
        beats = len(hub.said(BEAT))
        await eventually(lambda: len(hub.said(BEAT)) > beats)
        assert "sends heartbeats again" in caplog.text


def test_a_program_with_threads_reports_its_progress_itself(hub: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    options = {"url": "http://hub", "pools": {"gpu:a100": 2}, "transport": hub.transport()}
    with SyncNodeAgent("n1", max_silence=0.2, **options) as agent:
        wait_until(lambda: "nothing was heard of its program for" in caplog.text)
        beats = len(hub.said(BEAT))

        def heard_again() -> bool:
            agent.progress()
            return len(hub.said(BEAT)) > beats

        wait_until(heard_again)
        agent.alive_while(lambda: False)
        wait_until(lambda: caplog.text.count("sends no heartbeats") == 2)


def test_a_max_silence_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match="max_silence must be more than 0 seconds"):
        SyncNodeAgent("n1", max_silence=0)


async def test_calls_on_an_agent_that_does_not_run_are_refused(hub: FakeHub) -> None:
    agent = agent_of(hub)
    with pytest.raises(HubUnavailable, match="the agent of node n1 does not run"):
        await agent.withdraw("x")
    async with agent:
        pass
    with pytest.raises(HubUnavailable, match="the agent of node n1 does not run"):
        await agent.publish([{"labelKey": "gpu:a100"}])
