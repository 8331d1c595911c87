"""Borrow and return over HTTP to a hub that waits for a replica with each grant, beside one on the same Redis that does
not."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.bench import machine
from tests.bench.borrowing import POOLS, offer, take_back
from tests.bench.machine import Load, load
from tests.bench.report import Figure, Rounds

ROUNDS, SECONDS = 7, 3
CONNECTIONS = (1, 64)


def run() -> list[Figure]:
    """Requests per second with HUB_GRANT_REPLICAS=1 over those without, by one borrower and by 64 at once."""
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        port = machine.url_of(redis).rpartition(":")[2]
        stack.enter_context(machine.redis_server(replicaof=f"127.0.0.1 {port}"))
        hubs = {
            number: stack.enter_context(
                machine.hub_server(redis, HUB_NODE_TIMEOUT="3600", HUB_GRANT_REPLICAS=str(number))
            )
            for number in (0, 1)
        }
        labels = [f"gpu:a100:zone-{n:02d}" for n in range(POOLS)]
        asyncio.run(offer(redis, labels))
        bodies = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "borrows"
        bodies.write_text("".join(json.dumps({"labelKey": label, "ttlSeconds": 300}) + "\n" for label in labels))
        found: dict[tuple[int, int], list[Load]] = {}
        for number in range(1 + ROUNDS):
            for at_once in CONNECTIONS:
                for replicas, port in hubs.items():
                    seen = partial(load, "pairs", port, at_once, SECONDS, machine.RUNNER_SECRET, str(bodies))()
                    asyncio.run(take_back(redis))
                    if number:  # the first round only warms up
                        found.setdefault((at_once, replicas), []).append(seen)
        return [_figure(at_once, found[at_once, 1], found[at_once, 0]) for at_once in CONNECTIONS]


def _figure(at_once: int, confirmed: list[Load], plain: list[Load]) -> Figure:
    rates = [[each.per_second for each in loads] for loads in (confirmed, plain)]
    middle = [sorted(each)[ROUNDS // 2] for each in rates]
    faults = sum(each.refused + each.broken for each in (*confirmed, *plain))
    rounds = Rounds.of(*rates)
    note = f"{middle[0]:,.0f} requests/s against {middle[1]:,.0f}/s, {faults} refused, {rounds.spread}"
    who = "one borrower" if at_once == 1 else f"{at_once} borrowers"
    return Figure(f"borrow and return with a replica's word, {who}", rounds.median, note=note)
