"""Two machines with one node id: the one that the hub hears stays, the other ends and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.client import announcing, state
from hub.errors import NodeIdInUse
from hub.retries import now_s
from tests.client.fake_hub import FakeHub, Seen, agent_of, eventually

REGISTER, BEAT, LEAVE = "POST /node/register", "POST /node/heartbeat", "DELETE /node/n1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    monkeypatch.setattr(announcing, "IN_USE_S", 0.01)


def in_use(heard_ms: float, silent_in_ms: float) -> Any:
    """The refusal of a hub that has heard another machine `heard_ms` ago."""

    def answer(_: Seen) -> httpx.Response:
        facts = {"host": "rack-8/boot", "heardMs": heard_ms, "silentInMs": silent_in_ms}
        problem = {"status": 409, "code": "node-id-in-use", "detail": "node n1 is rack-8", **facts}
        return httpx.Response(409, json=problem)

    return answer


async def test_an_agent_ends_once_the_other_machine_was_heard_again_and_changes_nothing(hub: FakeHub) -> None:
    hub.say(REGISTER, in_use(10, 30), in_use(20, 20), in_use(0, 30))
    with pytest.raises(NodeIdInUse, match="rack-8") as ended:
        await agent_of(hub).run()
    assert ended.value.facts["host"] == "rack-8/boot"
    assert {seen.what for seen in hub.seen} == {REGISTER}
    assert hub.nodes == {}


async def test_an_agent_takes_over_from_a_machine_that_is_not_heard_again(hub: FakeHub) -> None:
    """Change the host, as a quick reboot does."""
    hub.say(REGISTER, *(in_use(1000 + waited, 30 - waited) for waited in (0, 10, 20)))
    async with agent_of(hub) as agent:
        assert sorted(hub.nodes["n1"]) == sorted(agent.slots)


@pytest.mark.parametrize("heard_again", [False, True])
async def test_an_agent_waits_while_the_hub_clock_stands_still_until_the_other_was_heard_again(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, heard_again: bool
) -> None:
    """Let a minute pass here between two answers, as when Redis is away."""
    passed_s = [0.0]
    monkeypatch.setattr(announcing, "now_s", lambda: now_s() + passed_s[0])

    def after_a_minute(heard_ms: float) -> Any:
        def answer(seen: Seen) -> Any:
            passed_s[0] += 60
            return in_use(heard_ms, 30)(seen)

        return answer

    async def start() -> None:
        async with agent_of(hub):
            assert not heard_again

    hub.say(REGISTER, *map(after_a_minute, (2000, 2000, 2010, 2010)))
    if heard_again:
        hub.say(REGISTER, after_a_minute(2009))
        with pytest.raises(NodeIdInUse):
            await start()
        assert hub.nodes == {}
    else:
        await start()
    assert len(hub.said(REGISTER)) == 5


async def test_an_agent_that_runs_ends_as_well_when_a_wiped_hub_heard_the_other_first(hub: FakeHub) -> None:
    async def work() -> None:
        async with agent_of(hub) as agent:
            hub.say(REGISTER, *[in_use(0, 30)] * 20)
            hub.nodes.clear()
            await agent.stopped()

    with pytest.raises(NodeIdInUse):
        await work()
    assert hub.said(LEAVE) == []


async def test_a_refusal_that_does_not_say_when_the_other_was_heard_ends_the_agent(hub: FakeHub) -> None:
    hub.say(REGISTER, (409, "node-id-in-use"))
    with pytest.raises(Exception, match="cannot be read"):
        await agent_of(hub).run()


async def test_a_registration_names_a_host_that_stays_until_the_next_boot(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with agent_of(hub):
        await eventually(lambda: hub.said(BEAT))
    (register,) = hub.said(REGISTER)
    assert register.body["host"] == state.host()
    name, _, boot = state.host().partition("/")
    assert name
    assert boot
    monkeypatch.setattr(state, "gethostname", lambda: "x" * 300)
    assert len(state.host()) == 200
