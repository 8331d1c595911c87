"""Redis time of claims of tasks that need slots, of claims under limits, and of what uses neither.

`BENCH_BEFORE=REVISION python -m tests.bench task_slots` also compares what uses no need and no limit with the library
of that revision of this repository, such as the commit before a change.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

from redis import Redis

from hub.capacity.models import LeaseHolder
from hub.capacity.wishes import BundlePart, BundleWish
from tests.bench import machine
from tests.bench.beside import Side, library_of, usec
from tests.bench.matching import LARGE, POOL, plain
from tests.bench.report import Figure, Rounds

PAIRS, WARM_UP, CALLS = 60, 5, 50
UNUSED = 240  # rounds of what is compared with the library before: the bound is as narrow as the noise
FEW, MANY, KEYS = 10, 100_000, 10_000
TIMES_MOST = 1.3  # a claim with many tasks and values against one with few
MOST_MS = 5  # of Redis time that one script may take
USER, JOB, WORKER = "a" * 32, "r1:m:A", "1" * 32
HOLDER = LeaseHolder("ann", "ml", "worker", "127.0.0.1", USER).text
BY_KEY = json.dumps([{"key": "customer", "running": 1}])
_numbers = itertools.count()

Times = dict[str, list[float]]


def run() -> list[Figure]:
    """Each part on a server of its own."""
    figures: list[Figure] = []
    for part in (_unused, _limited, _with_slots, _new_limits):
        with machine.redis_server(appendonly="no") as redis:
            figures += part(redis)
    return figures


class _Jobs(Side):
    """A store with a worker of one job."""

    def serve(self, *, needs: str = "", limits: str = "") -> None:
        word = self.call(
            "jobs/register", full=JOB, id=f"{next(_numbers):032x}", schema="{}", digest="{}", worker=WORKER, user=USER,
            made_for="known" if self.redis.exists(self.keys.worker(WORKER)) else "new", attempts=1, backoff_ms=1000,
            validate=0, needs=needs, limits=limits,
        )[0]  # fmt: skip
        assert word in ("created", "joined"), word

    def submit(self, payloads: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return a call for each payload."""
        return [
            self.command(
                "tasks/submit", [f"{next(_numbers):032x}", payload], full=JOB, room="r1", user=USER, due_us=0,
                attempts=1, backoff_ms=0, silence_ms=0, told=0, later=0,
            )
            for payload in payloads
        ]  # fmt: skip

    def claim(self, count: int) -> list[tuple[Any, ...]]:
        """Return calls of claims of one task each."""
        return [
            self.command(
                "tasks/claim", worker=WORKER, user=USER, most=1, start=1, runtime_ms=0,
                request=f"claim-{next(_numbers)}", final=0, holder=HOLDER, slots_ms=90_000,
            )
            for _ in range(count)
        ]  # fmt: skip

    def complete(self, answers: Sequence[list[Any]]) -> list[tuple[Any, ...]]:
        """Return calls of reports that the tasks of these claims are completed."""
        return [
            self.command(
                "tasks/finish", [answer[1][0], "completed", "", answer[1][16], ""], worker=WORKER, user=USER,
                request=f"end-{next(_numbers)}",
            )
            for answer in answers
        ]  # fmt: skip

    def beat(self, count: int) -> list[tuple[Any, ...]]:
        """Return calls of heartbeats."""
        return [self.command("workers/beat", [WORKER, USER]) for _ in range(count)]

    def round(self, payloads: Sequence[str]) -> dict[str, float]:
        """Submit tasks, claim as many and complete those; return the microseconds that a call of each kind took."""
        times = {}
        times["submit"], _ = usec(self.redis, self.submit(payloads), only="ok")
        times["claim"], answers = usec(self.redis, self.claim(len(payloads)), only="ok")
        assert all(len(answer) == 2 for answer in answers), answers[-1]
        times["heartbeat"], _ = usec(self.redis, self.beat(len(payloads)))
        times["complete"], _ = usec(self.redis, self.complete(answers))
        return times


def _ratio(name: str, found: Times, one: str, other: str, at_most: float | None) -> Figure:
    """Return the median of the ratios of rounds that were measured one after the other."""
    rounds = Rounds.of(found[one], found[other])
    note = f"{median(found[one]):.1f} us against {median(found[other]):.1f} us, {rounds.interval}"
    return Figure(name, rounds.median, at_most=at_most, note=note)


def _unused(redis: Redis) -> list[Figure]:
    revision = os.environ.get("BENCH_BEFORE", "")
    if not revision:
        print("  BENCH_BEFORE names no revision: jobs without needs and limits are compared with nothing", flush=True)
        return []
    before = library_of(revision)
    sides = {"before": _Jobs(redis, "before:", before), "again": _Jobs(redis, "again:", before),
             "now": _Jobs(redis, "now:")}  # fmt: skip
    for side in sides.values():
        side.serve()
        usec(redis, side.submit(["{}"] * 1_000), only="ok")
    found, chance = defaultdict(list), random.Random(3)
    for turn in range(WARM_UP + UNUSED):
        for name in sorted(sides, key=lambda _: chance.random()):
            for kind, took in sides[name].round(["{}"] * CALLS).items():
                if turn >= WARM_UP:
                    found[f"{kind} {name}"].append(took)
    figures = []
    for kind in ("submit", "claim", "heartbeat", "complete"):
        bound = 1.03 if kind == "claim" else None
        figures.append(_ratio(f"unused: {kind} against {revision}", found, f"{kind} now", f"{kind} before", bound))
        figures.append(_ratio("  the same: before against itself", found, f"{kind} again", f"{kind} before", None))
    return figures


def _limited(redis: Redis) -> list[Figure]:
    """A limit by key: a few tasks of one job wait beside as many values, or many tasks beside many values."""
    sides = {"bare": _Jobs(redis, "bare:"), "few": _Jobs(redis, "few:"), "many": _Jobs(redis, "many:")}
    sides["bare"].serve()
    sides["few"].serve(limits=BY_KEY)
    sides["many"].serve(limits=BY_KEY)
    # One task of each value runs, so that the others wait.
    for name, count, values in (("few", FEW, 2), ("many", MANY, KEYS)):
        side = sides[name]
        usec(redis, side.submit([_of(value) for value in range(values)]), only="ok")
        usec(redis, side.claim(values), only="ok")
        usec(redis, side.submit([_of(number % values) for number in range(count)]), only="ok")
    found, chance = defaultdict(list), random.Random(5)
    for turn in range(WARM_UP + PAIRS):
        for name in sorted(sides, key=lambda _: chance.random()):
            fresh = [_of(f"new-{next(_numbers)}") for _ in range(CALLS)]
            for kind, took in sides[name].round(fresh).items():
                if turn >= WARM_UP:
                    found[f"{kind} {name}"].append(took)
    figures = []
    for kind in ("submit", "claim", "complete"):
        many, few = f"{kind} many", f"{kind} few"
        name = f"{kind} with a limit by key, {MANY:,} wait of {KEYS:,} values"
        figures.append(_ratio(f"{name}, against {FEW}", found, many, few, TIMES_MOST))
        figures.append(_ratio(f"{kind} with a limit by key against none", found, few, f"{kind} bare", None))
    return figures


def _of(value: Any) -> str:
    return json.dumps({"customer": value})


def _with_slots(redis: Redis) -> list[Figure]:
    """A claim that takes one slot, beside a claim and a borrow."""
    bare, side, lends = _Jobs(redis, "bare:"), _Jobs(redis, "slots:"), Side(redis, "lends:")
    bare.serve()
    side.serve(needs=BundleWish((BundlePart(POOL, number=1),)).text)
    side.publish(POOL, plain(POOL, LARGE))
    lends.publish(POOL, plain(POOL, LARGE))
    found: Times = defaultdict(list)
    for turn in range(WARM_UP + PAIRS):
        for name, jobs in (("bare", bare), ("slots", side)):
            for kind, took in jobs.round(["{}"] * CALLS).items():
                if turn >= WARM_UP:
                    found[f"{kind} {name}"].append(took)
        took, answers = usec(redis, [lends.lend(POOL) for _ in range(CALLS)], only="ok")
        if turn >= WARM_UP:
            found["borrow"].append(took)
        usec(redis, [lends.back(POOL, each[1], each[2]) for each in answers], only="returned")
    beside = [one + two for one, two in zip(found["claim bare"], found["borrow"], strict=True)]
    found["beside"] = beside
    return [
        Figure("claim of a task with one slot", median(found["claim slots"]) / 1000, at_most=MOST_MS, unit=" ms"),
        _ratio("... against a claim and a borrow", found, "claim slots", "beside", None),
        _ratio("end of a task with one slot against one without", found, "complete slots", "complete bare", None),
        _ratio("heartbeat with 50 tasks with slots against none", found, "heartbeat slots", "heartbeat bare", None),
    ]


def _new_limits(redis: Redis) -> list[Figure]:
    """The longest script while a job with many tasks and values gets other limits, until all are let in again."""
    side = _Jobs(redis, "")
    side.serve(limits=BY_KEY)
    usec(redis, side.submit([_of(number % KEYS) for number in range(MANY)]), only="ok")
    redis.config_resetstat()
    side.serve(limits=json.dumps([{"key": "customer", "running": 2}]))
    took, rounds = _spent(redis), []
    while redis.exists(side.keys.limit_backlog(JOB), side.keys.limit_old(JOB)):
        redis.config_resetstat()
        side.call("tasks/let_in", limit=1_000)
        rounds.append(_spent(redis))
    name = f"other limits for {MANY:,} tasks of {KEYS:,} values"
    return [
        Figure(name, took, at_most=MOST_MS, unit=" ms"),
        Figure(
            "... a round that lets some in again",
            median(rounds),
            at_most=MOST_MS,
            unit=" ms",
            note=f"of {len(rounds):,}; the longest {max(rounds):.1f} ms",
        ),
    ]


def _spent(redis: Redis) -> float:
    """Return the ms of Redis that one call took."""
    stats = redis.info("commandstats")["cmdstat_fcall"]
    assert stats["calls"] == 1, stats
    return float(stats["usec"]) / 1000
