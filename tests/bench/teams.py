"""Redis time of hand-offs and of entering the queue among many teams, and of rounds that recall leases for them.

`BENCH_BEFORE=REVISION python -m tests.bench teams` also compares what uses no teams with the library of that revision
of this repository, such as the commit before a change.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from redis import Redis

from tests.bench import machine
from tests.bench.beside import FOREVER_MS, Side, usec
from tests.bench.matching import CALLS, LENT, POOL, Times, _hand_off, _ratio, plain, unused
from tests.bench.report import Figure

TEAMS, WAITERS = 100, 1_000
ROUNDS, WARM_UP = 60, 5
LEASES, LACKING = 10_000, 100
BALANCES = 20
MOST_MS = 5  # of Redis time that one script may take


def run() -> list[Figure]:
    """Each part on a server of its own; both sides of a ratio by turns in each round."""
    figures: list[Figure] = []
    for part in (_hand_offs, _balance, unused):
        with machine.redis_server(appendonly="no") as redis:
            figures += part(redis)
    return figures


def _holder(team: int) -> str:
    said = {"user": f"u{team}", "team": f"team-{team:03d}", "name": "n", "client": "10.0.0.1"}
    return json.dumps(said)


class _Crowd:
    """Slots that some teams have in equal parts, and tickets of some of them."""

    def __init__(self, redis: Redis, name: str, teams: int, waiting: Sequence[int]) -> None:
        self.side, self.waiting, self.at = Side(redis, f"{name}:"), waiting, 0
        for team in range(teams):
            self.set_row(team, {"guarantee": 0, "weight": 1})
        self.side.publish(POOL, plain(POOL, LENT))
        lends = [self.side.borrow(POOL, holder=_holder(n % teams)) for n in range(LENT)]
        self.slots = [answer[1] for answer in usec(redis, lends, only="ok")[1]]
        self.enter(WAITERS)

    def set_row(self, team: int, row: dict[str, int]) -> None:
        text = json.dumps(row | {"by": "bench"})
        self.side.call("teams/set", team=f"team-{team:03d}", pattern="gpu:*", row=text, most=10_000)

    def enter(self, count: int) -> float:
        """Let tickets of the teams enter by turns; return the microseconds of one."""
        calls = []
        for _ in range(count):
            self.at += 1
            team = self.waiting[self.at % len(self.waiting)]
            calls.append(self.side.borrow(POOL, holder=_holder(team), wait_ms=FOREVER_MS))
        return usec(self.side.redis, calls, only="waiting")[0]


def _hand_offs(redis: Redis) -> list[Figure]:
    crowds = {
        "one team": _Crowd(redis, "one", 1, [0]),
        f"{TEAMS} teams": _Crowd(redis, "all", TEAMS, range(TEAMS)),
        f"{TEAMS} teams, one waits": _Crowd(redis, "last", TEAMS, [TEAMS - 1]),
    }
    found: Times = defaultdict(list)
    chance = random.Random(3)
    for turn in range(WARM_UP + ROUNDS):
        for name in sorted(crowds, key=lambda _: chance.random()):
            crowd = crowds[name]
            took = _hand_off(crowd.side, POOL, chance.sample(crowd.slots, CALLS))
            enters = crowd.enter(CALLS)
            if turn >= WARM_UP:
                found[f"hand-off {name}"].append(took)
                found[f"enter {name}"].append(enters)
    one, *others = crowds
    return [
        _ratio(f"{kind}, {name} against one", found, f"{kind} {name}", f"{kind} {one}", 1.5)
        for kind in ("hand-off", "enter")
        for name in others
    ]


def _balance(redis: Redis) -> list[Figure]:
    """A round in which teams below their guarantees wait for what one team has; then one that finds all recalled."""
    side = Side(redis, "")
    teams = LACKING // 10
    side.publish(POOL, plain(POOL, LEASES))
    lends = [side.borrow(POOL, holder=_holder(teams)) for _ in range(LEASES)]
    usec(redis, lends, only="ok")
    for team in range(teams):
        row = json.dumps({"guarantee": 10, "weight": 1, "by": "bench"})
        side.call("teams/set", team=f"team-{team:03d}", pattern="gpu:*", row=row, most=100)
    waits = [side.borrow(POOL, holder=_holder(n % teams), wait_ms=FOREVER_MS) for n in range(LACKING)]
    usec(redis, waits, only="waiting")
    first, again = [], []
    for _ in range(BALANCES):
        first.append(usec(redis, [side.command("teams/balance")], only="ok")[0] / 1000)
        recalled = redis.zrange(side.keys.recalled("gpu:*"), 0, -1)
        assert len(recalled) == LACKING, len(recalled)
        again.append(usec(redis, [side.command("teams/balance")], only="ok")[0] / 1000)
        for slot in recalled:  # as before the round
            redis.hdel(side.keys.slot(slot), "recall_ms", "warned_ms", "ending")
        redis.delete(side.keys.recalled("gpu:*"), side.keys.lease_limits)
    idle = _idle(redis, side)
    note = f"worst {max(first):.2f} ms"
    name = f"{LEASES:,} leases, {LACKING} tickets lack"
    return [
        Figure(f"a round, {name}", median(first), at_most=MOST_MS, unit=" ms", note=note),
        Figure("... and all are recalled already", median(again), at_most=MOST_MS, unit=" ms"),
        Figure("a round in which nobody lacks", idle, at_most=0.5, unit=" ms"),
    ]


def _idle(redis: Redis, side: Side) -> float:
    for team in range(LACKING // 10):
        row = json.dumps({"guarantee": 0, "weight": 1, "by": "bench"})
        side.call("teams/set", team=f"team-{team:03d}", pattern="gpu:*", row=row, most=100)
    return median(usec(redis, [side.command("teams/balance")], only="ok")[0] / 1000 for _ in range(BALANCES))
