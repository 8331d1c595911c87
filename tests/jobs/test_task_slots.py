"""Tasks that need slots: a claim takes both in one step, and the slots end with the task."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from hub.capacity.models import LeaseHolder
from hub.capacity.wishes import BundlePart, BundleWish
from hub.jobs.models import Claim, JobRequest, Options, Result
from hub.sweeping.tasks import TaskSweeperService
from tests.world import eventually, publish

USER = "a" * 32
JOB = "r1:modifiers:A"
HOLDER = LeaseHolder("ann", "ml", "worker", "127.0.0.1", USER).text
CLAIM = Claim(start=True, holder=HOLDER)


@pytest.fixture
async def fleet(hub, make_api):
    async with make_api() as api:
        await publish(api, "n1", **{"gpu:a": ["g1", "g2", "g3"]})
        rounds = [asyncio.create_task(each()) for each in (hub.clock.run, hub.queue.listen, hub.queue.go_round)]
        yield hub
        for each in rounds:
            each.cancel()


async def serving(
    hub, *parts: tuple[str, int], name: str = "A", worker: str | None = None, limits: object = None
) -> str:
    """Return a worker of a job whose tasks need such parts."""
    wish = BundleWish(tuple(BundlePart(label, number=count) for label, count in parts)).text if parts else ""
    wanted = JobRequest(
        "r1", "modifiers", name, worker=worker, needs=wish, limits=orjson.dumps(limits).decode() if limits else ""
    )
    return str((await hub.jobs.register(wanted, {}, USER, superuser=False))[0].worker)


async def submit(hub, count=1, *, payload="{}", job=JOB, **options):
    return [task.id for task in await hub.tasks.submit("r1", job, [payload] * count, USER, Options(**options))]


async def lent(hub):
    return set(await hub.store.read("ZRANGE", hub.store.keys.deadlines, 0, -1))


async def sweep(hub):
    done = await TaskSweeperService(hub.store, hub.settings, hub.workers).sweep()
    assert done.errors == 0
    return done


@pytest.mark.parametrize("end", ["completed", "failed", "pending", "cancelled", "removed"])
async def test_a_claim_takes_the_slots_and_each_end_of_the_task_gives_them_back(fleet, end):
    worker = await serving(fleet, ("gpu:a", 2))
    await submit(fleet)
    (task,) = await fleet.claims.claim(worker, USER, CLAIM)
    found = await fleet.bundles.of(task.slots)
    assert {lease.slot for lease in found.leases} == await lent(fleet)
    assert len(found.leases) == 2
    assert found.leases[0].run == task.id
    if end == "cancelled":
        await fleet.tasks.move(task.id, "cancelled", user=USER)
    elif end == "removed":
        await fleet.workers.delete(worker, USER, superuser=False)
    else:
        assert await fleet.tasks.finish(worker, USER, [Result(task.id, end, claim=task.claim)]) == ["ok"]
    assert await lent(fleet) == set()
    assert (await fleet.tasks.get(task.id)).slots == ""


async def test_a_task_without_slots_stays_in_its_queue_and_others_go_on(fleet):
    worker = await serving(fleet, ("gpu:a", 2))
    await serving(fleet, name="B", worker=worker)
    first, second = await submit(fleet, 2)
    (other,) = await submit(fleet, job="r1:modifiers:B")
    (task,) = await fleet.claims.claim(worker, USER, CLAIM)
    assert task.id == first
    (task,) = await fleet.claims.claim(worker, USER, CLAIM)
    assert (task.id, task.slots) == (other, "")
    assert await fleet.claims.claim(worker, USER, CLAIM) == []
    await fleet.tasks.move(first, "completed", user=USER)
    (task,) = await fleet.claims.claim(worker, USER, CLAIM)
    assert task.id == second


async def test_a_claim_that_may_borrow_nothing_leaves_tasks_that_need_slots(fleet):
    worker = await serving(fleet, ("gpu:a", 1))
    await submit(fleet)
    assert await fleet.claims.claim(worker, USER, Claim()) == []
    assert await lent(fleet) == set()


async def test_a_claim_that_waits_gets_its_task_when_slots_come(fleet):
    worker, other = await serving(fleet, ("gpu:a", 3)), await serving(fleet, ("gpu:a", 3))
    _, second = await submit(fleet, 2)
    (task,) = await fleet.claims.claim(worker, USER, CLAIM)
    waiting = asyncio.create_task(fleet.claims.claim_or_wait(other, USER, CLAIM, 60.0))
    await eventually(lambda: fleet.store.read("ZCARD", fleet.store.keys.bundles))
    await fleet.tasks.finish(worker, USER, [Result(task.id, "completed", claim=task.claim)])
    (task,) = await waiting
    assert task.id == second
    found = await fleet.bundles.of(task.slots)
    assert {lease.slot for lease in found.leases} == {"g1", "g2", "g3"}
    holder = await fleet.store.read("HGET", fleet.store.keys.session("g1"), "holder")
    assert orjson.loads(holder)["task"] == second
    await fleet.tasks.finish(other, USER, [Result(task.id, "completed", claim=task.claim)])
    assert await lent(fleet) == set()


async def test_a_slot_that_is_lost_loses_the_attempt_and_not_the_task(fleet):
    worker = await serving(fleet, ("gpu:a", 2))
    await submit(fleet, max_attempts=2, as_the_job=False)
    (task,) = await fleet.claims.claim(worker, USER, CLAIM)
    await fleet.nodes.leave("n1")
    await sweep(fleet)
    again = await fleet.tasks.get(task.id)
    assert (again.status, again.attempt, again.slots) == ("pending", 2, "")
    assert await lent(fleet) == set()


async def test_the_heartbeats_of_the_worker_extend_the_leases_of_its_tasks(fleet):
    worker = await serving(fleet, ("gpu:a", 1))
    await submit(fleet)
    (task,) = await fleet.claims.claim(worker, USER, CLAIM)
    (slot,) = await lent(fleet)
    before = await fleet.store.read("HGET", fleet.store.keys.slot(slot), "visible_ms")
    await fleet.workers.beat(worker, USER)
    assert task.slots
    assert int(await fleet.store.read("HGET", fleet.store.keys.slot(slot), "visible_ms")) >= int(before)


async def running(hub, worker, most=100):
    return [task.id for task in await hub.claims.claim(worker, USER, Claim(most, start=True))]


async def test_a_limit_by_key_keeps_tasks_of_one_value_and_no_others(hub):
    worker = await serving(hub, limits=[{"key": "customer.id", "running": 2}])
    a = await submit(hub, 5, payload='{"customer":{"id":"a"}}')
    b = await submit(hub, 3, payload='{"customer":{"id":"b"}}')
    none = await submit(hub, 3, payload="{}")
    assert await running(hub, worker) == [*a[:2], *b[:2], *none[:2]]
    await hub.tasks.move(a[0], "completed", user=USER)
    await hub.tasks.move(b[2], "cancelled", user=USER)
    assert await running(hub, worker) == [a[2]]
    await hub.tasks.move(none[1], "completed", user=USER)
    assert await running(hub, worker) == [none[2]]
    demand = await hub.jobs.demand(JOB)
    assert (demand.pending, demand.put_off) == (0, 2)


async def test_a_rate_lets_so_many_tasks_start_in_its_time(hub):
    worker = await serving(hub, limits=[{"count": 3, "per_ms": 60_000}])
    tasks = await submit(hub, 7)
    assert await running(hub, worker) == tasks[:3]
    assert await running(hub, worker) == []
    (starts,) = await hub.store.read("KEYS", "hub:limit_starts:*")
    assert await hub.store.read("LLEN", starts) == 3


async def test_other_limits_count_for_the_tasks_that_wait_and_run(hub):
    worker = await serving(hub)
    tasks = await submit(hub, 6)
    assert await running(hub, worker, 2) == tasks[:2]
    await serving(hub, worker=worker, limits=[{"running": 3}])
    assert await running(hub, worker) == [tasks[2]]
    await serving(hub, worker=worker, limits=[{"running": 5}])
    assert await running(hub, worker) == tasks[3:5]
    await serving(hub, worker=worker)
    assert await running(hub, worker) == [tasks[5]]
