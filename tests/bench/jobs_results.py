"""Tasks that come to 1 kB beside tasks that come to nothing: end to end over our HTTP API, in turn on one hub each."""

from __future__ import annotations

import secrets
import sys

from tests.bench import jobs_peers, machine
from tests.bench.jobs_hub import jobs_hub
from tests.bench.jobs_throughput import BEST, Rates, measure
from tests.bench.report import Figure, Rounds

ROUNDS = 5
RESULT_BYTES = 1024


def run() -> list[Figure]:
    """Return the time of a task with a result over that of one without."""
    found: dict[int, list[float]] = {RESULT_BYTES: [], 0: []}
    for _ in range(ROUNDS):
        for size, times in found.items():
            times.append(1 / _hub(size).through)
    rounds = Rounds.of(found[RESULT_BYTES], found[0])
    rates = [sorted(round(1 / time) for time in times) for times in found.values()]
    note = f"{rates[0][ROUNDS // 2]:,}/s against {rates[1][ROUNDS // 2]:,}/s, {rounds.spread}"
    return [Figure("a task that comes to 1 kB over one that comes to nothing", rounds.median, at_most=1.15, note=note)]


def _hub(size: int) -> Rates:
    token = secrets.token_hex(16)
    with machine.redis_server() as redis, jobs_hub(redis, token) as port:
        command = [sys.executable, str(jobs_peers.SCRIPTS / "with_hub.py")]
        return measure(command, f"http://127.0.0.1:{port}", BEST["hub"], {"TOKEN": token, "RESULT_BYTES": str(size)})
