"""Bundles broken by hand in one way: the doctor finds exactly that, repairs it, and then finds nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from redis import Redis

from hub.core import Hub
from hub.doctor import Finding, examine
from hub.store.keys import TABLE
from tests.doctor.bundled import ask_all, serve
from tests.doctor.classed import HUB, ask, offer, take

POOL, OTHER = "gpu:a100", "gpu:h100"
THREE = (POOL, "", 3)


@pytest.fixture
async def store(hub: Hub, redis: Redis) -> Redis:
    """Pool gpu:a100 with s1 and s2 lent as a bundle, s3 lent alone, s4 set aside for the reserver, which wants three
    slots of the pool. Behind it waits a bundle for gpu:h100, of which s5 is free and s6 lent alone.
    """
    await hub.clock.tick()
    await offer(hub, POOL, dict.fromkeys(("s1", "s2"), None))
    assert (await ask_all(hub, "lent", (POOL, "", 2), together=True))[0] == "ok"
    await offer(hub, POOL, {"s3": None})
    await offer(hub, OTHER, {"s6": {"vram": 80}})
    assert [await take(hub, POOL), await take(hub, OTHER)] == ["s3", "s6"]
    await offer(hub, OTHER, {"s5": {"vram": 40}})
    await offer(hub, POOL, {"s4": None})
    assert (await ask_all(hub, "big", THREE, run="r2"))[0] == "waiting"
    assert (await ask_all(hub, "small", (OTHER, "vram > 0", 2), sameNode=True))[0] == "waiting"
    assert await serve(hub) == ["big", 1]
    assert await look(hub) == []
    return redis


async def look(hub: Hub, *, repair: bool = False) -> list[Finding]:
    """Return an examination of a store on which no hub sweeps, and whose waiters are attended."""
    await hub.store.read("HINCRBY", hub.store.keys.store, "tick_ms", -3_600_000)
    return await examine(hub.store, repair=repair, settings=hub.settings, pause_s=0.01)


def bundle_of(redis: Redis, slot: str = "s1") -> str:
    """Return the key of the bundle in which a slot is lent."""
    return f"hub:bundle:{json.loads(redis.hget(f'session:{slot}', 'holder'))['bundle']}"


def rename(redis: Redis, old: str, new: str) -> None:
    """Make the reserver another ticket than the one that waits."""
    assert redis.hget("hub:reserver", "ticket") == old
    redis.hset("hub:reserver", "ticket", new)


Expected = set[tuple[str, str, str]]
BREAKS: dict[str, tuple[Callable[[Redis], object], Expected]] = {
    "a slot set aside while no bundle reserves": (
        lambda r: r.delete("hub:reserver"),
        {("C5", "hub:reserved s4", "names a slot that is not held, or set aside")},
    ),
    "a slot set aside that is free": (
        lambda r: r.sadd("hub:reserved", "s5"),
        {("C5", "hub:reserved s5", "names a slot that is not held, or set aside")},
    ),
    "a slot set aside that is lent": (
        lambda r: r.sadd("hub:reserved", "s3"),
        {("C5", "hub:reserved s3", "names a slot that is not held, or set aside")},
    ),
    "a slot set aside that is gone": (
        lambda r: r.sadd("hub:reserved", "s9"),
        {("C5", "hub:reserved s9", "names a slot that is not held, or set aside")},
    ),
    "a held slot that is set aside no longer": (
        lambda r: r.srem("hub:reserved", "s4"),
        {("C1", "slot s4", "held back although")},
    ),
    "a reserver that does not wait": (
        lambda r: rename(r, "big", "gone"),
        {("C5", "hub:reserver", "has slots set aside for a ticket that does not wait")},
    ),
    "a reserver without a time": (
        lambda r: r.hdel("hub:reserver", "since_ms"),
        {("C5", "hub:reserver", "has slots set aside for a ticket that does not wait")},
    ),
    "a reserver without a ticket": (
        lambda r: r.hdel("hub:reserver", "ticket"),
        {("C5", "hub:reserver", "has slots set aside for a ticket that does not wait")},
    ),
    "a reserver that keeps more room under a cap than it wants": (
        lambda r: r.hincrby("hub:reserver", f"units:{POOL}", 1),
        {("C4", "hub:reserver", "keeps room under caps for other leases")},
    ),
    "a reserver that keeps room under a cap of another label": (
        lambda r: r.hset("hub:reserver", f"units:{OTHER}", 2),
        {("C4", "hub:reserver", "keeps room under caps for other leases")},
    ),
    "a reserver that keeps no room under caps": (
        lambda r: r.hdel("hub:reserver", f"units:{POOL}"),
        {("C4", "hub:reserver", "keeps room under caps for other leases")},
    ),
    "a waiting bundle without a ticket": (
        lambda r: r.zadd("hub:bundles", {"ghost": 5}),
        {("C6", "hub:bundles ghost", "names a ticket that does not wait")},
    ),
    "a ticket for one slot that waits among the bundles": (
        lambda r: r.zadd("hub:bundles", {"single": 5}),
        {("C6", "hub:bundles single", "names a ticket that does not wait")},
    ),
    "a bundle that reserves and has lost its ticket": (
        lambda r: r.delete("hub:ticket:big"),
        {("C6", "hub:bundles big", "names a ticket that does not"), ("C12", "run r2", "the number of its waiters")},
    ),
    "a bundle at another place than its ticket says": (
        lambda r: r.zincrby("hub:bundles", 60_000, "small"),
        {("C5", "ticket small", "waits, but not in each queue")},
    ),
    "a bundle that its hub does not know": (
        lambda r: r.srem(f"hub:waiters:{HUB}", "small"),
        {("C6", "ticket small", "waits, but is not among the waiters"), ("C12", "run r1", "the number of its waiters")},
    ),
    "a bundle that would wait for ever": (
        lambda r: r.zrem("hub:patience", "small"),
        {("C12", "ticket small", "waits, and nothing would ever drop it")},
    ),
    "a ticket of a bundle that would stay for ever": (
        lambda r: r.hset("hub:ticket:lost", mapping={**r.hgetall("hub:ticket:small"), "keyed": "1"}),
        {("C12", "ticket lost", "neither waits nor was granted")},
    ),
    "a run that counts its bundle twice": (
        lambda r: r.hset("hub:pending", "r2", 2),
        {("C12", "run r2", "the number of its waiters")},
    ),
    "bundles that the store has forgotten": (
        lambda r: r.hdel("hub:store", "bundles"),
        {("C5", "hub:store", "says that no bundle waits")},
    ),
    "a bundle that lists a slot that is not lent": (
        lambda r: r.hset(bundle_of(r), "s5", "3|77"),
        {("C12", lambda r: f"{bundle_of(r)} s5", "names what does not belong")},
    ),
    "a bundle that lists the lease of another": (
        lambda r: r.hset(bundle_of(r), "s3", f"3|{r.hget('session:s3', 'leaseToken')}"),
        {("C12", lambda r: f"{bundle_of(r)} s3", "names what does not belong")},
    ),
    "a bundle that is over": (
        lambda r: r.hset("hub:bundle:b7", "s1", f"1|{r.hget('session:s1', 'leaseToken')}"),
        {("C12", "hub:bundle:b7 s1", "names what does not belong")},
    ),
    "a lease that its bundle lacks": (
        lambda r: r.hdel(bundle_of(r), "s2"),
        {("C2", "slot s2", "lent, but its bundle lacks it")},
    ),
    "a bundle that lists a lease by another token": (
        lambda r: r.hset(bundle_of(r), "s2", "2|77"),
        {("C2", "slot s2", "lent, but its bundle lacks it")},
    ),
    "a bundle of which nothing is left": (
        lambda r: r.delete(bundle_of(r)),
        {("C2", f"slot {slot}", "lent, but its bundle lacks it") for slot in ("s1", "s2")},
    ),
}  # type: ignore[dict-item]  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
async def test_the_doctor_finds_exactly_what_is_broken_and_repairs_it(name: str, store: Redis, hub: Hub) -> None:
    await ask(hub, "single", (POOL, ""), run="r3")
    leases = store.hgetall(bundle_of(store))
    do, rows = BREAKS[name]
    expected = {(number, subject(store) if callable(subject) else subject, said) for number, subject, said in rows}
    do(store)
    found = await look(hub)
    assert {(each.invariant, each.subject) for each in found} == {(number, subject) for number, subject, _ in expected}
    for invariant, subject, words in expected:
        assert any((f.invariant, f.subject) == (invariant, subject) and f.problem.startswith(words) for f in found)
    assert [each for each in await look(hub, repair=True) if not each.repaired] == []
    assert await look(hub) == []
    assert store.hgetall(bundle_of(store)) == leases


async def test_slots_of_a_lost_reserver_go_to_the_next_borrower_in_the_repair(store: Redis, hub: Hub) -> None:
    await ask(hub, "single", (POOL, ""), run="r3")
    rename(store, "big", "gone")
    await look(hub, repair=True)
    assert store.hget("session:s4", "runId") == "r3"
    assert not store.exists("hub:reserver", "hub:reserved")


async def test_a_store_that_remembers_bundles_for_nothing_forgets_them(hub: Hub, redis: Redis) -> None:
    await hub.clock.tick()
    redis.hset("hub:store", "bundles", 1)
    [found] = await look(hub, repair=True)
    assert (found.invariant, found.subject, found.repaired) == ("C12", "hub:store", True)
    assert found.problem == "says that a bundle waits, and none does"
    assert redis.hget("hub:store", "bundles") is None


async def test_the_end_of_a_lease_that_the_doctor_ends_ends_those_held_together_with_it(store: Redis, hub: Hub) -> None:
    store.delete("session:s1")  # its holder could not prove that it has the slot
    store.hdel(key := bundle_of(store, "s2"), "s1")
    await look(hub, repair=True)
    assert not store.exists("session:s2", key)
    assert store.get("hub:end_reason:s2").split("|")[1] == "bundle"
    assert await look(hub) == []


async def test_of_bundles_that_are_over_nothing_is_left(store: Redis, hub: Hub) -> None:
    undo = hub.store.script("capacity/undo")
    for ticket in ("big", "small", "lent"):
        await undo(request=ticket, attempt=f"{ticket}-try", hub=HUB, why="gone")
    kinds = {name for name, key in TABLE.items() if any(store.scan_iter(f"{key.head}*"))}
    assert not kinds & {"bundle", "bundles", "reserver", "reserved"}
    assert store.hget("hub:store", "bundles") is None
    assert await look(hub) == []


async def test_a_label_whose_room_is_kept_for_the_reserver_is_in_order(hub: Hub, redis: Redis) -> None:
    await hub.clock.tick()
    await hub.store.script("queue/set_cap")(label=POOL, cap="3", served="")
    await offer(hub, POOL, dict.fromkeys(("s1", "s2", "s3"), None))
    assert {await take(hub, f"{POOL}:eu") for _ in range(3)} == {"s1", "s2", "s3"}
    assert (await ask_all(hub, "big", THREE))[0] == "waiting"
    assert (await ask(hub, "single", (POOL, "")))[0] == "waiting"
    assert await serve(hub) == ["big", 0]
    assert await look(hub) == []


async def kept_under_a_cap(hub: Hub) -> None:
    """Fill the cap of 3 on what gpu:a100 serves: s1 and s2 are lent, s3 is set aside for a bundle that lacks another
    slot of 40. s4 of 80 is free, and `single` waits for it.
    """
    await hub.clock.tick()
    await offer(hub, POOL, {"s1": {"vram": 40}, "s2": {"vram": 24}, "s3": {"vram": 40}, "s4": {"vram": 80}})
    assert [await take(hub, POOL, "vram == 40"), await take(hub, POOL, "vram == 24")] == ["s1", "s2"]
    assert (await ask_all(hub, "big", (POOL, "vram == 40", 2), run="r2"))[0] == "waiting"
    assert await serve(hub) == ["big", 1]
    await hub.store.script("queue/set_cap")(label=POOL, cap="3", served="1")
    assert (await ask(hub, "single", (POOL, "vram == 80"), run="r3"))[0] == "waiting"


async def test_the_end_of_a_lease_makes_room_under_a_cap_that_also_counts_slots_set_aside(
    hub: Hub, redis: Redis
) -> None:
    await kept_under_a_cap(hub)
    label, token = redis.hmget("session:s2", "labelKey", "leaseToken")
    await hub.leases.give_back("s2", label, token)
    assert redis.hget("session:s4", "runId") == "r3"


async def test_a_slot_that_is_set_aside_and_goes_makes_room_under_a_cap(hub: Hub, redis: Redis) -> None:
    await kept_under_a_cap(hub)
    await hub.store.script("capacity/withdraw")(
        slot="s3", node="n1", part="n1", only_free="", incarnation="", said_number="", reason=""
    )
    await serve(hub)
    assert redis.hget("session:s4", "runId") == "r3"
