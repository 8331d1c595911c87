"""Making slots fresh, against a real hub on a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
import pytest

from hub.client import HubClient, NoCapacity, Slot, SyncHubClient, SyncNodeAgent
from tests import world
from tests.client.fake_hub import eventually
from tests.client.live import LABEL, agent_of, client_of, until_slots
from tests.world import HubProcess

pytestmark = pytest.mark.story
SLOT = "n1-gpu.a100-1"


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


class BeforeWithdrawing(httpx.AsyncHTTPTransport):
    """Does something else between the decision of an agent to take a slot off offer and the request for it."""

    def __init__(self, first: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._first: Callable[[], Awaitable[None]] | None = first
        self._home = asyncio.get_running_loop()  # the agent sends its requests from a thread of its own

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE" and "/slots/" in request.url.path and self._first is not None:
            first, self._first = self._first, None
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_done(first), self._home))
        return await super().handle_async_request(request)


async def _done(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def use(client: HubClient) -> None:
    async with client.borrow(LABEL, wait=60):
        pass


async def never_lent(client: HubClient) -> None:
    with pytest.raises(NoCapacity):
        await client.acquire(LABEL)


@pytest.mark.parametrize(
    ("answer", "after"),
    [(None, SLOT), ({"labelKey": LABEL, "slotId": SLOT, "x": 1}, SLOT), ({"labelKey": LABEL, "slotId": "b"}, "b")],
    ids=["the same slot", "the same slot, changed", "another slot"],
)
async def test_a_returned_slot_is_not_lent_until_it_was_recycled(
    live_hub: HubProcess, answer: Mapping[str, Any] | None, after: str
) -> None:
    workshop = Workshop(answer)
    async with agent_of(live_hub, on_recycle=workshop) as agent, client_of(live_hub) as client:
        await use(client)
        await eventually(lambda: workshop.asked == [SLOT])
        await never_lent(client)
        workshop.go_on.set()
        slot = await client.acquire(LABEL, wait=60)
        assert (slot.id, list(agent.slots)) == (after, [after])
        assert slot.item.get("x") == (answer or {}).get("x")
        assert live_hub.redis.exists(f"recycle:{SLOT}") == 0
        await eventually(lambda: agent.lent == {slot.id: slot.token})
        assert workshop.asked == [SLOT]


async def test_a_lease_made_just_before_its_slot_is_recycled_goes_on(live_hub: HubProcess) -> None:
    asked: list[str] = []
    leases: list[Slot] = []

    async def borrow() -> None:
        leases.append(await client.acquire(LABEL))

    async with client_of(live_hub) as client:
        way = BeforeWithdrawing(borrow)
        async with agent_of(live_hub, policy="recycle", on_recycle=asked.append, transport=way) as agent:
            await use(client)
            await eventually(lambda: leases and agent.lent == {SLOT: leases[0].token})
            assert (await client.verify(SLOT, leases[0].token))["valid"]
            assert asked == []
            assert await client.give_back(leases[0])
            await eventually(lambda: asked == [SLOT])
            assert (await client.acquire(LABEL, wait=60)).id == SLOT


async def test_an_emptied_store_is_not_told_of_a_slot_that_is_being_recycled(
    live_hub: HubProcess,
) -> None:
    workshop = Workshop()
    options = {"slots": 2, "policy": "recycle", "on_recycle": workshop}
    async with agent_of(live_hub, **options) as agent, client_of(live_hub) as client:
        await use(client)
        await eventually(lambda: workshop.asked)
        live_hub.redis.flushall()
        others = [slot_id for slot_id in agent.slots if slot_id not in workshop.asked]
        await until_slots(client, others)
        assert (await client.acquire(LABEL, wait=60)).id == others[0]
        await never_lent(client)
        workshop.go_on.set()
        assert (await client.acquire(LABEL, wait=60)).id == workshop.asked[0]


async def test_a_slot_recycled_while_the_hub_is_away_is_offered_when_it_is_back(
    start_hub: Callable[..., HubProcess],
) -> None:
    first = start_hub()
    workshop = Workshop()
    async with agent_of(first, on_recycle=workshop) as agent, client_of(first) as client:
        await use(client)
        await eventually(lambda: workshop.asked)
        first.kill()
        workshop.go_on.set()
        start_hub(HUB_PORT=str(first.port))
        await until_slots(client, [SLOT])
        assert (await client.acquire(LABEL, wait=60)).id == SLOT
        assert workshop.asked == list(agent.slots) == [SLOT]


async def test_a_slot_stays_off_offer_until_its_recycle_callback_succeeds(live_hub: HubProcess) -> None:
    results: list[Exception | None] = [OSError("no disk"), OSError("no disk"), None]

    async def fresh(slot_id: str) -> None:
        await never_lent(client)
        if (error := results.pop(0)) is not None:
            raise error

    async with client_of(live_hub) as client, agent_of(live_hub, on_recycle=fresh) as agent:
        await use(client)
        await eventually(lambda: agent.callback_errors)
        assert (await client.acquire(LABEL, wait=60)).id == SLOT
        assert (agent.callback_errors, results) == (2, [])


async def test_a_drained_node_recycles_its_slots_and_does_not_offer_them(live_hub: HubProcess) -> None:
    asked: list[str] = []
    async with (
        agent_of(live_hub, on_recycle=asked.append) as agent,
        client_of(live_hub) as client,
        live_hub.client() as raw,
    ):
        async with client.borrow(LABEL):
            (await raw.post("/admin/nodes/n1/drain")).raise_for_status()
            await eventually(lambda: agent.draining)
        await eventually(lambda: asked == [SLOT])
        await until_slots(client, [SLOT])
        await never_lent(client)
        (await raw.post("/admin/nodes/n1/undrain")).raise_for_status()
        assert (await client.acquire(LABEL, wait=60)).id == SLOT


async def test_without_a_callback_the_slot_stays_on_offer_and_its_recycle_mark_goes(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client:
        await use(client)
        await eventually(lambda: not live_hub.redis.exists(f"recycle:{SLOT}"))
        assert live_hub.redis.llen(f"available:{LABEL}") == 1


async def test_hurried_borrowers_lose_no_lease_while_their_slots_are_recycled(live_hub: HubProcess) -> None:
    held: list[str] = []
    rebuilt: list[str] = []
    torn_down: list[str] = []

    def fresh(slot_id: str) -> None:
        rebuilt.append(slot_id)
        torn_down.extend({slot_id}.intersection(held))

    async def work(client: HubClient) -> None:
        for _ in range(10):
            async with client.borrow(LABEL, wait=60) as slot:
                held.append(slot.id)
                await asyncio.sleep(0.01)
                slot.check()
                held.remove(slot.id)
                assert (await client.verify(slot.id, slot.token))["valid"]

    async with agent_of(live_hub, slots=4, on_recycle=fresh) as agent, client_of(live_hub) as client:
        await asyncio.gather(*(work(client) for _ in range(6)))
        await eventually(lambda: set(rebuilt) == set(agent.slots))
        await until_slots(client, list(agent.slots))
        await eventually(lambda: live_hub.redis.llen(f"available:{LABEL}") == 4)
    assert torn_down == []


def test_the_agent_for_threads_recycles_in_the_same_way(live_hub: HubProcess) -> None:
    asked: list[str] = []
    with (
        SyncNodeAgent("n1", pools={LABEL: 1}, url=live_hub.url, secret=live_hub.node_secret, on_recycle=asked.append),
        SyncHubClient(live_hub.url, live_hub.runner_secret) as client,
    ):
        with client.borrow(LABEL):
            pass
        world.wait_until(lambda: asked == [SLOT])
        with client.borrow(LABEL, wait=60) as slot:
            assert slot.id == SLOT
