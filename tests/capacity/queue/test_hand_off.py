"""Every way in which capacity becomes free or usable serves a waiter.

The waiter waits at another hub process than the one that freed the slot. All comes over HTTP; the first hub, `freer`,
sweeps."""

from __future__ import annotations

import asyncio
import itertools
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from redis import Redis

from tests.world import (
    PATIENCE_S,
    HubProcess,
    RedisServer,
    age_node,
    beat,
    borrow,
    eventually,
    give_back,
    publish,
    push,
)

_numbers = itertools.count()
NO_BRAKE = {"HUB_SWEEPER_BRAKE_MIN": "1000000"}  # tests leave silent nodes behind, which would engage it after a while


class Pair(NamedTuple):
    """Two hubs on one store."""

    freer: HubProcess
    server: HubProcess
    redis: Redis
    environment: dict[str, str]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as redis:
        secrets = dict.fromkeys(("HUB_RUNNER_SECRET", "HUB_NODE_SECRET", "HUB_ADMIN_SECRET"), "one-for-all")
        environment = {"HUB_REDIS_URL": redis.url, "HUB_NODE_TIMEOUT": "30", **NO_BRAKE, **secrets}
        with HubProcess(environment) as freer, HubProcess(environment) as server:
            yield Pair(freer, server, redis.client(), environment)


class Scene(NamedTuple):
    """One label of its own, one node of its own."""

    label: str
    node: str
    slot: str
    api: httpx.AsyncClient  # of the hub that frees
    redis: Redis


@pytest.fixture
async def scene(pair: Pair) -> AsyncIterator[Scene]:
    number = next(_numbers)
    async with pair.freer.client() as api:
        yield Scene(f"gpu:kind{number}", f"node{number}", f"slot{number}", api, pair.redis)


@asynccontextmanager
async def waiter(pair: Pair, label: str, **more: Any) -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """A borrower in line at the hub that did not free anything."""
    async with pair.server.client(timeout=60) as api:
        before = pair.redis.zcard(f"hub:line:{label}")
        task = asyncio.create_task(borrow(api, label, run=f"run{next(_numbers)}", maxWaitSeconds=25, **more))
        await eventually(lambda: task.done() or pair.redis.zcard(f"hub:line:{label}") > before)
        assert not task.done(), task.result().text
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def served(task: asyncio.Task[httpx.Response], redis: Redis, slot: str) -> dict[str, Any]:
    """Return the waiter's lease, complete, of this slot."""
    answer = await asyncio.wait_for(task, PATIENCE_S)
    assert answer.status_code == 200, answer.text
    lease: dict[str, Any] = answer.json()
    assert lease["browserId"] == slot
    assert lease["expiresAtUtc"]
    assert redis.exists(f"borrow_ttl:{slot}", f"session:{slot}") == 2
    assert redis.hget(f"session:{slot}", "leaseToken") == lease["leaseToken"]
    return lease


async def lend_all(scene: Scene, **more: Any) -> dict[str, Any]:
    """Publish the slot and lend it."""
    await publish(scene.api, scene.node, **{scene.label: [scene.slot]})
    answer = await borrow(scene.api, scene.label, run="holder", **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_return_serves_a_waiter(pair, scene):
    await lend_all(scene)
    async with waiter(pair, scene.label) as task:
        await give_back(scene.api, scene.label, scene.slot)
        await served(task, scene.redis, scene.slot)


async def test_a_lapsed_lease_serves_a_waiter(pair, scene):
    await lend_all(scene, ttlSeconds=4)
    async with waiter(pair, scene.label) as task:
        await served(task, scene.redis, scene.slot)


async def test_a_deleted_footprint_serves_a_waiter(pair, scene):
    await lend_all(scene)
    async with waiter(pair, scene.label) as task:
        scene.redis.delete(f"borrow_ttl:{scene.slot}")
        await served(task, scene.redis, scene.slot)


async def test_publishing_a_slot_serves_a_waiter(pair, scene):
    async with waiter(pair, scene.label) as task:
        await publish(scene.api, scene.node, **{scene.label: [scene.slot]})
        await served(task, scene.redis, scene.slot)


async def test_an_undrain_serves_a_waiter(pair, scene):
    await publish(scene.api, scene.node, **{scene.label: [scene.slot]})
    await scene.api.post(f"/admin/nodes/{scene.node}/drain")
    async with waiter(pair, scene.label) as task:
        await scene.api.post(f"/admin/nodes/{scene.node}/undrain")
        await served(task, scene.redis, scene.slot)


async def two_pools_and_a_cap(scene: Scene) -> str:
    """Two nodes with a slot each; the label may have one lease, which is of the first. Returns its slot."""
    label = scene.label
    assert (await scene.api.put(f"/admin/caps/{label}", json={"cap": 1})).status_code == 200
    await publish(scene.api, scene.node, **{label: [scene.slot]})
    held = (await borrow(scene.api, label, run="holder")).json()["browserId"]
    await publish(scene.api, f"{scene.node}-b", **{label: [f"{scene.slot}-b"]})
    return str(held)


async def test_raising_a_cap_serves_a_waiter(pair, scene):
    await two_pools_and_a_cap(scene)
    async with waiter(pair, scene.label) as task:
        answer = await scene.api.put(f"/admin/caps/{scene.label}", json={"cap": 2})
        assert answer.status_code == 200, answer.text
        await served(task, scene.redis, f"{scene.slot}-b")


async def test_the_expiry_of_a_node_with_a_lease_under_the_cap_serves_a_waiter(pair, scene):
    await two_pools_and_a_cap(scene)
    async with waiter(pair, scene.label) as task:
        await beat(scene.api, f"{scene.node}-b")
        age_node(scene.redis, scene.node, 60)
        await served(task, scene.redis, f"{scene.slot}-b")
    assert not scene.redis.sismember("nodes", scene.node)


async def test_the_leaving_of_a_node_with_a_lease_under_the_cap_serves_a_waiter(pair, scene):
    await two_pools_and_a_cap(scene)
    async with waiter(pair, scene.label) as task:
        await scene.api.delete(f"/node/{scene.node}")
        await served(task, scene.redis, f"{scene.slot}-b")


async def test_withdrawing_a_lent_slot_under_the_cap_serves_a_waiter(pair, scene):
    await two_pools_and_a_cap(scene)
    async with waiter(pair, scene.label) as task:
        await scene.api.delete(f"/node/{scene.node}/slots/{scene.slot}")
        await served(task, scene.redis, f"{scene.slot}-b")


async def test_the_end_of_a_maintenance_serves_a_waiter(pair, scene):
    await publish(scene.api, scene.node, **{scene.label: [scene.slot]})
    await scene.api.post(f"/admin/pools/{scene.label}/restart")
    async with waiter(pair, scene.label) as task:
        await scene.api.delete(f"/node/{scene.node}/slots/{scene.slot}")
        await publish(scene.api, scene.node, **{scene.label: [f"{scene.slot}-new"]})
        scene.redis.pexpire(f"maintenance:{scene.label}", 1_800_000 - 11_000)  # as if it had begun 11 s ago
        await served(task, scene.redis, f"{scene.slot}-new")


async def test_a_slot_pushed_by_another_program_serves_a_waiter(pair, scene):
    async with waiter(pair, scene.label) as task:
        push(scene.redis, f"{scene.label}:deeper", (scene.slot, scene.node))
        await served(task, scene.redis, scene.slot)


async def test_a_suspect_node_that_beats_again_serves_a_waiter(pair, scene):
    await publish(scene.api, scene.node, **{scene.label: [scene.slot]})
    age_node(scene.redis, scene.node, 20)
    async with waiter(pair, scene.label) as task:
        await asyncio.sleep(0.3)
        assert not task.done()
        await beat(scene.api, scene.node)
        await served(task, scene.redis, scene.slot)


async def test_undoing_a_lease_whose_caller_hung_up_serves_a_waiter(pair, scene):
    """The hub is stopped while its caller hangs up and gets the slot; once it goes on, it undoes the lease."""
    await lend_all(scene)
    async with pair.freer.client(timeout=60) as first, pair.server.client() as other:
        gone = asyncio.create_task(borrow(first, scene.label, run="gone"))
        await eventually(lambda: scene.redis.zcard(f"hub:line:{scene.label}") == 1)
        async with waiter(pair, scene.label) as task:
            pair.freer.signal(signal.SIGSTOP)
            try:
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
                await first.aclose()
                await give_back(other, scene.label, scene.slot)
                assert scene.redis.hget(f"session:{scene.slot}", "runId") == "gone"
            finally:
                pair.freer.signal(signal.SIGCONT)
            await served(task, scene.redis, scene.slot)


@pytest.mark.slow
async def test_the_death_of_a_hub_with_an_undelivered_lease_serves_a_waiter(pair, scene):
    await lend_all(scene)
    doomed = HubProcess(pair.environment)
    doomed.wait_until_ready()
    async with doomed.client(timeout=60) as lost:
        calls = [asyncio.create_task(borrow(lost, scene.label, run=f"lost{n}")) for n in range(2)]
        await eventually(lambda: scene.redis.zcard(f"hub:line:{scene.label}") == 2)
        doomed.kill()
        await asyncio.gather(*calls, return_exceptions=True)
        async with waiter(pair, scene.label) as task:
            await give_back(scene.api, scene.label, scene.slot)  # goes to a waiter of the dead hub, as it seems alive
            await served(task, scene.redis, scene.slot)
    assert scene.redis.zcard(f"hub:line:{scene.label}") == 0
    assert scene.redis.hget("hub:pending", "lost1") is None
