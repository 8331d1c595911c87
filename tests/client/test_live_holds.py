"""Slots that are held back, against a real hub on a real Redis."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import httpx
import pytest

from hub.client import HubClient, SyncHubClient, SyncNodeAgent, Unavailable
from hub.errors import NoCapacity, NotFound
from tests import world
from tests.client.fake_hub import eventually
from tests.client.live import LABEL, agent_of, client_of, until_slots
from tests.world import PATIENCE_S, HubProcess, wait_until

pytestmark = pytest.mark.story
FIRST, SECOND = "n1-gpu.a100-1", "n1-gpu.a100-2"
BROKEN, CRACKED = ("fan is broken", "node"), ("screen is cracked", "operator")


async def held(client: HubClient) -> dict[str, tuple[str, str]]:
    """Return slot -> reason, and who holds it, as the hub shows them; none while it does not know the node."""
    try:
        slots = (await client.node("n1"))["slotList"]
    except (NotFound, Unavailable):
        return {}
    return {slot["browserId"]: (slot["held"], slot["heldBy"]) for slot in slots if "held" in slot}


async def until_held(client: HubClient, wanted: dict[str, tuple[str, str]]) -> None:
    async def so() -> bool:
        return await held(client) == wanted

    await world.eventually(so)


def operator(hub: HubProcess, method: str, slot: str, reason: str = "") -> None:
    """Let an operator hold a slot, or release it."""
    body, secret = ({"reason": reason} if reason else None), {"x-hub-secret": hub.admin_secret}
    url = f"{hub.url}/admin/slots/{slot}/hold"
    httpx.request(method, url, json=body, headers=secret, timeout=PATIENCE_S).raise_for_status()


async def test_a_slot_that_its_agent_holds_is_not_lent_until_it_is_released(live_hub: HubProcess) -> None:
    async with agent_of(live_hub) as agent, client_of(live_hub) as client:
        await until_slots(client, [FIRST])
        await agent.hold(FIRST, "fan is broken")
        assert await held(client) == {FIRST: BROKEN}
        with pytest.raises(NoCapacity):
            await client.acquire(LABEL)
        waiting = asyncio.create_task(client.acquire(LABEL, wait=60))
        await agent.release(FIRST)
        assert (await waiting).id == FIRST


class Withheld(httpx.AsyncHTTPTransport):
    """A network on which withdrawals are on their way until `arrive` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.arrive = threading.Event(), threading.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE" and request.url.path == f"/node/n1/slots/{FIRST}":
            self.sent.set()
            await asyncio.to_thread(self.arrive.wait, PATIENCE_S)
        return await super().handle_async_request(request)


async def test_a_held_slot_that_is_withdrawn_is_not_lent_before_its_withdrawal_arrives(live_hub: HubProcess) -> None:
    network = Withheld()
    async with agent_of(live_hub, slots=2, transport=network) as agent, client_of(live_hub) as client:
        await until_slots(client, [FIRST, SECOND])
        for slot in (FIRST, SECOND):
            await agent.hold(slot, "fan is broken")
        withdrawing = asyncio.create_task(agent.withdraw(FIRST, "gone"))
        await eventually(network.sent.is_set)
        holding = asyncio.create_task(agent.hold(SECOND, "hot"))  # a heartbeat says so before the withdrawal arrives
        await until_held(client, {FIRST: BROKEN, SECOND: ("hot", "node")})
        with pytest.raises(NoCapacity):
            await client.acquire(LABEL)
        network.arrive.set()
        await withdrawing
        await holding
        await until_slots(client, [SECOND])
        assert dict(agent.held) == {SECOND: "hot"}


async def test_a_lent_slot_stays_lent_and_its_holder_hears_why_it_is_held_and_that_it_is_well(
    live_hub: HubProcess,
) -> None:
    async with agent_of(live_hub) as agent, client_of(live_hub) as client, client.borrow(LABEL, wait=60) as slot:
        heard: asyncio.Queue[str | None] = asyncio.Queue()
        slot.on_unwell(heard.put_nowait)
        for reason in ("no answer for 6 s", "screen is black"):
            await agent.hold(slot.id, reason)
            assert await asyncio.wait_for(heard.get(), PATIENCE_S) == reason
        await agent.release(slot.id)
        assert await asyncio.wait_for(heard.get(), PATIENCE_S) is None
        slot.check()


def test_a_holder_in_a_thread_hears_the_reason_of_an_operator(live_hub: HubProcess) -> None:
    with (
        SyncNodeAgent("n1", pools={LABEL: 1}, url=live_hub.url, secret=live_hub.node_secret),
        SyncHubClient(live_hub.url, live_hub.runner_secret) as client,
        client.borrow(LABEL, wait=60) as slot,
    ):
        heard: list[str | None] = []
        slot.on_unwell(heard.append)
        operator(live_hub, "POST", slot.id, "screen is cracked")
        wait_until(lambda: heard == ["screen is cracked"])
        operator(live_hub, "DELETE", slot.id)
        wait_until(lambda: heard == ["screen is cracked", None])


async def test_a_store_that_was_wiped_has_the_holds_of_agents_and_of_operators_again(
    start_hub: Callable[..., HubProcess],
) -> None:
    hub = start_hub()
    async with agent_of(hub, slots=3) as agent, client_of(hub) as client:
        await until_slots(client, list(agent.slots))
        await agent.hold(FIRST, "fan is broken")
        operator(hub, "POST", SECOND, "screen is cracked")
        await eventually(lambda: SECOND in agent._state.holds.by_operator)
        hub.kill()  # what it remembers itself is gone as well
        hub.redis.flushall()
        start_hub(HUB_PORT=str(hub.port), HUB_ADMIN_SECRET=hub.admin_secret)
        await until_held(client, {FIRST: BROKEN, SECOND: CRACKED})
        await agent.release(FIRST)
        await until_held(client, {SECOND: CRACKED})


async def test_a_new_process_of_a_node_ends_the_holds_of_the_one_before_but_not_those_of_operators(
    live_hub: HubProcess,
) -> None:
    async with client_of(live_hub) as client:
        async with agent_of(live_hub, slots=2) as old:
            await until_slots(client, [FIRST, SECOND])
            await old.hold(FIRST, "fan is broken")
            operator(live_hub, "POST", SECOND, "screen is cracked")
            await until_held(client, {FIRST: BROKEN, SECOND: CRACKED})
        async with agent_of(live_hub, slots=2):
            await until_slots(client, [FIRST, SECOND])
            await until_held(client, {SECOND: CRACKED})
