"""Measure how long the `hub` command takes for its version and for a list of a live hub, against a bare interpreter."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from statistics import median

from tests.bench import machine
from tests.bench.report import Figure, Rounds

ROUNDS = 15
# 150 and 250 ms where an interpreter alone takes 10 ms. Processor time.
TARGETS = {"--version": 15.0, "nodes": 25.0}


def run() -> list[Figure]:
    """Start each of them in turn, one at a time, on the core that is measured."""
    with machine.redis_server() as redis, machine.hub_server(redis) as port:
        environment = {
            **os.environ,
            "HUB_URL": f"http://127.0.0.1:{port}",
            "HUB_RUNNER_SECRET": machine.RUNNER_SECRET,
            "DISABLE_DOTENV": "1",
        }
        commands = {
            "pass": ["-c", "pass"],
            **{words: ["-m", "hub.cli", words] for words in TARGETS},
        }
        waited: dict[str, list[float]] = {name: [] for name in commands}
        used: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(ROUNDS + 1):  # the first of them warms up
            for name, words in commands.items():
                wall_s, cpu_s = _seconds(words, environment)
                if number:
                    waited[name].append(wall_s)
                    used[name].append(cpu_s)
    figures = []
    for words, target in TARGETS.items():
        rounds = Rounds.of(used[words], used["pass"])
        wall = f"done after {min(waited[words]) * 1000:.0f} ms at best, {median(waited[words]) * 1000:.0f} ms mostly"
        note = f"{median(used[words]) * 1000:.0f} ms against {median(used['pass']) * 1000:.0f} ms, {wall}"
        figures.append(
            Figure(f"hub {words} against python -c pass, processor", rounds.median, at_most=target, note=note)
        )
    return figures


def _seconds(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return how long it takes, and how much of that is the processor's."""
    before, started = _used(), time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started, _used() - before


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime
