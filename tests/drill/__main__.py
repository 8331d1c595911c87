"""`python -m tests.drill [--only NAME...]`: the whole drill, or some of it; 1 when a promise is broken."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import uvloop

from tests.bench.machine import need
from tests.drill.report import Outcome, table
from tests.drill.scenarios import SCENARIOS, measure
from tests.drill.stage import BRAKE_PERCENT, Sizes, TooLong


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    options = _options(arguments)
    sizes = Sizes(nodes=options.nodes, waiters=options.waiters, hubs=options.hubs, timeout_s=options.timeout)
    _allow_many_connections()
    print(*_conditions(sizes), sep="\n", flush=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcomes = [runner.run(_told(name, sizes)) for name in options.only or SCENARIOS]
    print("", table(outcomes), "", sep="\n")
    broken = sum(bool(outcome.broken) for outcome in outcomes)
    print(f"{broken} of {len(outcomes)} scenarios broke a promise" if broken else "every promise kept")
    return 1 if broken else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--nodes", type=int, default=Sizes.nodes, help="with two slots each, one of them lent")
    parser.add_argument("--waiters", type=int, default=Sizes.waiters, help="borrowers that wait in the queue")
    parser.add_argument("--hubs", type=int, default=Sizes.hubs, help="hub processes")
    parser.add_argument("--timeout", type=float, default=Sizes.timeout_s, help="the node timeout in seconds")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    return parser.parse_args(arguments)


async def _told(name: str, sizes: Sizes) -> Outcome:
    """Measure one scenario and say at once how it went."""
    started, worked = time.monotonic(), time.process_time()
    try:
        outcome = await measure(name, sizes)
    except (TooLong, AssertionError) as late:  # the latter: a hub or Redis did not come up
        outcome = Outcome(SCENARIOS[name].title, 0, faults=(str(late),))
    took = time.monotonic() - started
    share = (time.process_time() - worked) / took
    print(f"\n{name}: {'; '.join(outcome.broken) or 'kept'}  ({took:.0f} s, {share:.0%} of a core for the load)")
    print(*(f"  {line}" for line in outcome.details), sep="\n", flush=True)
    return outcome


def _conditions(sizes: Sizes) -> list[str]:
    """Return the conditions of the figures, for the head of the report."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    redis = subprocess.run([need("redis-server", "redis-server"), "--version"], capture_output=True, text=True)
    packages = ", ".join(f"{name} {version(name)}" for name in ("redis", "fastapi", "uvicorn"))
    return [
        f"{os.cpu_count()} cores ({model[1] if model else platform.machine()}), load average {os.getloadavg()[0]:.1f}",
        f"Python {platform.python_version()}, {packages}, {re.sub(r' (sha|malloc).*', '', redis.stdout.strip())}",
        f"{sizes.nodes:,} nodes, {2 * sizes.nodes:,} slots, half of them lent under leases of {sizes.lease_s:g} s, "
        f"{sizes.waiters:,} borrowers more than slots, {sizes.hubs} hubs",
        f"node timeout {sizes.timeout_s:g} s, a node sweep every {sizes.sweep_s:g} s, a brake of {BRAKE_PERCENT} %; "
        "Redis with an append-only file, fsync every second",
    ]


def _allow_many_connections() -> None:
    """Every waiter has a connection of its own, here and at its hub."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
