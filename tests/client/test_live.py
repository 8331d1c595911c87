"""The SDK against a real hub on a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from hub.client import (
    HubClient,
    LeaseLost,
    NoCapacity,
    NodeAgent,
    Slot,
    SyncHubClient,
    SyncNodeAgent,
    Unauthorized,
)
from hub.client import slot as slot_module
from hub.errors import HubUnavailable, NotFound
from hub.retries import now_s
from tests import world
from tests.client.fake_hub import eventually
from tests.client.live import LABEL, agent_of, client_of, until_slots
from tests.world import SLACK_S, HubProcess

pytestmark = pytest.mark.story


class LosesTheFirstAnswer(httpx.AsyncHTTPTransport):
    """The first borrow reaches the hub; its answer does not come back."""

    lost = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.url.path == "/session/borrow" and not self.lost:
            self.lost += 1
            await response.aread()
            raise httpx.ReadError("the connection broke")
        return response


class CutOff(httpx.AsyncHTTPTransport):
    """The way to the hub ends when `cut` is set."""

    cut = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.cut:
            raise httpx.ConnectError("no route to host")
        return await super().handle_async_request(request)


async def test_a_slot_can_be_borrowed_listed_verified_and_returned(live_hub: HubProcess) -> None:
    async with agent_of(live_hub) as agent, client_of(live_hub) as client:
        async with client.borrow("gpu:a100:eu", ttl=60, run="r1", run_name="nightly") as slot:
            assert (slot.node_id, slot.run, slot.run_name) == ("n1", "r1", "nightly")
            assert (slot.label, slot.matched_label) == ("gpu:a100:eu", LABEL)
            assert 59 - SLACK_S < slot.seconds_left() <= 59
            assert (await client.verify(slot.id, slot.token))["valid"]
            assert (await agent.verify(slot.id, slot.token))["valid"]
            assert not (await agent.verify(slot.id, "1"))["valid"]
            assert (await client.session(slot.id))["poolLabel"] == LABEL
            assert (await client.sessions(node="n1"))["total"] == 1
            assert (await client.pool(LABEL))["borrowed"] == 1
            await client.renew(slot)
        assert (await client.sessions(node="n1"))["total"] == 0
        assert not (await client.verify(slot.id, slot.token))["valid"]
        with pytest.raises(NotFound):
            await client.session(slot.id)


async def test_a_borrow_whose_answer_is_lost_takes_one_slot(live_hub: HubProcess) -> None:
    transport = LosesTheFirstAnswer()
    async with agent_of(live_hub, slots=3), client_of(live_hub, transport=transport) as client:
        async with client.borrow(LABEL):
            assert (await client.sessions(node="n1"))["total"] == 1
        assert transport.lost == 1
        assert (await client.sessions(node="n1"))["total"] == 0


async def test_a_waiting_borrow_gets_the_slot_that_comes_back(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, policy="reuse"), client_of(live_hub) as client:
        first = await client.acquire(LABEL)
        with pytest.raises(NoCapacity):
            await client.acquire(LABEL)
        waiting = asyncio.create_task(client.acquire(LABEL, wait=60))
        await asyncio.sleep(0)
        assert await client.give_back(first)
        second = await waiting
        assert (second.id, int(second.token) > int(first.token)) == (first.id, True)
        assert not await client.give_back(first)
        assert (await client.verify(second.id, second.token))["valid"]
        assert await client.give_back(second)


async def test_a_lease_lasts_for_as_long_as_the_block_runs(live_hub: HubProcess) -> None:
    async with agent_of(live_hub), client_of(live_hub) as client, client.borrow(LABEL, ttl=6) as slot:
        ends_by_s = slot.ends_by_s
        await eventually(lambda: now_s() > ends_by_s + 1)
        assert (await client.verify(slot.id, slot.token))["valid"]


async def test_a_block_is_cancelled_before_the_hub_lends_its_slot_again(
    live_hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder cannot reach the hub any more; the hub itself is well and lends the slot as soon as it may."""
    monkeypatch.setattr(slot_module, "MARGIN_SHARE", 0.5)  # so that a busy machine does not decide
    monkeypatch.setattr(slot_module, "MARGIN_MAX_S", 60)
    stopped: list[bool] = []
    way = CutOff()

    async def work(holder: HubClient, others: HubClient) -> None:
        async with holder.borrow(LABEL, ttl=8) as slot:
            way.cut = True
            try:
                await asyncio.sleep(30)
            finally:
                stopped.append((await others.verify(slot.id, slot.token))["valid"])

    async with (
        agent_of(live_hub, policy="reuse"),
        client_of(live_hub) as others,
        client_of(live_hub, transport=way) as holder,
    ):
        with pytest.raises(LeaseLost):
            await work(holder, others)
        assert stopped == [True]
        assert (await others.acquire(LABEL, wait=60)).node_id == "n1"


async def test_a_lease_that_the_hub_ends_cancels_the_block(live_hub: HubProcess) -> None:
    async def work(client: HubClient, agent: NodeAgent) -> None:
        async with client.borrow(LABEL, ttl=4) as slot:
            assert await agent.withdraw(slot.id)
            await asyncio.sleep(30)

    async with agent_of(live_hub) as agent, client_of(live_hub) as client:
        with pytest.raises(LeaseLost):
            await work(client, agent)


async def test_a_wrong_secret_is_reported_as_such(live_hub: HubProcess) -> None:
    async with HubClient(live_hub.url, "wrong") as client:
        with pytest.raises(Unauthorized):
            await client.acquire(LABEL)
    with pytest.raises(Unauthorized):
        await NodeAgent("n1", url=live_hub.url, secret="wrong").run()


async def test_an_agent_gives_the_slots_of_a_pool_the_same_ids_as_the_hub(live_hub: HubProcess) -> None:
    async with agent_of(live_hub, slots=2) as agent, live_hub.client("node") as raw:
        answer = await raw.post("/node/n1/slots", json={"pools": {LABEL: 2}})
        assert {slot["browserId"] for slot in answer.json()["slots"]} == set(agent.slots)


async def test_the_callbacks_of_a_node_hear_of_a_drain_and_of_leases(live_hub: HubProcess) -> None:
    heard: list[Any] = []
    async with (
        agent_of(live_hub, on_drain=heard.append, on_lent=heard.append),
        client_of(live_hub) as client,
        live_hub.client() as raw,
    ):
        async with client.borrow(LABEL) as slot:
            await eventually(lambda: heard == [{slot.id: slot.token}])
        await eventually(lambda: heard[1:] == [{}])
        (await raw.post("/admin/nodes/n1/drain")).raise_for_status()
        await eventually(lambda: heard[2:] == [True])
        (await raw.post("/admin/nodes/n1/undrain")).raise_for_status()
        await eventually(lambda: heard[3:] == [False])


@pytest.mark.parametrize("label", ["label", "labelKey"])
async def test_attributes_of_a_slot_are_the_same_in_the_names_of_both_wires(live_hub: HubProcess, label: str) -> None:
    offered = {"slotId": "s1", label: LABEL, "memory": "80G", "attributes": {"index": 0, "memory": "40G"}}
    agent = NodeAgent("n1", slots=[offered], url=live_hub.url, secret=live_hub.node_secret)
    async with agent, client_of(live_hub) as client, client.borrow(LABEL) as slot:
        assert slot.attributes == {"index": 0, "memory": "40G"}  # as `where` sees it


async def test_a_slot_can_be_offered_and_held_in_neutral_names(live_hub: HubProcess) -> None:
    offered = {"slotId": "s1", "label": "gpu:a100:eu", "address": "ws://n1/s1", "kind": "card", "memory": "80G"}
    agent = NodeAgent("n1", url=live_hub.url, secret=live_hub.node_secret)
    async with agent, client_of(live_hub) as client:
        (published,) = await agent.publish([offered])
        assert (published["slotId"], published["label"]) == ("s1", "gpu:a100:eu")
        async with client.borrow(LABEL) as slot:
            assert (slot.address, slot.pool, slot.kind, slot.attributes) == (
                "ws://n1/s1", "gpu:a100:eu", "card", {"memory": "80G"},
            )  # fmt: skip
            assert (slot.endpoint, slot.matched_label, slot.item["memory"]) == (slot.address, slot.pool, "80G")
            (lease,) = (await client.leases(node="n1"))["leases"]
            assert lease == await client.lease("s1") | {"secondsLeft": lease["secondsLeft"]}
            assert (lease["slotId"], lease["label"], lease["pool"]) == ("s1", LABEL, "gpu:a100:eu")
            with SyncHubClient(live_hub.url, live_hub.runner_secret) as twin:
                listed = await asyncio.to_thread(lambda: (twin.leases()["leases"], twin.lease("s1")))
            assert [each["slotId"] for each in (*listed[0], listed[1])] == ["s1", "s1"]


LONG_S = 600  # a node timeout by which nothing here is told with the next beat: that is 100 seconds away


async def test_a_node_hears_at_once_of_leases_that_begin_and_end(start_hub: Callable[..., HubProcess]) -> None:
    hub, heard = start_hub(HUB_NODE_TIMEOUT=str(LONG_S)), list[Any]()
    async with agent_of(hub, on_lent=heard.append) as agent, client_of(hub) as client:
        async with client.borrow(LABEL) as slot:
            await eventually(lambda: heard == [{slot.id: slot.token}])
            assert agent.lent == {slot.id: slot.token}
        await eventually(lambda: heard[1:] == [{}])


async def test_a_removed_node_comes_back_with_its_slots_and_a_node_that_left_does_not(live_hub: HubProcess) -> None:
    async with client_of(live_hub) as client:
        async with agent_of(live_hub, slots=2) as agent, live_hub.client() as raw:
            (await raw.delete("/admin/nodes/n1")).raise_for_status()
            await until_slots(client, list(agent.slots))
        with pytest.raises(NotFound):
            await client.node("n1")


async def test_slots_of_an_earlier_process_are_gone_when_its_successor_starts(live_hub: HubProcess) -> None:
    async with live_hub.client("node") as raw, client_of(live_hub) as client:
        await raw.post("/node/register", json={"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": "of-before"}]})
        async with agent_of(live_hub) as agent:
            await until_slots(client, list(agent.slots))


async def test_after_the_store_was_emptied_the_node_reports_everything_and_the_holder_keeps_its_slot(
    live_hub: HubProcess,
) -> None:
    async with agent_of(live_hub, slots=2) as agent, client_of(live_hub) as client:
        async with client.borrow(LABEL, ttl=30) as slot:
            await eventually(lambda: agent.lent == {slot.id: slot.token})
            live_hub.redis.flushall()
            await until_slots(client, list(agent.slots))
            await client.renew(slot)
            assert (await client.verify(slot.id, slot.token))["valid"]
            other = await client.acquire(LABEL, wait=60)
            assert other.id != slot.id
            assert int(other.token) > int(slot.token)
        assert await client.give_back(other)
        await eventually(lambda: agent.lent == {})


@pytest.mark.parametrize("lent", [0, 1])
async def test_slots_lost_in_redis_are_published_again_within_a_heartbeat_of_the_sweep(
    live_hub: HubProcess, lent: int
) -> None:
    """With a lease the agent has not heard of yet: it hears of it, and the lease goes on."""
    async with agent_of(live_hub, slots=3) as agent, client_of(live_hub) as client, live_hub.client() as raw:
        leases = [await client.acquire(LABEL) for _ in range(lent)]
        assert live_hub.redis.delete(f"available:{LABEL}")
        (await raw.post("/admin/sweep")).raise_for_status()
        await until_slots(client, list(agent.slots))
        await eventually(lambda: live_hub.redis.llen(f"available:{LABEL}") == 3 - lent)
        await eventually(lambda: agent.lent == {slot.id: slot.token for slot in leases})
        for slot in leases:
            await client.renew(slot)
            assert await client.give_back(slot)


async def test_killing_and_restarting_the_hub_loses_no_lease_and_no_node(start_hub: Callable[..., HubProcess]) -> None:
    first = start_hub()
    async with agent_of(first) as agent, client_of(first) as client, client.borrow(LABEL, ttl=30) as slot:
        first.kill()
        with pytest.raises(HubUnavailable):
            await HubClient(first.url, first.runner_secret, timeout=0).pools()
        start_hub(HUB_PORT=str(first.port))
        await client.renew(slot)
        await until_slots(client, list(agent.slots))

        async def alive() -> bool:
            return bool((await client.node("n1"))["state"] == "alive")

        await world.eventually(alive)
        assert (await client.verify(slot.id, slot.token))["valid"]


def test_the_agent_and_the_client_for_threads_do_the_same(live_hub: HubProcess) -> None:
    lost: list[Slot] = []
    with (
        SyncNodeAgent("n1", pools={LABEL: 1}, url=live_hub.url, secret=live_hub.node_secret) as agent,
        SyncHubClient(live_hub.url, live_hub.runner_secret) as client,
    ):
        with client.borrow(LABEL, on_lost=lost.append) as slot:
            assert agent.verify(slot.id, slot.token)["valid"]
            client.renew(slot)
            slot.check()
        assert client.sessions(node="n1")["total"] == 0
    assert lost == []
