"""Jobs with limits, and tasks with slots, that were broken by hand: the doctor finds it and mends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from redis import Redis

from hub.core import Hub
from hub.jobs.terms import Limit
from tests.doctor.classed import offer
from tests.doctor.shop import look
from tests.jobs.terms import JOB, USER, claim, claimed, report, serving, submit, sweep

A, B = '{"customer":"a"}', '{"customer":"b"}'
LIMIT = f"{len(JOB)}\t{JOB}\t{Limit('customer').id}"
GROUP, OTHER, RATE = f"{LIMIT}:a", f"{LIMIT}:b", f"{len(JOB)}\t{JOB}\t{Limit(per_ms=60_000).id}:"
LIMITS = [{"key": "customer", "running": 1}, {"count": 100, "per_ms": 60_000}]


class Store:
    """Of customer a, one task runs and two wait beside the queue; one of customer b is in the queue."""

    def __init__(self, redis: Redis, worker: str, tasks: list[str]) -> None:
        self.redis, self.worker = redis, worker
        self.running, self.second, self.third, self.queued = tasks


@pytest.fixture
async def store(hub: Hub, redis: Redis) -> Store:
    await hub.clock.tick()
    worker = await serving(hub, limits=LIMITS)
    tasks = await submit(hub, 3, payload=A)
    assert await claimed(hub, worker) == tasks[:1]
    found = Store(redis, worker, [*tasks, *await submit(hub, payload=B)])
    assert await look(hub) == []
    return found


def into_backlog(store: Store) -> None:
    """Move a kept task to those that waited when the limits changed, of which no call knows."""
    store.redis.zrem(f"hub:limit_held:{GROUP}", store.second)
    store.redis.hdel(f"hub:task:{store.second}", "limited")
    store.redis.zadd(f"hub:limit_backlog:{JOB}", {store.second: 5})


# what is broken -> how, and how some of the problems found begin
BREAKS: dict[str, tuple[Callable[[Store], object], tuple[str, ...]]] = {
    "a kept task that no group has": (
        lambda s: s.redis.zrem(f"hub:limit_held:{GROUP}", s.second), ("pending, but in no queue",),
    ),
    "a kept task that does not say so": (
        lambda s: s.redis.hdel(f"hub:task:{s.second}", "limited"),
        ("pending, but in no queue", "keeps a task that does not wait", "the number kept of those put off"),
    ),
    "a kept task that its job queues": (
        lambda s: s.redis.zadd(f"hub:queue:{JOB}", {s.second: 5}),
        ("would let a task be claimed that does not wait there",),
    ),
    "a group of kept tasks that its job does not list": (
        lambda s: s.redis.delete(f"hub:limited:{JOB}"), ("not among the groups of its job",),
    ),
    "a group of counted tasks that its job does not list": (
        lambda s: s.redis.delete(f"hub:limit_groups:{JOB}"), ("not among the groups of its job",),
    ),
    "all that is kept was lost": (
        lambda s: s.redis.delete(f"hub:limit_held:{GROUP}", f"hub:limited:{JOB}"), ("pending, but in no queue",),
    ),
    "a task that counts and does not exist": (
        lambda s: s.redis.zadd(f"hub:limit_taken:{OTHER}", {"e" * 32: 5}), ("counts a task that neither runs nor",),
    ),
    "a kept task that counts": (
        lambda s: s.redis.zadd(f"hub:limit_taken:{GROUP}", {s.second: 5}), ("counts a task that neither runs nor",),
    ),
    "a running task that counts under a rate": (
        lambda s: s.redis.zadd(f"hub:limit_taken:{RATE}", {s.running: 5}), ("counts a task that neither runs nor",),
    ),
    "an ended group that its job lists": (
        lambda s: s.redis.sadd(f"hub:limited:{JOB}", f"{LIMIT}:z"), ("names what does not belong there",),
    ),
    "a kept task that does not exist": (
        lambda s: s.redis.zadd(f"hub:limit_held:{GROUP}", {"e" * 32: 5}), ("keeps a task that does not wait there",),
    ),
    "a kept task whose record is lost": (
        lambda s: s.redis.delete(f"hub:task:{s.second}"), ("keeps a task that does not wait there",),
    ),
    "a kept task whose record is broken": (
        lambda s: s.redis.hdel(f"hub:task:{s.second}", "room"), ("its record does not say",),
    ),
    "a counted task whose record is lost": (
        lambda s: s.redis.delete(f"hub:task:{s.running}"), ("counts a task that neither runs nor",),
    ),
    "a queued task whose record is lost": (
        lambda s: s.redis.delete(f"hub:task:{s.queued}"), ("counts a task that neither runs nor",),
    ),
    "a running task that does not count": (
        lambda s: s.redis.delete(f"hub:limit_taken:{GROUP}"), ("claimed or in its queue, but not counted", "has room"),
    ),
    "a running task that counts as if it were queued": (
        lambda s: s.redis.zadd(f"hub:limit_taken:{GROUP}", {s.running: 5}), ("claimed or in its queue, but not",),
    ),
    "a queued task that does not count": (
        lambda s: s.redis.delete(f"hub:limit_taken:{OTHER}"), ("claimed or in its queue, but not counted",),
    ),
    "a queued task that counts as if it ran": (
        lambda s: s.redis.zadd(f"hub:limit_taken:{OTHER}", {s.queued: "-inf"}), ("claimed or in its queue, but not",),
    ),
    "a number of tasks put off": (
        lambda s: s.redis.hset(f"hub:job:{JOB}", "later", 1), ("the number kept of those put off",),
    ),
    "limits that no call looks at": (
        lambda s: s.redis.hdel("hub:store", "job_terms"), ("has needs or limits, and the store says",),
    ),
    "tasks of before that nothing lets in": (into_backlog, ("has tasks that waited when its limits changed",)),
    "a limit that has room when nobody lives": (
        lambda s: s.redis.zadd("hub:limits_due", {OTHER: "inf"}), ("says that a limit has room in more than a day",),
    ),
    "a task that waits and has slots": (
        lambda s: s.redis.hset(f"hub:task:{s.second}", "slots", "b7"), ("says that it has slots, but",),
    ),
}  # fmt: skip


async def drain(hub: Hub, store: Store, *, alone: bool = True) -> None:
    """Run what is left, one task of each customer at a time, if `alone`."""
    for _ in range(6):
        running = await hub.store.read("ZRANGE", hub.store.keys.held_tasks, 0, -1)
        for task in await hub.tasks.several(list(running)):
            await report(hub, store.worker, task)
        got = await claimed(hub, store.worker)
        assert len({(await hub.tasks.get(task)).payload for task in got}) == len(got) or not alone


async def mend(hub: Hub, *problems: str) -> None:
    """Assert that the doctor finds such problems and repairs all, and that the store is then in order."""
    found = await look(hub)
    for problem in problems:
        assert any(each.problem.startswith(problem) for each in found), found
    for _ in range(2):  # what one repair makes right may show another
        await look(hub, repair=True)
    assert await look(hub) == []


def assert_nothing_is_kept(redis: Redis) -> None:
    assert [key for name in ("held", "taken", "groups", "backlog*") for key in redis.keys(f"hub:limit_{name}:*")] == []
    assert redis.keys("hub:limited*") == []
    assert int(redis.hget(f"hub:job:{JOB}", "later") or 0) == 0


@pytest.mark.parametrize("name", BREAKS)
async def test_the_doctor_mends_limits_that_were_broken_by_hand(name: str, store: Store, hub: Hub) -> None:
    do, problems = BREAKS[name]
    do(store)
    await mend(hub, *problems)
    await drain(hub, store)
    assert await look(hub) == []
    assert_nothing_is_kept(store.redis)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (None, "its job has no such limit"),
        ("{", "what it needs, or its limits, cannot be read"),
        ("[]", "its job has no such limit"),
        ('[{"key":"other","running":2}]', "its job has no such limit"),
        ('[{"key":"customer","running":2}]', "has room"),
    ],
)
async def test_tasks_go_on_under_limits_that_were_changed_by_hand(
    limits: str | None, problem: str, store: Store, hub: Hub
) -> None:
    if limits is None:
        store.redis.hdel(f"hub:job:{JOB}", "limits")
    else:
        store.redis.hset(f"hub:job:{JOB}", "limits", limits)
    await mend(hub, problem)
    await drain(hub, store, alone=False)
    assert await look(hub) == []
    assert_nothing_is_kept(store.redis)


async def test_a_rate_that_no_call_would_look_at_again_is_noted_for_its_time(hub: Hub, redis: Redis) -> None:
    await hub.clock.tick()
    worker = await serving(hub, limits=[{"count": 1, "per_ms": 60_000}])
    await submit(hub, 2)
    assert len(await claimed(hub, worker)) == 1
    assert await look(hub) == []
    (due,) = redis.zrange("hub:limits_due", 0, -1, withscores=True)
    redis.delete("hub:limits_due")
    (found,) = await look(hub, repair=True)
    assert found.repaired
    assert found.problem.startswith("has room, or will have it")
    assert redis.zrange("hub:limits_due", 0, -1, withscores=True) == [due]
    redis.hincrby("hub:store", "clock_ms", 60_000)
    assert await look(hub) == []


async def test_tasks_that_a_change_of_limits_has_yet_to_move_are_no_finding(store: Store, hub: Hub) -> None:
    for number in range(12):
        await submit(hub, 50, payload=f'{{"customer":"{number}"}}')
    await serving(hub, worker=store.worker, limits=[{"key": "other", "running": 2}])
    assert store.redis.exists(f"hub:limit_old:{JOB}", f"hub:limit_backlog:{JOB}") == 2
    assert await look(hub) == []


async def test_limits_that_change_and_tasks_of_all_kinds_are_no_finding(store: Store, hub: Hub) -> None:
    await serving(hub, worker=store.worker, limits=[{"key": "customer", "running": 2}])
    assert await look(hub) == []
    assert await claimed(hub, store.worker) == [store.second, store.queued]
    assert await look(hub) == []
    await serving(hub, worker=store.worker)
    assert await look(hub) == []


async def test_a_job_all_of_whose_tasks_are_kept_is_no_finding(store: Store, hub: Hub) -> None:
    await hub.tasks.move(store.queued, "cancelled", user=USER)
    await hub.workers.delete(store.worker, USER, superuser=False)
    assert await look(hub) == []


@pytest.fixture
async def with_slots(hub: Hub, redis: Redis) -> Redis:
    """One task runs with two slots, one waits for slots."""
    await hub.clock.tick()
    await offer(hub, "gpu:a", dict.fromkeys(("g1", "g2"), None))
    worker = await serving(hub, ("gpu:a", 2))
    await submit(hub, 2)
    assert len(await claim(hub, worker)) == 1
    return redis


async def test_tasks_with_slots_are_no_finding(with_slots: Redis, hub: Hub) -> None:
    assert await look(hub) == []


def task_of(redis: Redis) -> tuple[str, str]:
    """Return the task that runs, and its bundle."""
    (task,) = redis.zrange("hub:held_tasks", 0, -1)
    return task, redis.hget(f"hub:task:{task}", "slots")


SLOTS: dict[str, tuple[Callable[[Redis, str, str], object], str]] = {
    "the bundle": (lambda r, _, bundle: r.delete(f"hub:bundle:{bundle}"), "has lost a slot"),
    "a member": (lambda r, _, bundle: r.hdel(f"hub:bundle:{bundle}", "g1"), "lent, but its bundle lacks it"),
    "a session": (lambda r, *_: r.delete("session:g1"), "lent, but there is no session"),
    "a lease": (lambda r, *_: r.delete("session:g2", "hub:slot:g2"), "has lost a slot"),
    "the bundle of a task": (lambda r, task, _: r.hdel(f"hub:task:{task}", "slots"), "lent to a task that does not"),
    "another bundle of a task": (lambda r, task, _: r.hset(f"hub:task:{task}", "slots", "b7"), "has lost a slot"),
}  # fmt: skip


@pytest.mark.parametrize("lost", SLOTS)
async def test_a_task_whose_slots_were_lost_by_hand_does_not_go_on_without(
    lost: str, with_slots: Redis, hub: Hub
) -> None:
    do, problem = SLOTS[lost]
    do(with_slots, *task_of(with_slots))
    assert any(each.problem.startswith(problem) for each in await look(hub))
    for _ in range(3):
        await look(hub, repair=True)
    assert await look(hub) == []
    await hub.clock.tick()
    await sweep(hub)
    for each in with_slots.zrange("hub:held_tasks", 0, -1):
        bundle = await hub.bundles.of(with_slots.hget(f"hub:task:{each}", "slots"))
        assert {lease.slot for lease in bundle.leases} == {"g1", "g2"}


async def test_a_worker_that_would_not_renew_the_slots_of_its_task_does(with_slots: Redis, hub: Hub) -> None:
    task, _ = task_of(with_slots)
    worker = with_slots.hget(f"hub:task:{task}", "worker")
    with_slots.hdel(f"hub:worker:{worker}", "lends")
    (found,) = await look(hub, repair=True)
    assert (found.problem, found.repaired) == ("has slots that the heartbeats of its worker do not renew", True)
    assert with_slots.hget(f"hub:worker:{worker}", "lends") == "1"


async def test_a_lease_whose_task_is_over_ends_by_the_doctor_only_after_its_time(with_slots: Redis, hub: Hub) -> None:
    """Leases that come back after a loss, and whose tasks do not, lapse; one that somebody renews would stay."""
    task, _ = task_of(with_slots)
    with_slots.hdel(f"hub:task:{task}", "slots")
    await hub.tasks.move(task, "cancelled", superuser=True)
    assert await look(hub) == []
    with_slots.hincrby("hub:slot:g1", "granted_ms", -1_000_000)
    (found,) = await look(hub, repair=True)
    assert (found.subject, found.repaired) == ("slot g1", True)
    assert found.problem.startswith("lent to a task that does not have it")
    assert with_slots.exists("session:g1", "session:g2") == 1
    assert await look(hub) == []
