"""What a second of a processor does in one hub process, in two and in four that serve the same store.

Processes share nothing but Redis, so a request should cost each of them what it costs the only one. Here they share
one core, which each keeps until it waits, as one with a core of its own does (where that is permitted, which it is to
root): taking turns by the clock they would spend a quarter of their time on filling its caches again. An application
that only validates a body is measured in the same way.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from statistics import median

from tests.bench import fleet, machine
from tests.bench.borrowing import POOLS, offer, take_back
from tests.bench.jobs_hub import jobs_hub
from tests.bench.jobs_wire import Side
from tests.bench.machine import Load, load
from tests.bench.report import Figure, Rounds

PROCESSES = (1, 2, 4)
CONNECTIONS = 64  # for each process
ROUNDS, SECONDS = 3, 3
PATIENT = {"HUB_NODE_TIMEOUT": "3600", "HUB_WORKER_TIMEOUT_SECONDS": "3600"}  # of nodes that never beat
LEAST = 0.9  # of what one process does: within a tenth
ALONE = "... an application that only validates a body"
TICKS = os.sysconf("SC_CLK_TCK")


def run() -> list[Figure]:
    """Alternate between three hubs of one store; the first round only warms up."""
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        token = secrets.token_hex(16)
        hubs = {
            number: stack.enter_context(jobs_hub(redis, token, until_it_waits=True, HUB_WORKERS=str(number), **PATIENT))
            for number in PROCESSES
        }
        labels = [f"gpu:a100:zone-{n:02d}" for n in range(POOLS)]
        asyncio.run(offer(redis, labels))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        beats, borrows = folder / "beats", folder / "borrows"
        beats.write_text("".join(f'{{"nodeId":"{fleet.node_id(n)}","version":0}}\n' for n in range(POOLS)))
        borrows.write_text("".join(json.dumps({"labelKey": label, "ttlSeconds": 300}) + "\n" for label in labels))
        found: dict[str, dict[int, list[float]]] = {}
        sides = {number: Side(port, token, number * CONNECTIONS) for number, port in hubs.items()}
        for side in sides.values():
            side.register()
        alone = {number: stack.enter_context(machine.baseline_servers("validating", number)) for number in PROCESSES}
        for turn in range(1 + ROUNDS):
            for number, port in hubs.items():
                clients = number * CONNECTIONS
                post = partial(load, "post", port, clients, SECONDS, "/node/heartbeat", machine.NODE_SECRET)
                pairs = partial(load, "pairs", port, clients, SECONDS, machine.RUNNER_SECRET, str(borrows))
                kinds = sides[number].kinds()
                works: dict[str, Callable[[], Load]] = {
                    "heartbeats": partial(post, str(beats)),
                    "borrows and returns": pairs,
                    "submits": kinds["submit"],
                    "claims and reports": kinds["claim, running, completed"],
                }
                for name, work in works.items():
                    per_second = _per_processor_second(partial(used_s, port), work)
                    if turn:
                        found.setdefault(name, {}).setdefault(number, []).append(per_second)
                asyncio.run(take_back(redis))
                port, pids = alone[number]
                post = partial(load, "post", port, clients, SECONDS, "/session/borrow", machine.RUNNER_SECRET)
                per_second = _per_processor_second(partial(_used_s, pids), partial(post, str(borrows)))
                if turn:
                    found.setdefault(ALONE, {}).setdefault(number, []).append(per_second)
        return [_figure(name, number, of) for name, of in found.items() for number in PROCESSES[1:]]


def _per_processor_second(used: Callable[[], float], work: Callable[[], Load]) -> float:
    """Requests that were answered, for each second of a processor that the processes used meanwhile."""
    before = used()
    seen = work()
    return seen.per_second * SECONDS / (used() - before)


def used_s(port: int) -> float:
    """Processor time of all processes of the hub on a port."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if f"HUB_PORT={port}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return _used_s(found)


def _used_s(pids: Iterable[int]) -> float:
    used = 0
    for pid in pids:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
    return used / TICKS


def _figure(name: str, number: int, found: dict[int, list[float]]) -> Figure:
    rounds = Rounds.of(found[number], found[1])
    note = f"{median(found[number]):,.0f} against {median(found[1]):,.0f} a processor second, {rounds.spread}"
    least = None if name == ALONE else LEAST
    return Figure(f"{name}: {number} processes over one", rounds.median, at_least=least, note=note)
