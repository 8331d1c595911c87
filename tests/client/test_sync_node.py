"""The agent for programs with threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from hub.client import SyncNodeAgent, Unauthorized
from hub.errors import HubUnavailable
from tests.client.fake_hub import FakeHub, Reset
from tests.world import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("quick")


def agent_of(hub: FakeHub, **options: Any) -> SyncNodeAgent:
    return SyncNodeAgent("n1", url="http://hub", pools={"gpu:a100": 2}, transport=hub.transport(), **options)


def test_a_node_runs_in_its_own_thread_and_leaves(hub: FakeHub) -> None:
    callers: list[threading.Thread] = []

    def fresh(slot_id: str) -> dict[str, str]:
        callers.append(threading.current_thread())
        return {"labelKey": "gpu:a100", "slotId": "fresh"}

    with agent_of(hub, on_recycle=fresh) as agent:
        assert (agent.node_id, sorted(agent.slots)) == ("n1", ["n1-gpu.a100-1", "n1-gpu.a100-2"])
        assert agent.publish([{"labelKey": "gpu:b", "slotId": "x"}])[0]["status"] == "published"
        assert agent.withdraw("x") is False
        assert agent.verify("s1", "7") == {"path": "/leases/s1/verify"}
        hub.lent, hub.drain, hub.recycle, hub.version = {"s9": "5"}, True, ["n1-gpu.a100-1"], 1
        wait_until(lambda: agent.lent == {"s9": "5"} and agent.draining and "fresh" in hub.nodes["n1"])
        assert agent.failure is None
    assert hub.nodes == {}
    assert callers[0] not in (threading.main_thread(), None)
    with pytest.raises(HubUnavailable, match="does not run"):
        agent.publish([])


def test_start_raises_a_refused_secret(hub: FakeHub) -> None:
    hub.say("POST /node/register", (401, "unauthorized"))
    with pytest.raises(Unauthorized):
        agent_of(hub).start()


def test_a_secret_refused_later_is_raised_at_the_end_of_the_block(hub: FakeHub) -> None:
    def work() -> None:
        with agent_of(hub) as agent:
            hub.say("POST /node/heartbeat", (401, "unauthorized"))
            wait_until(lambda: agent.failure is not None)

    with pytest.raises(Unauthorized):
        work()


def test_start_gives_up_after_the_time_it_was_given(hub: FakeHub) -> None:
    hub.say("POST /node/register", *[Reset()] * 1000)
    with pytest.raises(HubUnavailable, match="no hub took node n1 within"):
        agent_of(hub).start(timeout=0.1)


def test_run_lasts_until_another_thread_calls_stop(hub: FakeHub) -> None:
    agent = agent_of(hub)
    running = threading.Thread(target=agent.run)
    running.start()
    wait_until(lambda: "n1" in hub.nodes)
    agent.stop()
    running.join(PATIENCE_S)
    assert (running.is_alive(), hub.nodes) == (False, {})


def test_run_raises_the_error_that_ends_the_node(hub: FakeHub) -> None:
    agent = agent_of(hub)
    hub.say("POST /node/heartbeat", (401, "unauthorized"))
    with pytest.raises(Unauthorized):
        agent.run()


def test_callbacks_that_raise_are_counted(hub: FakeHub) -> None:
    def raises(lent: Mapping[str, str]) -> None:
        raise RuntimeError("not now")

    with agent_of(hub, on_lent=raises) as agent:
        hub.lent, hub.version = {"s9": "5"}, 1
        wait_until(lambda: agent.callback_errors == 1)
