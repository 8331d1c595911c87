"""Redis time and memory of constraints: `where` against a plain borrow, lines of many wants, and all that when unused.

`BENCH_BEFORE=REVISION python -m tests.bench matching` also compares what uses none of it with the library of that
revision of this repository, such as the commit before a change.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from redis import Redis

from hub.capacity.attributes import read_attributes
from hub.capacity.where import parse
from tests.bench import machine
from tests.bench.beside import Side, library_of, usec
from tests.bench.report import Figure, Rounds

POOL, PLAIN = "gpu:a100", "gpu:plain"
LARGE, CLASSES = 10_000, 64
ROUNDS, WARM_UP = 20, 3
PAIRS = 240  # rounds of what is compared with the library before: the bound is as narrow as the noise
CALLS = 50
LENT = 400  # slots that are lent while others wait for them
WAITERS, WANTS = 100_000, 1_000
SHOWN_USEC = 500  # scripts slower than this are listed by Redis; the promise is 5,000

Times = dict[str, list[float]]


def run() -> list[Figure]:
    """Each part on a server of its own; both sides of a ratio by turns in each round."""
    figures = []
    for part in (unused, _borrows, _hand_offs, _memory):
        with machine.redis_server(appendonly="no") as redis:
            figures += part(redis)
    return figures


def attributes(number: int) -> str:
    """Return the attributes of a class as JSON: about what an agent says of a GPU."""
    said = {"vram": number, "zone": f"z{number % 8}", "features": ["nvlink", f"f{number % 5}"], "spot": number % 2 == 0}
    return read_attributes(said)


def wanted(text: str, label: str = POOL) -> str:
    """Return the `alternatives` of a borrow with one `where`."""
    where = parse(text)
    return json.dumps([[label, where.want, where.tree, text]])


def classed(pool: str, count: int, classes: int) -> list[tuple[str, str]]:
    """Return slots of a pool, of so many classes by turns."""
    return [(f"{pool.replace(':', '.')}-{n:06d}", attributes(n % classes)) for n in range(count)]


def plain(pool: str, count: int) -> list[tuple[str, str]]:
    """Return slots of a pool without attributes."""
    return [(slot, "") for slot, _ in classed(pool, count, 1)]


def _lend_all(side: Side, pool: str, count: int) -> list[str]:
    _, answers = usec(side.redis, [side.lend(pool) for _ in range(count)], only="ok")
    return [answer[1] for answer in answers]


def _ratio(name: str, found: Times, of: str, to: str, at_most: float | None = None, *, exact: bool = False) -> Figure:
    rounds = Rounds.of(found[of], found[to])
    note = (
        f"{median(found[of]):.1f} us against {median(found[to]):.1f} us, {rounds.interval if exact else rounds.spread}"
    )
    return Figure(name, rounds.median, at_most=at_most, note=note)


def unused(redis: Redis) -> list[Figure]:
    revision = os.environ.get("BENCH_BEFORE", "")
    if not revision:
        print("  BENCH_BEFORE names no revision: what uses no constraint is compared with nothing", flush=True)
        return []
    before = library_of(revision)
    sides = {
        "before": Side(redis, "before:", before),
        "again": Side(redis, "again:", before),
        "now": Side(redis, "now:"),
    }
    lines = {name: Side(redis, f"{name}-line:", side.library) for name, side in sides.items()}
    lent = {}
    for name, side in sides.items():
        side.publish(POOL, plain(POOL, LARGE))
        lines[name].publish(POOL, plain(POOL, LENT))
        lent[name] = _lend_all(lines[name], POOL, LENT)
        usec(redis, [lines[name].wait(POOL) for _ in range(1_000)], only="waiting")
    found: Times = defaultdict(list)
    chance = random.Random(2)
    for turn in range(WARM_UP + PAIRS):
        for name in sorted(sides, key=lambda _: chance.random()):
            times = _plain_round(sides[name], lines[name], chance.sample(lent[name], CALLS))
            for kind, took in times.items():
                if turn >= WARM_UP:
                    found[f"{kind} {name}"].append(took)
    figures = []
    for kind in ("borrow", "return", "enter", "hand-off"):
        figures.append(
            _ratio(f"unused: {kind} against {revision}", found, f"{kind} now", f"{kind} before", 1.03, exact=True)
        )
        name = f"  the same: {revision} against itself"
        figures.append(_ratio(name, found, f"{kind} again", f"{kind} before", exact=True))
    return figures


def _plain_round(side: Side, line: Side, slots: Sequence[str]) -> dict[str, float]:
    redis, times = side.redis, {}
    times["borrow"], answers = usec(redis, [side.lend(POOL) for _ in range(CALLS)], only="ok")
    times["return"], _ = usec(redis, [side.back(POOL, each[1], each[2]) for each in answers], only="returned")
    times["enter"], _ = usec(redis, [line.wait(POOL) for _ in range(CALLS)], only="waiting")
    times["hand-off"] = _hand_off(line, POOL, slots)
    return times


def _hand_off(side: Side, label: str, slots: Sequence[str]) -> float:
    """Return the microseconds of returns of lent slots, each of which goes to a waiter."""
    returns = [side.back(label, slot, token) for slot, token in zip(slots, side.tokens(slots), strict=True)]
    took, _ = usec(side.redis, returns, only="returned")
    pipe = side.redis.pipeline(transaction=False)
    for slot in slots:
        pipe.hget(side.keys.slot(slot), "place")
    assert set(pipe.execute()) == {"lent"}, "a slot went to no waiter"
    side.delivered()
    return took


WHERE = {  # what is wanted -> its text; 8, 24 and all of the classes suit
    "all suit": "vram >= 0",
    "four clauses": 'vram >= 0 && zone == "z7" && "nvlink" in features && !spot',
    "one class suits": "vram == 7",
    "none suits": "vram > 1000",
}


def _borrows(redis: Redis) -> list[Figure]:
    base, side = Side(redis, "plain:"), Side(redis, "classed:")
    base.publish(PLAIN, plain(PLAIN, LARGE))
    side.publish(POOL, classed(POOL, LARGE, CLASSES))
    small, large, warm = Side(redis, "small:"), Side(redis, "large:"), Side(redis, "warm:")
    small.publish(POOL, classed(POOL, 10, 5))
    large.publish(POOL, classed(POOL, LARGE, 5))
    for n in range(0, LARGE, 250):
        keys = " ".join(f"repo-{(n // 250 * 7 + each * 13) % 500}" for each in range(4))
        warm.publish(POOL, classed(POOL, LARGE, CLASSES)[n : n + 250], keys, node=f"n{n}-")
    chance = random.Random(3)
    all_suit = wanted(WHERE["all suit"])
    calls: dict[str, Callable[[], tuple[float, float]]] = {
        "one": lambda: _there_and_back(base, PLAIN, lambda: base.lend(PLAIN)),
        "plain, classed pool": lambda: _there_and_back(side, POOL, lambda: side.lend(POOL)),
        "never seen": lambda: _there_and_back(
            side, POOL, lambda: side.borrow(POOL, wanted(f"vram >= {-chance.random() * 1e6:f}"))
        ),
        "prefer, warm": lambda: _there_and_back(
            warm, POOL, lambda: warm.borrow(POOL, all_suit, prefer=f"repo-{chance.randrange(40) * 7 % 500} repo-1")
        ),
        "prefer, not warm": lambda: _there_and_back(
            warm, POOL, lambda: warm.borrow(POOL, all_suit, prefer=" ".join(f"none-{n}" for n in range(8)))
        ),
        **{
            name: partial(_there_and_back, each, POOL, partial(each.borrow, POOL, all_suit), of=10)
            for name, each in (("small", small), ("large", large))
        },
        **{
            what: partial(_there_and_back, side, POOL, partial(side.borrow, POOL, wanted(text)), what != "none suits")
            for what, text in WHERE.items()
        },
    }
    found: Times = defaultdict(list)
    for turn in range(WARM_UP + ROUNDS):
        for what, measured in calls.items():
            borrowed, returned = measured()
            if turn >= WARM_UP:
                found[f"borrow {what}"].append(borrowed)
                found[f"return {what}"].append(returned)
    return _borrow_figures(found)


def _there_and_back(
    side: Side, pool: str, call: Callable[[], tuple[Any, ...]], served: bool = True, of: int = CALLS
) -> tuple[float, float]:
    """Return the microseconds of borrows and of the returns after them, so many at a time; 1 where nothing was lent."""
    borrowed = returned = 0.0
    for _ in range(CALLS // of):
        took, answers = usec(side.redis, [call() for _ in range(of)], only="ok" if served else "empty")
        borrowed += took * of / CALLS
        if served:
            took, _ = usec(side.redis, [side.back(pool, each[1], each[2]) for each in answers], only="returned")
            returned += took * of / CALLS
    return borrowed, returned or 1.0


def _borrow_figures(found: Times) -> list[Figure]:
    of_pool = f"{LARGE:,} slots, {CLASSES} classes"
    shown = ("never seen", "plain, classed pool", "prefer, warm", "prefer, not warm")
    return [
        *(_ratio(f"where, {of_pool}, {what}", found, f"borrow {what}", "borrow one", 2.2) for what in WHERE),
        *(_ratio(f"{what}, {of_pool}", found, f"borrow {what}", "borrow one") for what in shown),
        *(_ratio(f"return, {each}", found, f"return {each}", "return one") for each in ("all suit", shown[1])),
        _ratio(f"where, {LARGE:,} slots against 10", found, "borrow large", "borrow small", 1.2),
        _ratio(f"return, {LARGE:,} slots against 10", found, "return large", "return small"),
    ]


def _selective(number: int) -> str:
    """Return an expression of its own that one class suits."""
    return wanted(f"vram == {number % CLASSES} || vram == {-1 - number}")


def _hand_offs(redis: Redis) -> list[Figure]:
    base, side, broad = Side(redis, "plain:"), Side(redis, "lines:"), Side(redis, "broad:")
    base.publish(POOL, plain(POOL, LENT))
    side.publish(POOL, classed(POOL, LENT, CLASSES))
    broad.publish(POOL, classed(POOL, LENT, CLASSES - 1))  # one class may yet come
    lent = {each: _lend_all(each, POOL, LENT) for each in (base, side, broad)}
    wants = [_selective(n) for n in range(WANTS)]
    usec(redis, [base.wait(POOL) for _ in range(WAITERS)], only="waiting")
    usec(redis, [side.wait(POOL, wants[n % WANTS]) for n in range(WAITERS)], only="waiting")
    labels = [f"{POOL}:l{n:04d}" for n in range(WANTS)]
    usec(redis, [_one_shot(broad, label, n) for n, label in enumerate(labels)], only="waiting")
    short = Side(redis, "short:")
    short.publish(PLAIN, plain(PLAIN, LARGE))
    found: Times = defaultdict(list)
    slowest, chance = [], random.Random(5)
    redis.config_set("slowlog-log-slower-than", SHOWN_USEC)
    for turn in range(WARM_UP + ROUNDS):
        redis.slowlog_reset()
        times = {"one": _there_and_back(short, PLAIN, lambda: short.lend(PLAIN))[0]}
        times["enter"], _ = usec(redis, [base.wait(POOL) for _ in range(CALLS)], only="waiting")
        newcomers = [side.wait(POOL, chance.choice(wants)) for _ in range(CALLS)]
        times["enter, wants"], _ = usec(redis, newcomers, only="waiting")
        for name, each in (("hand-off", base), ("hand-off, wants", side), ("hand-off, broad", broad)):
            times[name] = _hand_off(each, POOL, chance.sample(lent[each], CALLS))
        served = [label for label in labels if not redis.exists(broad.keys.queue(label))]
        newcomers = [_one_shot(broad, label, chance.randrange(10**6)) for label in served]
        times["enter, broad"], _ = usec(redis, newcomers, only="waiting")
        times |= {
            "cap": _cap(base, chance.sample(lent[base], 32)),
            "cap, wants": _cap(side, chance.sample(lent[side], 32)),
        }
        broad.publish(PLAIN, [("new-slot", attributes(1_000 + turn))], node="new")
        broad.call("capacity/withdraw", slot="new-slot", node="new00000", part="new00000")
        slow = [each["duration"] for each in redis.slowlog_get(256) if each["command"].startswith(b"FCALL")]
        if turn >= WARM_UP:
            slowest.append(max([SHOWN_USEC, *slow]) / 1000)
            for what, took in times.items():
                found[what].append(took)
    return _hand_off_figures(found, slowest)


def _one_shot(side: Side, label: str, number: int) -> tuple[Any, ...]:
    """Return the call of a waiter with an expression of its own that every class suits."""
    return side.wait(label, wanted(f"vram >= {-number}", label))


def _cap(side: Side, slots: Sequence[str]) -> float:
    """Return the microseconds of a call that takes a cap away under which so many slots became free."""
    side.call("queue/set_cap", label=POOL, cap=1)
    usec(side.redis, [side.back(POOL, *each) for each in zip(slots, side.tokens(slots), strict=True)], only="returned")
    took, _ = usec(side.redis, [side.command("queue/set_cap", label=POOL, cap="")])
    assert not side.redis.exists(side.keys.available(POOL))
    side.delivered()
    return took


def _hand_off_figures(found: Times, slowest: list[float]) -> list[Figure]:
    of_line, broad = f"{WAITERS:,} waiters, {WANTS:,} wants", f"a want each, {CLASSES} classes suit: of a borrow"
    note = f"quietest of {ROUNDS} rounds; worst {max(slowest):.1f} ms"
    return [
        _ratio(f"hand-off, {of_line}", found, "hand-off, wants", "hand-off", 1.3),
        _ratio(f"entering, {of_line}", found, "enter, wants", "enter"),
        _ratio(f"a cap taken away, 32 served, {WANTS:,} wants", found, "cap, wants", "cap"),
        _ratio(f"hand-off, {broad}", found, "hand-off, broad", "one", 12),
        _ratio(f"entering, {broad}", found, "enter, broad", "one"),
        Figure("longest script while they wait", min(slowest), at_most=5, unit=" ms", note=note),
    ]


def _used(redis: Redis) -> int:
    return int(redis.info("memory")["used_memory"])


def _memory(redis: Redis) -> list[Figure]:
    bytes_of = {}
    for name, slots in (("plain", plain(POOL, LARGE)), ("classed", classed(POOL, LARGE, CLASSES))):
        redis.flushall()  # the tables of keys and of clients have grown as far for both
        side = Side(redis, "")
        before = _used(redis)
        side.publish(POOL, slots)
        bytes_of[name] = (_used(redis) - before) / LARGE
    note = f"{bytes_of['classed']:.0f} against {bytes_of['plain']:.0f}"
    more = bytes_of["classed"] - bytes_of["plain"]
    shapes = {"100 labels": (100, 100), "one label": (1, None), "a label for each": (WANTS, None)}
    return [
        Figure("Redis memory of a free slot with a class, above others", more, at_most=450, unit=" bytes", note=note),
        *(
            Figure(f"... of a line and a class that suits it, {shape}", _per_line(redis, labels), None, most, " bytes")
            for shape, (labels, most) in shapes.items()
        ),
    ]


def _per_line(redis: Redis, labels: int) -> float:
    """Return the bytes of a line for each class that suits it, above those of one that no class suits."""
    bytes_of = {}
    for name, low in (("none", 10**6), ("all", -(10**6))):
        side = Side(redis, f"{name}-{labels}:")
        side.publish(POOL, classed(POOL, CLASSES, CLASSES))
        _lend_all(side, POOL, CLASSES)
        names = [f"{POOL}:l{n % labels:04d}" for n in range(WANTS)]
        before = _used(redis)
        calls = [side.wait(label, wanted(f"vram >= {low - n}", label)) for n, label in enumerate(names)]
        usec(redis, calls, only="waiting")
        bytes_of[name] = (_used(redis) - before) / (WANTS * CLASSES)
    return bytes_of["all"] - bytes_of["none"]
