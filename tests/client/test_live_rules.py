"""Rules of pools, as the SDK and two hubs see them, in real time on a real Redis."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from hub.client import HubClient, LeaseLost, SyncHubClient
from hub.client.using import Ending
from tests.client.live import LABEL, agent_of, client_of, until_slots
from tests.world import PATIENCE_S, HubProcess, eventually

pytestmark = pytest.mark.story
SLOT = "n1-gpu.a100-1"


def set_rule(hub: HubProcess, **members: float) -> None:
    url, secret = f"{hub.url}/admin/pools/gpu:*/rules", {"x-hub-secret": hub.admin_secret}
    httpx.put(url, json=members, headers=secret, timeout=PATIENCE_S).raise_for_status()


async def test_use_keeps_a_lease_and_no_use_ends_it_after_a_warning(live_hub: HubProcess) -> None:
    set_rule(live_hub, idleSeconds=4, warnSeconds=2)
    heard: list[Ending | None] = []
    async with agent_of(live_hub), client_of(live_hub) as client:
        await until_slots(client, [SLOT])

        async def work_then_rest() -> None:
            async with client.borrow(LABEL, on_ending=heard.append) as slot:
                for _ in range(30):  # together longer than the idle time
                    slot.active()
                    await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(slot.ending.wait, 0.2))])
                assert heard == []
                await asyncio.to_thread(slot.ending.wait, PATIENCE_S)
                assert [end.reason for end in heard if end] == ["idle"]
                await asyncio.Event().wait()

        with pytest.raises(LeaseLost, match="it was not used for its idle time"):
            await work_then_rest()


async def test_a_slot_that_is_used_after_the_warning_stays(live_hub: HubProcess) -> None:
    set_rule(live_hub, idleSeconds=6, warnSeconds=4)
    heard: list[Ending | None] = []
    async with agent_of(live_hub), client_of(live_hub) as client:
        await until_slots(client, [SLOT])
        async with client.borrow(LABEL) as slot:
            slot.on_ending(heard.append)
            slot.active()
            await asyncio.to_thread(slot.ending.wait, PATIENCE_S)
            slot.pause(3600)
            await eventually(lambda: len(heard) == 2)
            assert heard[1] is None
            assert not slot.ending.is_set()


def test_threads_hear_of_the_longest_hold_and_lose_the_slot_by_it(live_hub: HubProcess) -> None:
    set_rule(live_hub, maxHoldSeconds=4, warnSeconds=2)
    heard: list[Ending | None] = []
    lost = threading.Event()

    async def furnish() -> None:
        async with client_of(live_hub) as client:
            await until_slots(client, [SLOT])

    register(live_hub)
    asyncio.run(furnish())
    with (
        SyncHubClient(live_hub.url, live_hub.runner_secret) as client,
        pytest.raises(LeaseLost, match="for as long as the rule of its pool allows"),
        client.borrow(LABEL, on_ending=heard.append, on_lost=lambda _: lost.set()) as slot,
    ):
        assert slot.lost.wait(PATIENCE_S)
    assert [end.reason for end in heard if end] == ["max-hold"]


def register(hub: HubProcess) -> None:
    body = {"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": SLOT}]}
    secret = {"x-hub-secret": hub.node_secret}
    httpx.post(f"{hub.url}/node/register", json=body, headers=secret, timeout=PATIENCE_S).raise_for_status()


@pytest.mark.parametrize("kind", [HubClient, SyncHubClient])
async def test_a_lease_that_is_renewed_lasts_a_minute_unless_told_otherwise(live_hub: HubProcess, kind: Any) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client:
        await until_slots(client, [SLOT])

        def hold(**options: float) -> float:
            with SyncHubClient(live_hub.url, live_hub.runner_secret) as sync, sync.borrow(LABEL, **options) as slot:
                return slot.ttl_s

        async def held(**options: float) -> float:
            if kind is SyncHubClient:
                return await asyncio.to_thread(hold, **options)
            async with client.borrow(LABEL, **options) as slot:
                return slot.ttl_s

        assert (await held(), await held(ttl=200)) == (60, 200)
        set_rule(live_hub, ttlSeconds=90)
        assert (await held(), await held(ttl=200)) == (90, 200)


async def test_the_hub_that_is_left_ends_what_the_other_has_warned_of(start_hub: Callable[..., HubProcess]) -> None:
    first, second = start_hub(), start_hub()
    set_rule(first, maxHoldSeconds=6, warnSeconds=3)
    register(first)
    async with client_of(second) as client:
        slot = await client.acquire(LABEL, ttl=60)

        async def events() -> list[str]:
            secret = {"x-hub-secret": second.admin_secret}
            async with httpx.AsyncClient(headers=secret) as http:
                found = (await http.get(f"{second.url}/history?slot={slot.id}", timeout=PATIENCE_S)).json()["events"]
            return [each["event"] for each in found if each["event"] in ("grant.ending", "grant.ended")]

        async def warned() -> bool:
            return await events() == ["grant.ending"]

        async def over() -> bool:
            return await events() == ["grant.ended", "grant.ending"]

        await eventually(warned)
        first.signal(signal.SIGKILL)
        await eventually(over)
