"""The hub has the holds of an agent, also after calls that failed or a store that was lost."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from contextlib import suppress
from typing import Any

import httpx
import pytest

from hub.api.shapes.node_bodies import BeatBody
from hub.client import SyncNodeAgent
from hub.client.slot_holds import BEAT_BYTES
from hub.client.state import AgentState
from hub.errors import BadInput, HubError, InvalidValue, NotFound
from tests.client.fake_hub import FakeHub, Reset, Scripted, Seen, agent_of, eventually
from tests.world import PATIENCE_S

REGISTER, BEAT, SLOTS = "POST /node/register", "POST /node/heartbeat", "POST /node/n1/slots"
FIRST, SECOND = "n1-gpu.a100-1", "n1-gpu.a100-2"
HOLD, RELEASE = f"POST /node/n1/slots/{FIRST}/hold", f"DELETE /node/n1/slots/{FIRST}/hold"
ILL = {FIRST: "fan is broken"}


def state_of(*slot_ids: str) -> AgentState:
    state = AgentState("n1", {"slots": [{"labelKey": "a:b", "slotId": slot_id} for slot_id in slot_ids]})
    state.term = "1"
    return state


def answered(state: AgentState, beat: dict[str, Any]) -> None:
    state.heard(beat, {"version": 0})


# -- what the agent remembers -------------------------------------------------------------------------------------


def test_a_heartbeat_tells_all_holds_until_one_with_them_was_answered() -> None:
    state = state_of("s1", "s2")
    assert "held" not in state.beat()
    state.hold("s1", "fan is broken")
    assert state.beat()["held"] == state.beat()["held"] == {"s1": "fan is broken"}
    answered(state, state.beat())
    assert "held" not in state.beat()
    state.hold("s2", "hot")
    assert state.beat()["held"] == {"s1": "fan is broken", "s2": "hot"}
    state.holds.drop("s1")
    state.holds.drop("s2")
    assert state.beat()["held"] == {}


def test_a_hold_that_changed_while_a_heartbeat_was_on_its_way_is_told_by_the_next() -> None:
    state = state_of("s1")
    state.hold("s1", "fan is broken")
    beat = state.beat()
    state.holds.drop("s1")
    state.hold("s1", "fan is broken")  # between the two a call may have told the hub that it is well
    answered(state, beat)
    assert state.beat()["held"] == {"s1": "fan is broken"}
    answered(state, state.beat())
    state.hold("s1", "fan is broken")
    assert "held" not in state.beat()


def test_registrations_and_publications_tell_the_holds_of_their_slots() -> None:
    state = state_of("s1", "s2")
    state.hold("s2", "hot")
    answered(state, state.beat())
    assert state.registration()[0]["held"] == {"s2": "hot"}
    assert [batch["held"] for batch in state.batches(["s1"])] == [{}]


@pytest.mark.parametrize("gone", ["withdrawn", "renamed"])
def test_a_slot_that_is_gone_is_held_no_longer(gone: str) -> None:
    state = state_of("s1", "s2")
    state.hold("s1", "fan is broken")
    if gone == "withdrawn":
        state.forget("s1")
    else:
        state.reserving("s1")
        assert state.rebuilt("s1", {"labelKey": "a:b", "slotId": "s3"})
    assert (state.holds.own, state.beat()["held"]) == ({}, {})


def test_a_slot_that_is_published_again_stays_held() -> None:
    state = state_of("s1")
    state.hold("s1", "fan is broken")
    state.enter([{"labelKey": "a:b", "slotId": "s1", "endpoint": "elsewhere"}])
    assert state.holds.own == {"s1": "fan is broken"}


def test_a_slot_that_is_published_while_its_withdrawal_is_under_way_is_new_and_not_held() -> None:
    state = state_of("s1")
    state.forget("s1")
    state.unwithdrawn.add("s1")
    state.holds.put("s1", "fan is broken")  # until the hub has withdrawn it
    state.enter([{"labelKey": "a:b", "slotId": "s1"}])
    assert state.holds.own == {}


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", "x" * 201, "\x1b[31m"])
def test_a_reason_that_the_hub_would_refuse_holds_nothing(reason: str) -> None:
    state = state_of("s1")
    with pytest.raises(InvalidValue, match="reason must be 1 to 200 printable characters on one line"):
        state.hold("s1", reason)
    assert state.holds.own == {}


def test_a_slot_of_another_node_is_not_held() -> None:
    with pytest.raises(BadInput, match="node n1 has no slot other to hold"):
        state_of("s1").hold("other", "fan is broken")


def test_holds_that_are_too_many_for_a_heartbeat_are_told_with_the_publications() -> None:
    state = state_of(*(f"s{n}" for n in range(1000)))
    for slot_id in state.slots:
        state.hold(slot_id, "no answer " * 20)
    beat = state.beat()
    assert "held" not in beat
    assert state.unpublished == state.slots.keys()
    batches = list(state.batches(sorted(state.unpublished)))
    assert all(len(json.dumps(batch)) < BEAT_BYTES + 500 for batch in batches)
    assert {slot_id: why for batch in batches for slot_id, why in batch["held"].items()} == state.holds.own
    assert len(state.holds.own) == 1000


@pytest.mark.parametrize("holds", [1000, 1001])
def test_more_than_a_thousand_holds_are_told_with_the_publications_and_not_in_one_heartbeat(holds: int) -> None:
    state = state_of(*(f"s{n}" for n in range(holds)))
    for slot_id in state.slots:
        state.hold(slot_id, "hot")
    assert len(json.dumps(state.holds.own)) < BEAT_BYTES
    beat = state.beat()
    BeatBody.read(beat)  # else the hub refuses it, and the node expires
    told = dict(beat.get("held", {}))
    assert len(told) == (holds if holds <= 1000 else 0)
    for batch in state.batches(sorted(state.unpublished)):
        told |= batch["held"]
    assert told == state.holds.own


# -- what the hub hears ---------------------------------------------------------------------------------------------


async def test_a_hold_is_told_at_once_and_ended_by_a_release(hub: FakeHub, quick: None) -> None:
    async with agent_of(hub) as agent:
        hub.pace_ms = 60_000
        await agent.hold(FIRST, " fan is broken ")
        assert (hub.held, dict(agent.held)) == (ILL, ILL)
        await agent.release(FIRST)
        await agent.release(FIRST)
        assert (hub.held, dict(agent.held)) == ({}, {})


def test_an_agent_for_threads_holds_and_releases(hub: FakeHub, quick: None) -> None:
    with SyncNodeAgent("n1", pools={"gpu:a100": 2}, url="http://hub", transport=hub.transport()) as agent:
        agent.hold(FIRST, "fan is broken")
        assert hub.held == ILL
        agent.release(FIRST)
        assert hub.held == {}


async def test_a_hold_whose_call_failed_is_told_by_a_heartbeat_at_once(hub: FakeHub, quick: None) -> None:
    hub.pace_ms = 600
    async with agent_of(hub) as agent:
        hub.say(HOLD, *[Reset()] * 9)
        with pytest.raises(HubError):
            await agent.hold(FIRST, "fan is broken")
        assert dict(agent.held) == ILL
        await eventually(lambda: hub.held == ILL)
        hub.unsay(HOLD)


async def test_a_hub_that_is_older_than_holds_is_not_taken_to_have_heard(hub: FakeHub, quick: None) -> None:
    async with agent_of(hub) as agent:
        hub.say(HOLD, (404, "not-found"))
        with pytest.raises(NotFound):
            await agent.hold(FIRST, "fan is broken")


async def test_a_store_that_was_wiped_gets_the_holds_again(hub: FakeHub, quick: None) -> None:
    async with agent_of(hub) as agent:
        await agent.hold(FIRST, "fan is broken")
        hub.nodes, hub.held = {}, {}
        await eventually(lambda: hub.held == ILL)
        assert hub.said(REGISTER)[-1].body["held"] == ILL
        hub.nodes, hub.held = {}, {}
        await agent.hold(SECOND, "hot")  # may be the first to find out
        assert hub.held == {**ILL, SECOND: "hot"}


async def test_a_slot_can_be_held_from_the_registration_on_which_no_heartbeat_repeats(
    hub: FakeHub, quick: None
) -> None:
    async with agent_of(hub, held={FIRST: "starting"}):
        await eventually(lambda: len(hub.said(BEAT)) > 2)
    assert hub.said(REGISTER)[0].body["held"] == {FIRST: "starting"}
    assert [seen for seen in hub.said(BEAT) if "held" in seen.body] == []


async def test_a_hold_made_while_the_node_registers_is_told_by_a_heartbeat(hub: FakeHub, quick: None) -> None:
    agent = agent_of(hub)

    def meanwhile(seen: Seen) -> Any:
        agent._state.hold(FIRST, "fan is broken")
        return hub.play(seen)

    hub.say(REGISTER, meanwhile)
    async with agent:
        await eventually(lambda: hub.held == ILL)
    assert hub.said(REGISTER)[0].body["held"] == {}


async def test_a_hold_of_a_slot_that_is_not_published_yet_is_told_with_its_publication(
    hub: FakeHub, quick: None
) -> None:
    async with agent_of(hub) as agent:
        hub.say(SLOTS, *[Reset()] * 9)
        with pytest.raises(HubError):
            await agent.publish([{"label": "gpu:a100", "labelKey": "gpu:a100", "slotId": "new"}])
        await agent.hold("new", "fan is broken")
        hub.unsay(SLOTS)
        await eventually(lambda: hub.held == {"new": "fan is broken"})


async def test_a_later_call_about_holds_has_a_higher_number(hub: FakeHub, quick: None) -> None:
    async with agent_of(hub) as agent:
        await agent.hold(FIRST, "fan is broken")
        await eventually(lambda: any("held" in seen.body for seen in hub.said(BEAT)))
        await agent.release(FIRST)

    def number(seen: Seen) -> int:
        return int(seen.body.get("number") or seen.query["number"])

    told = [seen for seen in hub.seen if seen.what in (REGISTER, HOLD, RELEASE) or "held" in seen.body]
    assert [seen.what for seen in told][:3] == [REGISTER, HOLD, BEAT]
    assert [number(seen) for seen in told] == sorted({number(seen) for seen in told})
    assert {(seen.body or seen.query)["incarnation"] for seen in told} == {agent._state.incarnation}


async def test_holds_that_overtook_a_publication_are_told_again_after_it(hub: FakeHub, quick: None) -> None:
    """The hub took the publication for late, and may not have held the slots that came with it."""
    comes, goes_on = threading.Event(), threading.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        if f"{request.method} {request.url.path}" == SLOTS:
            comes.set()
            await asyncio.to_thread(goes_on.wait, PATIENCE_S)
        return hub.answer(request)

    def told(beats: list[Seen]) -> list[dict[str, str]]:
        return [seen.body["held"] for seen in beats if seen.what == BEAT and "held" in seen.body]

    async with agent_of(hub, transport=httpx.MockTransport(answer)) as agent:
        publishing = asyncio.create_task(
            agent.publish([{"label": "gpu:a100", "labelKey": "gpu:a100", "slotId": "new"}])
        )
        await eventually(comes.is_set)
        holding = asyncio.create_task(agent.hold(FIRST, "fan is broken"))
        await eventually(lambda: told(hub.seen))
        goes_on.set()
        await publishing
        await holding
        after = hub.seen.index(hub.said(HOLD)[0])
        await eventually(lambda: told(hub.seen[after:]))
        assert told(hub.seen[after:])[0] == ILL


def test_holds_by_operators_are_repeated_to_the_hub_as_it_told_them() -> None:
    state = state_of("s1", "s2")
    told = {"s2": {"number": "18", "reason": "screen is cracked"}}
    state.heard({}, {"version": 1, "lent": {}, "operatorHeld": told})
    assert state.registration()[0]["operatorHeld"] == told
    assert "operatorHeld" not in next(state.batches(["s1"]))
    state.heard({}, {"version": 1})  # says nothing new of it
    assert state.registration()[0]["operatorHeld"] == told
    state.heard({}, {"version": 2, "lent": {}})
    assert "operatorHeld" not in state.registration()[0]


@pytest.mark.parametrize("seed", range(3))
async def test_the_hub_ends_up_with_the_holds_of_the_agent_although_calls_fail(
    hub: FakeHub, quick: None, seed: int
) -> None:
    chance = random.Random(seed)
    hub.pace_ms = 10
    faults: list[Scripted] = [(503, "store-unavailable"), Reset(), (500, "internal")]
    async with agent_of(hub, pools={"gpu:a100": 4}) as agent:
        for step in range(60):
            slot_id = chance.choice(sorted(agent.slots))
            if chance.random() < 0.3:
                path = chance.choice([BEAT, REGISTER, SLOTS, f"POST /node/n1/slots/{slot_id}/hold"])
                hub.say(path, *chance.choices(faults, k=chance.randint(1, 3)))
            if chance.random() < 0.1:
                hub.nodes, hub.held = {}, {}
            with suppress(HubError):
                if chance.random() < 0.5:
                    await agent.hold(slot_id, f"reason {step}")
                else:
                    await agent.release(slot_id)
        for slot_id in agent.slots:  # so that of each slot the last call fails
            hub.say(f"POST /node/n1/slots/{slot_id}/hold", *[Reset()] * 9)
            with suppress(HubError):
                await agent.hold(slot_id, f"at last {seed}")
        await eventually(lambda: len(hub.held) == 4 and hub.held == dict(agent.held))
        await eventually(lambda: "held" not in hub.said(BEAT)[-1].body)  # the last faults may still be to come
        assert hub.held == dict(agent.held)
