"""Realms on a Redis Cluster of three shards: what each does in a second of its processor, what a script costs there
against a Redis that is no cluster, and how realms spread."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median

from redis import Redis

from hub.core import Hub
from hub.settings import Settings
from hub.store.connection import open_store
from tests.bench import fleet, machine
from tests.bench.report import Figure, Rounds
from tests.cluster import SHARDS, RedisCluster
from tests.replicas import Server
from tests.world import add_node

ROUNDS, PAIRS = 12, 1000
REALMS = 30
LABEL, SLOTS = "gpu:a100", 64


def run() -> list[Figure]:
    """Each shard by turns in each round, beside a Redis that is no cluster and has a replica as each of them has."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hub-bench-")))
        with machine.on_core(machine.LOAD_CORE):
            alone = Server(folder, "save ''")
            stack.callback(alone.kill)
            stack.callback(Server(folder, "save ''", f"replicaof 127.0.0.1 {alone.port}").kill)
            cluster = RedisCluster(folder)
        stack.callback(cluster.stop)
        return asyncio.run(_measure(cluster, alone))


async def _measure(cluster: RedisCluster, alone: Server) -> list[Figure]:
    names = [f"realm-{n:02d}" for n in range(1, REALMS + 1)]
    owners = {name: cluster.owner(f"{{{name}}}:") for name in names}
    ports = sorted({each.port for each in owners.values()})
    assert len(ports) == SHARDS, "no realm lives on one of the shards"
    shards = {port: next(each for each in owners.values() if each.port == port).client() for port in ports}
    chosen = [next(name for name in names if owners[name].port == port) for port in ports]
    rates: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        hubs = [await stack.enter_async_context(_hub(cluster.url, name)) for name in chosen]
        lone = await stack.enter_async_context(_hub(f"redis://127.0.0.1:{alone.port}"))
        for turn in range(1 + ROUNDS):
            for name, hub, server in zip(
                ("alone", *chosen), (lone, *hubs), (alone.client(), *shards.values()), strict=True
            ):
                rate = await _rate(hub, server)
                if turn:  # the first round only warms up
                    rates.setdefault(name, []).append(rate)
        astray = await _astray(hubs[0], ports[0], shards)
    return _figures(rates, chosen, Counter(each.port for each in owners.values()), astray)


@asynccontextmanager
async def _hub(url: str, realm: str = "") -> AsyncIterator[Hub]:
    prefix = f"{{{realm}}}:" if realm else ""
    settings = Settings(redis_url=url, key_prefix=prefix, redis_timeout_s=60.0)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        await hub.agreed.once()
        await add_node(hub, "n1")
        await fleet.publish(hub, "n1", LABEL, [f"s{n}" for n in range(SLOTS)], "reuse")
        yield hub


async def _rate(hub: Hub, server: Redis) -> float:
    """Borrows and returns for each second of the main thread of a server."""
    before = _main_thread_s(server)
    await fleet.side_by_side([partial(_pair, hub)] * PAIRS, at_once=SLOTS)
    return 2 * PAIRS / (_main_thread_s(server) - before)


async def _pair(hub: Hub) -> None:
    lease = await hub.leases.borrow(fleet.wanted(LABEL))
    await hub.leases.give_back(lease.slot, lease.label, lease.token)


def _main_thread_s(server: Redis) -> float:
    found = server.info("cpu")
    return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])


async def _astray(hub: Hub, port: int, shards: dict[int, Redis]) -> int:
    """Commands of a realm at its shard that reached another one, or were sent on from there."""
    for server in shards.values():
        server.config_resetstat()
    await _rate(hub, shards[port])
    moved = sum(int(each["count"]) for server in shards.values() for each in server.info("errorstats").values())
    return moved + sum(fleet.calls_of(server, "fcall") for other, server in shards.items() if other != port)


def _figures(rates: dict[str, list[float]], chosen: list[str], spread: Counter[int], astray: int) -> list[Figure]:
    first = rates[chosen[0]]
    summed = [sum(each) for each in zip(*(rates[name] for name in chosen), strict=True)]
    together, cost = Rounds.of(summed, first), Rounds.of(rates["alone"], first)
    many = f"{median(summed):,.0f} against {median(first):,.0f} borrows and returns a second of the main threads"
    lone = f"{median(rates['alone']):,.0f} a second by a Redis that is none, {cost.spread}"
    busiest = max(spread.values())
    return [
        Figure(f"{SHARDS} shards against one", together.median, at_least=2.6, note=f"{many}, {together.spread}"),
        Figure("a script in a cluster against one in none", cost.median, at_most=1.1, note=lone),
        Figure(f"of {REALMS} realms, the shard that has most", busiest / REALMS, at_most=0.4, note=f"{busiest}"),
        Figure("commands sent to a shard that does not own them", astray, at_most=0),
    ]
