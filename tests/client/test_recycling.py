"""Recycling slots after their leases: no lease is lost by it, and no slot is lent while it is rebuilt."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from hub.client import NodeAgent
from hub.errors import NoCapacity
from tests.client.fake_hub import FakeHub, Reset, Seen, agent_of, eventually, problem
from tests.world import SLACK_S

pytestmark = pytest.mark.usefixtures("quick")
REGISTER, BEAT, SLOTS = "POST /node/register", "POST /node/heartbeat", "POST /node/n1/slots"
FIRST, SECOND = "n1-gpu.a100-1", "n1-gpu.a100-2"
WITHDRAW = f"DELETE /node/n1/slots/{FIRST}"


class Workshop:
    """A callback that makes a slot fresh when it is told to go on."""

    def __init__(self, answer: Mapping[str, Any] | None = None) -> None:
        self.asked: list[str] = []
        self.go_on = asyncio.Event()
        self._answer = answer

    async def __call__(self, slot_id: str) -> Mapping[str, Any] | None:
        self.asked.append(slot_id)
        await self.go_on.wait()
        return self._answer


def wants_recycled(hub: FakeHub, *slot_ids: str) -> None:
    hub.recycle, hub.version = list(slot_ids), hub.version + 1


def on_offer(hub: FakeHub) -> list[str]:
    return sorted(hub.nodes.get("n1", ()))


async def some_beats(hub: FakeHub) -> None:
    beats = len(hub.said(BEAT))
    await eventually(lambda: len(hub.said(BEAT)) > beats + 2)


@pytest.mark.parametrize(
    ("answer", "after"),
    [
        ({"labelKey": "gpu:a100", "slotId": "fresh"}, {"slotId": "fresh", "labelKey": "gpu:a100"}),
        ({"labelKey": "gpu:b", "slotId": FIRST, "x": 1}, {"slotId": FIRST, "labelKey": "gpu:b", "x": 1}),
        (None, {"slotId": FIRST, "labelKey": "gpu:a100"}),
    ],
    ids=["another slot", "the same slot, changed", "the same slot"],
)
async def test_a_slot_is_off_offer_while_it_is_recycled_and_its_replacement_is_offered_then(
    hub: FakeHub, answer: Mapping[str, Any] | None, after: dict[str, Any]
) -> None:
    workshop = Workshop(answer)
    async with agent_of(hub, on_recycle=workshop) as agent:
        wants_recycled(hub, FIRST)
        await eventually(lambda: workshop.asked)
        assert on_offer(hub) == [SECOND]
        workshop.go_on.set()
        await eventually(lambda: len(on_offer(hub)) == 2)
        await some_beats(hub)
        assert hub.nodes["n1"][after["slotId"]] == agent.slots[after["slotId"]] == after
        assert on_offer(hub) == sorted(agent.slots)
    assert workshop.asked == [FIRST]
    assert [{"onlyFree": seen.query["onlyFree"]} for seen in hub.said(WITHDRAW)] == [{"onlyFree": "1"}]
    assert hub.recycle == []


async def test_a_slot_lent_since_the_last_heartbeat_is_recycled_only_after_its_lease(hub: FakeHub) -> None:
    asked: list[str] = []

    def lent_a_moment_ago(seen: Seen) -> Any:
        hub.lent, hub.version = {FIRST: "7"}, hub.version + 1
        return hub.play(seen)

    hub.say(WITHDRAW, lent_a_moment_ago)
    async with agent_of(hub, on_recycle=asked.append) as agent:
        wants_recycled(hub, FIRST)
        await eventually(lambda: agent.lent == {FIRST: "7"})
        await some_beats(hub)
        assert (asked, hub.lent, on_offer(hub)) == ([], {FIRST: "7"}, [FIRST, SECOND])
        assert hub.said(SLOTS) == []
        hub.lent, hub.version = {}, hub.version + 1
        await eventually(lambda: asked == [FIRST] and len(on_offer(hub)) == 2)


async def test_a_lent_slot_is_recycled_when_it_comes_back(hub: FakeHub) -> None:
    asked: list[str] = []
    async with agent_of(hub, on_recycle=asked.append):
        hub.lent = {FIRST: "5"}
        wants_recycled(hub, FIRST)
        await some_beats(hub)
        assert asked == []
        assert hub.said(WITHDRAW) == []
        hub.lent, hub.version = {}, 2
        await eventually(lambda: asked == [FIRST])


@pytest.mark.parametrize("error", [OSError("no disk"), NoCapacity("of another hub")], ids=repr)
async def test_a_recycle_callback_that_raises_is_called_again_until_it_succeeds(
    hub: FakeHub, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    offered: list[list[str]] = []

    async def fail_twice(slot_id: str) -> None:
        offered.append(on_offer(hub))
        if len(offered) <= 2:
            raise error

    async with agent_of(hub, on_recycle=fail_twice) as agent:
        wants_recycled(hub, FIRST)
        await eventually(lambda: on_offer(hub) == [FIRST, SECOND] and len(offered) == 3)
        await some_beats(hub)
        assert agent.callback_errors == 2
    assert offered == [[SECOND]] * 3
    assert len(hub.said(WITHDRAW)) == 1
    assert "on_recycle raised" in caplog.text


async def test_a_recycle_callback_that_returns_no_slot_counts_as_failed(hub: FakeHub) -> None:
    answers: list[Any] = ["fresh", {"labelKey": "gpu:a100", "made": object()}, None]
    async with agent_of(hub, on_recycle=lambda slot_id: answers.pop(0)) as agent:
        wants_recycled(hub, FIRST)
        await eventually(lambda: not answers and on_offer(hub) == [FIRST, SECOND])
        assert agent.callback_errors == 2


async def test_a_new_registration_leaves_out_a_slot_that_is_being_recycled(hub: FakeHub) -> None:
    workshop = Workshop()
    async with agent_of(hub, on_recycle=workshop):
        wants_recycled(hub, FIRST)
        await eventually(lambda: workshop.asked)
        hub.nodes, hub.version = {}, 0
        await eventually(lambda: on_offer(hub) == [SECOND])
        await some_beats(hub)
        assert on_offer(hub) == [SECOND]
        workshop.go_on.set()
        await eventually(lambda: on_offer(hub) == [FIRST, SECOND])


async def test_a_hub_that_forgot_the_node_during_a_recycle_gets_the_slot_back(hub: FakeHub) -> None:
    def forget(slot_id: str) -> None:
        hub.nodes.clear()

    async with agent_of(hub, on_recycle=forget):
        wants_recycled(hub, FIRST)
        await eventually(lambda: len(hub.said(REGISTER)) == 2 and on_offer(hub) == [FIRST, SECOND])


@pytest.mark.parametrize("answer", [None, {"labelKey": "gpu:a100", "slotId": "fresh"}], ids=["same", "another"])
async def test_a_hub_that_is_away_when_the_slot_is_recycled_gets_it_when_it_is_back(hub: FakeHub, answer: Any) -> None:
    workshop = Workshop(answer)
    async with agent_of(hub, on_recycle=workshop) as agent:
        wants_recycled(hub, FIRST)
        await eventually(lambda: workshop.asked)
        hub.say(SLOTS, Reset(), (503, "store-unavailable"))
        hub.say(BEAT, *[Reset()] * 3)
        workshop.go_on.set()
        await eventually(lambda: on_offer(hub) == sorted(agent.slots) and len(agent.slots) == 2)
    assert workshop.asked == [FIRST]


@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
async def test_a_withdrawal_without_an_answer_is_repeated_before_the_slot_is_rebuilt(hub: FakeHub, done: bool) -> None:
    """The hub forgets its mark with the slot, so the node alone knows what it has begun."""
    asked: list[str] = []

    def no_answer(seen: Seen) -> Any:
        if done:
            hub.play(seen)
        raise Reset

    hub.say(WITHDRAW, no_answer)
    hub.say(BEAT, lambda seen: hub.play(seen), lambda seen: hub.play(seen))
    async with agent_of(hub, on_recycle=asked.append):
        wants_recycled(hub, FIRST)
        await eventually(lambda: hub.said(WITHDRAW))
        hub.version += 1
        await eventually(lambda: asked == [FIRST] and on_offer(hub) == [FIRST, SECOND])
    assert [{"onlyFree": seen.query["onlyFree"]} for seen in hub.said(WITHDRAW)] == [{"onlyFree": "1"}] * 2


async def test_a_slot_left_out_of_a_registration_is_published_when_it_turns_out_to_be_lent(
    hub: FakeHub,
) -> None:
    def lost_with_the_store(seen: Seen) -> Any:
        hub.nodes = {}
        raise Reset

    def known_from_its_borrower(seen: Seen) -> Any:
        assert on_offer(hub) == [SECOND]
        hub.lent, hub.version = {FIRST: "7"}, hub.version + 1
        return hub.play(seen)

    asked: list[str] = []
    hub.say(WITHDRAW, lost_with_the_store, known_from_its_borrower)
    async with agent_of(hub, on_recycle=asked.append) as agent:
        wants_recycled(hub, FIRST)
        await eventually(lambda: on_offer(hub) == [FIRST, SECOND] and agent.lent == {FIRST: "7"})
    assert (asked, len(hub.said(REGISTER))) == ([], 2)


@pytest.mark.parametrize("refusal", [(404, "unknown-node"), (400, "invalid-value")])
async def test_a_slot_withdrawn_for_its_recycle_is_not_lent(hub: FakeHub, refusal: tuple[int, str]) -> None:
    asked: list[str] = []
    hub.say(WITHDRAW, refusal)
    async with agent_of(hub, on_recycle=asked.append):
        wants_recycled(hub, FIRST)
        await eventually(lambda: asked == [FIRST])
    assert len(hub.said(WITHDRAW)) == 1


async def test_a_slot_withdrawn_while_it_is_recycled_stays_withdrawn(hub: FakeHub) -> None:
    agents: list[NodeAgent] = []

    async def give_up(slot_id: str) -> Mapping[str, str]:
        await agents[0].withdraw(slot_id)
        return {"labelKey": "gpu:a100", "slotId": slot_id}

    async with agent_of(hub, on_recycle=give_up) as agent:
        agents.append(agent)
        wants_recycled(hub, FIRST)
        await eventually(lambda: list(agent.slots) == [SECOND])
        await some_beats(hub)
        assert on_offer(hub) == [SECOND]


async def test_a_recycle_mark_on_a_slot_that_the_agent_does_not_have_is_ignored(hub: FakeHub) -> None:
    asked: list[str] = []
    async with agent_of(hub, on_recycle=asked.append):
        hub.nodes["n1"]["of-others"] = {}
        wants_recycled(hub, "of-others")
        await some_beats(hub)
        assert "of-others" in on_offer(hub)
    assert asked == []


async def test_a_refused_replacement_delays_neither_heartbeats_nor_other_slots(
    hub: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse_bad_labels(request: httpx.Request) -> httpx.Response:
        if b'"bad"' in request.content:
            return problem(400, "invalid-label")
        return hub.answer(request)

    replacements = {FIRST: {"labelKey": "bad", "slotId": "x"}, SECOND: {"labelKey": "gpu:b", "slotId": "y"}}
    transport = httpx.MockTransport(refuse_bad_labels)
    async with agent_of(hub, on_recycle=replacements.get, transport=transport) as agent:
        wants_recycled(hub, FIRST, SECOND)
        await eventually(lambda: on_offer(hub) == ["y"])
        hub.nodes.clear()
        await eventually(lambda: on_offer(hub) == ["y"])
        await some_beats(hub)
        assert list(agent.slots) == ["y"]
    assert "the hub does not take slot x" in caplog.text


async def test_recycling_many_slots_does_not_delay_the_heartbeats(hub: FakeHub) -> None:
    async def slow_withdrawals(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE" and "/slots/" in request.url.path:
            await asyncio.sleep(0.02)
        return hub.answer(request)

    asked: list[str] = []
    hub.pace_ms = 200
    transport = httpx.MockTransport(slow_withdrawals)
    async with agent_of(hub, pools={"gpu:a100": 40}, on_recycle=asked.append, transport=transport) as agent:
        wants_recycled(hub, *agent.slots)
        await eventually(lambda: len(asked) == 40 and on_offer(hub) == sorted(agent.slots))
    first, *_, last = [seen.at for seen in hub.seen if seen.method == "DELETE" and "/slots/" in seen.path]
    assert [seen for seen in hub.said(BEAT) if first < seen.at < last]


async def test_without_a_callback_a_recycle_mark_is_acknowledged_with_the_next_heartbeat(hub: FakeHub) -> None:
    hub.pace_ms = 300
    async with agent_of(hub):
        wants_recycled(hub, FIRST, SECOND)
        hub.pace_ms = 60_000  # told by the beat that asks for it
        await eventually(lambda: hub.recycle == [])
        assert on_offer(hub) == [FIRST, SECOND]
    (told,) = [seen for seen in hub.said(BEAT) if "recycled" in seen.body]
    before = [seen for seen in hub.said(BEAT) if seen.at < told.at]
    assert told.at - before[-1].at < SLACK_S
    assert hub.said(WITHDRAW) == []
