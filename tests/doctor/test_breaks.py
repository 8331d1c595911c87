"""Each invariant broken by hand in one way: the doctor finds exactly that, repairs it, and then finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import Finding, examine
from tests.world import age_node, borrow, publish

POOL = "gpu:a100"
ASKED = "gpu:a100:eu"
HOUR_MS = 3_600_000


@pytest.fixture
async def fleet(make_api: Callable[..., Any], redis: Redis, hub: Hub) -> Redis:
    """Node n1 with s1 lent under another label than its pool's, and s2, s3 free; n2 drains and has s9 held back.

    The application has ended: one that serves puts some things right by itself.
    """
    async with make_api() as api:
        await publish(api, "n1", **{POOL: ["s1", "s2", "s3"]})
        assert (await borrow(api, ASKED)).json()["browserId"] == "s1"
        await publish(api, "n2", **{"licence:catia": ["s9"]})
        assert (await api.post("/admin/nodes/n2/drain")).json()["heldBack"] == 1
    await hub.clock.tick()
    assert await look(hub) == []
    return redis


async def look(hub: Hub, *, repair: bool = False) -> list[Finding]:
    """Return an examination of a store on which no hub sweeps."""
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -HOUR_MS)
    return await examine(hub.store, repair=repair, settings=hub.settings, pause_s=0.01)


def item(redis: Redis, slot: str) -> str:
    return str(redis.hget(f"hub:slot:{slot}", "item"))


def clock_ms(redis: Redis) -> int:
    return int(redis.hget("hub:store", "clock_ms") or 0)


def move(redis: Redis, slot: str, source: str, target: str) -> None:
    assert redis.lrem(source, 0, item(redis, slot)) == 1
    redis.rpush(target, item(redis, slot))


def lose_a_beat(redis: Redis) -> None:
    age_node(redis, "n1", 3600)


def below(text: str | None) -> str:
    return str(int(text or 0) - 5)


# name -> (what is broken, {(invariant, subject, the beginning of the problem)})
BREAKS: dict[str, tuple[Callable[[Redis], object], set[tuple[str, str, str]]]] = {
    "a free slot listed twice": (
        lambda r: r.rpush("available:gpu:a100", item(r, "s3")),
        {("C1", "slot s3 in available:gpu:a100", "listed more than once")},
    ),
    "a free slot listed under another label too": (
        lambda r: r.rpush("available:gpu:h100", item(r, "s3")),
        {("C1", "slot s3 in available:gpu:a100, available:gpu:h100", "listed more than once")},
    ),
    "a free slot listed under another label with other text": (
        lambda r: r.rpush("available:gpu:h100", '{"nodeId":"n1","slotId":"s3"}'),
        {("C1", "slot s3 in available:gpu:a100, available:gpu:h100", "listed more than once")},
    ),
    "a lent slot on offer": (
        lambda r: r.rpush("available:gpu:a100", item(r, "s1")),
        {("C1", "slot s1 in available:gpu:a100, inuse:gpu:a100", "listed more than once")},
    ),
    "a lent slot moved to the free list": (
        lambda r: move(r, "s1", "inuse:gpu:a100", "available:gpu:a100"),
        {("C1", "slot s1 in available:gpu:a100", "listed in another place")},
    ),
    "a free slot moved to another pool": (
        lambda r: move(r, "s2", "available:gpu:a100", "available:gpu:h100"),
        {("C1", "slot s2 in available:gpu:h100", "listed in another place")},
    ),
    "a free slot in no list": (
        lambda r: r.lrem("available:gpu:a100", 0, item(r, "s2")),
        {("C1", "slot s2", "in no list")},
    ),
    "a lent slot in no list": (
        lambda r: r.lrem("inuse:gpu:a100", 0, item(r, "s1")),
        {("C1", "slot s1", "in no list")},
    ),
    "a held slot on offer": (
        lambda r: r.rpush("available:licence:catia", item(r, "s9")),
        {
            ("C1", "slot s9 in available:licence:catia", "listed in another place"),
            ("C5", "pool licence:catia", "has free slots, but"),
        },
    ),
    "a slot held back for nothing": (
        lambda r: (r.hdel("hub:duty:n2", "drain"), r.srem("hub:draining", "n2")),
        {("C1", "slot s9", "held back although")},
    ),
    "a rule that would end a lease that there is not": (
        lambda r: r.zadd("hub:lease_limits", {"s2": 10**12}),
        {("C12", "hub:lease_limits s2", "names what")},
    ),
    "a slot on offer that its node has not made fresh": (
        lambda r: (
            r.hset("hub:slot:s2", "owed", "7"), r.hset("hub:store", "freshens", "1"), r.zadd("hub:unfresh", {"s2": 5}),
        ),
        {("C1", "slot s2", "on offer although its node has not made it fresh")},
    ),
    "a slot to be made fresh that is none": (
        lambda r: r.zadd("hub:unfresh", {"s7": 5}),
        {("C12", "hub:unfresh s7", "names what")},
    ),
    "a held slot that is on offer": (
        lambda r: (
            r.hset("hub:slot:s2", "unwell", "ill"), r.hset("hub:store", "holds", "1"), r.zadd("hub:unwell", {"s2": 5}),
        ),
        {("C1", "slot s2", "on offer although its node or an operator holds it")},
    ),
    "a hold of no slot": (
        lambda r: r.zadd("hub:unwell", {"s7": 5}),
        {("C12", "hub:unwell s7", "names what")},
    ),
    "holds of slots that are well or gone": (
        lambda r: r.hset("hub:node_holds:n1", items=["node:s2", "1", "operator:s2", "7|fan", "operator:s77", "8|fan"]),
        {
            ("C12", "hub:node_holds:n1 node:s2", "names what"),
            ("C12", "hub:node_holds:n1 operator:s2", "names what"),
            ("C12", "hub:node_holds:n1 operator:s77", "names what"),
        },
    ),
    "a slot on offer while its node drains": (
        lambda r: (r.hset("hub:duty:n1", "drain", "1"), r.sadd("hub:draining", "n1")),
        {("C1", "slot s2", "on offer although"), ("C1", "slot s3", "on offer although")},
    ),
    "a record without its item": (
        lambda r: r.hdel("hub:slot:s2", "item"),
        {("C1", "slot s2", "the hub's record of it lacks")},
    ),
    "a slot unknown to its pool": (
        lambda r: r.srem("hub:pool_slots:gpu:a100", "s2"),
        {("C1", "slot s2", "not among the slots published")},
    ),
    "a slot unknown to its node": (
        lambda r: r.srem("hub:node_slots:n1", "s2"),
        {("C10", "slot s2", "not among the slots of its node")},
    ),
    "a pool that nobody knows": (
        lambda r: r.zrem("hub:pools", POOL),
        {("C1", "pool gpu:a100", "has slots, but")},
    ),
    "a pool without slots": (
        lambda r: r.zadd("hub:pools", {"gpu:h100": 0}),
        {("C12", "pool gpu:h100", "among the known pools")},
    ),
    "a pool with free slots that is not open": (
        lambda r: r.zrem("hub:open:2", POOL),
        {("C5", "pool gpu:a100", "has free slots, but")},
    ),
    "an open pool that is gone": (
        lambda r: r.zadd("hub:open:2", {"gpu:h100": 0}),
        {("C12", "pool gpu:h100", "among the pools with free slots")},
    ),
    "an open pool under the wrong length": (
        lambda r: r.zadd("hub:open:3", {POOL: 0}),
        {("C12", "pool gpu:a100", "among the pools with free slots")},
    ),
    "a lease without a session": (
        lambda r: r.delete("session:s1"),
        {("C2", "slot s1", "lent, but there is no session")},
    ),
    "a lease without a deadline": (
        lambda r: r.zrem("hub:deadlines", "s1"),
        {("C2", "slot s1", "lent, but no deadline")},
    ),
    "a lease without its footprint": (
        lambda r: r.delete("borrow_ttl:s1"),
        {("C2", "slot s1", "lent, but its footprint was deleted")},
    ),
    "a session of another pool": (
        lambda r: r.hset("session:s1", "poolLabel", "gpu:h100"),
        {("C2", "slot s1", "lent, but the session names another pool")},
    ),
    "a node that is told another token": (
        lambda r: r.hset("hub:lent:n1", "s1", "17"),
        {("C2", "slot s1", "lent, but the token its node is told")},
    ),
    "a node that is not told of a lease": (
        lambda r: r.hdel("hub:lent:n1", "s1"),
        {("C2", "slot s1", "lent, but the token its node is told")},
    ),
    "a counter below a token": (
        lambda r: r.hset("hub:store", "token", r.hget("hub:store", "lost_below") or "0"),
        {("C2", "slot s1", "its token is above the counter")},
    ),
    "a counter below its start": (
        lambda r: (r.hset("hub:store", "token", below(r.hget("hub:store", "lost_below"))), r.delete("session:s1")),
        {("C2", "hub:store", "the token counter is below"), ("C2", "slot s1", "lent, but there is no session")},
    ),
    "a session of a slot that is free": (
        lambda r: r.hset("session:s2", mapping={"browserId": "s2", "labelKey": POOL}),
        {("C3", "slot s2", "not lent, but there is a session")},
    ),
    "a deadline of a slot that is free": (
        lambda r: r.zadd("hub:deadlines", {"s2": clock_ms(r) + HOUR_MS}),
        {("C3", "slot s2", "not lent, but there is a deadline"), ("C12", "hub:deadlines s2", "names what")},
    ),
    "a footprint of a slot that is free": (
        lambda r: r.set("borrow_ttl:s2", "1", ex=60),
        {("C3", "slot s2", "not lent, but there is a footprint")},
    ),
    "an idle footprint of a slot that is held": (
        lambda r: r.set("borrow_idle:s9", "1", ex=60),
        {("C3", "slot s9", "not lent, but there is a footprint")},
    ),
    "a lease in the record of a slot that is free": (
        lambda r: r.hset("hub:slot:s2", "granted_ms", "5"),
        {("C3", "slot s2", "not lent, but its record")},
    ),
    "a token of a slot that is free": (
        lambda r: r.hset("hub:lent:n1", "s2", "5"),
        {("C3", "slot s2", "not lent, but its node"), ("C12", "hub:lent:n1 s2", "names what")},
    ),
    "a lease that is not counted": (
        lambda r: r.zrem("hub:asked:gpu:a100:eu", "s1"),
        {("C4", "slot s1", "lent, but not counted")},
    ),
    "a lease counted for another label": (
        lambda r: r.zadd("hub:asked:gpu:h100", {"s1": 1}),
        {("C4", "hub:asked:gpu:h100 s1", "counts a lease")},
    ),
    "a count of a slot that is gone": (
        lambda r: r.zadd("hub:asked:gpu:a100:eu", {"s77": 1}),
        {("C4", "hub:asked:gpu:a100:eu s77", "counts a lease")},
    ),
    "a lease under two labels": (
        lambda r: r.hset("hub:slot:s1", "label", POOL),
        {("C4", "slot s1", "lent, but session and record"), ("C4", "slot s1", "lent, but not counted")},
    ),
    "a lease that its run does not know": (
        lambda r: r.zrem("hub:run:r1", "s1"),
        {("C4", "slot s1", "lent, but not listed for its run")},
    ),
    "a run that holds what is gone": (
        lambda r: r.zadd("hub:run:r7", {"s77": 1}),
        {("C12", "hub:run:r7 s77", "names what")},
    ),
    "a lease long over": (
        lambda r: r.zadd("hub:deadlines", {"s1": clock_ms(r) - HOUR_MS}),
        {("C10", "slot s1", "its lease is over by more")},
    ),
    "a node long dead": (lose_a_beat, {("C10", "node n1", "silent for longer")}),
    "a node half taken away": (
        lambda r: (
            r.hset("hub:leaving", "n1", "n1"), r.srem("nodes", "n1"), r.zrem("hub:beats", "n1"), r.delete("node:n1")
        ),
        {("C10", "node n1", "off the books, but")},
    ),
    "a draining node that is not listed": (
        lambda r: r.srem("hub:draining", "n2"),
        {("C12", "node n2", "drains, but")},
    ),
    "a listed node that does not drain": (
        lambda r: r.sadd("hub:draining", "n1"),
        {("C12", "node n1", "listed as draining, but")},
    ),
    "a drain deadline of a node that does not drain": (
        lambda r: r.zadd("hub:drain_deadlines", {"n1": 10**12}),
        {("C12", "node n1", "has the deadline of a drain, but")},
    ),
    "a drain of nobody": (
        lambda r: r.sadd("hub:draining", "n7"),
        {("C12", "hub:draining n7", "names what")},
    ),
    "a drain deadline of nobody": (
        lambda r: r.zadd("hub:drain_deadlines", {"n7": 5}),
        {("C12", "hub:drain_deadlines n7", "names what")},
    ),
    "a suspect that is nobody": (
        lambda r: r.sadd("hub:suspects", "n7"),
        {("C12", "hub:suspects n7", "names what")},
    ),
    "a beat of nobody": (
        lambda r: r.zadd("hub:beats", {"n7": 1}),
        {("C12", "hub:beats n7", "names what")},
    ),
    "orders for nobody": (
        lambda r: r.hset("hub:duty:n7", "version", "3"),
        {("C12", "node n7", "orders are kept for it")},
    ),
    "a description of nobody": (
        lambda r: r.hset("node:n7", "Apps", ""),
        {("C12", "node n7", "described, but")},
    ),
    "slots of a node that are gone": (
        lambda r: r.sadd("hub:node_slots:n1", "s77"),
        {("C12", "hub:node_slots:n1 s77", "names what")},
    ),
    "slots of a pool that are gone": (
        lambda r: r.sadd("hub:pool_slots:gpu:h100", "s77"),
        {("C12", "hub:pool_slots:gpu:h100 s77", "names what"), ("C1", "pool gpu:h100", "has slots, but")},
    ),
    "an order about a slot that is gone": (
        lambda r: r.hset("hub:duty:n1", "recycle:s77", "1"),
        {("C12", "hub:duty:n1 s77", "names what")},
    ),
    "a footprint that never lapses": (
        lambda r: r.set("borrow_ttl:s77", "1"),
        {("C12", "slot s77", "a footprint that never lapses")},
    ),
    "a node alive for ever": (
        lambda r: r.persist("node_alive:n1"),
        {("C12", "node_alive:n1", "has no lifetime")},
    ),
    "a marker for ever": (lambda r: r.set("recycle:s2", "1"), {("C12", "recycle:s2", "has no lifetime")}),
    "a request remembered for ever": (
        lambda r: r.set("hub:request:own-1", "x"),
        {("C12", "hub:request:own-1", "has no lifetime")},
    ),
    "a maintenance for ever": (
        lambda r: r.set("maintenance:gpu:h100", "1"),
        {("C12", "maintenance:gpu:h100", "has no lifetime")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
async def test_the_doctor_finds_exactly_what_is_broken_and_repairs_it(name: str, fleet: Redis, hub: Hub) -> None:
    breaks, expected = BREAKS[name]
    breaks(fleet)

    found = await look(hub)
    assert {(each.invariant, each.subject, each.problem[: len(_said(each, expected))]) for each in found} == expected
    assert not any(each.repaired for each in found)

    repaired = await look(hub, repair=True)
    assert {each.subject for each in repaired if not each.repaired} == set()
    assert {(each.invariant, each.subject) for each in repaired} == {(rule, subject) for rule, subject, _ in expected}
    assert await look(hub) == []


def _said(found: Finding, expected: set[tuple[str, str, str]]) -> str:
    """Return the expected beginning this finding has; its whole text when it has none of them."""
    for rule, subject, beginning in expected:
        if (rule, subject) == (found.invariant, found.subject) and found.problem.startswith(beginning):
            return beginning
    return found.problem


# No repair can know how to repair these: an operator has to look.
UNMENDED: dict[str, tuple[Callable[[Redis], object], set[tuple[str, str]]]] = {
    "a key nobody knows": (lambda r: r.set("hub:forgotten", "1"), {("C12", "hub:forgotten")}),
    "a session that is no hash": (
        lambda r: (r.delete("session:s2"), r.set("session:s2", "1")),
        {("C12", "session:s2"), ("C12", "slot s2")},
    ),
    "a list that is no list": (lambda r: r.set("available:gpu:h100", "1"), {("C12", "available:gpu:h100")}),
}


@pytest.mark.parametrize("name", UNMENDED)
async def test_a_finding_that_cannot_be_repaired_is_reported_and_left_alone(name: str, fleet: Redis, hub: Hub) -> None:
    breaks, expected = UNMENDED[name]
    breaks(fleet)
    for repair in (False, True):
        found = await look(hub, repair=repair)
        assert {(each.invariant, each.subject) for each in found} == expected
        assert not any(each.repaired for each in found)
