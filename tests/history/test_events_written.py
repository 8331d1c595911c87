"""Every change leaves its event, once, in the order in which things happened; also when its script is run twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis import Redis

from hub.capacity.models import PublishedSlot, slot_item
from hub.capacity.nodes.models import DrainCall
from hub.core import Hub
from hub.errors import CallerGone, WaitedInVain
from hub.history.events import KINDS
from hub.history.rules import rule
from hub.store.library import library
from hub.sweeping.brake import Brake
from hub.sweeping.noted import noted
from tests.capacity.queue.crowd import Crowd, offer, wanted
from tests.world import add_node, age_lease, age_node, eventually, push, sweepers

POOL = "gpu:a100"


@pytest.fixture(params=[1, 2], ids=["each script once", "each script twice"])
async def hub(hub: Hub, request: pytest.FixtureRequest) -> Hub:
    """A hub whose scripts reach Redis again, as they do when redis-py repeats a call that was cut off."""
    call = hub.store.call

    async def again(*arguments: Any) -> Any:
        first = await call(*arguments)
        for _ in range(request.param - 1):
            await call(*arguments)
        return first

    hub.store.call = again  # type: ignore[method-assign]
    await hub.agreed.agree()
    return hub


@pytest.fixture
async def crowd(hub: Hub) -> AsyncIterator[Crowd]:
    found = Crowd(hub)
    yield found
    await found.go_home()


@pytest.fixture
def happened(redis: Redis) -> Callable[[], list[str]]:
    """Return a function that returns the events since its last call: event, code and subject."""
    last = "-"

    def read() -> list[str]:
        nonlocal last
        found = []
        for entry, facts in redis.xrange("hub:history", last):
            last = f"({entry}"
            about = facts.get("slot") or facts.get("ticket") or facts.get("node") or facts.get("pool")
            words = (facts["event"], facts.get("why"), about or facts.get("label"))
            found.append(" ".join(word for word in words if word))
        return found

    return read


async def publish(hub: Hub, *slots: str, node: str = "n1", pool: str = POOL, token: str = "") -> None:
    offered = [PublishedSlot(slot, pool, slot_item(node, slot, "a100", {}), token=token) for slot in slots]
    await hub.pools.publish(node, offered, "reuse")


async def test_events_tell_of_a_slot_from_its_publication_to_its_withdrawal(hub, happened):
    for _ in range(2):
        await offer(hub, POOL, "s1")
    lease = await hub.leases.borrow(wanted(POOL))
    await hub.leases.give_back("s1", POOL, lease.token)
    await hub.leases.give_back("s1", POOL, lease.token)
    await hub.pools.withdraw("n1", "s1")
    assert happened() == [
        "node.registered n1", "slot.published s1", "grant.lent s1", "grant.returned s1", "slot.withdrawn asked s1",
    ]  # fmt: skip


async def test_a_repeated_borrow_writes_one_event(hub, happened, redis):
    await offer(hub, POOL, "s1", "s2")
    for _ in range(3):
        await hub.leases.borrow(wanted(POOL, run="r1", key="key-1"))
    assert happened()[3:] == ["grant.lent s1"]
    ((_, facts),) = redis.xrevrange("hub:history", count=1)
    assert facts == {
        "event": "grant.lent", "slot": "s1", "node": "n1", "pool": POOL, "label": POOL, "run": "r1", "ticket": "key-1",
        "ttl_ms": "900000", "user": "", "team": "", "name": "",
    }  # fmt: skip


async def lapsed(hub: Hub, redis: Redis) -> None:
    await age_lease(hub, "s1")


async def deleted(hub: Hub, redis: Redis) -> None:
    redis.delete("borrow_ttl:s1")


async def idle(hub: Hub, redis: Redis) -> None:
    redis.hset("hub:slot:s1", "watch_idle", 1000)


async def stray(hub: Hub, redis: Redis) -> None:
    redis.hdel("session:s1", "labelKey")


@pytest.mark.parametrize("how", [lapsed, deleted, idle, stray], ids=lambda how: how.__name__)
async def test_the_event_of_an_ended_lease_says_why(hub, redis, happened, how):
    await offer(hub, POOL, "s1")
    await hub.leases.borrow(wanted(POOL))
    await how(hub, redis)
    for _ in range(2):
        await hub.leases.lapse(["s1"])
    assert happened()[3:] == [f"grant.lapsed {how.__name__} s1"]


@pytest.mark.parametrize("how", ["left", "expired"])
async def test_the_removal_of_a_node_writes_events_of_its_slots_and_leases(hub, redis, happened, how):
    await offer(hub, POOL, "s1", "s2")
    await hub.leases.borrow(wanted(POOL))
    happened()
    for _ in range(2):
        if how == "left":
            await hub.nodes.leave("n1")
        else:
            age_node(redis, "n1", 3600)
            await hub.nodes.expire("n1", "expire", keep=False)
    first, *rest = happened()
    assert first == f"node.{how} n1"
    assert sorted(rest) == ["grant.ended node s1", "slot.withdrawn node s1", "slot.withdrawn node s2"]


async def test_withdrawing_a_lent_slot_writes_the_end_of_its_lease(hub, happened):
    await offer(hub, POOL, "s1")
    await hub.leases.borrow(wanted(POOL))
    await hub.pools.withdraw("n1", "s1")
    assert happened()[3:] == ["grant.ended withdrawn s1", "slot.withdrawn asked s1"]


async def test_a_drain_and_its_deadline_write_events(hub, redis, happened):
    await offer(hub, POOL, "s1", "s2")
    await hub.leases.borrow(wanted(POOL))
    happened()
    await hub.nodes.drain("n1", DrainCall(True, left_ms=60_000))
    redis.zadd("hub:drain_deadlines", {"n1": 0})
    await sweepers(hub)[1].sweep()
    await hub.nodes.drain("n1", DrainCall(False))
    assert happened() == ["node.draining n1", "grant.ended deadline s1", "node.undrained n1"]


async def test_a_suspect_node_writes_one_event_and_another_when_it_beats_again(hub, redis, happened):
    await offer(hub, POOL, "s1", "s2")
    happened()
    age_node(redis, "n1", 40)
    redis.set("node_alive:n1", "1")
    for _ in range(2):
        with pytest.raises(Exception, match="No browser"):
            await hub.leases.borrow(wanted(POOL, wait_s=0))
    await hub.nodes.beats._beat(timeout_ms=60_000, rest=["n1", "n1", 0, ""])
    await hub.nodes.beats._beat(timeout_ms=60_000, rest=["n1", "n1", 0, ""])
    assert happened() == ["node.suspect n1", "node.back n1"]


async def test_the_hand_off_of_a_slot_to_a_ticket_writes_an_event(hub, crowd, happened):
    await offer(hub, POOL, "s1")
    await crowd.come("first", POOL)
    await crowd.come("second", POOL, key="key-2")
    await hub.leases.give_back("s1", POOL)
    hub.queue.wake("key-2")
    await crowd.grant("second")
    assert happened()[2:] == [
        "grant.lent s1", "ticket.waiting key-2", "grant.returned s1", "grant.handed s1",
    ]  # fmt: skip


@pytest.mark.parametrize(("key", "words"), [("", "ticket.left timeout"), ("key-1", "ticket.away timeout")])
async def test_a_ticket_that_times_out_writes_that_it_left_or_is_away(hub, happened, key, words):
    await add_node(hub, "n1")
    asked = wanted(POOL, key=key, wait_s=0.1)
    with pytest.raises(WaitedInVain):
        await hub.leases.borrow(asked)
    assert happened()[1:] == [f"ticket.waiting {asked.request}", f"{words} {asked.request}"]


async def test_an_away_ticket_that_is_asked_for_repeatedly_writes_one_event(hub, redis, crowd, happened):
    await add_node(hub, "n1")
    for _ in range(20):
        with pytest.raises(WaitedInVain):
            await hub.leases.borrow(wanted(POOL, key="key-1", wait_s=0.1, run="r"))
    redis.zadd("hub:patience", {"key-1": 0})
    await hub.queue.look_after()
    assert happened()[1:] == [
        "ticket.waiting key-1", "ticket.away timeout key-1", "ticket.waiting again key-1",
        "ticket.left forgotten key-1",
    ]  # fmt: skip


async def test_a_ticket_asked_for_repeatedly_writes_an_event_when_its_hub_dies(hub, redis, crowd, happened):
    await add_node(hub, "n1")
    for _ in range(3):
        with pytest.raises(WaitedInVain):
            await hub.leases.borrow(wanted(POOL, key="key-1", wait_s=0.1, run="r"))
    happened()
    await crowd.come("key-1", POOL, key="key-1", run="r")
    await eventually(lambda: retired(hub, redis))
    assert happened() == ["ticket.away hub key-1"]


async def retired(hub, redis) -> bool:
    """Mark the hub as gone and return whether its waiters are out of the queue; a tick in between would keep them."""
    redis.zadd("hub:hubs", {hub.clock.hub_id: -10_000})
    await hub.store.script("queue/retire")(limit=50)
    return not redis.exists(f"hub:line:{POOL}")


async def hangs_up() -> None:
    await asyncio.sleep(0.05)


async def test_a_ticket_writes_an_event_when_its_caller_hangs_up_or_its_hub_ends(hub, crowd, redis, happened):
    asked = wanted(POOL)
    with pytest.raises(CallerGone):
        await hub.leases.borrow(asked, hangs_up)
    assert happened() == [f"ticket.waiting {asked.request}", f"ticket.left gone {asked.request}"]
    await crowd.come("orphan", POOL)
    await eventually(lambda: retired(hub, redis))
    orphan = crowd.requests["orphan"].request
    assert happened() == [f"ticket.waiting {orphan}", f"ticket.left hub {orphan}"]
    await crowd.come("late", POOL)
    hub.queue.stop()
    await asyncio.gather(*crowd.tasks.values(), return_exceptions=True)
    assert f"ticket.left stopping {crowd.requests['late'].request}" in happened()


async def test_a_cancelled_ticket_writes_one_event(hub, crowd, happened):
    await add_node(hub, "n1")
    await crowd.come("one", POOL, key="key-1")
    for _ in range(2):
        await hub.store.script("queue/cancel")(ticket="key-1", recalled=0, by="")
    assert happened()[2:] == ["ticket.left cancelled key-1"]


async def test_an_undelivered_lease_writes_its_undo_and_its_ticket_keeps_its_place(hub, crowd, happened):
    await offer(hub, POOL, "s1")
    asked = wanted(POOL)
    lease = await hub.leases.borrow(asked)
    for _ in range(2):
        await hub.leases.undo(asked, lease)
    assert happened()[3:] == ["grant.undone gone s1"]


async def test_changes_of_caps_maintenance_and_expiry_write_events(hub, redis, happened):
    await offer(hub, POOL, "s1")
    happened()
    for cap in (3, 3, None, None):
        await hub.queue.set_cap(POOL, cap)
    await hub.pools.restart(POOL)
    redis.expire(f"maintenance:{POOL}", 1600)
    for _ in range(2):
        await hub.pools.describe([POOL])
    for value in (False, False, None):
        await hub.clock.switch_expire(value, "me")
    assert happened() == [
        f"cap.set {POOL}", f"cap.set cleared {POOL}", f"pool.maintenance {POOL}", f"pool.maintenance over {POOL}",
        "sweep.switched", "sweep.switched cleared",
    ]  # fmt: skip


async def test_each_change_by_another_program_writes_one_event_although_several_sweeps_see_it(hub, redis, happened):
    push(redis, POOL, ("f1", "x"), ("f2", "x"))
    redis.hset("session:f3", mapping={"labelKey": POOL, "nodeId": "x", "runId": "r"})
    redis.set("borrow_ttl:f3", "1", ex=900)
    _, leases = sweepers(hub)
    for _ in range(2):
        await leases.sweep()
    assert sorted(happened()) == ["grant.adopted foreign f3", "slot.adopted f1", "slot.adopted f2"]
    redis.delete(f"available:{POOL}")
    for _ in range(2):
        await leases.sweep()
    assert sorted(happened()) == ["slot.withdrawn missing f1", "slot.withdrawn missing f2"]


async def test_leases_restored_to_a_store_that_lost_them_write_events(hub, redis, happened):
    await offer(hub, POOL, "s1", "s2")
    first = await hub.leases.borrow(wanted(POOL))
    second = await hub.leases.borrow(wanted(POOL))
    hub.leases.memory.leases.pop(second.slot)
    redis.flushall()
    await hub.store.open()
    await add_node(hub, "n1")
    await publish(hub, second.slot, token=second.token)
    assert [line for line in happened() if "grant" in line] == [
        f"grant.adopted recalled {first.slot}", f"grant.adopted reported {second.slot}",
    ]  # fmt: skip


async def test_the_brake_and_sweeps_with_findings_write_events(hub, redis, happened):
    for number in range(4):
        await add_node(hub, f"n{number}")
        age_node(redis, f"n{number}", 3600)
    happened()
    nodes, _ = sweepers(hub)
    sweep = noted(hub.store, "node", nodes.sweep)
    await sweep()
    await Brake(hub.store, hub.settings).release("me")
    await sweep()
    await sweep()
    found = happened()
    assert [line for line in found if not line.startswith("node.expired")] == [
        "brake.engaged", "sweep.node", "brake.released", "sweep.node", "brake.ended",
    ]  # fmt: skip
    assert sorted(line for line in found if line.startswith("node.expired")) == [f"node.expired n{n}" for n in range(4)]


async def test_a_history_that_cannot_be_written_makes_no_call_fail(hub, redis):
    redis.set("hub:history", "another program's")
    await offer(hub, POOL, "s1")
    lease = await hub.leases.borrow(wanted(POOL))
    assert (await hub.leases.give_back("s1", POOL, lease.token))[0] == "returned"
    assert (await hub.nodes.leave("n1")).slots == 1


async def test_the_history_is_trimmed_to_the_length_in_the_settings(hub, redis):
    redis.hset("hub:store", "history_max", 100)
    await offer(hub, POOL, "s1")
    for _ in range(300):
        lease = await hub.leases.borrow(wanted(POOL))
        await hub.leases.give_back("s1", POOL, lease.token)
    assert 100 <= redis.xlen("hub:history") <= 250


def noted_events() -> set[str]:
    """Return the events that commands write, by their text."""
    return set(
        re.findall(r"""'((?:node|slot|pool|lease|ticket|cap|brake|sweep|worker|job|task)\.\w+)'""", library().text)
    )


def test_every_event_has_a_rule_and_a_kind():
    events = noted_events() | {"sweep.node", "sweep.lease", "sweep.worker"}
    assert {"worker.gone", "job.orphaned", "task.retried"} <= events
    assert len(events) > 25
    assert {event for event in events if not (rule(event) or rule(event, "lapsed") or rule(event, "node"))} == set()
    assert {event for event in events if not any(event.startswith(heads) for heads in KINDS.values())} == set()
