"""Borrowing by attributes and warm keys, against a real hub on a real Redis."""

from __future__ import annotations

import asyncio

import pytest

from hub.client import HubClient, NodeAgent
from hub.errors import BadWhere, NoCapacity, NotFound, Unavailable
from tests import world
from tests.client.live import client_of
from tests.world import HubProcess

pytestmark = pytest.mark.story
SLOTS = [
    {"label": "gpu:a100", "slotId": "s40", "attributes": {"vram": 40, "features": ["mig"]}},
    {"label": "gpu:a100", "slotId": "s80", "attributes": {"vram": 80, "features": ["mig", "nvlink"]}},
    {"label": "gpu:t4", "slotId": "s16", "attributes": {"vram": 16}, "warm": ["repo-42"]},
    {"label": "gpu:t4", "slotId": "s15", "attributes": {"vram": 15}},
]


def agent_of(hub: HubProcess) -> NodeAgent:
    return NodeAgent("n1", slots=SLOTS, url=hub.url, secret=hub.node_secret, policy="reuse")


async def likeness(client: HubClient, slot_id: str) -> tuple[object, object]:
    """Return attributes and warm keys of a slot as the hub shows them; None while it does not know the node."""
    try:
        slots = (await client.node("n1"))["slotList"]
    except (NotFound, Unavailable):
        return None, None
    return next(
        ((slot.get("attributes"), slot.get("warm")) for slot in slots if slot["browserId"] == slot_id), (None, None)
    )


async def until_like(client: HubClient, slot_id: str, *wanted: object) -> None:
    async def so() -> bool:
        return await likeness(client, slot_id) == wanted

    await world.eventually(so)


async def test_a_slot_is_lent_for_what_it_has_and_carries_its_attributes(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client:
        async with client.borrow("gpu", where="vram >= 40 && 'nvlink' in features") as slot:
            assert (slot.id, slot.pool) == ("s80", "gpu:a100")
            assert slot.attributes == {"vram": 80, "features": ["mig", "nvlink"]}
            async with client.borrow("gpu:t4", prefer=["other", "repo-42"]) as warm:
                assert warm.id == "s16"
        others = [("gpu:h100", ""), ("gpu", "vram > 15 && vram < 20")]
        async with client.borrow("gpu:a100", where="vram > 100", any_of=others) as slot:
            assert slot.id == "s16"
        async with client.borrow(any_of=["gpu:h100", "gpu:t4"]) as slot:
            assert slot.pool == "gpu:t4"


async def test_a_borrow_waits_for_a_slot_that_suits_and_leaves_others_to_those_behind_it(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client:
        first = await client.acquire("gpu", where="vram >= 80")
        waiting = asyncio.create_task(client.acquire("gpu", where="vram >= 80", wait=60))

        async def waits() -> bool:
            return bool((await client.pools())["pools"]) and not waiting.done() and await _waiting(client) == 1

        await world.eventually(waits)
        async with client.borrow("gpu:a100") as behind:
            assert behind.id == "s40"
        await client.give_back(first)
        assert (await waiting).id == "s80"


async def _waiting(client: HubClient) -> int:
    from hub.client import calls

    return int((await client._http.run(calls.read(client._policy, "queue")))["waiting"])


async def test_a_description_counts_at_once_for_a_waiter_and_for_what_the_next_borrower_is_told(
    live_hub: HubProcess,
) -> None:
    async with agent_of(live_hub) as agent, client_of(live_hub) as client:
        waiting = asyncio.create_task(client.acquire("gpu", where="ready && vram < 20", wait=60))
        await agent.describe("s15", attributes={"vram": 15, "ready": True}, warm=["repo-43"])
        slot = await waiting
        assert (slot.id, slot.attributes) == ("s15", {"vram": 15, "ready": True})
        await agent.describe("s15", attributes={"vram": 15, "ready": False})
        await client.give_back(slot)
        await until_like(client, "s15", {"vram": 15, "ready": False}, ["repo-43"])
        with pytest.raises(NoCapacity):
            await client.acquire("gpu", where="ready")


async def test_what_was_described_survives_the_loss_of_the_store(live_hub: HubProcess) -> None:
    async with agent_of(live_hub) as agent, client_of(live_hub) as client:
        await agent.describe("s40", attributes={"vram": 48}, warm=["repo-42"])
        await until_like(client, "s40", {"vram": 48}, ["repo-42"])
        live_hub.redis.flushall()
        await until_like(client, "s40", {"vram": 48}, ["repo-42"])
        assert (await client.acquire("gpu", where="vram == 48", wait=60)).id == "s40"


async def test_a_slot_lent_under_one_segment_is_registered_again_after_a_loss(live_hub: HubProcess) -> None:
    async with agent_of(live_hub) as agent, client_of(live_hub) as client:
        slot = await client.acquire("gpu", where="vram == 80")

        async def told() -> bool:
            return slot.id in agent.lent

        await world.eventually(told)
        live_hub.redis.flushall()
        await until_like(client, "s40", {"vram": 40, "features": ["mig"]}, None)
        await until_like(client, slot.id, {"vram": 80, "features": ["mig", "nvlink"]}, None)
        assert (await client.lease(slot.id))["label"] == "gpu"
        await client.give_back(slot)


@pytest.mark.parametrize(
    ("where", "words"),
    [("vrm >= 40", "no slot of gpu has `vrm`; did you mean vram?"), ("vram > 80", "vram > 80: ")],
)
async def test_a_refusal_names_what_no_slot_has(live_hub: HubProcess, where: str, words: str) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client:
        with pytest.raises(NoCapacity) as refused:
            await client.acquire("gpu", where=where)
        assert words in str(refused.value)
        assert words in refused.value.facts["hint"]


async def test_an_expression_that_cannot_be_read_is_refused_with_its_place(live_hub: HubProcess) -> None:
    async with client_of(live_hub) as client:
        with pytest.raises(BadWhere, match="at position 9") as refused:
            await client.acquire("gpu", where="vram >= ")
        assert (refused.value.facts["position"], refused.value.facts["expected"]) == (9, "a number or a text")
