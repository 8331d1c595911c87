"""Redis time of a borrow and of a return, against a script that does one SET, in small and in large pools."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from collections import defaultdict
from functools import partial
from itertools import product
from statistics import median

from redis import Redis

from hub.capacity.models import BorrowRequest, Lease
from hub.core import Hub
from tests.bench import fleet, machine
from tests.bench.report import Figure, Rounds

ROUNDS = 30
CALLS = 100  # of each kind in a round: short, so that what disturbs the machine spoils few of them
HALF_ROUNDS = 5  # of those with half of a large pool lent
SMALL, LARGE = 10, 10_000
ONE_SET = "redis.call('SET', KEYS[1], ARGV[1]) return {'ok'}"
ALONE = 5_000  # slots of a pool for the commands of a borrow alone, each of which takes one and brings none back
POLICIES = ("reuse", "recycle")

Times = dict[str, list[float]]


def run() -> list[Figure]:
    """Everything by turns in each round; the counters are reset before each kind of call."""
    with machine.redis_server() as redis:
        return asyncio.run(_measure(redis))


async def _measure(redis: Redis) -> list[Figure]:
    await fleet.register(redis, range(4))
    one_set = redis.script_load(ONE_SET)
    found: Times = defaultdict(list)
    async with fleet.hub_on(redis) as hub:
        for number, (size, policy) in enumerate(product((SMALL, LARGE), POLICIES)):
            names = [f"{policy}-{size}-{n}" for n in range(size)]
            await fleet.publish(hub, fleet.node_id(number), _label(size, policy), names, policy)
        alone = redis.script_load(await _commands_alone(hub, redis))
        # Skip the first timeout of a store, in which nodes may still report leases: it is not measured.
        redis.hincrby(hub.store.keys.store, "born_ms", -int(2000 * fleet.FOREVER_S))
        for turn in range(3 + ROUNDS):
            times = await _round(hub, redis, one_set, alone)
            if turn >= 3:  # the first rounds only warm up
                for name, usec in times.items():
                    found[name].append(usec)
        for _ in range(HALF_ROUNDS):
            for name, usec in (await _half_lent(hub, redis)).items():
                found[name].append(usec)
        found["borrow marked"].append(await _all_marked(hub, redis))
    return [*_figures(found), *_further_figures(found)]


def _label(size: int, policy: str) -> str:
    return f"gpu:{policy}:size-{size}"


async def _commands_alone(hub: Hub, redis: Redis) -> str:
    """A script of the commands that one borrow sends, for a slot and a request that it is called with, and of nothing
    else: no script that makes the same change in the same keys can cost less.
    """
    label = "gpu:alone:commands"
    await fleet.publish(hub, fleet.node_id(0), label, [f"alone-{n}" for n in range(ALONE)], "reuse")
    with redis.monitor() as monitor:
        wanted = fleet.wanted(label)
        lease = await hub.leases.borrow(wanted)
        redis.echo("over")
        said = [monitor.next_command()]
        while said[-1]["command"] != "ECHO over":
            said.append(monitor.next_command())
    calls = (each["command"].split(" ") for each in said if each["client_type"] == "lua")
    lines = [f"redis.call({', '.join(map(json.dumps, call))})" for call in calls]
    for number, name in enumerate((lease.slot, wanted.request), 1):
        lines = [line.replace(name, f'" .. ARGV[{number}] .. "') for line in lines]
    return "\n".join([*lines, "return {'ok'}"])


async def _round(hub: Hub, redis: Redis, one_set: str, alone: str) -> dict[str, float]:
    store = hub.store
    sets = [partial(store.read, "EVALSHA", one_set, 1, f"bench:{n}", n) for n in range(CALLS)]
    times = {"one SET": await fleet.usec_per_script(redis, sets, "evalsha")}
    fresh = [secrets.token_hex(12) for _ in range(CALLS)]
    bare = [partial(store.read, "EVALSHA", alone, 0, f"alone-{name}", f"try-{name}") for name in fresh]
    times["commands alone"] = await fleet.usec_per_script(redis, bare, "evalsha")
    for size, policy in product((SMALL, LARGE), POLICIES):
        batch = min(size, CALLS)
        borrowed = returned = 0.0
        for _ in range(CALLS // batch):
            grants, usec = await _borrow(hub, redis, _label(size, policy), batch)
            borrowed += usec * batch / CALLS
            returned += await _give_back(hub, redis, grants) * batch / CALLS
        times |= {f"borrow {policy} {size}": borrowed, f"return {policy} {size}": returned}
    return times


async def _half_lent(hub: Hub, redis: Redis) -> dict[str, float]:
    """Returns in an order of their own, from an in-use list of 5,000 that has to be searched for each."""
    grants, _ = await _borrow(hub, redis, _label(LARGE, "reuse"), LARGE // 2)
    random.Random(7).shuffle(grants)
    return {"return half lent": await _give_back(hub, redis, grants)}


async def _all_marked(hub: Hub, redis: Redis) -> float:
    """Borrows from a large pool whose nodes have been asked to replace every slot, and have not yet."""
    keys = hub.store.keys
    names = [f"recycle-{LARGE}-{n}" for n in range(LARGE)]
    await fleet.side_by_side([partial(hub.store.read, "SET", keys.recycle(name), "1", "EX", 120) for name in names])
    grants, usec = await _borrow(hub, redis, _label(LARGE, "recycle"), CALLS)
    await _give_back(hub, redis, grants)
    return usec


async def _borrow(hub: Hub, redis: Redis, label: str, count: int) -> tuple[list[Lease], float]:
    grants: list[Lease] = []

    async def borrow(wanted: BorrowRequest) -> None:
        grants.append(await hub.leases.borrow(wanted))

    return grants, await fleet.usec_per_script(redis, [partial(borrow, fleet.wanted(label)) for _ in range(count)])


async def _give_back(hub: Hub, redis: Redis, grants: list[Lease]) -> float:
    return await fleet.usec_per_script(
        redis, [partial(hub.leases.give_back, each.slot, each.label, each.token) for each in grants]
    )


def _figures(found: Times) -> list[Figure]:
    figures = []
    for what, policy in product(("borrow", "return"), POLICIES):
        small, large = found[f"{what} {policy} {SMALL}"], found[f"{what} {policy} {LARGE}"]
        rounds = Rounds.of(small, found["one SET"])
        note = f"{median(small):.1f} us against {median(found['one SET']):.1f} us, {rounds.spread}"
        figures.append(Figure(f"{what}, policy {policy}: times one SET", rounds.median, at_most=20, note=note))
        growth = Rounds.of(large, small)
        note = f"{median(large):.1f} us, {growth.spread}"
        name = f"{what}, policy {policy}: {LARGE:,} slots against {SMALL}"
        figures.append(Figure(name, growth.median, at_most=1.5, note=note))
    return figures


def _further_figures(found: Times) -> list[Figure]:
    """Return what the lists of the wire, and the replacement of slots, cost when many are lent or marked at once."""
    half = min(found["return half lent"])
    bare = Rounds.of(found["commands alone"], found["one SET"])
    note = f"{median(found['commands alone']):.1f} us, {bare.spread}"
    return [
        Figure("the commands of a borrow alone, without its logic: times one SET", bare.median, note=note),
        Figure(f"return in any order, {LARGE // 2:,} of {LARGE:,} lent", half, unit=" us"),
        Figure(f"borrow, all of {LARGE:,} to be replaced", min(found["borrow marked"]), unit=" us"),
    ]
