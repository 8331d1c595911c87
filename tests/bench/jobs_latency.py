"""From a submit's commit in Redis to the start of the task in a worker that waits for work, over HTTP.

The commit is the time Redis gave the task, the start the worker's first look at the clock: one machine, one clock.
"""

from __future__ import annotations

import random
import secrets
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from statistics import median

import httpx

from tests.bench import jobs_peers, machine
from tests.bench.jobs_hub import jobs_hub
from tests.bench.jobs_peers import Talking, talking
from tests.bench.report import Figure

ROUNDS, EACH, WARM_UP = 5, 200, 50
REST_S = (0.01, 0.03)  # between two tasks: the worker has reported the last one and waits again
ROOM = "bench"


def run() -> list[Figure]:
    """Run one task after the other; Redis, hub, worker and submitter share the cores."""
    token, chance = secrets.token_hex(16), random.Random(7)
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        url = f"http://127.0.0.1:{stack.enter_context(jobs_hub(redis, token))}"
        jobs_peers.let_children_roam()
        command = [sys.executable, str(jobs_peers.SCRIPTS / "hub_starts.py"), url]
        worker = stack.enter_context(talking(command, {"TOKEN": token}))
        (path,) = worker.hear()
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=20) as client:
            [_sample(client, path, worker, chance) for _ in range(WARM_UP)]
            rounds = [[_sample(client, path, worker, chance) for _ in range(EACH)] for _ in range(ROUNDS)]
    return _figures(rounds)


def _sample(client: httpx.Client, path: str, worker: Talking, chance: random.Random) -> float:
    """Seconds from the commit to the start."""
    time.sleep(chance.uniform(*REST_S))
    task = client.post(path, json={"payload": {}}).raise_for_status().json()
    (started,) = worker.hear()
    return float(started) - datetime.fromisoformat(task["created_at"]).timestamp()


def _figures(rounds: list[list[float]]) -> list[Figure]:
    def percentile(samples: list[float], share: float) -> float:
        return 1000 * sorted(samples)[int(share * (len(samples) - 1) + 0.5)]

    p50, p99 = (median(percentile(samples, share) for samples in rounds) for share in (0.5, 0.99))
    worst = 1000 * max(max(samples) for samples in rounds)
    note = f"p50 {p50:.2f} ms, worst of {ROUNDS * EACH:,} {worst:.2f} ms"
    return [Figure("commit of a submit to start in an idle worker, p99", p99, at_most=10, unit=" ms", note=note)]
