"""Former faults of the queue, a test for each; most run one script at a time on a quiet store."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from redis import Redis

from hub.capacity.models import BorrowRequest, Lease
from hub.capacity.nodes import nodes
from hub.capacity.nodes.models import DrainCall
from hub.core import Hub
from hub.errors import NoCapacity, StoreUnavailable, WaitedInVain
from tests.capacity.queue.crowd import offer, wanted
from tests.world import add_node, age_node, beat, borrow, eventually, listed, publish, push

pytestmark = pytest.mark.usefixtures("no_rounds")
POOL = "gpu:a100"
_numbers = itertools.count()


async def ask(hub: Hub, label: str = POOL, at: str = "h1", *, key: str = "", **more: Any) -> list[Any]:
    """Borrow at a hub called `at` and return the answer of the script; the first call of its kind unless `repeated`."""
    attempt = f"try-{next(_numbers)}"
    named = {"attempt": attempt, "request": key or attempt, "run": attempt, "wait_ms": 30_000, "repeated": 0, **more}
    return list(
        await hub.store.script("capacity/borrow")(
            label=label, ttl_ms=900_000, idle_ms=0, holder="", fingerprint=label, keep_s=600, hub=at,
            keyed=int(bool(key)), alternatives="", prefer="", limit_ms=-1, priority=0, max_label=1000, max_run=1000,
            **named,
        )
    )  # fmt: skip


async def undo(hub: Hub, key: str, attempt: str, at: str, why: str = "gone") -> list[Any]:
    return list(await hub.store.script("capacity/undo")(request=key, attempt=attempt, hub=at, why=why))


async def silence(hub: Hub, redis: Redis, name: str) -> None:
    """Let a hub not have been heard for as long as it takes to be gone."""
    redis.hincrby("hub:store", "clock_ms", 3500)
    await hub.clock.tick()
    redis.zadd("hub:hubs", {name: int(redis.hget("hub:store", "clock_ms")) - 3500})


# -- what one call makes possible for several


async def test_a_newcomer_cannot_exceed_a_cap_that_a_waiter_has_just_reached(hub, redis):
    await add_node(hub, "n1")
    await hub.queue.set_cap(POOL, 1)
    assert (await ask(hub))[0] == "waiting"
    push(redis, POOL, ("s1", "n1"), ("s2", "n1"))  # written past the hub, so no waiter was served
    assert (await ask(hub, wait_ms=0))[0] == "empty"
    assert len(listed(redis, f"inuse:{POOL}")) == 1
    assert redis.zcard(f"hub:queue:{POOL}") == 0


async def test_room_under_a_cap_goes_to_the_first_waiter_below_it_from_any_pool(hub, redis):
    eu, us = f"{POOL}:eu", f"{POOL}:us"
    await hub.queue.set_cap(POOL, 1, served=True)
    await offer(hub, eu, "s1")
    await offer(hub, us, "s2", node="n2")
    assert (await ask(hub, eu))[1] == "s1"
    assert [(await ask(hub, label, key=label))[0] for label in (us, eu)] == ["waiting", "waiting"]
    await hub.leases.give_back("s1", eu, redis.hget("session:s1", "leaseToken"))
    assert [redis.exists(f"session:{slot}") for slot in ("s1", "s2")] == [0, 1]


async def test_a_publication_that_ends_a_maintenance_serves_all_waiters(hub, redis):
    await offer(hub, POOL, "s1", "s2")
    await hub.pools.restart(POOL)
    for _ in range(3):
        assert (await ask(hub))[0] == "waiting"
    for slot in ("s1", "s2"):
        await hub.pools.withdraw("n1", slot)
    await offer(hub, POOL, "s3", "s4")
    redis.pexpire(f"maintenance:{POOL}", 1_800_000 - 10_500)  # it goes on for ten seconds
    await offer(hub, POOL, "s5")
    assert len(listed(redis, f"inuse:{POOL}")) == 3
    assert not listed(redis, f"available:{POOL}")


@pytest.mark.parametrize("sign", ["a heartbeat", "an alive key"])
async def test_a_sign_of_life_of_a_suspect_node_that_ends_a_maintenance_serves_all_waiters(api, hub, redis, sign):
    await publish(api, "n2", **{POOL: ["s5"]})
    age_node(redis, "n2", 40)
    assert (await ask(hub, wait_ms=0))[0] == "empty"  # it is held back
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    await hub.pools.restart(POOL)
    for _ in range(3):
        assert (await ask(hub))[0] == "waiting"
    for slot in ("s1", "s2"):
        await hub.pools.withdraw("n1", slot)
    await publish(api, "n1", **{POOL: ["s3", "s4"]})
    redis.pexpire(f"maintenance:{POOL}", 1_800_000 - 10_500)
    if sign == "a heartbeat":
        await beat(api, "n2", recycled=["s5"])
    else:
        redis.set(hub.store.keys.node_alive("n2"), "1", px=90_000)  # which sends no notification
        await hub.queue.look_after()
    assert len(listed(redis, f"inuse:{POOL}")) == 3
    assert not listed(redis, f"available:{POOL}")


@pytest.mark.parametrize("who", ["a round of the hub", "a higher cap"])
async def test_reading_one_queue_that_ends_a_maintenance_serves_waiters_of_other_queues(hub, redis, who):
    """The queue that is looked at is empty after the first of the two slots."""
    await offer(hub, POOL, "s1", "s2")
    await hub.pools.restart(POOL)
    for label in (POOL, f"{POOL}:eu"):
        assert (await ask(hub, label))[0] == "waiting"
    redis.pexpire(f"maintenance:{POOL}", 1_800_000 - 121_000)  # as if it had begun two minutes ago
    if who == "a higher cap":
        await hub.queue.set_cap(POOL, 5)
    else:
        await hub.store.script("queue/review")(rest=[POOL])
    assert len(listed(redis, f"inuse:{POOL}")) == 2


async def test_removing_the_last_slots_of_a_node_serves_a_waiter_below_a_cap(hub, redis, monkeypatch):
    monkeypatch.setattr(nodes, "BATCH", 1)
    await hub.queue.set_cap(POOL, 2)
    await offer(hub, POOL, "s1", "s2")
    for _ in range(2):
        assert (await ask(hub, wait_ms=0))[0] == "ok"
    await offer(hub, POOL, "s3", "s4", node="n2")
    for _ in range(2):
        assert (await ask(hub))[0] == "waiting"
    await hub.nodes.leave("n1")
    assert redis.zcard(f"hub:queue:{POOL}") == 0
    assert len(listed(redis, f"inuse:{POOL}")) == 2


@pytest.mark.parametrize(
    "end",
    [
        "lapses", "is taken off offer", "was not delivered", "was handed to a hub that is gone", "left with its node",
        "outlived the record of its node", "outlived the drain of its node",
    ],
)  # fmt: skip
async def test_the_end_of_a_lease_lets_a_waiter_below_its_cap_take_a_slot_of_another_pool(hub, redis, end):
    """The slot that the lease held goes to another waiter, or is off offer."""
    first, second = f"{POOL}:x", f"{POOL}:y"
    await hub.queue.set_cap(POOL, 1)
    if end == "was handed to a hub that is gone":
        await ask(hub, at="gone")
    await offer(hub, first, "s1")
    if end != "was handed to a hub that is gone":
        assert (await ask(hub, wait_ms=0, key="k", attempt="a1"))[:2] == ["ok", "s1"]
    await offer(hub, second, "s2", node="n2")
    for label in (first, POOL):
        assert (await ask(hub, label))[0] == "waiting"
    assert listed(redis, f"available:{second}") == ["s2"]  # its cap is reached
    if end == "lapses":
        redis.zadd("hub:deadlines", {"s1": 0})
        await hub.store.script("capacity/lapse")(rest=["s1"])
    elif end == "is taken off offer":
        await hub.pools.withdraw("n1", "s1")
    elif end == "was not delivered":
        await undo(hub, "k", "a1", "h1")
    elif end == "left with its node":
        await hub.nodes.leave("n1")
    elif end == "outlived the record of its node":
        redis.srem("nodes", "n1")
        await hub.nodes.expire("n1", "expire", keep=False)
    elif end == "outlived the drain of its node":
        await hub.nodes.drain("n1", DrainCall(True, left_ms=0))
        await hub.store.script("sweeping/end_drained")(id="n1", part="n1", cursor="0", limit=10)
    else:
        await silence(hub, redis, "gone")
        redis.zadd("hub:hubs", {"h1": int(redis.hget("hub:store", "clock_ms"))})
        await hub.store.script("queue/retire")(limit=25)
    assert listed(redis, f"inuse:{second}") == ["s2"]


# -- slots of suspects


async def test_a_held_slot_that_is_undrained_is_not_offered_twice(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    age_node(redis, "n1", 40)
    assert (await borrow(api, POOL)).json()["code"] == "no-capacity"
    for word in ("drain", "undrain"):
        await api.post(f"/admin/nodes/n1/{word}")
    await publish(api, "n1", **{POOL: ["s1"]})
    await beat(api, "n1")
    assert listed(redis, f"available:{POOL}") == ["s1"]


async def test_slots_of_a_node_that_came_back_go_to_waiters_without_further_heartbeats(hub, api, redis):
    await publish(api, "n1", **{POOL: [f"s{n}" for n in range(100)]})
    age_node(redis, "n1", 40)
    for _ in range(100):
        assert (await ask(hub))[0] == "waiting"
    await beat(api, "n1")
    first = redis.zcard("hub:deadlines")
    assert 0 < first <= 32
    for _ in range(3):
        await hub.queue.look_after()
    assert redis.zcard("hub:deadlines") == 100


async def test_a_borrow_that_meets_hundreds_of_slots_of_a_suspect_node_holds_them_back_over_two_calls(hub, api, redis):
    for pool in "abc":
        await publish(api, "n1", **{f"{POOL}:{pool}": [f"{pool}{n}" for n in range(150)]})
    await publish(api, "n2", **{f"{POOL}:d": ["healthy"]})
    age_node(redis, "n1", 40)
    assert (await ask(hub, wait_ms=0))[0] == "empty"
    assert redis.scard("hub:aside:n1") == 200
    assert [(await ask(hub, wait_ms=0))[0] for _ in range(2)] == ["empty", "ok"]


# -- waiters beside free slots


async def test_one_round_serves_all_waiters_however_many_slots_were_pushed(hub, redis):
    await offer(hub, POOL, "s1")
    await ask(hub)
    redis.hset("hub:caps", f"set:{POOL}", 1)
    redis.hset("hub:store", "capped", 1)
    with hub.queue.watch("", POOL):
        for _ in range(100):
            assert (await ask(hub))[0] == "waiting"
        push(redis, POOL, *((f"x{n}", "n1") for n in range(100)))
        redis.delete("hub:caps")
        await hub.queue.look_after()
    assert (redis.llen(f"available:{POOL}"), redis.zcard(f"hub:line:{POOL}")) == (0, 0)


async def test_many_waiters_of_a_dead_hub_do_not_delay_the_waiter_behind_them(hub, redis):
    await offer(hub, POOL, "s1")
    token = (await ask(hub))[2]
    for _ in range(300):
        await ask(hub, at="gone")
    await ask(hub, at="h1", key="alive")
    await silence(hub, redis, "gone")
    redis.zadd("hub:hubs", {"h1": int(redis.hget("hub:store", "clock_ms"))})
    await hub.leases.give_back("s1", POOL, token)
    with hub.queue.watch("alive", POOL):
        await hub.queue.look_after()
    assert redis.get("hub:request:alive").split("|")[1] == "s1"


async def test_any_script_that_ends_a_maintenance_serves_all_waiters(hub, redis):
    """The newcomer's label reaches its cap with the first of the slots; the other slot goes to the other label."""
    await offer(hub, POOL, "s1", "s2")
    await hub.pools.restart(POOL)
    await hub.queue.set_cap(POOL, 1)
    for label in (POOL, f"{POOL}:eu"):
        assert (await ask(hub, label))[0] == "waiting"
    redis.pexpire(f"maintenance:{POOL}", 1_800_000 - 121_000)  # as if it had begun two minutes ago
    assert (await ask(hub, POOL))[0] == "waiting"
    assert redis.llen(f"available:{POOL}") == 0


async def test_a_newcomer_who_let_the_only_waiter_be_served_gets_the_next_returned_slot(hub, redis):
    await offer(hub, POOL, "s1")
    token = (await ask(hub))[2]
    await ask(hub, key="waiter")
    push(redis, POOL, ("s2", "n1"))
    assert (await ask(hub, key="newcomer"))[0] == "waiting"
    await hub.leases.give_back("s1", POOL, token)
    assert redis.get("hub:request:newcomer").split("|")[1] == "s1"


async def test_a_repeated_borrow_without_a_wait_gets_the_slot_that_is_free_by_then(hub, redis):
    await offer(hub, POOL, "s1")
    token = (await ask(hub))[2]
    await ask(hub, key="k", attempt="a1")
    assert await undo(hub, "k", "a1", "h1", "timeout") == ["left", "away"]
    before = redis.hget("hub:ticket:k", "score")
    assert (await ask(hub, key="k", wait_ms=0))[0] == "empty"
    assert (redis.hget("hub:ticket:k", "score"), redis.zcard(f"hub:line:{POOL}")) == (before, 0)  # it keeps its place
    await hub.leases.give_back("s1", POOL, token)
    assert (await ask(hub, key="k", wait_ms=0))[:2] == ["ok", "s1"]


# -- leases that are undone while a caller holds them


async def test_a_waiting_call_whose_repeat_got_the_lease_at_another_hub_does_not_undo_it(hub, redis):
    """The first call, at another hub, still waits: it finds the lease as well, and then that its caller is gone."""
    await offer(hub, POOL, "s1")
    token = (await ask(hub))[2]
    await ask(hub, at="h1", key="k", attempt="a1")
    await ask(hub, at="h2", key="k", attempt="b1")
    await ask(hub, at="h1", key="k", attempt="a1", repeated=1)  # looks again, and leaves the place to the other
    assert redis.hget("hub:ticket:k", "hub") == "h2"
    await hub.leases.give_back("s1", POOL, token)
    held = await ask(hub, at="h2", key="k", attempt="b1", repeated=1)
    assert (await ask(hub, at="h1", key="k", attempt="a1", repeated=1))[:3] == held[:3]
    assert await undo(hub, "k", "a1", "h1") == ["nothing"]
    assert redis.hget("session:s1", "leaseToken") == held[2]


async def test_a_call_that_arrives_after_its_repeat_does_not_undo_the_lease_of_the_repeat(hub, redis):
    """A busy hub reads it late, and then that its caller has hung up."""
    await offer(hub, POOL, "s1")
    held = await ask(hub, at="h2", key="k", attempt="b1")
    assert (await ask(hub, at="h1", key="k", attempt="a1"))[:3] == held[:3]
    assert await undo(hub, "k", "a1", "h1") == ["nothing"]
    assert redis.hget("session:s1", "leaseToken") == held[2]
    assert (await undo(hub, "k", "b1", "h2"))[:2] == ["undone", "s1"]  # that caller has hung up as well


async def test_a_waiting_call_regains_its_place_when_its_repeat_is_gone(hub, redis):
    await ask(hub, at="h1", key="k", attempt="a1")
    await ask(hub, at="h2", key="k", attempt="b1")
    await undo(hub, "k", "b1", "h2")
    assert (await ask(hub, at="h1", key="k", attempt="a1", repeated=1))[:2] == ["waiting", 1]
    assert redis.hget("hub:ticket:k", "hub") == "h1"


async def test_a_delivered_lease_stays_although_redis_lost_its_delivery(hub, redis):
    """Redis is killed after it wrote down the hand-off and before the delivery; later the hub that delivered dies."""
    await offer(hub, POOL, "s1")
    token = (await ask(hub))[2]
    waiter = wanted(POOL)
    task = await in_line(hub, redis, waiter)
    await hub.leases.give_back("s1", POOL, token)
    undelivered = redis.hget("hub:slot:s1", "unseen")
    hub.queue.wake(waiter.request)
    held = await task
    assert redis.hget("hub:slot:s1", "unseen") is None
    redis.hset("hub:slot:s1", "unseen", undelivered)
    redis.sadd(f"hub:handed:{undelivered}", waiter.request)
    await hub.leases.memory.recall()
    await silence(hub, redis, undelivered)
    await hub.store.script("queue/retire")(limit=25)
    assert redis.hget("session:s1", "leaseToken") == held.token


async def test_after_a_long_outage_a_hub_still_knows_what_it_lent_just_before(hub, redis):
    """The node has not heard of that lease yet, and the store comes back empty."""
    await offer(hub, POOL, "s1")
    await hub.clock.tick()
    held = await hub.leases.borrow(wanted(POOL))
    hub.store.set_away()
    redis.flushall()
    await hub.clock.tick()
    assert redis.hget("session:s1", "leaseToken") == held.token


# -- calls that end in the middle


async def in_line(hub: Hub, redis: Redis, waiter: BorrowRequest) -> asyncio.Task[Lease]:
    """Borrow in the background; nothing tells this hub of leases unless the test does."""
    task = asyncio.create_task(hub.leases.borrow(waiter))
    await eventually(lambda: redis.zscore(f"hub:line:{waiter.label}", waiter.request) is not None)
    return task


@pytest.mark.parametrize("free", [True, False])
async def test_a_borrow_cancelled_while_redis_handles_it_leaves_nothing_behind(hub, redis, free):
    """The time of its request is over: the script runs all the same."""
    with pytest.raises(NoCapacity):
        await hub.leases.borrow(wanted(POOL, wait_s=0))  # the next one is put to the long script right away
    if free:
        await offer(hub, POOL, "s1")
    sent = asyncio.Event()
    send = hub.store._pipeline.carry

    async def slow(commands: list[Any]) -> list[Any]:
        sent.set()
        replies = await send(commands)
        await asyncio.sleep(0.05)
        return replies

    hub.store._pipeline.carry = slow
    task = asyncio.create_task(hub.leases.borrow(wanted(POOL)))
    await sent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hub.store._pipeline.carry = send
    await hub.clock.tick()
    assert redis.exists("session:s1", "hub:turns", f"hub:asked:{POOL}", "hub:patience") == 0
    assert listed(redis, f"available:{POOL}") == (["s1"] if free else [])


async def test_a_lease_whose_caller_hung_up_while_redis_was_away_is_undone_when_it_is_back(hub, redis):
    await offer(hub, POOL, "s1")
    gone = wanted(POOL)
    lease = await hub.leases.borrow(gone)
    hub.store.set_away()
    with pytest.raises(StoreUnavailable):
        await hub.leases.undo(gone, lease)
    await hub.clock.tick()
    assert listed(redis, f"available:{POOL}") == ["s1"]


async def test_a_lease_whose_caller_hung_up_while_redis_was_away_is_not_restored_to_an_empty_store(hub, redis):
    await offer(hub, POOL, "s1")
    gone = wanted(POOL)
    lease = await hub.leases.borrow(gone)
    hub.store.set_away()
    with pytest.raises(StoreUnavailable):
        await hub.leases.undo(gone, lease)
    redis.flushall()
    for _ in range(2):
        await hub.clock.tick()
    assert redis.keys("session:*") == []
    assert redis.hget("hub:ended", "s1") == lease.token, "a node that reports it as lent would be believed"


async def test_a_lease_undone_at_the_moment_its_wait_ends_leaves_no_place_behind(hub, redis):
    """The script says that there is a lease; before it is fetched, others think that this hub is gone."""
    await offer(hub, POOL, "s1")
    token = (await ask(hub))[2]
    undo_script = hub.leases.borrowing._undo

    async def overtaken(**named: Any) -> list[Any]:
        reply = list(await undo_script(**named))
        if reply == ["granted"]:
            await silence(hub, redis, hub.queue.hub_id)
            await hub.store.script("queue/retire")(limit=25)
            await ask(hub, wait_ms=0)  # another borrower takes the slot
        return reply

    hub.leases.borrowing._undo = overtaken
    task = await in_line(hub, redis, wanted(POOL, wait_s=0.5))
    await hub.leases.give_back("s1", POOL, token)
    with pytest.raises(WaitedInVain):
        await task
    assert redis.exists("hub:turns", "hub:patience", f"hub:handed:{hub.queue.hub_id}") == 0
