"""Redis time of entering the line, giving up and being served, with ever more waiters."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from redis import Redis

from tests.bench import fleet, machine
from tests.bench.crowd import POOL, Crowd, Place, label
from tests.bench.report import Figure, Rounds

SIZES = (100, 1_000, 10_000, 100_000)
SHAPES = {"10 a label": 10, "all for one label": SIZES[-1]}  # waiters per label: at most 10,000 labels, or one
ROUNDS, WARM_UP = 20, 3
BATCH = 50  # calls of each kind in a round: as many as Redis makes between two collections of what scripts leave behind
LOGARITHMIC = 2.5  # log(100,000) / log(100)
ATTENDED_BY = "bench-hub"
KINDS = {"enter": "entering", "cancel": "giving up", "hand over": "returning to a waiter", "pick up": "picking it up"}


@dataclass
class Side:
    """A line of one length on a server of its own, and what its calls took, per round."""

    redis: Redis
    crowd: Crowd
    waiters: int
    labels: int
    usec: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    numbers: Iterable[int] = field(default_factory=itertools.count)
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def newcomers(self, count: int) -> list[Place]:
        """Return the same number of waiters for each label, in random order."""
        numbers = list(itertools.islice(self.numbers, count))
        places = [Place(label(n % self.labels), f"ticket-{n:012d}") for n in numbers]
        self.chance.shuffle(places)
        return places


def run() -> list[Figure]:
    """Servers without an append-only file, which is no part of the figures; every length in every round."""
    with ExitStack() as stack:
        servers = {
            (shape, size): stack.enter_context(machine.redis_server(appendonly="no"))
            for shape, size in itertools.product(SHAPES, SIZES)
        }
        return asyncio.run(_measure(servers))


async def _measure(servers: dict[tuple[str, int], Redis]) -> list[Figure]:
    async with AsyncExitStack() as stack:
        sides = {}
        for (shape, size), redis in servers.items():
            crowd = Crowd(await stack.enter_async_context(fleet.hub_on(redis)), ATTENDED_BY)
            sides[shape, size] = Side(redis, crowd, size, max(1, size // SHAPES[shape]))
            await _fill(sides[shape, size])
        for turn in range(WARM_UP + ROUNDS):
            for side in sides.values():
                await _round(side, counts=turn >= WARM_UP)
        for side in sides.values():
            assert await side.crowd.hub.store.read("ZCARD", "hub:patience") == side.waiters
    return [_figure(sides, shape, kind) for shape, kind in itertools.product(SHAPES, KINDS)]


async def _fill(side: Side) -> None:
    """Lend all of a few slots, and put the other borrowers in the queue."""
    await fleet.register(side.redis, [0])
    await fleet.publish(side.crowd.hub, fleet.node_id(0), POOL, [f"s{n}" for n in range(BATCH)], policy="reuse")
    for _ in range(BATCH):
        await side.crowd.hub.leases.borrow(fleet.wanted(POOL))
    await side.crowd.gather(side.redis, side.newcomers(side.waiters))


async def _round(side: Side, *, counts: bool) -> None:
    """Some enter and give up again; some enter and as many are served."""
    crowd, hub = side.crowd, side.crowd.hub
    found = {}
    come = side.newcomers(BATCH)
    await fleet.usec_per_script(side.redis, [partial(crowd.enter, place) for place in come])
    found["cancel"] = await fleet.usec_per_script(side.redis, [partial(crowd.cancel, place) for place in come])
    come = side.newcomers(BATCH)
    found["enter"] = await fleet.usec_per_script(side.redis, [partial(crowd.enter, place) for place in come])
    slots = [f"s{n}" for n in range(BATCH)]
    tokens = [await hub.store.read("HGET", hub.store.keys.session(slot), "leaseToken") for slot in slots]
    returns = [partial(crowd.hand_over, slot, token) for slot, token in zip(slots, tokens, strict=True)]
    found["hand over"] = await fleet.usec_per_script(side.redis, returns)
    served = await hub.store.read("SMEMBERS", hub.store.keys.handed(ATTENDED_BY))
    assert len(served) == BATCH, served
    found["pick up"] = await fleet.usec_per_script(
        side.redis, [partial(crowd.pick_up, Place(POOL, ticket)) for ticket in served]
    )
    if counts:
        for kind, usec in found.items():
            side.usec[kind].append(usec)


def _figure(sides: dict[tuple[str, int], Side], shape: str, kind: str) -> Figure:
    usec = {size: sides[shape, size].usec[kind] for size in SIZES}
    growth = Rounds.of(usec[SIZES[-1]], usec[SIZES[0]])
    steps = ", ".join(f"{median(usec[size]):.0f}" for size in SIZES)
    note = f"{steps} us at {', '.join(f'{size:,}' for size in SIZES)} waiters, {growth.spread}"
    name = f"{KINDS[kind]}, {shape}: {SIZES[-1]:,} against {SIZES[0]}"
    return Figure(name, growth.median, at_most=LOGARITHMIC, note=note)
