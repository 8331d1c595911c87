"""Redis time of a borrow and of a return, against a script that does one SET, in small and in large pools."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from redis import Redis

from hub.capacity.models import Grant, Wish
from hub.core import Hub
from tests.bench import fleet, machine
from tests.bench.report import Figure, Rounds

ROUNDS = 7
CALLS = 1_000  # of each kind in a round
SMALL, LARGE = 10, 10_000
ONE_SET = "redis.call('SET', KEYS[1], ARGV[1]) return {'ok'}"
POLICIES = ("reuse", "recycle")

Times = dict[str, list[float]]


def run() -> list[Figure]:
    """Everything by turns in each round; the counters are reset before each kind of call."""
    with machine.redis_server() as redis:
        return asyncio.run(_measure(redis))


async def _measure(redis: Redis) -> list[Figure]:
    await fleet.register(redis, range(4))
    async with fleet.hub_on(redis) as hub:
        # A replica of the script that runs as often and in the same company as the hub's.
        one_set = redis.script_load(ONE_SET)
        number = 0
        for size in (SMALL, LARGE):
            for policy in POLICIES:
                label = _label(size, policy)
                names = [f"{policy}-{size}-{n}" for n in range(size)]
                await fleet.publish(hub, fleet.node_id(number), label, names, policy)
                number += 1
        found: Times = defaultdict(list)
        for turn in range(1 + ROUNDS):
            times = await _round(hub, redis, one_set)
            if turn:  # the first round only warms up
                for name, usec in times.items():
                    found[name].append(usec)
    return _figures(found)


def _label(size: int, policy: str) -> str:
    return f"gpu:{policy}:size-{size}"


async def _round(hub: Hub, redis: Redis, one_set: str) -> dict[str, float]:
    times = {}
    store = hub.store
    sets = [partial(store.read, "EVALSHA", one_set, 1, f"bench:{n % 100}", n) for n in range(CALLS)]
    times["one SET"] = await _usec(redis, sets)
    for size in (SMALL, LARGE):
        for policy in POLICIES:
            borrowed = returned = 0.0
            bite = min(size, CALLS)
            for _ in range(CALLS // bite):
                grants, usec = await _borrow(hub, redis, _label(size, policy), bite)
                borrowed += usec * bite
                returned += await _give_back(hub, redis, grants) * bite
            times[f"borrow {policy} {size}"] = borrowed / CALLS
            times[f"return {policy} {size}"] = returned / CALLS
    half, _ = await _borrow(hub, redis, _label(LARGE, "reuse"), LARGE // 2)
    random.Random(7).shuffle(half)
    times["return, half lent"] = await _give_back(hub, redis, half)
    return times


async def _borrow(hub: Hub, redis: Redis, label: str, count: int) -> tuple[list[Grant], float]:
    wishes = [fleet.wish(label) for _ in range(count)]
    grants: list[Grant] = []

    async def borrow(wish: Wish) -> None:
        grants.append(await hub.leases.borrow(wish))

    usec = await _usec(redis, [partial(borrow, wish) for wish in wishes])
    return grants, usec


async def _give_back(hub: Hub, redis: Redis, grants: list[Grant]) -> float:
    return await _usec(redis, [partial(hub.leases.give_back, each.slot, each.label, each.token) for each in grants])


async def _usec(redis: Redis, calls: list[Callable[[], Any]]) -> float:
    """Microseconds a script call took in Redis, on average."""
    redis.config_resetstat()
    await fleet.side_by_side(calls)
    stats = redis.info("commandstats")["cmdstat_evalsha"]
    assert stats["calls"] == len(calls), stats
    return float(stats["usec"]) / len(calls)


def _figures(found: Times) -> list[Figure]:
    figures = []
    unit = median(found["one SET"])
    for what in ("borrow", "return"):
        for policy in POLICIES:
            small, large = found[f"{what} {policy} {SMALL}"], found[f"{what} {policy} {LARGE}"]
            rounds = Rounds.of(small, found["one SET"])
            note = f"{median(small):.1f} us against {unit:.1f} us, {rounds.spread}"
            figures.append(Figure(f"{what}, slot policy {policy}: times one SET", rounds.median, at_most=20, note=note))
            growth = Rounds.of(large, small)
            note = f"{median(large):.1f} us, {growth.spread}"
            name = f"{what}, slot policy {policy}: {LARGE:,} slots against {SMALL}"
            figures.append(Figure(name, growth.median, at_most=1.5, note=note))
    scattered = Rounds.of(found["return, half lent"], found[f"return reuse {SMALL}"])
    note = f"{median(found['return, half lent']):.1f} us, {scattered.spread}"
    figures.append(Figure("return at random, 5,000 lent: against 10 slots", scattered.median, at_most=1.5, note=note))
    return figures
