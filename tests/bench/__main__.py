"""`python -m tests.bench [NAME...]`: run the benchmarks named, or all; 1 when a promise is not kept."""

from __future__ import annotations

import importlib
import sys
import time

from hub.observability.logs import configure_logs
from hub.settings import Settings
from tests.bench import machine
from tests.bench.report import Figure, kept

BENCHMARKS = {  # name of the module -> what it measures
    "heartbeats": "heartbeats over HTTP to one hub process",
    "borrowing": "borrow and return over HTTP to one hub process",
    "processes": "what a processor second does in one, two and four processes of a hub",
    "replicas": "borrow and return over HTTP when each grant waits for a replica",
    "scripts": "Redis time of a borrow and of a return",
    "matching": "Redis time and memory of `where`, of lines of many wants, and of borrows that use neither",
    "bundles": "Redis time of borrows of several slots at once, and how long they wait among borrows of one",
    "task_slots": "Redis time of claims with slots and under limits, and of claims that use neither",
    "teams": "Redis time of hand-offs among many teams, and of the rounds that recall leases for them",
    "holds": "Redis time of an idle fleet in which slots are held",
    "shards": "realms on a Redis Cluster of three shards, and a script there against one in no cluster",
    "realm_down": "borrow and return in realms of a hub of which another one's store is dead",
    "sizing": "what one request costs the hub and Redis, and what it leaves there",
    "queue_fairness": "shares of labels under unequal load, and priorities",
    "queue_cost": "Redis time of waiting in the queue and of being served, with 100 to 100,000 waiters",
    "queue_handoff": "from a return at one hub to the borrower who waits at another, over HTTP",
    "sweeps": "Redis time of a sweep, and Redis memory, with a million nodes",
    "jobs_wire": "submit, claim and heartbeat of the jobs API over HTTP to one hub process",
    "jobs_throughput": "tasks that do nothing, end to end, against queues that talk to Redis directly",
    "jobs_results": "tasks that come to 1 kB, end to end, beside tasks that come to nothing",
    "jobs_latency": "from a submit's commit to the start of the task in an idle worker",
    "jobs_scale": "Redis time of a claim, and Redis memory, with a million pending tasks",
    "console": "the console: from an event to the pixel, 10,000 nodes, and what fifty open ones cost the hub",
    "command_start": "how long a person waits for the `hub` command",
    "gate": "what a gate adds to a message, and how soon a fresh browser answers through it",
    "records": "a pass over stuck records in a table of a million, in PostgreSQL and in SQLite",
}


def main(names: list[str]) -> int:
    """Return the exit code."""
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        print(f"No such benchmark: {', '.join(unknown)}. There are: {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    configure_logs(Settings(log_level="ERROR"))  # stores without persistence warn of it
    machine.keep_to(machine.SERVER_CORE)
    found: list[Figure] = []
    try:
        print("conditions", *machine.conditions(), sep="\n  ", flush=True)
        for name in names or BENCHMARKS:
            found += measure(name)
    except machine.Missing as error:
        print(error, file=sys.stderr)
        return 1
    short = [figure.name for figure in found if not figure.kept]
    print(f"\n{len(short)} of {len([f for f in found if f.target])} targets missed" if short else "\nevery target met")
    return 0 if kept(found) else 1


def measure(name: str) -> list[Figure]:
    """Run one benchmark and print what it found."""
    started = time.monotonic()
    print(f"\n{name}: {BENCHMARKS[name]}", flush=True)
    figures: list[Figure] = importlib.import_module(f"tests.bench.{name}").run()
    print(*(figure.line() for figure in figures), sep="\n")
    print(f"  ({time.monotonic() - started:.0f} s)", flush=True)
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
