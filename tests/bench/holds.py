"""Measure what holds cost: the Redis time of an idle fleet in which slots are held, beside one that never held any."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from statistics import median

from redis import Redis

from hub.capacity.nodes.models import Beat
from hub.core import Hub
from hub.sweeping.nodes import NodeSweeperService
from hub.sweeping.reconciler import Reconciler
from tests.bench import fleet, machine
from tests.bench.report import Figure, Rounds

NODES, SLOTS_EACH, HELD = 100, 100, 200
ROUNDS, CALLS, BEATS = 30, 100, 10  # heartbeats of each node in a round
LABEL = "gpu:a100:idle"

Times = dict[str, list[float]]


def run() -> list[Figure]:
    """Measure two fleets by turns, each on a server of its own."""
    with ExitStack() as stack:
        plain, held = (stack.enter_context(machine.redis_server(appendonly="no")) for _ in range(2))
        return asyncio.run(_measure(plain, held))


async def _measure(plain: Redis, held: Redis) -> list[Figure]:
    found: dict[str, Times] = {"plain": defaultdict(list), "held": defaultdict(list)}
    async with AsyncExitStack() as stack:
        sides = []
        for name, redis in (("plain", plain), ("held", held)):
            await fleet.register(redis, range(NODES))
            hub = await stack.enter_async_context(fleet.hub_on(redis, node_timeout_s=fleet.FOREVER_S))
            await _fill(hub, redis, HELD if name == "held" else 0)
            sides.append((found[name], hub, redis))
        for turn in range(3 + ROUNDS):
            for times, hub, redis in sides:
                measured = await _round(hub, redis)
                if turn >= 3:  # the first rounds only warm up
                    for what, usec in measured.items():
                        times[what].append(usec)
    return [_figure(what, found) for what in found["plain"]]


async def _fill(hub: Hub, redis: Redis, held: int) -> None:
    """Publish the slots and have an operator hold some."""
    for number in range(NODES):  # each has orders from the start, as nodes have that say which process they are
        redis.hincrby(hub.store.keys.orders(fleet.node_id(number)), "version", 1)
    for number in range(NODES):
        await fleet.publish(hub, fleet.node_id(number), LABEL, [f"{number}-{n}" for n in range(SLOTS_EACH)], "reuse")
    for number in range(held):
        await hub.holds.by_operator(f"{number % NODES}-{number // NODES}", "its fan is broken")
    assert redis.llen(f"available:{LABEL}") == NODES * SLOTS_EACH - held
    for number in range(NODES):  # an order of each node, as in any fleet at work: without one there is less to read
        redis.hincrby(hub.store.keys.orders(fleet.node_id(number)), "version", 1)
    # Skip the first timeout of a store, in which nodes may still report leases: it is not measured.
    redis.hincrby(hub.store.keys.store, "born_ms", -int(2000 * fleet.FOREVER_S))


async def _round(hub: Hub, redis: Redis) -> dict[str, float]:
    nodes = [fleet.node_id(number) for number in range(NODES)]
    told = [await hub.nodes.beats.take(Beat(node)) for node in nodes]  # also of the leases of the round before
    beats = [Beat(node, orders.version) for node, orders in zip(nodes, told, strict=True)] * BEATS
    sweeper = NodeSweeperService(
        hub.store,
        hub.settings,
        hub.nodes,
        hub.clock,
        Reconciler(hub.store, hub.settings, hub.pools, hub.holds),
        hub.audit,
    )
    times = {}
    redis.config_resetstat()
    await fleet.side_by_side([partial(hub.nodes.beats.take, beat) for beat in beats])
    times["the heartbeats of its nodes"] = fleet.usec_of(redis)
    redis.config_resetstat()
    await sweeper.sweep()
    times["a sweep"] = fleet.usec_of(redis)
    leases = []

    async def borrow() -> None:
        leases.append(await hub.leases.borrow(fleet.wanted(LABEL)))

    times["a borrow"] = await fleet.usec_per_script(redis, [borrow] * CALLS)
    back = [partial(hub.leases.give_back, lease.slot, lease.label, lease.token) for lease in leases]
    times["a return"] = await fleet.usec_per_script(redis, back)
    return times


def _figure(what: str, found: dict[str, Times]) -> Figure:
    held, plain = found["held"][what], found["plain"][what]
    rounds = Rounds.of(held, plain)
    note = f"{median(held):.1f} us against {median(plain):.1f} us, {rounds.spread}"
    bound = 1.03 if what in ("the heartbeats of its nodes", "a sweep") else None
    name = f"{what}, {HELD} of {NODES * SLOTS_EACH:,} slots held against none"
    return Figure(name, rounds.median, at_most=bound, note=note)
