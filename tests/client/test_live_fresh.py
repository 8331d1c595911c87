"""Slots that are lent only when they are fresh, against a real hub on a real Redis."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from hub.client import HubClient, NodeAgent
from hub.errors import LeaseLost, Superseded
from tests.client.fake_hub import eventually
from tests.client.live import LABEL, agent_of, client_of, until_slots
from tests.world import HubProcess

pytestmark = pytest.mark.story
SLOT = "n1-gpu.a100-1"


class Leftovers:
    """What was left in each slot, and a callback that clears it after a while."""

    def __init__(self) -> None:
        self.left: dict[str, str] = {}
        self.cleared = 0

    async def clear(self, slot_id: str) -> None:
        await asyncio.sleep(0.05)
        self.left.pop(slot_id, None)
        self.cleared += 1

    async def use(self, client: HubClient, who: str) -> str | None:
        """Borrow a slot and leave something in it; return what was there."""
        async with client.borrow(LABEL, wait=60) as slot:
            found, self.left[slot.id] = self.left.get(slot.id), who
            await asyncio.sleep(0.02)
            return found


async def test_no_waiter_gets_a_slot_in_which_another_has_left_something(live_hub: HubProcess) -> None:
    rooms = Leftovers()
    async with agent_of(live_hub, slots=3, on_recycle=rooms.clear) as agent, client_of(live_hub) as client:
        found = await asyncio.gather(*(rooms.use(client, f"test-{number}") for number in range(12)))
        assert found == [None] * 12
        await eventually(lambda: rooms.cleared == 12 and rooms.left == {})
        await until_slots(client, list(agent.slots))


async def test_with_the_policy_recycle_waiters_get_slots_as_they_are(live_hub: HubProcess) -> None:
    rooms = Leftovers()
    async with agent_of(live_hub, policy="recycle", on_recycle=rooms.clear), client_of(live_hub) as client:
        found = await asyncio.gather(*(rooms.use(client, f"test-{number}") for number in range(3)))
        assert any(found)


@pytest.mark.parametrize(
    "answer", [{"label": LABEL, "slotId": SLOT, "x": 1}, {"label": LABEL, "slotId": "b"}], ids=repr
)
async def test_the_slot_that_the_callback_returns_takes_the_place_of_the_used_one(
    live_hub: HubProcess, answer: dict[str, Any]
) -> None:
    async def replace(_: str) -> dict[str, Any]:
        return answer

    async with agent_of(live_hub, on_recycle=replace) as agent, client_of(live_hub) as client:
        async with client.borrow(LABEL, wait=60):
            pass
        slot = await client.acquire(LABEL, wait=60)
        assert (slot.id, slot.item.get("x")) == (answer["slotId"], answer.get("x"))
        assert list(agent.slots) == [slot.id]


async def test_a_process_that_takes_over_is_asked_to_make_fresh_what_the_one_before_had_not(
    live_hub: HubProcess,
) -> None:
    asked: list[str] = []
    never = asyncio.Event()

    async def hang(slot_id: str) -> None:
        asked.append(slot_id)
        await never.wait()

    async with client_of(live_hub) as client:
        first = agent_of(live_hub, on_recycle=hang)
        await first.__aenter__()
        async with client.borrow(LABEL, wait=60):
            pass
        await eventually(lambda: asked == [SLOT])
        async with agent_of(live_hub, on_recycle=asked.append):
            await eventually(lambda: asked == [SLOT, SLOT])
            assert (await client.acquire(LABEL, wait=60)).id == SLOT
        with suppress(Superseded):  # it may have heard of the other process by now
            await first.__aexit__(None, None, None)


async def test_an_emptied_store_holds_a_used_slot_back_again(live_hub: HubProcess) -> None:
    asked: list[str] = []
    go_on = asyncio.Event()

    async def wait(slot_id: str) -> None:
        asked.append(slot_id)
        await go_on.wait()

    async with agent_of(live_hub, on_recycle=wait), client_of(live_hub) as client:
        async with client.borrow(LABEL, wait=60):
            pass
        await eventually(lambda: asked)
        live_hub.redis.flushall()
        await eventually(lambda: live_hub.redis.hget(f"hub:slot:{SLOT}", "owed"))
        assert live_hub.redis.hget(f"hub:slot:{SLOT}", "place") == "held"
        go_on.set()
        assert (await client.acquire(LABEL, wait=60)).id == SLOT


async def test_a_lost_lease_says_why_its_node_withdrew_the_slot(live_hub: HubProcess) -> None:
    async with agent_of(live_hub) as agent, client_of(live_hub) as client:

        async def use() -> None:
            async with client.borrow(LABEL, wait=60):
                await agent.withdraw(SLOT, "profile could not be wiped")
                await asyncio.Event().wait()  # until the lease is lost

        with pytest.raises(LeaseLost, match="its node withdrew the slot: profile could not be wiped"):
            await use()


def test_an_agent_that_cannot_make_slots_fresh_does_not_promise_it() -> None:
    with pytest.raises(ValueError, match="needs on_recycle"):
        NodeAgent("n1", policy="fresh")
