"""Redis time of borrows of several slots, of what is given back while some wait, and how long they wait among others.

`BENCH_BEFORE=REVISION python -m tests.bench bundles` also compares what uses no bundle with the library of that
revision of this repository, such as the commit before a change.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from statistics import median
from typing import Any

from redis import Redis

from hub.capacity.where import parse
from tests.bench import machine
from tests.bench.beside import FOREVER_MS, HUB, Side, usec
from tests.bench.matching import CLASSES, LARGE, PLAIN, POOL, classed, plain, unused
from tests.bench.report import Figure

ROUNDS, WARM_UP, CALLS = 12, 2, 20
MOST_MS = 5  # of Redis time that one script may take
NODE = 8  # slots of a node
SLOTS, SINGLES, BUNDLE = 64, 1_000, 8
PATIENCE_S, LEASE_S, RESERVE_S, BUNDLES = 30, 60, 900, 6
STOPPED_MS = 1  # a last tick so long ago that the hub clock stands still until the benchmark moves it
_numbers = itertools.count()

Part = tuple[str, str, int]  # label, where, count


def run() -> list[Figure]:
    """Each part on a server of its own."""
    figures: list[Figure] = []
    for part in (_at_once, _returns, _waits, unused):
        with machine.redis_server(appendonly="no") as redis:
            figures += part(redis)
    return figures


def ask(side: Side, *parts: Part, same_node: bool = False, wait_ms: int = 0) -> tuple[Any, ...]:
    """Return the call of a borrow of several slots, which may be of labels that nothing is published under."""
    rows = []
    for label, text, count in parts:
        where = parse(text) if text else None
        rows.append([label, where.want if where else "", where.tree if where else "", text, count])
    name = f"bundle-{next(_numbers):024x}"
    wish = json.dumps({"parts": rows, "sameNode": same_node, "together": False})
    return side.command(
        "capacity/borrow_all", bundle=wish, request=name, attempt=name, run=name, wait_ms=wait_ms, hopes=1
    )  # fmt: skip


def _at_once(redis: Redis) -> list[Figure]:
    bare, side, nodes = Side(redis, "plain:"), Side(redis, "classed:"), Side(redis, "nodes:")
    bare.publish(PLAIN, plain(PLAIN, LARGE))
    side.publish(POOL, classed(POOL, LARGE, CLASSES))
    nodes.publish(POOL, plain(POOL, LARGE), apart=NODE)
    rare = "vram == 7"  # one class, of which all but 15 are lent
    of_it = LARGE // CLASSES + (LARGE % CLASSES > 7)
    usec(redis, [side.borrow(POOL, _wanted(rare)) for _ in range(of_it - 15)], only="ok")
    cases = {
        f"16 of {LARGE:,} slots": (bare, [(PLAIN, "", 16)], False, "ok"),
        f"16 of {LARGE:,} slots of {CLASSES} classes, all suit": (side, [(POOL, "vram >= 0", 16)], False, "ok"),
        "16 slots in four parts that overlap": (side, [(POOL, f"vram >= {n}", 4) for n in range(4)], False, "ok"),
        "16 slots in vain, 15 are free": (side, [(POOL, rare, 16)], False, "empty"),
        f"{NODE} on one node, each has {NODE}": (nodes, [(POOL, "", NODE)], True, "ok"),
        f"{NODE + 1} on one node in vain, each has {NODE}": (nodes, [(POOL, "", NODE + 1)], True, "empty"),
    }  # fmt: skip
    return [_figure(redis, name, *case) for name, case in cases.items()]


def _wanted(text: str) -> str:
    where = parse(text)
    return json.dumps([[POOL, where.want, where.tree, text]])


def _figure(redis: Redis, name: str, side: Side, parts: list[Part], same_node: bool, only: str) -> Figure:
    """Return the time of such a borrow in the quietest round; what it gets is given back."""
    found, back = [], []
    for turn in range(WARM_UP + ROUNDS):
        took, answers = usec(redis, [ask(side, *parts, same_node=same_node) for _ in range(CALLS)], only=only)
        if only == "ok":
            returns = [side.command("capacity/return_bundle", bundle=each[1], by="") for each in answers]
            again, _ = usec(redis, returns, only="returned")
            back.append(again / 1000)
        if turn >= WARM_UP:
            found.append(took / 1000)
    note = f"quietest of {ROUNDS} rounds, worst {max(found):.2f}" + (f"; return {min(back):.2f} ms" if back else "")
    return Figure(name, min(found), at_most=MOST_MS, unit=" ms", note=note)


def _returns(redis: Redis) -> list[Figure]:
    """Slots come back one by one while bundles wait that each of them suits and none completes."""
    figures, alone = [], 0.0
    for what, waiting in (("none waits", 0), ("8 bundles wait", 8), ("1,000 bundles wait", 1_000)):
        for same_node in (False, True) if waiting else (False,):
            redis.flushall()
            side = Side(redis, "")
            side.publish(POOL, classed(POOL, LARGE, CLASSES), apart=NODE)
            usec(redis, [side.lend(POOL) for _ in range(LARGE)], only="ok")
            parts: list[Part] = [(POOL, "vram >= 0", 7), (POOL, "", 8), ("gpu:none", "", 1)]
            calls = [ask(side, *parts, same_node=same_node, wait_ms=FOREVER_MS) for _ in range(waiting)]
            if calls:
                usec(redis, calls, only="waiting")
            took = list(_give_back(side, LARGE // 4))
            alone = alone or median(took)
            on = ", each on one node" if same_node else ""
            note = f"{median(took) / alone:.1f} times that of one while none waits; worst {max(took) / 1000:.2f} ms"
            usual = sorted(took)[len(took) // 4]  # the quieter half of the rounds, in the middle
            figures.append(Figure(f"a return, {what}{on}", usual / 1000, at_most=MOST_MS, unit=" ms", note=note))
    return figures


def _give_back(side: Side, count: int) -> Iterator[float]:
    """Yield the microseconds of returns, a few at a time, of slots that stay free."""
    slots = [slot for slot, _ in classed(POOL, count, CLASSES)]
    for start in range(0, count, CALLS):
        some = slots[start : start + CALLS]
        calls = [side.back(POOL, slot, token) for slot, token in zip(some, side.tokens(some), strict=True)]
        yield usec(side.redis, calls, only="returned")[0]


class _Crowd:
    """Slots whose leases last up to a minute, and a crowd that waits for one each; the clock goes on in steps."""

    def __init__(self, redis: Redis) -> None:
        self.side, self.redis, self.chance, self.second = Side(redis, ""), redis, random.Random(11), 0
        self.side.publish(POOL, plain(POOL, SLOTS))
        self.slots = [slot for slot, _ in plain(POOL, SLOTS)]
        redis.hset(self.side.keys.store, mapping={"tick_ms": STOPPED_MS, "clock_ms": 3_600_000})
        self.tick(0)
        usec(redis, [self.side.lend(POOL) for _ in range(SLOTS)], only="ok")
        usec(redis, [self.side.wait(POOL) for _ in range(SINGLES)], only="waiting")
        self.tokens = self.side.tokens(self.slots)
        self.ends = {slot: self.chance.randint(1, LEASE_S) for slot in self.slots}
        self.idle_s = 0  # seconds of slots that were set aside

    def tick(self, ms: int) -> None:
        self.redis.hincrby(self.side.keys.store, "clock_ms", ms)
        self.side.call("store/tick", hub_id=HUB, leader_ms=2_000, limits="reserve=10")
        self.redis.hset(self.side.keys.store, "tick_ms", STOPPED_MS)

    def next_second(self) -> None:
        """Give back what is due, let as many come as were served, and take the round of a hub."""
        self.second += 1
        self.tick(1_000)
        due = [slot for slot, at in self.ends.items() if at <= self.second]
        held = dict(zip(self.slots, self.side.tokens(self.slots), strict=True))
        for slot in due:
            if held[slot]:
                self.redis.execute_command(*self.side.back(POOL, slot, held[slot]))
        self.side.call("capacity/serve_bundles", patience_ms=PATIENCE_S * 1000, reserve_ms=RESERVE_S * 1000)
        now = self.side.tokens(self.slots)
        for slot, before, token in zip(self.slots, self.tokens, now, strict=True):
            if token != before:
                self.ends[slot] = self.second + self.chance.randint(1, LEASE_S)
        self.tokens = now
        self.side.delivered()
        missing = SINGLES - self.redis.zcard(self.side.keys.queue(POOL))
        for _ in range(missing):
            self.redis.execute_command(*self.side.wait(POOL))
        self.idle_s += self.redis.scard(self.side.keys.reserved)


def _waits(redis: Redis) -> list[Figure]:
    crowd, waits = _Crowd(redis), []
    for _ in range(BUNDLES):
        answer = redis.execute_command(*ask(crowd.side, (POOL, "", BUNDLE), wait_ms=FOREVER_MS))
        assert answer[0] in (b"waiting", "waiting"), answer
        began = crowd.second
        while redis.zcard(crowd.side.keys.bundles) and crowd.second - began < 2 * RESERVE_S:
            crowd.next_second()
        waits.append(crowd.second - began)
    note = f"of {BUNDLES}, one after the other: {', '.join(map(str, waits))} s"
    idle = 100 * crowd.idle_s / (crowd.second * SLOTS)
    name = f"longest wait of {BUNDLE} of {SLOTS} slots, {SINGLES:,} wait for one"
    return [
        Figure(name, max(waits), at_most=PATIENCE_S + LEASE_S + 1, unit=" s", note=note),
        Figure("... capacity that was set aside meanwhile", idle, unit=" %"),
    ]
