"""Classes and lines broken by hand in one way: the doctor finds exactly that, repairs it, and then finds nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import Finding, examine
from hub.store.keys import TABLE
from tests.doctor.classed import ask, class_name, offer, take, want_of

POOL, LONGER, OTHER = "gpu:a100", "gpu:a100:eu", "gpu:h100"
SMALL, LARGE, LENT = class_name(vram=24), class_name(vram=40), class_name(vram=80)
HUGE, NONE = want_of("vram >= 80"), want_of("vram > 1000")
UNKNOWN = "0" * 16


@pytest.fixture
async def store(hub: Hub, redis: Redis) -> Redis:
    """Pool gpu:a100 with s1 and s2 of 24 and s3 of 40 free, s4 of 80 lent, s5 without attributes free. Tickets wait:
    one that wants 80 of gpu:a100 or of gpu:h100, one the same of gpu:a100:eu, one what no slot has, and a plain one of
    gpu:h100.
    """
    await hub.clock.tick()
    await offer(hub, POOL, {"s4": {"vram": 80}})
    assert await take(hub, POOL, "vram == 80") == "s4"
    for slot, vram in (("s1", 24), ("s2", 24), ("s3", 40)):
        await offer(hub, POOL, {slot: {"vram": vram}}, warm="repo-1")
    await offer(hub, POOL, {"s5": None})
    assert (await ask(hub, "either", (POOL, "vram >= 80"), (OTHER, "vram >= 80")))[0] == "waiting"
    assert (await ask(hub, "longer", (LONGER, "vram >= 80")))[0] == "waiting"
    assert (await ask(hub, "vain", (OTHER, "vram > 1000")))[0] == "waiting"
    assert (await ask(hub, "plain", (OTHER, "")))[0] == "waiting"
    assert await look(hub) == []
    return redis


async def look(hub: Hub, *, repair: bool = False) -> list[Finding]:
    """Return an examination of a store on which no hub sweeps, and whose waiters are attended."""
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)
    return await examine(hub.store, repair=repair, settings=hub.settings, pause_s=0.01)


def push_unnoticed(redis: Redis) -> None:
    """Put a slot on offer, as a node would, without a look at who waits."""
    item = '{"nodeId":"n1","browserId":"s9"}'
    redis.rpush(f"available:{POOL}", item)
    redis.sadd(f"hub:pool_slots:{POOL}", "s9")
    redis.sadd("hub:node_slots:n1", "s9")
    fields = {"item": item, "pool": POOL, "node": "n1", "part": "n1", "place": "free", "policy": "reuse", "idle_ms": ""}
    redis.hset("hub:slot:s9", mapping={**fields, "class": LENT})
    redis.hincrby(f"hub:pool_classes:{POOL}", LENT, 1)
    redis.hincrby(f"hub:class:{LENT}", "slots", 1)
    redis.zadd(f"hub:order:{POOL}", {"s9": 5})
    redis.zadd(f"hub:free:{POOL} {LENT}", {"s9": 5})
    redis.zadd(f"hub:free_classes:{POOL}", {LENT: 5})
    redis.zadd(f"hub:open_class:2 {LENT}", {POOL: 0})


BREAKS: dict[str, tuple[Callable[[Redis], object], set[tuple[str, str, str]]]] = {
    "a free slot that its class does not list": (
        lambda r: r.zrem(f"hub:free:{POOL} {LARGE}", "s3"),
        {("C5", "slot s3", "free, but not listed under"), ("C12", f"hub:free_classes:{POOL} {LARGE}", "names what"),
         ("C12", f"hub:open_class:2 {LARGE} {POOL}", "names what")},
    ),
    "a free slot that is not listed by what is warm in it": (
        lambda r: r.zrem(f"hub:warm:{POOL} repo-1", "s3"),
        {("C5", "slot s3", "free, but not listed under")},
    ),
    "a free slot without a place": (
        lambda r: r.zrem(f"hub:order:{POOL}", "s3"),
        {("C5", "slot s3", "free, but not listed under")},
    ),
    "a lent slot with a place in the free list": (
        lambda r: r.zadd(f"hub:order:{POOL}", {"s4": 5}),
        {("C12", f"hub:order:{POOL} s4", "names what")},
    ),
    "a lent slot that its class lists": (
        lambda r: (
            r.zadd(f"hub:free:{POOL} {LENT}", {"s4": 5}),
            r.zadd(f"hub:free_classes:{POOL}", {LENT: 5}),
            r.zadd(f"hub:open_class:2 {LENT}", {POOL: 0}),
        ),
        {("C1", f"hub:free:{POOL} {LENT} s4", "would have a slot lent")},
    ),
    "a slot listed under another class too": (
        lambda r: r.zadd(f"hub:free:{POOL} {LARGE}", {"s1": 2e18}),
        {("C1", f"hub:free:{POOL} {LARGE} s1", "would have a slot lent")},
    ),
    "a slot listed by what is not warm in it": (
        lambda r: r.zadd(f"hub:warm:{POOL} repo-9", {"s1": 5}),
        {("C1", f"hub:warm:{POOL} repo-9 s1", "would have a slot lent")},
    ),
    "a class listed since another time": (
        lambda r: r.zadd(f"hub:free_classes:{POOL}", {SMALL: 2e18}),
        {("C5", f"hub:free:{POOL} {SMALL}", "not listed in its pool since")},
    ),
    "a class with free slots that its pool does not list": (
        lambda r: r.zrem(f"hub:free_classes:{POOL}", SMALL),
        {("C5", f"hub:free:{POOL} {SMALL}", "not listed in its pool since")},
    ),
    "a pool that is not among those with a free slot of a class": (
        lambda r: r.zrem(f"hub:open_class:2 {SMALL}", POOL),
        {("C5", f"hub:free:{POOL} {SMALL}", "not listed in its pool since")},
    ),
    "a pool among those with a free slot of a class that has none": (
        lambda r: r.zadd(f"hub:open_class:2 {LENT}", {POOL: 0}),
        {("C12", f"hub:open_class:2 {LENT} {POOL}", "names what")},
    ),
    "a slot that is said to lack a class and has one": (
        lambda r: r.sadd("hub:unclassed", "s1"),
        {("C12", "hub:unclassed s1", "names what")},
    ),
    "a class of a pool that has no such slot free": (
        lambda r: r.zadd(f"hub:free_classes:{POOL}", {UNKNOWN: 5}),
        {("C12", f"hub:free_classes:{POOL} {UNKNOWN}", "names what")},
    ),
    "a class without slots": (
        lambda r: (r.hset(f"hub:class:{UNKNOWN}", mapping={"attributes": "{}", "slots": 3}),
                   r.sadd("hub:classes", UNKNOWN)),
        {("C12", "hub:class:*", "says of a class")},
    ),
    "a class that is not among the classes": (
        lambda r: r.srem("hub:classes", LENT),
        {("C5", "slot s4", "has a class that is not among"), *(
            ("C12", f"hub:fitting:{label} {LENT} {HUGE}", "names what") for label in (POOL, LONGER, OTHER))},
    ),
    "a class that is none": (
        lambda r: r.sadd("hub:classes", UNKNOWN),
        {("C12", f"hub:classes {UNKNOWN}", "names what")},
    ),
    "a class whose attributes were lost": (
        lambda r: (r.hdel(f"hub:class:{LARGE}", "attributes")),
        {("C12", "slot s3", "has a class of which"), ("C12", f"hub:classes {LARGE}", "names what")},
    ),
    "a class with too many slots": (
        lambda r: r.hset(f"hub:class:{SMALL}", "slots", 7),
        {("C12", "hub:class:*", "says of a class")},
    ),
    "a pool with too many slots of a class": (
        lambda r: r.hset(f"hub:pool_classes:{POOL}", SMALL, 7),
        {("C12", "hub:pool_classes:*", "says of a class")},
    ),
    "a pool with slots of a class that it does not count": (
        lambda r: r.delete(f"hub:pool_classes:{POOL}"),
        {("C12", "hub:pool_classes:*", "says of a class")},
    ),
    "classes and lines that the store has forgotten": (
        lambda r: r.hdel("hub:store", "matching"),
        {("C5", "hub:store", "says that no slot has attributes")},
    ),
    "a ticket that is not in its line": (
        lambda r: r.zrem(f"hub:want_line:{LONGER} {HUGE}", "longer"),
        {("C5", "ticket longer", "waits, but not in each"), ("C12", f"hub:lines:{LONGER} {HUGE}", "names what"),
         ("C12", f"hub:all_lines {LONGER}\t{HUGE}", "names what"),
         ("C12", f"hub:fitting:{LONGER} {LENT} {HUGE}", "names what")},
    ),
    "a ticket that is not in the queue of its second label": (
        lambda r: r.zrem(f"hub:line:{OTHER}", "either"),
        {("C5", "ticket either", "waits, but not in each"),
         ("C6", f"hub:want_line:{OTHER} {HUGE} either", "names a ticket")},
    ),
    "a ticket at another place in its line than in the queue": (
        lambda r: r.zincrby(f"hub:want_line:{OTHER} {HUGE}", 60_000, "either"),
        {("C5", "ticket either", "waits, but not in each")},
    ),
    "a plain ticket that is not in its line": (
        lambda r: r.zrem(f"hub:want_line:{OTHER} -", "plain"),
        {("C5", "ticket plain", "waits, but not in each"), ("C4", f"label {OTHER}", "freed slots would find it")},
    ),
    "a ticket in the line that is none": (
        lambda r: r.zadd(f"hub:want_line:{POOL} {HUGE}", {"ghost": 2e18}),
        {("C6", f"hub:want_line:{POOL} {HUGE} ghost", "names a ticket")},
    ),
    "a line without tickets": (
        lambda r: (r.sadd(f"hub:lines:{POOL}", UNKNOWN), r.sadd("hub:all_lines", f"{POOL}\t{UNKNOWN}"),
                   r.hset(f"hub:want:{UNKNOWN}", mapping={"tree": '["is","a"]', "lines": 1})),
        {("C12", f"hub:lines:{POOL} {UNKNOWN}", "names what"),
         ("C12", f"hub:all_lines {POOL}\t{UNKNOWN}", "names what")},
    ),
    "a want that counts too many lines": (
        lambda r: r.hset(f"hub:want:{HUGE}", "lines", 9),
        {("C12", f"hub:want:{HUGE}", "the number kept of its lines")},
    ),
    "a want without a line": (
        lambda r: r.hset(f"hub:want:{UNKNOWN}", mapping={"tree": '["is","a"]', "lines": 1}),
        {("C12", f"hub:want:{UNKNOWN}", "kept, but no ticket")},
    ),
    "a want whose tree was lost": (
        lambda r: r.hdel(f"hub:want:{NONE}", "tree"),
        {("C5", f"hub:want_line:{OTHER} {NONE}", "waited for, but what its tickets want")},
    ),
    "a line of which a class that suits does not know": (
        lambda r: r.zrem(f"hub:fitting:{LONGER} {LENT}", HUGE),
        {("C5", f"hub:want_line:{LONGER} {HUGE}", "waited for, but a class"),
         ("C12", f"hub:fit:{LONGER} {LENT} {LONGER}", "names what"),
         ("C12", f"hub:fit:{POOL} {LENT} {LONGER}", "names what")},
    ),
    "a line listed later than its first ticket": (
        lambda r: r.zincrby(f"hub:fitting:{LONGER} {LENT}", 1_000, HUGE),
        {("C5", f"hub:want_line:{LONGER} {HUGE}", "waited for, but a class")},
    ),
    "a label that slots of a pool would not find": (
        lambda r: r.zrem(f"hub:fit:{POOL} {LENT}", LONGER),
        {("C5", f"hub:want_line:{LONGER} {HUGE}", "waited for, but freed slots")},
    ),
    "a label listed later than its turn": (
        lambda r: r.zincrby(f"hub:fit:{POOL} {LENT}", 1_000, LONGER),
        {("C5", f"hub:want_line:{LONGER} {HUGE}", "waited for, but freed slots")},
    ),
    "a want under a class that does not suit it": (
        lambda r: r.zadd(f"hub:fitting:{LONGER} {SMALL}", {HUGE: 5}),
        {("C12", f"hub:fitting:{LONGER} {SMALL} {HUGE}", "names what")},
    ),
    "a label under a class that none of its wants suits": (
        lambda r: r.zadd(f"hub:fit:{POOL} {SMALL}", {LONGER: 5}),
        {("C12", f"hub:fit:{POOL} {SMALL} {LONGER}", "names what")},
    ),
    "a free slot beside a ticket that it suits": (
        push_unnoticed,
        {("C5", f"pool {POOL}", "has a free slot and a waiter")},
    ),
    "a label set aside although no cap is reached": (
        lambda r: r.sadd(f"hub:parked:{LONGER}", LENT),
        {("C5", f"hub:parked:{LONGER} {LENT}", "keeps a label from")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
async def test_the_doctor_finds_exactly_what_is_broken_and_repairs_it(name: str, store: Redis, hub: Hub) -> None:
    do, expected = BREAKS[name]
    do(store)
    found = await look(hub)
    assert {(each.invariant, each.subject) for each in found} == {(number, subject) for number, subject, _ in expected}
    for invariant, subject, words in expected:
        assert any((f.invariant, f.subject) == (invariant, subject) and f.problem.startswith(words) for f in found)
    assert [each for each in await look(hub, repair=True) if not each.repaired] == []
    assert await look(hub) == []


async def test_of_slots_and_tickets_that_are_gone_nothing_is_left(store: Redis, hub: Hub) -> None:
    undo = hub.store.script("capacity/undo")
    for ticket in ("either", "longer", "vain", "plain"):
        await undo(request=ticket, attempt=f"{ticket}-try", hub="tests-hub", why="gone")
    await hub.nodes.leave("n1")
    kinds = {name for name, key in TABLE.items() if any(store.scan_iter(f"{key.head}*"))}
    assert not kinds & {
        "slot_class", "classes", "pool_classes", "order", "free_in", "free_classes", "warm", "want", "want_line",
        "open_class", "unclassed", "lines", "all_lines", "fit", "fitting", "parked",
    }  # fmt: skip
    assert await look(hub) == []
