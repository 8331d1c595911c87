"""Needs and limits on a store that comes back without its last second."""

from __future__ import annotations

import pytest

from hub.capacity.models import BorrowRequest
from tests.doctor.classed import offer
from tests.jobs.terms import HOLDER, JOB, USER, claim, claimed, lent, report, serving, slots_of, submit

A = '{"customer":"a"}'
LIMIT = [{"key": "customer", "running": 1}]


@pytest.fixture
async def fleet(lossy):
    """The hub of the store, and a node with three slots."""
    await offer(lossy.hub, "gpu:a", dict.fromkeys(("g1", "g2", "g3"), None))
    return lossy


async def test_a_claim_that_is_lost_leaves_no_task_without_its_slots(fleet):
    hub = fleet.hub
    worker = await serving(hub, ("gpu:a", 2))
    (first,) = await submit(hub)
    fleet.keep()
    (task,) = await claim(hub, worker)
    await fleet.forget()
    await fleet.recall()
    now = await hub.tasks.get(first)
    assert len(await slots_of(hub, first)) == (2 if now.status == "running" else 0)
    assert task.slots


async def test_an_end_that_is_lost_ends_the_leases_again(fleet):
    hub = fleet.hub
    worker = await serving(hub, ("gpu:a", 2))
    (first,) = await submit(hub)
    (task,) = await claim(hub, worker)
    fleet.keep()
    assert await report(hub, worker, task) == ["ok"]
    await fleet.forget()
    await fleet.recall()
    assert (await hub.tasks.get(first)).status == "completed"
    assert await lent(hub) == set()


async def test_a_kept_task_that_is_lost_is_kept_again(lossy):
    hub = lossy.hub
    worker = await serving(hub, limits=LIMIT)
    (first,) = await submit(hub, payload=A)
    assert await claimed(hub, worker) == [first]
    lossy.keep()
    (second,) = await submit(hub, payload=A)
    await lossy.forget()
    await lossy.recall()
    assert await claimed(hub, worker) == []
    assert int(await hub.store.read("HGET", hub.store.keys.job(JOB), "later")) == 1
    await hub.tasks.move(first, "completed", user=USER)
    assert await claimed(hub, worker) == [second]


async def test_an_end_that_is_lost_gives_its_room_on_again(lossy):
    hub = lossy.hub
    worker = await serving(hub, limits=LIMIT)
    first, second = await submit(hub, 2, payload=A)
    (task,) = await claim(hub, worker)
    lossy.keep()
    assert await report(hub, worker, task) == ["ok"]
    (task,) = await claim(hub, worker)
    assert await report(hub, worker, task) == ["ok"]
    (third,) = await submit(hub, payload=A)
    await lossy.forget()
    await lossy.recall()
    assert [(await hub.tasks.get(each)).status for each in (first, second)] == ["completed", "completed"]
    assert await claimed(hub, worker) == [third]


async def test_slots_that_were_borrowed_and_lost_are_lent_to_no_other(fleet):
    """As below, for a borrow."""
    fleet.keep()
    holder = BorrowRequest("gpu:a", 90_000, "r1", "req", "try", "f", 60, holder=HOLDER)
    lease = await fleet.hub.leases.borrow(holder)
    await fleet.forget()
    await fleet.recall()
    assert lease.slot in await lent(fleet.hub)


async def test_the_slots_of_a_claim_that_is_lost_are_lent_to_no_other_meanwhile(fleet):
    """The worker has its task and works on."""
    hub = fleet.hub
    worker = await serving(hub, ("gpu:a", 2))
    await submit(hub)
    fleet.keep()
    (task,) = await claim(hub, worker)
    had = await slots_of(hub, task.id)
    await fleet.forget()
    await fleet.recall()
    assert await lent(hub) == had
