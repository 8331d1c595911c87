"""Redis dies, is wiped, or the hubs are gone for long: what comes back, how soon, and what must not happen then."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.client import HubClient, NodeAgent, Slot
from hub.doctor import examine
from hub.errors import Unavailable
from hub.store.connection import open_store
from tests.races.crew import Crew
from tests.races.ledger import broken, cut_by_expiry, holds
from tests.world import (
    PATIENCE_S,
    SECRETS,
    SLACK_S,
    HubProcess,
    RedisServer,
    borrow,
    eventually,
    listed,
    settings_for,
    wait_until,
)

POOL = "gpu:a100"
pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(600)]


async def doctor_finds(redis_url: str, node_timeout_s: float) -> list[Any]:
    settings = settings_for(redis_url, node_timeout_s=node_timeout_s, node_sweep_interval_s=0.5, borrow_ttl_sweep_s=0.5)
    async with open_store(settings) as store:
        return list(await examine(store, settings=settings))


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that may be killed, and then loses its last second."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


async def test_a_redis_killed_under_load_loses_nothing(
    own_redis: RedisServer, start_hub: Callable[..., HubProcess], tmp_path: Path
) -> None:
    hubs = [start_hub(HUB_REDIS_URL=own_redis.url, HUB_NODE_TIMEOUT="4") for _ in range(2)]
    ports = [hub.port for hub in hubs]
    nodes = Crew(tmp_path, "node", ["n1", "n2"], ports, SECRETS["HUB_NODE_SECRET"], label=POOL, slots=3)
    names = [f"b{number}" for number in range(8)]
    borrowers = Crew(tmp_path, "borrower", names, ports, SECRETS["HUB_RUNNER_SECRET"], label=POOL, ttl=2, pause_s=0.3)

    def grants(since: float) -> int:
        return sum(hold.begin > since for hold in holds(borrowers.lines()))

    try:
        wait_until(lambda: grants(0) > 20, 90)
        own_redis.kill()
        gone = time.time()
        async with hubs[0].client("runner") as runner:
            await eventually(lambda: _is_refused(runner))
            await asyncio.sleep(2.5)  # longer than a lease
            refused = await borrow(runner, POOL)
            assert (refused.status_code, refused.json()["code"]) == (503, "store-unavailable")
            assert refused.headers["content-type"] == "application/problem+json"
            assert int(refused.headers["retry-after"]) > 0
        own_redis.start()
        back = time.time()
        wait_until(lambda: grants(back) >= 6, 5 + SLACK_S, lambda: f"{grants(back)} leases soon after Redis came back")
        wait_until(lambda: own_redis.client().scard("nodes") == 2, 1 + SLACK_S)
        wait_until(lambda: grants(back) > 20)
    finally:
        borrowers.stop()
        nodes.stop()
    found = holds(borrowers.lines())
    for hub in hubs:
        log = hub.log()
        cut_by_expiry(found, log, 4 + back - gone)  # an outage makes no node silent
        assert (log.count(" store unreachable "), log.count(" store reachable again ")) == (1, 1), log
    assert broken(found, borrowers.lines()) == []
    await eventually(lambda: _is_empty(own_redis.client()))
    assert await doctor_finds(own_redis.url, 4) == []


async def _is_refused(runner: httpx.AsyncClient) -> bool:
    return (await borrow(runner, POOL)).status_code == 503


async def _is_empty(redis: Redis) -> bool:
    return bool(redis.exists(f"available:{POOL}", f"inuse:{POOL}") == 0)


@asynccontextmanager
async def fleet(hub: HubProcess, count: int, slots: int) -> AsyncIterator[list[NodeAgent]]:
    """Nodes n1, n2, ... that beat, with slots of their own."""
    async with AsyncExitStack() as stack:
        agents = [
            NodeAgent(f"n{number}", pools={POOL: slots}, url=hub.url, secret=hub.node_secret, policy="reuse")
            for number in range(1, count + 1)
        ]
        for agent in agents:
            await stack.enter_async_context(agent)
        yield agents


async def test_a_wiped_redis_is_filled_again_and_lends_nothing_twice(
    start_hub: Callable[..., HubProcess], redis: Redis, redis_server: RedisServer
) -> None:
    timeout_s = 6.0
    hubs = [start_hub(HUB_NODE_TIMEOUT=str(timeout_s)) for _ in range(2)]
    async with (
        fleet(hubs[0], 3, 3) as agents,
        HubClient(hubs[0].url, hubs[0].runner_secret) as one,
        HubClient(hubs[1].url, hubs[1].runner_secret) as other,
    ):
        for _ in range(2):
            known = [await client.acquire(POOL, ttl=30, run="long") for client in (one, other)]
            await eventually(lambda known=known: _told(agents, known))
            fresh = [await client.acquire(POOL, ttl=30, run="now") for client in (one, other)]
            held = {slot.id: slot for slot in (*known, *fresh)}
            redis.flushall()
            wiped = time.monotonic()
            # A beat is due after a sixth of the timeout, give or take a tenth; then the node says again what it has.
            await eventually(lambda: _all_back(redis), timeout_s / 6 * 1.1 + 1.0 + SLACK_S)
            print(f"all back after {time.monotonic() - wiped:.2f} s")

            others = []
            with contextlib.suppress(Unavailable):
                while True:
                    others.append(await one.acquire(POOL, ttl=30, wait=PATIENCE_S if not others else 0))
            assert not {slot.id for slot in others} & held.keys()
            assert len(others) == 5
            assert min(int(slot.token) for slot in others) > max(int(slot.token) for slot in held.values())
            for slot in held.values():
                assert (await one.verify(slot.id, slot.token))["valid"] is True
                await one.renew(slot)
            assert await doctor_finds(redis_server.url, timeout_s) == []
            # Each to the hub that lent it: another would not be believed to have taken it back, should Redis be wiped
            # once more in the next two seconds, and the slot would be idle until the lease is over.
            granted = (
                (one, known[0]),
                (other, known[1]),
                (one, fresh[0]),
                (other, fresh[1]),
                *((one, s) for s in others),
            )
            for client, slot in granted:
                assert await client.give_back(slot) is True
            assert len(listed(redis, f"available:{POOL}")) == 9
            assert await doctor_finds(redis_server.url, timeout_s) == []


async def _told(agents: list[NodeAgent], slots: list[Slot]) -> bool:
    return {slot.id for slot in slots} <= {slot for agent in agents for slot in agent.lent}


async def _all_back(redis: Redis) -> bool:
    return (redis.scard("nodes"), redis.llen(f"available:{POOL}") + redis.llen(f"inuse:{POOL}")) == (3, 9)


class Thousand:
    """A thousand agents that beat in bulk for as long as they are told to."""

    def __init__(self, hub: HubProcess) -> None:
        self._hub = hub
        self.names = [f"n{number}" for number in range(1000)]
        self.refused = 0
        self.unknown = 0
        self.beaten = 0.0  # when the last beat of all was acknowledged

    async def register(self) -> None:
        async with self._hub.client("node", timeout=PATIENCE_S) as node:
            for start in range(0, 1000, 100):
                batch = [
                    node.post("/node/register", json={"nodeId": name, "slots": [{"labelKey": POOL, "slotId": name}]})
                    for name in self.names[start : start + 100]
                ]
                assert {answer.status_code for answer in await asyncio.gather(*batch)} == {200}
                await self._beat(node)  # nodes that are registered must not fall behind the others

    async def run(self) -> None:
        async with self._hub.client("node", timeout=5) as node:
            while True:
                try:
                    await self._beat(node)
                except httpx.HTTPError:
                    self.refused += 1
                await asyncio.sleep(0.15)

    async def _beat(self, node: httpx.AsyncClient) -> None:
        answer = await node.post("/node/heartbeats", json={"beats": [{"nodeId": name} for name in self.names]})
        if answer.status_code == 200:
            self.unknown += sum(not each["known"] for each in answer.json()["beats"])
            self.beaten = time.monotonic()


async def test_hubs_away_for_ten_timeouts_expire_no_node_that_comes_back(
    start_hub: Callable[..., HubProcess], redis: Redis
) -> None:
    timeout_s = 2
    settings = {
        "HUB_NODE_TIMEOUT": str(timeout_s), "HUB_NODE_SWEEP_INTERVAL_SECONDS": "0.5", "HUB_SWEEPER_EXPIRE": "false",
    }  # fmt: skip
    first = start_hub(**settings)
    agents = Thousand(first)
    await agents.register()
    async with first.client("admin") as admin:
        assert (await admin.put("/admin/sweeper", json={"expire": True})).status_code == 200
    beating = asyncio.create_task(agents.run())
    agents.unknown = 0
    await asyncio.sleep(2 * timeout_s)
    assert (redis.scard("nodes"), agents.unknown) == (1000, 0)

    first.kill()
    await asyncio.sleep(10 * timeout_s)
    second = start_hub(**settings, HUB_PORT=str(first.port))
    started = time.monotonic()
    await eventually(lambda: _after(agents, started + 3 * timeout_s))
    assert (redis.scard("nodes"), agents.unknown) == (1000, 0), second.log()
    assert agents.refused > 10
    assert "node expired" not in second.log()

    gone = agents.names.pop()
    silent = time.monotonic()
    await eventually(lambda: _is_gone(redis, gone), timeout_s + 0.5 + 2 + SLACK_S)
    print(f"expired after {time.monotonic() - silent:.1f} s")
    await asyncio.sleep(1)
    assert redis.scard("nodes") == 999
    beating.cancel()
    await asyncio.wait([beating])


async def _is_gone(redis: Redis, name: str) -> bool:
    return not redis.sismember("nodes", name)


async def _after(agents: Thousand, moment: float) -> bool:
    return agents.beaten > moment
