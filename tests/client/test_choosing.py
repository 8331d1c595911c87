"""Borrowing by what slots have and what is warm in them, and agents that tell the hub of both."""

from __future__ import annotations

import json
from typing import Any, cast

import httpx
import pytest

from hub.api.shapes.node_bodies import BeatBody
from hub.client import HubClient, SyncNodeAgent
from hub.client.described import BEAT_BYTES
from hub.client.node_calls import NodeCalls
from hub.client.state import AgentState
from hub.errors import BadInput, BadWhere, HubError, InvalidValue, NoCapacity
from tests.client.both import Kind
from tests.client.fake_hub import FakeHub, Reset, Seen, agent_of, eventually

BORROW, REGISTER, BEAT = "POST /session/borrow", "POST /node/register", "POST /node/heartbeat"
FIRST, SECOND = "n1-gpu.a100-1", "n1-gpu.a100-2"


def client_of(hub: FakeHub, kind: Kind = HubClient) -> HubClient:
    made: HubClient = kind("http://hub", "secret", transport=hub.transport())
    return made


def asked(hub: FakeHub, number: int = -1) -> dict[str, Any]:
    """Return what a borrow said of the slots that will do."""
    body = hub.said(BORROW)[number].body
    return {name: body[name] for name in ("labelKey", "where", "anyOf", "prefer") if name in body}


# -- what a borrow says ---------------------------------------------------------------------------------------------


async def test_a_borrow_says_what_the_slot_must_have_and_what_will_do_as_well(hub: FakeHub, kind: Kind) -> None:
    others = ["gpu:a100", ("gpu:h100", "vram >= 80")]
    async with (
        client_of(hub, kind) as client,
        client.borrow("gpu", where="vram >= 40", prefer=["repo-42", "cuda-12"], any_of=others) as slot,
    ):
        assert slot.id == "s1"
    assert asked(hub) == {
        "labelKey": "gpu", "where": "vram >= 40", "prefer": ["repo-42", "cuda-12"],
        "anyOf": [{"label": "gpu:a100"}, {"label": "gpu:h100", "where": "vram >= 80"}],
    }  # fmt: skip


async def test_a_plain_borrow_says_nothing_of_that(hub: FakeHub) -> None:
    async with client_of(hub) as client, client.borrow("gpu:a100", where="", prefer=(), any_of=[]):
        pass
    assert asked(hub) == {"labelKey": "gpu:a100"}


async def test_one_text_is_one_member_and_not_a_list_of_letters(hub: FakeHub) -> None:
    async with client_of(hub) as client, client.borrow("gpu:a100", prefer="repo-42", any_of="gpu:h100"):
        pass
    assert asked(hub) == {"labelKey": "gpu:a100", "prefer": ["repo-42"], "anyOf": [{"label": "gpu:h100"}]}


async def test_a_borrow_without_a_label_is_one_of_its_choices(hub: FakeHub, caplog: pytest.LogCaptureFixture) -> None:
    hub.say(BORROW, *[(503, "store-unavailable")] * 3)
    async with client_of(hub) as client, client.borrow(any_of=["gpu:a100", "gpu:h100"], wait=5):
        pass
    assert asked(hub) == {"anyOf": [{"label": "gpu:a100"}, {"label": "gpu:h100"}]}
    assert "a slot of gpu:a100 or gpu:h100 is still being asked for" in caplog.text


async def test_every_attempt_of_a_borrow_says_the_same(hub: FakeHub) -> None:
    prefer, others = ["repo-42"], [("gpu:h100", "")]

    def meanwhile(seen: Seen) -> Any:
        prefer.append("other")
        others.clear()
        raise Reset

    hub.say(BORROW, meanwhile)
    async with client_of(hub) as client, client.borrow("gpu:a100", prefer=prefer, any_of=others):
        pass
    assert asked(hub, 0) == asked(hub, 1)
    assert asked(hub)["prefer"] == ["repo-42"]


async def test_an_expression_that_the_hub_cannot_read_is_raised_with_its_place(hub: FakeHub, kind: Kind) -> None:
    problem = {
        "status": 400, "code": "bad-where", "position": 9, "expected": "a number or a text",
        "detail": "where: expected a number or a text, at position 9",
    }  # fmt: skip
    hub.say(BORROW, lambda _: httpx.Response(400, json=problem))
    async with client_of(hub, kind) as client:
        with pytest.raises(BadWhere, match="at position 9") as refused:
            await client.acquire("gpu", where="vram >= ")
    assert (refused.value.facts["position"], refused.value.facts["expected"]) == (9, "a number or a text")
    assert len(hub.seen) == 1


async def test_a_refusal_says_why_no_slot_is_as_it_was_wanted(hub: FakeHub, kind: Kind) -> None:
    hint = "no slot of gpu has `vrm`; did you mean vram?"
    said = {"status": 503, "code": "no-capacity", "detail": "No browser available for gpu", "hint": hint}
    hub.say(BORROW, lambda _: httpx.Response(503, json=said))
    async with client_of(hub, kind) as client:
        with pytest.raises(NoCapacity) as refused:
            await client.acquire("gpu", where="vrm >= 40")
    assert str(refused.value) == f"No slot available for gpu: {hint}"


# -- what an agent remembers ----------------------------------------------------------------------------------------


def state_of(*slot_ids: str) -> AgentState:
    state = AgentState("n1", {"slots": [{"labelKey": "a:b", "slotId": slot_id} for slot_id in slot_ids]})
    state.term = "1"
    return state


def test_a_heartbeat_tells_what_has_changed_until_one_with_that_was_answered() -> None:
    state = state_of("s1", "s2")
    assert {"attributes", "warm"}.isdisjoint(state.beat())
    state.describe("s1", {"vram": 80, "ecc": True}, None)
    state.describe("s2", None, ["repo-42"])
    for _ in range(2):
        beat = state.beat()
        assert (beat["attributes"], beat["warm"]) == ({"s1": {"vram": 80, "ecc": True}}, {"s2": ["repo-42"]})
        BeatBody.read({**beat, "number": 1})  # else the hub refuses it, and the node expires
    state.heard(beat, {"version": 0}, told=False)  # a publication is still on its way
    assert "attributes" in state.beat()
    state.heard(beat, {"version": 0})
    assert {"attributes", "warm"}.isdisjoint(state.beat())


def test_what_changes_while_a_heartbeat_is_on_its_way_is_told_by_the_next() -> None:
    state = state_of("s1")
    state.describe("s1", {"vram": 80}, ["a"])
    beat = state.beat()
    state.describe("s1", {"vram": 40}, None)
    state.heard(beat, {"version": 0})
    later = state.beat()
    assert (later["attributes"], "warm" in later) == ({"s1": {"vram": 40}}, False)


def test_registrations_and_publications_have_what_was_described() -> None:
    state = state_of("s1")
    state.describe("s1", {"vram": 80}, ["repo-42"])
    told = [*state.registration()[0]["slots"], *next(state.batches(["s1"]))["slots"]]
    assert told == [{"slotId": "s1", "labelKey": "a:b", "attributes": {"vram": 80}, "warm": ["repo-42"]}] * 2
    state.describe("s1", {}, [])
    assert state.registration()[0]["slots"][0] == {"slotId": "s1", "labelKey": "a:b", "attributes": {}, "warm": []}


@pytest.mark.parametrize("then", ["published", "withdrawn"])
def test_a_slot_that_is_published_or_withdrawn_is_not_described_as_it_was_before(then: str) -> None:
    state = state_of("s1")
    state.describe("s1", {"vram": 80}, ["repo-42"])
    if then == "published":
        state.enter([{"slotId": "s1", "labelKey": "a:b", "attributes": {"vram": 40}}])
    else:
        state.forget("s1")
    assert {"attributes", "warm"}.isdisjoint(state.beat())


def test_more_than_a_heartbeat_holds_is_told_by_several() -> None:
    state = state_of(*(f"s{n}" for n in range(200)))
    for slot_id in state.slots:
        state.describe(slot_id, {"text": "x" * 500}, ["a", "b"])
    state.hold("s1", "hot")
    told: dict[str, Any] = {}
    while "attributes" in (beat := state.beat()):
        assert len(json.dumps(beat)) < BEAT_BYTES + 500
        told |= beat["attributes"]
        state.heard(beat, {"version": 0})
    assert told == {slot_id: {"text": "x" * 500} for slot_id in state.slots}
    assert not state.described


@pytest.mark.parametrize(
    "said",
    [
        {"attributes": {"a b": 1}},
        {"attributes": {"a": {}}},
        {"attributes": {"a": None}},
        {"attributes": {"a": float("nan")}},
        {"attributes": {f"n{n}": 1 for n in range(33)}},
        {"attributes": {"a": "x" * 5000}},
        {"warm": ["two words"]},
        {"warm": ["x" * 65]},
        {"warm": list("abcdefghijklmnopq")},
    ],
    ids=str,
)
def test_what_the_hub_would_refuse_is_refused_at_once_and_changes_nothing(said: dict[str, Any]) -> None:
    state = state_of("s1")
    with pytest.raises(InvalidValue, match=next(iter(said))):
        state.describe("s1", said.get("attributes"), said.get("warm"))
    assert state.slots["s1"] == {"slotId": "s1", "labelKey": "a:b"}
    assert not state.described


def test_a_slot_of_another_node_is_not_described() -> None:
    with pytest.raises(BadInput, match="node n1 has no slot other to describe"):
        state_of("s1").describe("other", {}, None)


# -- what the hub hears ---------------------------------------------------------------------------------------------


async def test_an_agent_tells_what_has_changed_with_a_numbered_heartbeat(hub: FakeHub, quick: None) -> None:
    async with agent_of(hub) as agent:
        await eventually(lambda: len(hub.said(BEAT)) > 1)
        await agent.describe(FIRST, attributes={"vram": 80})
        await agent.describe(SECOND, warm=["repo-42"])
        await eventually(lambda: any("warm" in seen.body for seen in hub.said(BEAT)))
        seen = len(hub.said(BEAT))
        await eventually(lambda: len(hub.said(BEAT)) > seen + 1)
    told = [seen.body for seen in hub.said(BEAT) if seen.body.keys() & {"attributes", "warm"}]
    assert all(body["number"] > 0 and body["incarnation"] for body in told)
    assert {name: slots for body in told for name, slots in body.items() if name in ("attributes", "warm")} == {
        "attributes": {FIRST: {"vram": 80}}, "warm": {SECOND: ["repo-42"]},
    }  # fmt: skip
    assert {"attributes", "warm"}.isdisjoint(hub.said(BEAT)[-1].body)
    with pytest.raises(HubError):
        await agent.describe(FIRST, warm=[])


async def test_a_heartbeat_tells_nothing_of_slots_while_a_publication_is_on_its_way(monkeypatch: Any) -> None:
    sent: list[Any] = []

    async def post(_: NodeCalls, path: str, body: dict[str, Any]) -> dict[str, Any]:
        sent.append(body)
        return {"known": True, "version": 0}

    monkeypatch.setattr(NodeCalls, "_post", post)
    state = state_of("s1")
    state.describe("s1", {"vram": 80}, ["repo-42"])
    node = NodeCalls(state, cast(Any, None))
    async with node.lock:  # as a publication has it; a higher number would make that late
        await node.beat()
    await node.beat()
    assert {"attributes", "warm", "number"}.isdisjoint(sent[0])
    assert (sent[1]["attributes"], sent[1]["warm"], sent[1]["number"]) == ({"s1": {"vram": 80}}, {"s1": ["repo-42"]}, 1)


def test_an_agent_for_threads_describes_its_slots(hub: FakeHub, quick: None) -> None:
    with SyncNodeAgent("n1", pools={"gpu:a100": 1}, url="http://hub", transport=hub.transport()) as agent:
        agent.describe(FIRST, attributes={"vram": 80}, warm=["repo-42"])
        assert agent.slots[FIRST]["attributes"] == {"vram": 80}
        with pytest.raises(InvalidValue):
            agent.describe(FIRST, attributes={"a b": 1})


async def test_a_store_that_was_wiped_gets_what_was_described_again(hub: FakeHub, quick: None) -> None:
    async with agent_of(hub) as agent:
        await agent.describe(FIRST, attributes={"vram": 80}, warm=["repo-42"])
        await eventually(lambda: any("warm" in seen.body for seen in hub.said(BEAT)))
        hub.nodes = {}
        await eventually(lambda: len(hub.said(REGISTER)) > 1)
    (slot,) = (slot for slot in hub.said(REGISTER)[-1].body["slots"] if slot["slotId"] == FIRST)
    assert (slot["attributes"], slot["warm"]) == ({"vram": 80}, ["repo-42"])


async def test_an_agent_says_which_slots_are_lent_without_regard_to_their_attributes(
    hub: FakeHub, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    def noted(seen: Seen) -> Any:
        return {**hub.play(seen), "notes": {SECOND: "too-many-classes", "gone": "unknown"}}

    def told(seen: Seen) -> Any:
        answer = hub.play(seen)
        answer["slots"][0]["note"] = "too-many-classes"
        return answer

    hub.say(REGISTER, told)
    hub.say(BEAT, noted)
    async with agent_of(hub):
        await eventually(lambda: len(hub.said(BEAT)) > 1)
    warned = [record.getMessage() for record in caplog.records if "too many kinds" in record.getMessage()]
    assert warned == [
        f"slot {name} is lent without regard to its attributes: the hub has slots of too many kinds"
        for name in (FIRST, SECOND)
    ]
