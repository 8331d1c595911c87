"""The line broken by hand in one way: the doctor finds exactly that, repairs it, and then finds nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import Finding, examine
from tests.capacity.queue.crowd import Crowd, offer

POOL, LONGER, OTHER = "gpu:a100", "gpu:a100:eu", "gpu:h100"


@pytest.fixture
async def line(hub: Hub, redis: Redis) -> AsyncIterator[Redis]:
    """Pool gpu:a100 with one slot that is lent; two wait for it, and one for a pool that has nothing."""
    crowd = Crowd(hub)
    await offer(hub, POOL, "s1")
    await crowd.come("holder", POOL)
    await crowd.come("first", POOL, run="r1", key="first")
    await crowd.come("second", LONGER, run="r2", key="second")
    await crowd.come("third", OTHER, run="r1", key="third")
    await hub.clock.tick()
    assert await look(hub) == []
    yield redis
    await crowd.go_home()


async def look(hub: Hub, *, repair: bool = False) -> list[Finding]:
    """Return an examination of a store whose hub has done nothing for a while but tick."""
    return await examine(hub.store, repair=repair, settings=hub.settings, pause_s=0.01)


def silence(redis: Redis) -> None:
    """The hub that attends all of them was last heard long ago."""
    for hub in redis.zrange("hub:hubs", 0, -1):
        redis.zincrby("hub:hubs", -60_000, hub)


def hub_of(redis: Redis, ticket: str) -> str:
    return str(redis.hget(f"hub:ticket:{ticket}", "hub"))


def forget(redis: Redis, ticket: str, label: str) -> None:
    redis.zrem(f"hub:line:{label}", ticket)
    redis.srem(f"hub:waiters:{hub_of(redis, ticket)}", ticket)
    redis.zrem("hub:patience", ticket)


def push_unnoticed(redis: Redis) -> None:
    item = '{"nodeId":"n1","browserId":"s7"}'
    redis.rpush(f"available:{POOL}", item)
    redis.zadd("hub:open:2", {POOL: 0})
    redis.zadd("hub:pools", {POOL: 0})
    redis.sadd(f"hub:pool_slots:{POOL}", "s7")
    redis.sadd("hub:node_slots:n1", "s7")
    fields = {"item": item, "pool": POOL, "node": "n1", "part": "n1", "place": "free", "policy": "reuse", "idle_ms": ""}
    redis.hset("hub:slot:s7", mapping=fields)


BREAKS: dict[str, tuple[Callable[[Redis], object], set[tuple[str, str, str]]]] = {
    "a waiter nobody would tell": (
        lambda r: r.srem(f"hub:waiters:{hub_of(r, 'first')}", "first"),
        {("C6", "ticket first", "waits, but is not among"), ("C12", "run r1", "the number of its waiters")},
    ),
    "a waiter who would wait for ever": (
        lambda r: r.zrem("hub:patience", "first"),
        {("C12", "ticket first", "waits, and nothing would")},
    ),
    "a ticket nobody would drop": (
        lambda r: r.hset("hub:ticket:lost", mapping={"label": POOL, "run": "r9", "hub": "h"}),
        {("C12", "ticket lost", "neither waits nor")},
    ),
    "a line without a turn": (
        lambda r: r.zrem("hub:turns", OTHER),
        {("C5", f"label {OTHER}", "is waited for, but has"), ("C4", f"label {OTHER}", "freed slots would")},
    ),
    "a turn without a line": (
        lambda r: r.zadd("hub:turns", {"gpu:none": 99}),
        {("C12", "label gpu:none", "has a turn")},
    ),
    "a line that freed slots do not find": (
        lambda r: r.zrem(f"hub:under:{POOL}", LONGER),
        {("C5", f"label {LONGER}", "is waited for, but freed slots")},
    ),
    "a label at its cap that freed slots find": (
        lambda r: (r.hset("hub:caps", f"set:{POOL}", 1), r.hset("hub:store", "capped", 1)),
        {("C4", f"label {POOL}", "freed slots would find it")},
    ),
    "a run with too many waiters": (
        lambda r: r.hset("hub:pending", "r2", 5),
        {("C12", "run r2", "the number of its waiters")},
    ),
    "a run that waits no longer": (
        lambda r: r.hset("hub:pending", "r7", 1),
        {("C12", "run r7", "the number of its waiters")},
    ),
    "a line the store has forgotten": (
        lambda r: r.hdel("hub:store", "waiting"),
        {("C5", "hub:store", "says that no borrower waits")},
    ),
    "a cap the store has forgotten": (
        lambda r: r.hset("hub:caps", "set:gpu:none", 1),
        {("C4", "hub:store", "says that there is no cap")},
    ),
    "a rule the store has forgotten": (
        lambda r: r.hset("hub:rules", "gpu:*", '{"idle":5000}'),
        {("C10", "hub:store", "says that no pool has a rule")},
    ),
    "a free slot beside a waiter": (push_unnoticed, {("C5", f"pool {POOL}", "has a free slot and a waiter")}),
}


@pytest.mark.parametrize("name", BREAKS)
async def test_the_doctor_finds_exactly_what_is_broken_and_repairs_it(name: str, line: Redis, hub: Hub) -> None:
    do, expected = BREAKS[name]
    do(line)
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)  # no hub is there to settle it
    found = await look(hub)
    said = {(each.invariant, each.subject) for each in found}
    assert said == {(invariant, subject) for invariant, subject, _ in expected}
    for invariant, subject, words in expected:
        assert any((f.invariant, f.subject) == (invariant, subject) and f.problem.startswith(words) for f in found)
    assert all(each.repaired for each in await look(hub, repair=True))
    assert await look(hub) == []


async def test_waiters_and_records_of_a_dead_hub_are_removed(line: Redis, hub: Hub) -> None:
    silence(line)
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)
    found = {(each.invariant, each.problem[:18]) for each in await look(hub)}
    assert found == {("C10", "waits, but the hub"), ("C10", "is gone, but waite")}
    await look(hub, repair=True)
    assert await look(hub) == []
    assert line.zcard(f"hub:line:{POOL}") == 0
