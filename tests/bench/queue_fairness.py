"""Measure who is served how often while all wait: labels take turns at any load, priorities starve no waiter."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field

import orjson
from redis import Redis

from tests.bench import fleet, machine
from tests.bench.clockwork import Clockwork, scripted_hub
from tests.bench.crowd import POOL, Crowd, Place, label
from tests.bench.report import Figure
from tests.bench.shares import Overtaking, jain, worst_window
from tests.drill.wire import Wire

# All are served from one pool: by its name, as a shorter label of it, and as longer ones.
LABELS = [label(0), POOL, POOL.rpartition(":")[0], *(label(n) for n in range(1, 18))]
HEAVY, LIGHT = LABELS[0], LABELS[1:]
LOAD = 50  # times as many for the heavy label
GRANTS, SLOTS = 2_000, 4
OVERLOAD = 1.5  # grants asked for, per grant there is, where the light labels come and go
DIFFERENCES = (1, 10, 50, 200)  # points of priority between two kinds of waiters of a label
HTTP_GRANTS, BORROWERS = 2_000, 2  # borrowers per light label
HUB = {"HUB_NODE_TIMEOUT": "3600"}  # the node of the slots never beats


@dataclass
class Scene:
    """Slots that are lent, and waiters who get them as they come back, one after the other."""

    time: Clockwork
    crowd: Crowd
    slots: itertools.cycle[str]
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def enter(self, wanted: str, priority: int = 0) -> str:
        """Add one waiter and return its ticket."""
        ticket = f"ticket-{next(self.numbers):06d}"
        await self.crowd.enter(Place(wanted, ticket, priority))
        return ticket

    async def serve(self) -> tuple[str, str]:
        """Give the next slot back; returns the label and the ticket it went to."""
        store, slot = self.crowd.hub.store, next(self.slots)
        before = await store.read("HGET", store.keys.session(slot), "leaseToken")
        await self.crowd.hand_over(slot, before)
        ticket = await store.read("SPOP", store.keys.handed(self.time.hub.clock.hub_id))
        return str(await store.read("HGET", store.keys.session(slot), "labelKey")), str(ticket)


@asynccontextmanager
async def _scene(redis: Redis, slots: int = SLOTS) -> AsyncIterator[Scene]:
    redis.flushall()
    await fleet.register(redis, [0])
    names = [f"s{n}" for n in range(slots)]
    async with scripted_hub(redis) as time:
        await fleet.publish(time.hub, fleet.node_id(0), POOL, names, policy="reuse")
        for _ in names:
            await time.hub.leases.borrow(fleet.wanted(POOL))
        yield Scene(time, Crowd(time.hub, time.hub.clock.hub_id), itertools.cycle(names))


def run() -> list[Figure]:
    """By the scripts with a time of their own, then once for real."""
    with machine.redis_server() as redis:
        figures = asyncio.run(_played(redis))
    return figures + _over_http()


async def _played(redis: Redis) -> list[Figure]:
    return [*await _always_waiting(redis), await _coming_and_going(redis), *await _priorities(redis)]


async def _always_waiting(redis: Redis) -> list[Figure]:
    order = []
    async with _scene(redis) as scene:
        for wanted in LABELS:
            for _ in range(LOAD if wanted == HEAVY else 1):
                await scene.enter(wanted)
                await scene.enter(wanted)
        for _ in range(GRANTS):
            served, _ = await scene.serve()
            order.append(served)
            await scene.enter(served)
    return _shares("", order)


def _shares(where: str, order: list[str]) -> list[Figure]:
    counts = Counter(order)
    note = f"{len(order):,} grants; {HEAVY} has {LOAD} times the load, and got {counts[HEAVY]}"
    return [
        Figure(f"furthest from 1 grant in any {len(LABELS)}{where}", worst_window(order, LABELS), at_most=1, note=note),
        Figure(f"Jain's index of grants per label{where}", jain(counts[each] for each in LABELS), at_least=0.99),
    ]


async def _coming_and_going(redis: Redis) -> Figure:
    """Light labels ask for less than their share, and wait seldom; the heavy one has a line that only grows."""
    chance, seen = random.Random(11), Overtaking()
    rate = OVERLOAD / (LOAD + len(LIGHT))
    async with _scene(redis) as scene:

        async def enter(wanted: str, count: float) -> None:
            for _ in range(int(count) + (chance.random() < count % 1)):
                await scene.enter(wanted)
                seen.enters(wanted)

        await enter(HEAVY, LOAD)
        for _ in range(GRANTS):
            for wanted in LABELS:
                await enter(wanted, rate * LOAD if wanted == HEAVY else rate)
            served, _ = await scene.serve()
            seen.served(served)
    name = "most grants to a label while another waits for its next"
    return Figure(name, seen.most, at_most=2, note=f"load {OVERLOAD:g}, labels that come and go; its turn is 1")


async def _priorities(redis: Redis) -> list[Figure]:
    """One borrower of low priority waits while, each second, one of high priority enters and one is served."""
    late, longest = 0, 0.0
    for points in DIFFERENCES:
        async with _scene(redis, slots=1) as scene:
            ahead = [await scene.enter(POOL, 100) for _ in range(10)]
            low, came = await scene.enter(POOL, 100 - points), scene.time.now_s
            entered, waited = dict.fromkeys(ahead, came), 0
            while True:
                await scene.time.advance(1)
                waited += 1
                entered[await scene.enter(POOL, 100)] = scene.time.now_s
                _, ticket = await scene.serve()
                if ticket == low:
                    break
                late += entered[ticket] - came > points
                assert waited < 1000, "starved"
            longest = max(longest, waited / (points + len(ahead) + 1))
    stream = f"differences of {', '.join(map(str, DIFFERENCES))} points, a constant stream of the higher"
    return [
        Figure("overtaken by who came later than the points are worth", late, at_most=0, note=stream),
        Figure("wait of the low priority against points and line", longest, at_most=1, note="1 point = 1 s"),
    ]


def _over_http() -> list[Figure]:
    """Two hub processes on one store, and borrowers who give back what they get at the other hub and ask again."""
    with ExitStack() as stack:
        stack.enter_context(machine.on_core(machine.LOAD_CORE))
        redis = stack.enter_context(machine.redis_server())
        ports = [stack.enter_context(machine.hub_server(redis, **HUB)) for _ in range(2)]
        asyncio.run(_offer(redis))
        order = asyncio.run(_borrow_and_return(ports))
        free, waited_for = asyncio.run(_left_over(redis))
    where = ", over HTTP"
    note = "two hub processes; every slot is returned at the other hub"
    return [
        *_shares(where, order),
        Figure(f"slots lost, labels waited for in the end{where}", SLOTS - free + waited_for, at_most=0, note=note),
    ]


async def _offer(redis: Redis) -> None:
    await fleet.register(redis, [0])
    async with fleet.hub_on(redis) as hub:
        await fleet.publish(hub, fleet.node_id(0), POOL, [f"s{n}" for n in range(SLOTS)], policy="reuse")


async def _borrow_and_return(ports: list[int]) -> list[str]:
    """Return the labels in the order of their lease tokens, without the start, when some did not wait yet."""
    granted: dict[int, str] = {}
    enough = asyncio.Event()

    async def borrower(number: int, wanted: str) -> None:
        here, there = (Wire([port], machine.RUNNER_SECRET) for port in (ports[number % 2], ports[1 - number % 2]))
        body = orjson.dumps({"labelKey": wanted, "ttlSeconds": 300})
        while not enough.is_set():
            answer = await here.post("/session/borrow", body, 60, f"x-run-id: run-{number}\r\n")
            assert answer.status == 200, answer.body
            granted[int(answer.data["leaseToken"])] = wanted
            given = {"labelKey": POOL, "browserId": answer.data["browserId"], "leaseToken": answer.data["leaseToken"]}
            assert (await there.post("/session/return", orjson.dumps(given), 60)).status == 200
            if len(granted) >= HTTP_GRANTS + 10 * len(LABELS):
                enough.set()

    wanted = [each for each in LABELS for _ in range(BORROWERS * (LOAD if each == HEAVY else 1))]
    await asyncio.gather(*(borrower(number, each) for number, each in enumerate(wanted)))
    return [granted[token] for token in sorted(granted)][5 * len(LABELS) :][:HTTP_GRANTS]


async def _left_over(redis: Redis) -> tuple[int, int]:
    """Count free slots, and labels that are still waited for, after all borrowers have gone."""
    async with fleet.hub_on(redis) as hub:
        (pool,) = await hub.pools.describe([POOL])
        return pool.free, int(await hub.store.read("ZCARD", hub.store.keys.turns))
