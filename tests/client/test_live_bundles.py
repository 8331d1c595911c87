"""Bundles of the SDK against a real hub on a real Redis."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from hub.client import Bundle, HubClient, LeaseLost, NoCapacity, SyncHubClient
from hub.client.calls import read
from hub.client.exchange import RetryPolicy
from hub.errors import BadWhere, KeyReused, NoSuchPool, WaitedInVain
from hub.retries import now_s
from tests import world
from tests.client.fake_hub import eventually
from tests.client.live import LABEL, agent_of, client_of
from tests.world import HubProcess

pytestmark = pytest.mark.story
CPU = "cpu:large"


class Way(httpx.AsyncHTTPTransport):
    """A way to the hub on which the first answer to a borrow may be lost, and that may be cut."""

    def __init__(self, loses: int = 0) -> None:
        super().__init__()
        self.loses, self.cut = loses, False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.cut:
            raise httpx.ConnectError("no route to host")
        response = await super().handle_async_request(request)
        if request.url.path == "/bundles" and self.loses:
            self.loses -= 1
            await response.aread()
            raise httpx.ReadError("the connection broke")
        return response


async def bundles(client: HubClient) -> list[str]:
    """The bundle of each lease."""
    return [lease.get("bundle", "") for lease in (await client.leases())["leases"]]


async def until_waiting(client: HubClient, many: int) -> None:
    async def wait() -> bool:
        queue: dict[str, Any] = await client._http.run(read(RetryPolicy(), "queue"))
        return bool(queue["waiting"] == many)

    await world.eventually(wait)


async def hold(client: HubClient, parts: list[Any], until: asyncio.Event, **options: Any) -> Bundle:
    async with client.borrow_all(parts, **options) as bundle:
        await until.wait()
    return bundle


async def test_slots_of_several_labels_are_lent_in_the_order_of_the_parts(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, slots=3) as agent, client_of(live_hub) as client:
        await agent.publish([{"slotId": "c1", "labelKey": CPU, "attributes": {"cores": 8}}])
        parts = [{"label": "cpu", "where": "cores >= 8"}, (LABEL, 2)]
        async with client.borrow_all(parts, run="r1", ttl=60) as bundle:
            assert [slot.pool for slot in bundle.slots] == [CPU, LABEL, LABEL]
            assert {slot.run for slot in bundle.slots} == {"r1"}
            assert await bundles(client) == [bundle.id] * 3
            for slot in bundle.slots:
                assert (await client.verify(slot.id, slot.token))["valid"]
                await client.renew(slot)
        assert await bundles(client) == []
        assert not await client.give_back(bundle)


async def test_refusals_of_a_bundle_say_what_is_lacking(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, slots=2), client_of(live_hub) as client:
        with pytest.raises(NoSuchPool, match=f"2 slots of {LABEL} are published, 3 are wanted") as refused:
            async with client.borrow_all([(LABEL, 3)]):
                pass
        assert (refused.value.facts["part"], refused.value.facts["published"]) == (0, 2)
        with pytest.raises(NoSuchPool) as refused:
            async with client.borrow_all([LABEL, (LABEL, 2)]):
                pass
        assert refused.value.facts["part"] == 1
        with pytest.raises(BadWhere):
            async with client.borrow_all([{"label": LABEL, "where": "vram >="}]):
                pass
        async with client.borrow_all([LABEL]):
            with pytest.raises(NoCapacity):
                async with client.borrow_all([(LABEL, 2)]):
                    pass
            with pytest.raises(WaitedInVain, match=rf"Borrow timed out after 0.3s for 2 slots of {LABEL}"):
                async with client.borrow_all([(LABEL, 2)], wait=0.3):
                    pass
            assert len(await bundles(client)) == 1


async def test_a_bundle_whose_answer_is_lost_is_lent_once(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, slots=4), client_of(live_hub, transport=Way(loses=1)) as client:
        async with client.borrow_all([(LABEL, 2)]) as bundle:
            assert await bundles(client) == [bundle.id] * 2
        assert await bundles(client) == []


async def test_a_key_is_of_one_bundle(live_hub: HubProcess) -> None:
    async with (
        agent_of(live_hub, slots=4),
        client_of(live_hub) as client,
        client.borrow_all([(LABEL, 2)], ticket="t1"),
    ):
        with pytest.raises(KeyReused):
            async with client.borrow_all([(LABEL, 3)], ticket="t1"):
                pass


async def test_a_waiting_bundle_gets_the_slots_that_come_back(live_hub: HubProcess) -> None:
    done = asyncio.Event()
    async with agent_of(live_hub, slots=3, policy="reuse"), client_of(live_hub) as client:
        first, second = await client.acquire(LABEL), await client.acquire(LABEL)
        waiting = asyncio.create_task(hold(client, [(LABEL, 3)], done, wait=60))
        await until_waiting(client, 1)
        await client.give_back(first)
        assert await bundles(client) == [""]
        await client.give_back(second)
        await world.eventually(lambda: _all_lent(client, 3))
        done.set()
        assert len((await waiting).slots) == 3
        assert await bundles(client) == []


async def _all_lent(client: HubClient, many: int) -> bool:
    found = await bundles(client)
    return len(found) == many and len(set(found)) == 1


async def test_a_bundle_cancelled_while_it_waits_leaves_the_queue_and_takes_nothing(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, slots=2, policy="reuse"), client_of(live_hub) as client:
        one = await client.acquire(LABEL)
        waiting = asyncio.create_task(hold(client, [(LABEL, 2)], asyncio.Event(), wait=None))
        await until_waiting(client, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until_waiting(client, 0)
        await client.give_back(one)
        assert await bundles(client) == []


async def test_a_bundle_is_renewed_for_as_long_as_the_block_runs(live_hub: HubProcess) -> None:
    async with (
        agent_of(live_hub, slots=3),
        client_of(live_hub) as client,
        client.borrow_all([(LABEL, 3)], ttl=4) as bundle,
    ):
        ends_by_s = bundle.ends_by_s
        await eventually(lambda: now_s() > ends_by_s + 1)
        assert await bundles(client) == [bundle.id] * 3


@pytest.mark.parametrize("together", [False, True])
async def test_a_slot_that_the_hub_ends_ends_the_block(live_hub: HubProcess, together: bool) -> None:
    async with agent_of(live_hub, slots=3) as agent, client_of(live_hub) as client:

        async def work() -> None:
            async with client.borrow_all([(LABEL, 3)], together=together) as bundle:
                lost = bundle.slots[1]
                assert await agent.withdraw(lost.id)
                try:
                    await asyncio.sleep(60)
                finally:
                    if together:
                        await eventually(lambda: all(slot.lost.is_set() for slot in bundle.slots))
                    else:
                        assert [slot.lost.is_set() for slot in bundle.slots] == [False, True, False]

        with pytest.raises(LeaseLost, match="the hub ended the lease"):
            await work()
        assert await bundles(client) == []


async def test_a_return_that_fails_while_the_hub_is_away_is_delivered_later(
    live_hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.client.calls.RETURN_POLICY", RetryPolicy(trouble_s=0.0, attempt_s=2.0))
    way = Way()
    async with agent_of(live_hub, slots=2, policy="reuse"), client_of(live_hub) as other:
        async with client_of(live_hub, transport=way) as client:
            async with client.borrow_all([(LABEL, 2)]) as bundle:
                way.cut = True
            assert bundle.owed
            assert len(await bundles(other)) == 2
            way.cut = False
            await eventually(lambda: not bundle.owed)
        assert await bundles(other) == []


async def test_threads_borrow_bundles_too(live_hub: HubProcess) -> None:
    told: list[str] = []

    def work(lost: threading.Event) -> None:
        with (
            SyncHubClient(live_hub.url, live_hub.runner_secret) as client,
            client.borrow_all([(LABEL, 2)], together=True, on_lost=lambda slot: told.append(slot.id)) as bundle,
        ):
            ids.extend(slot.id for slot in bundle.slots)
            lost.set()
            for slot in bundle.slots:
                assert slot.lost.wait(world.PATIENCE_S)
            world.wait_until(lambda: len(told) == 2)

    ids: list[str] = []
    held = threading.Event()
    async with agent_of(live_hub, slots=2) as agent, client_of(live_hub) as client:
        working = asyncio.create_task(asyncio.to_thread(work, held))
        await asyncio.to_thread(held.wait, world.PATIENCE_S)
        assert await agent.withdraw(ids[0])
        with pytest.raises(LeaseLost):
            await working
        assert sorted(told) == sorted(ids)
        assert await bundles(client) == []
