"""Redis time of a pass over a million nodes, healthy or dead, and the memory they take."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from redis import Redis

from hub.core import Hub
from hub.sweeping.nodes import NodeSweep, NodeSweeperService
from hub.sweeping.reconciler import Reconciler
from tests.bench import fleet, machine
from tests.bench.report import Figure, Rounds

MANY, FEW = 1_000_000, 10_000
ROUNDS, DEAD, SLOTS_EACH = 9, 1_000, 4
HEALTHY_PASSES = 9
LONG_AGO = "2001-01-01T00:00:00.0000000Z"
SHOWN_USEC = 500  # scripts slower than this are listed by Redis; the promise is 5,000


@dataclass
class Seen:
    """The results of the rounds on one server."""

    redis: Redis
    nodes: int
    per_dead: list[float] = field(default_factory=list)
    slowest_ms: list[float] = field(default_factory=list)


def run() -> list[Figure]:
    """Two servers without an append-only file, which is no part of the figures, and a fleet on each."""
    with ExitStack() as stack:
        many, few = (stack.enter_context(machine.redis_server(appendonly="no")) for _ in range(2))
        return asyncio.run(_measure(Seen(many, MANY), Seen(few, FEW)))


async def _measure(many: Seen, few: Seen) -> list[Figure]:
    started = time.monotonic()
    memory = await _bytes_per_node(many)
    print(f"  {MANY:,} nodes registered in {time.monotonic() - started:.0f} s", flush=True)
    await fleet.register(few.redis, range(FEW))
    healthy = await _healthy_passes(many.redis)
    for number in range(ROUNDS):
        for side in (many, few):
            await _deaths(side, number)
    return [
        _healthy_figure(healthy),
        *_death_figures(many, few),
        Figure("Redis memory per registered idle node", memory, at_most=700, unit=" bytes"),
    ]


async def _bytes_per_node(side: Seen) -> float:
    async with fleet.hub_on(side.redis):  # opens the store and loads the scripts, which is no part of the figure
        before = side.redis.info("memory")["used_memory"]
    await fleet.register(side.redis, range(side.nodes))
    assert side.redis.scard("nodes") == side.redis.zcard("hub:beats") == side.nodes
    assert side.redis.dbsize() >= 2 * side.nodes, "every node has its hash and its alive key"
    return float(side.redis.info("memory")["used_memory"] - before) / side.nodes


async def _healthy_passes(redis: Redis) -> list[float]:
    found = []
    async with fleet.hub_on(redis, node_timeout_s=fleet.FOREVER_S) as hub:
        sweeper = _sweeper(hub)
        for _ in range(HEALTHY_PASSES):
            redis.config_resetstat()
            done = await sweeper.sweep()
            found.append(fleet.usec_of(redis) / 1000)
            assert (done.scanned, done.stale, done.errors) == (MANY, 0, 0), done
    return found


def _sweeper(hub: Hub) -> NodeSweeperService:
    audit = Reconciler(hub.store, hub.settings, hub.pools, hub.holds)
    return NodeSweeperService(hub.store, hub.settings, hub.nodes, hub.clock, audit, hub.audit)


async def _deaths(side: Seen, number: int) -> None:
    """A thousand nodes with slots, one of four lent, die at once; the pass that takes them off the books."""
    dead = range(MANY + number * DEAD, MANY + (number + 1) * DEAD)
    await fleet.register(side.redis, dead)
    async with fleet.hub_on(side.redis, node_timeout_s=fleet.FOREVER_S) as hub:
        await fleet.side_by_side([partial(_give_slots, hub, n) for n in dead], at_once=32)
        _make_stale(side.redis, dead)
        side.redis.config_set("slowlog-log-slower-than", SHOWN_USEC)
        side.redis.slowlog_reset()
        side.redis.config_resetstat()
        done: NodeSweep = await _sweeper(hub).sweep()
        side.per_dead.append(fleet.usec_of(side.redis) / DEAD)
        slow = [entry["duration"] for entry in side.redis.slowlog_get(200)]
        side.slowest_ms.append(max([SHOWN_USEC, *slow]) / 1000)
        assert (done.expired, done.slots, done.ended, done.errors) == (DEAD, DEAD * SLOTS_EACH, DEAD, 0), done
    assert side.redis.scard("nodes") == side.nodes


async def _give_slots(hub: Hub, number: int) -> None:
    node, label = fleet.node_id(number), f"gpu:a100:node-{number}"
    await fleet.publish(hub, node, label, [f"{number}-{n}" for n in range(SLOTS_EACH)])
    await hub.leases.borrow(fleet.wanted(label, f"run-{number % 50}"))


def _make_stale(redis: Redis, numbers: range) -> None:
    pipe = redis.pipeline(transaction=False)
    for number in numbers:
        node = fleet.node_id(number)
        pipe.delete(f"node_alive:{node}")
        pipe.hset(f"node:{node}", "LastSeen", LONG_AGO)
        pipe.zadd("hub:beats", {node: -1000 * fleet.FOREVER_S * 2})
    pipe.execute()


def _healthy_figure(passes: list[float]) -> Figure:
    note = f"{HEALTHY_PASSES} passes, {min(passes):.1f} to {max(passes):.1f} ms"
    return Figure(f"a sweep, {MANY:,} nodes, none dead", median(passes), at_most=20, unit=" ms", note=note)


def _death_figures(many: Seen, few: Seen) -> list[Figure]:
    growth = Rounds.of(many.per_dead, few.per_dead)
    note = f"{median(many.per_dead):.0f} us against {median(few.per_dead):.0f} us, {growth.spread}"
    # Other use of the core makes one script of thousands look slow; a script that is really slow is so in every round.
    slowest = max(min(many.slowest_ms), min(few.slowest_ms))
    worst = max([*many.slowest_ms, *few.slowest_ms])
    return [
        Figure(f"a dead node with {SLOTS_EACH} slots: {MANY:,} nodes against {FEW:,}", growth.median, at_most=1.3,
               note=note),
        Figure("slowest command while they die", slowest, at_most=5, unit=" ms",
               note=f"quietest of {ROUNDS} rounds; worst {worst:.1f} ms"),
    ]  # fmt: skip
