"""Tasks that do nothing, from submit to completed, over our HTTP API against queues whose ends talk to Redis directly.

Redis, worker and submitter - and the hub - share two cores as they like. A task counts when its outcome is on record.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

from tests.bench import jobs_peers, machine
from tests.bench.jobs_hub import jobs_hub
from tests.bench.jobs_peers import talking
from tests.bench.report import Figure, Rounds

ROUNDS = 5
WARM_UP, TASKS = 1_000, 6_000
# Processes of a worker and tasks each runs at a time, at which it is fastest on two cores.
BEST = {"saq": (2, 10), "arq": (1, 50), "taskiq": (2, 20), "bullmq": (2, 10), "hub": (1, 20)}
PEERS = {"saq": "saq", "arq": "arq", "taskiq": "taskiq-redis", "bullmq": "bullmq"}  # by environment: its package


@dataclass(frozen=True)
class Rates:
    """Tasks per second: from the first submit to the last outcome, and submitted."""

    through: float
    submitted: float


def run() -> list[Figure]:
    """Measure every side once a round, each time with new processes and a new Redis."""
    sides: dict[str, Callable[[], Rates]] = {name: partial(_peer, name) for name in PEERS}
    sides["hub"] = _hub
    for name in PEERS:
        jobs_peers.python_of(name)  # installing it is no part of a round
    found: dict[str, list[Rates]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            found[name].append(side())
    return _figures(found)


def _peer(name: str) -> Rates:
    with machine.redis_server() as redis:
        command = [jobs_peers.python_of(name), str(jobs_peers.SCRIPTS / f"with_{name}.py")]
        return measure(command, machine.url_of(redis), BEST[name], {})


def _hub() -> Rates:
    token = secrets.token_hex(16)
    with machine.redis_server() as redis, jobs_hub(redis, token) as port:
        command = [sys.executable, str(jobs_peers.SCRIPTS / "with_hub.py")]
        return measure(command, f"http://127.0.0.1:{port}", BEST["hub"], {"TOKEN": token})


def measure(command: list[str], url: str, best: tuple[int, int], environment: dict[str, str]) -> Rates:
    """Warm up, then submit and wait until the last outcome is on record."""
    jobs_peers.let_children_roam()
    numbers = [str(number) for number in (*best, WARM_UP, WARM_UP + TASKS)]
    with (
        talking([*command, "work", url, *numbers], environment) as worker,
        talking([*command, "submit", url], environment) as submitter,
    ):
        assert submitter.hear() == ["ready"]
        submitter.tell(WARM_UP)
        submitter.hear()
        worker.hear()
        submitter.tell(TASKS)
        began, submitted = (float(word) for word in submitter.hear())
        (done,) = (float(word) for word in worker.hear())
    return Rates(TASKS / (done - began), TASKS / (submitted - began))


def _figures(found: dict[str, list[Rates]]) -> list[Figure]:
    through = {name: [each.through for each in rates] for name, rates in found.items()}
    fastest = max(PEERS, key=lambda name: median(through[name]))
    rounds = Rounds.of(through["hub"], through[fastest])
    note = f"{median(through['hub']):,.0f}/s against {median(through[fastest]):,.0f}/s, {rounds.spread}"
    against = f"no-op tasks end to end against {PEERS[fastest]}, the fastest"
    figures = [Figure(against, rounds.median, at_least=1, note=note)]
    for name, rates in found.items():
        shown = "the hub, over HTTP" if name == "hub" else f"{jobs_peers.version_of(name, PEERS[name])}, to Redis"
        submitted = median(each.submitted for each in rates)
        low, high = min(through[name]), max(through[name])
        processes, concurrency = BEST[name]
        note = f"{low:,.0f} to {high:,.0f}; submitted {submitted:,.0f}/s; {processes} x {concurrency} at a time"
        figures.append(Figure(f"  {shown}", median(through[name]), unit="/s", note=note))
    return figures
