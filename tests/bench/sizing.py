"""Measure what one request costs the hub, Redis and the network, and how much memory it takes: to size a fleet."""

from __future__ import annotations

import asyncio
import json
import secrets
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from redis import Redis

from tests.bench import fleet, machine
from tests.bench.borrowing import POOLS, offer, take_back
from tests.bench.jobs_hub import jobs_hub
from tests.bench.jobs_wire import Side
from tests.bench.machine import Load, load
from tests.bench.processes import PATIENT, used_s
from tests.bench.report import Figure

CONNECTIONS, ROUNDS, SECONDS = 64, 3, 3
SLOTS = 20_000
LABEL = "gpu:a100:sizing"

Cost = tuple[float, float, float]  # of a request: us of the hub, us of Redis, bytes between them


def run() -> list[Figure]:
    """Each kind of request by turns at one hub process; then memory, at a store of its own."""
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        token = secrets.token_hex(16)
        port = stack.enter_context(jobs_hub(redis, token, **PATIENT))
        labels = [f"gpu:a100:zone-{n:02d}" for n in range(POOLS)]
        asyncio.run(offer(redis, labels))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        beats, borrows = folder / "beats", folder / "borrows"
        beats.write_text("".join(f'{{"nodeId":"{fleet.node_id(n)}","version":0}}\n' for n in range(POOLS)))
        borrows.write_text("".join(json.dumps({"labelKey": label, "ttlSeconds": 300}) + "\n" for label in labels))
        side = Side(port, token, CONNECTIONS)
        side.register()
        kinds = side.kinds()
        works: dict[str, Callable[[], Load]] = {
            "heartbeat": partial(
                load, "post", port, CONNECTIONS, SECONDS, "/node/heartbeat", machine.NODE_SECRET, str(beats)
            ),
            "borrow or return": partial(load, "pairs", port, CONNECTIONS, SECONDS, machine.RUNNER_SECRET, str(borrows)),
            "submit of a task": kinds["submit"],
            "claim or report of a task": kinds["claim, running, completed"],
        }
        found: dict[str, list[Cost]] = {}
        for turn in range(1 + ROUNDS):
            for name, work in works.items():
                cost = _cost(redis, port, work)
                if turn:  # the first round only warms up
                    found.setdefault(name, []).append(cost)
            asyncio.run(take_back(redis))
    with machine.redis_server(appendonly="no") as redis:
        memory = asyncio.run(_memory(redis))
    return [*(figure for name, costs in found.items() for figure in _figures(name, costs)), *memory]


def _cost(redis: Redis, port: int, work: Callable[[], Load]) -> Cost:
    hub_s, redis_s, moved = used_s(port), _redis_s(redis), _moved(redis)
    requests = work().per_second * SECONDS
    hub_us, redis_us = 1e6 * (used_s(port) - hub_s), 1e6 * (_redis_s(redis) - redis_s)
    return hub_us / requests, redis_us / requests, (_moved(redis) - moved) / requests


def _redis_s(redis: Redis) -> float:
    found = redis.info("cpu")
    return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])


def _moved(redis: Redis) -> int:
    found = redis.info("stats")
    return int(found["total_net_input_bytes"]) + int(found["total_net_output_bytes"])


async def _memory(redis: Redis) -> list[Figure]:
    """Bytes of a slot on offer, and what it takes more while it is lent."""
    await fleet.register(redis, range(1))
    async with fleet.hub_on(redis) as hub:
        empty = _used(redis)
        await fleet.publish(hub, fleet.node_id(0), LABEL, [f"slot-{n:05d}" for n in range(SLOTS)], "reuse")
        offered = _used(redis)
        await fleet.side_by_side([partial(hub.leases.borrow, fleet.wanted(LABEL)) for _ in range(SLOTS)])
        lent = _used(redis)
    return [
        Figure("memory of a slot", (offered - empty) / SLOTS, unit=" B"),
        Figure("... more while it is lent", (lent - offered) / SLOTS, unit=" B"),
    ]


def _used(redis: Redis) -> int:
    return int(redis.info("memory")["used_memory"])


def _figures(name: str, costs: list[Cost]) -> list[Figure]:
    hub, server, moved = (median(each) for each in zip(*costs, strict=True))
    a_core = f"{1e6 / hub:,.0f} a second of a hub's core, {1e6 / server:,.0f} of the main thread of Redis"
    return [
        Figure(f"{name}: hub", hub, unit=" us", note=a_core),
        Figure(f"{name}: Redis", server, unit=" us"),
        Figure(f"{name}: between them", moved, unit=" B"),
    ]
