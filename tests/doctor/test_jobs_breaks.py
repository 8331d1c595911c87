"""The indexes of the jobs API broken by hand in one way: the doctor finds just that, repairs it, then finds nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hub.core import Hub
from hub.errors import JobNotFound, TaskNotFound, WorkerNotFound
from hub.jobs.models import Claim, JobRequest
from tests.doctor.shop import GONE, JOB, LATE, PROVIDER, SHARED, USER, Shop, look

HOUR_MS = 3_600_000
NOBODY = "f" * 32
SCHEMAS_HELD = ("C12", "hub:used:schemas", "says of a user")
UNFOUND = "the first in its queue is not"


Break = Callable[[Shop], object]
ReportedProgress = set[tuple[str, str, str]]

# name -> (what is broken, {(invariant, subject, the beginning of the problem)}); {waiting} is an id as people see it,
# {waiting.key} as it stands in keys
TASKS: dict[str, tuple[Break, ReportedProgress]] = {
    "a task its room does not list": (
        lambda s: s.redis.zrem("hub:room_tasks:pending:one", s.waiting),
        {("C9", "task {waiting}", "not among the tasks of its room")},
    ),
    "a task its job does not list": (
        lambda s: s.redis.zrem(f"hub:job_tasks:claimed:one:{JOB}", s.claimed),
        {("C9", "task {claimed}", "not among the tasks of its job")},
    ),
    "a task at another place": (
        lambda s: s.redis.zadd("hub:room_tasks:pending:one", {s.waiting: 5}),
        {("C9", "task {waiting}", "not among the tasks of its room in its status, or not at its place")},
    ),
    "a task under two statuses": (
        lambda s: s.redis.zadd("hub:room_tasks:running:one", {s.waiting: 5}),
        {("C9", "hub:room_tasks:running:one {waiting.key}", "lists a task under what it is not")},
    ),
    "a task listed for another job": (
        lambda s: s.redis.zadd(f"hub:job_tasks:pending:one:{SHARED}", {s.waiting: 5}),
        {("C9", f"hub:job_tasks:pending:one:{SHARED} {{waiting.key}}", "lists a task under what it is not")},
    ),
    "a status the lists do not know of": (
        lambda s: s.redis.hset(f"hub:task:{s.running}", "status", "claimed"),
        {
            ("C9", "task {running}", "not among the tasks of its room"),
            ("C9", "task {running}", "not among the tasks of its job"),
            ("C9", "hub:room_tasks:running:one {running.key}", "lists a task"),
            ("C9", f"hub:job_tasks:running:one:{JOB} {{running.key}}", "lists a task"),
        },
    ),
    "a pending task in no queue": (
        lambda s: s.redis.zrem(f"hub:queue:{JOB}", s.waiting),
        {
            ("C9", "task {waiting}", "pending, but in no queue"),
            ("C9", f"hub:heads {JOB}", "would have a queue looked at that is empty"),
        },
    ),
    "a queue that is not found by its first task": (
        lambda s: s.redis.zrem("hub:heads", JOB), {("C9", f"job {JOB}", UNFOUND)},
    ),
    "a queue that is found too late": (
        lambda s: s.redis.zadd("hub:heads", {JOB: 9e15}), {("C9", f"job {JOB}", UNFOUND)},
    ),
    "a queue that is found and empty": (
        lambda s: s.redis.zadd("hub:heads", {SHARED: 5}),
        {("C9", f"hub:heads {SHARED}", "would have a queue looked at that is empty")},
    ),
    "a task that is put off and nowhere": (
        lambda s: s.redis.zrem("hub:later", s.late),
        {("C9", "task {late}", "pending, but in no queue")},
    ),
    "a task in the queue and put off": (
        lambda s: s.redis.zadd("hub:later", {s.waiting: 5}),
        {("C9", "hub:later {waiting.key}", "would queue a task")},
    ),
    "a task put off and in queue": (
        lambda s: s.redis.zadd(f"hub:queue:{LATE}", {s.late: 5}),
        {
            ("C9", f"hub:queue:{LATE} {{late.key}}", "would let a task be claimed"),
            ("C9", f"job {LATE}", UNFOUND),
        },
    ),
    "a task that is over in the queue": (
        lambda s: s.redis.zadd(f"hub:queue:{JOB}", {s.over: 5}),
        {
            ("C9", f"hub:queue:{JOB} {{over.key}}", "would let a task be claimed"),
            ("C9", f"job {JOB}", UNFOUND),
        },
    ),
    "a task in the queue of another job": (
        lambda s: s.redis.zadd(f"hub:queue:{SHARED}", {s.waiting: 5}),
        {
            ("C9", f"hub:queue:{SHARED} {{waiting.key}}", "would let a task be claimed"),
            ("C9", f"job {SHARED}", UNFOUND),
        },
    ),
    "a task in the queue that nobody knows": (
        lambda s: s.redis.zadd(f"hub:queue:{JOB}", {NOBODY: 5}),
        {("C9", f"hub:queue:{JOB} {NOBODY}", "would let a task be claimed"), ("C9", f"job {JOB}", UNFOUND)},
    ),
    "a held task that is not counted, and one that is over and is": (
        lambda s: s.redis.zrem("hub:held_tasks", s.running) and s.redis.zadd("hub:held_tasks", {s.over: 5}),
        {("C12", "task {running}", "claimed, but not among all"), ("C12", "hub:held_tasks {over.key}", "names what")},
    ),
    "a task its worker does not list": (
        lambda s: s.redis.srem(f"hub:worker_tasks:{s.local}", s.claimed),
        {("C10", "task {claimed}", "claimed, but not among the tasks of its worker")},
    ),
    "a task another worker lists": (
        lambda s: s.redis.sadd(f"hub:worker_tasks:{s.shared}", s.claimed),
        {("C9", "hub:worker_tasks:{shared.key} {claimed.key}", "names a task that this worker")},
    ),
    "a task of a worker nobody knows": (
        lambda s: (s.redis.srem(f"hub:worker_tasks:{s.local}", s.running),
                   s.redis.hset(f"hub:task:{s.running}", "worker", NOBODY)),
        {("C10", "task {running}", "claimed by a worker that is gone")},
    ),
    "a task without a worker that nobody would end": (
        lambda s: s.redis.zrem("hub:ownerless", s.unheld),
        {("C10", "task {unheld}", "claimed by no worker")},
    ),
    "an @internal task that nobody would end": (
        lambda s: s.redis.zrem("hub:internal_tasks", s.internal),
        {("C10", "task {internal}", "claimed by no worker")},
    ),
    "a held task among the ownerless": (
        lambda s: s.redis.zadd("hub:ownerless", {s.claimed: 5}),
        {("C9", "hub:ownerless {claimed.key}", "would fail a task")},
    ),
    "a plain task among the @internal ones": (
        lambda s: s.redis.zadd("hub:internal_tasks", {s.claimed: 5}),
        {("C9", "hub:internal_tasks {claimed.key}", "would fail a task")},
    ),
    "a runtime of a task that is over": (
        lambda s: s.redis.zadd("hub:runtimes", {s.over: 5}),
        {("C9", "hub:runtimes {over.key}", "would fail a task")},
    ),
    "a task that would never be forgotten": (
        lambda s: s.redis.zrem("hub:finished", s.over),
        {("C12", "task {over}", "over, but not among those")},
    ),
    "a task without its end": (
        lambda s: s.redis.hdel(f"hub:task:{s.over}", "done"),
        {("C12", "task {over}", "over, but not among those")},
    ),
    "a task to be forgotten that is not over": (
        lambda s: s.redis.zadd("hub:finished", {s.waiting: 5}),
        {("C9", "hub:finished {waiting.key}", "would have a task forgotten")},
    ),
    "a dead letter that has another attempt": (
        lambda s: s.redis.zadd("hub:dead", {s.waiting: 5}),
        {("C12", "hub:dead {waiting.key}", "names what does not belong")},
    ),
    "a result of nobody": (
        lambda s: s.redis.set(f"hub:task_result:{NOBODY}", "{}"),
        {("C12", f"hub:task_result:{NOBODY}", "names what does not belong")},
    ),
    "a result of a task that is not completed": (
        lambda s: s.redis.set(f"hub:task_result:{s.running}", "{}"),
        {("C12", "hub:task_result:{running.key}", "names what does not belong")},
    ),
    "a log of nobody": (
        lambda s: s.redis.rpush(f"hub:task_log:{NOBODY}", "1 a"),
        {("C12", f"hub:task_log:{NOBODY}", "names what does not belong")},
    ),
    "a silence of a task that may be silent": (
        lambda s: s.redis.zadd("hub:silences", {s.running: 5}),
        {("C9", "hub:silences {running.key}", "would fail a task that does not run")},
    ),
    "a payload of nobody": (
        lambda s: s.redis.set(f"hub:payload:{NOBODY}", "{}"),
        {("C12", f"hub:payload:{NOBODY}", "names what does not belong")},
    ),
}  # fmt: skip
JOBS: dict[str, tuple[Break, ReportedProgress]] = {
    "a job with too few tasks": (
        lambda s: s.redis.hincrby(f"hub:job:{JOB}", "tasks", -1),
        {("C12", f"job {JOB}", "the number kept of its tasks")},
    ),
    "a job with too many tasks": (
        lambda s: s.redis.hincrby(f"hub:job:{GONE}", "tasks", 3),
        {("C12", f"job {GONE}", "the number kept of its tasks")},
    ),
    "a job with too many put off": (
        lambda s: s.redis.hincrby(f"hub:job:{JOB}", "later", 1),
        {("C10", f"job {JOB}", "the number kept of those put off")},
    ),
    "a job that forgot what it put off": (
        lambda s: s.redis.hdel(f"hub:job:{LATE}", "later"),
        {("C10", f"job {LATE}", "the number kept of those put off")},
    ),
    "an active job its room does not list": (
        lambda s: s.redis.zrem("hub:room_jobs:one", JOB),
        {("C12", f"job {JOB}", "not listed as what it is")},
    ),
    "an active job listed as deleted": (
        lambda s: s.redis.zadd("hub:deleted_jobs", {JOB: 5}),
        {("C12", f"hub:deleted_jobs {JOB}", "names what does not belong")},
    ),
    "a deleted job that is not listed": (
        lambda s: s.redis.zrem("hub:deleted_jobs", GONE),
        {("C12", f"job {GONE}", "not listed as what it is")},
    ),
    "a deleted job listed as active": (
        lambda s: s.redis.zadd("hub:room_jobs:one", {GONE: 5}),
        {("C12", f"hub:room_jobs:one {GONE}", "names what does not belong")},
    ),
    "a job listed in another room": (
        lambda s: s.redis.zadd("hub:room_jobs:two", {JOB: 5}),
        {("C12", f"hub:room_jobs:two {JOB}", "names what does not belong")},
    ),
    "a job nobody knows": (
        lambda s: s.redis.zadd("hub:room_jobs:one", {"one:a:b": 5}),
        {("C12", "hub:room_jobs:one one:a:b", "names what does not belong")},
    ),
    "a served job that was deleted": (
        lambda s: (s.redis.hset(f"hub:job:{JOB}", "deleted", "5"), s.redis.zrem("hub:room_jobs:one", JOB),
                   s.redis.zadd("hub:deleted_jobs", {JOB: 5})),
        {("C10", f"job {JOB}", "soft-deleted, though")},
    ),
    "what is left of a job that was forgotten too early": (
        lambda s: (s.redis.delete(f"hub:job:{GONE}"), s.redis.hincrby(f"hub:job:{GONE}", "tasks", 1)),
        {("C12", f"job {GONE}", "its record lacks"), ("C12", f"hub:deleted_jobs {GONE}", "names what"), SCHEMAS_HELD},
    ),
    "tasks of a job that is gone": (
        lambda s: (s.redis.delete(f"hub:job:{GONE}"), s.redis.zrem("hub:deleted_jobs", GONE)),
        {("C12", f"job {GONE}", "its record lacks"), ("C12", f"job {GONE}", "the number kept of its"), SCHEMAS_HELD},
    ),
    "a job that does not know its worker": (
        lambda s: s.redis.srem(f"hub:job_workers:{JOB}", s.local),
        {("C10", f"worker {{local}} and job {JOB}", "either the worker or the job")},
    ),
    "a worker that does not know its job": (
        lambda s: s.redis.srem(f"hub:worker_jobs:{s.local}", JOB),
        {("C10", f"worker {{local}} and job {JOB}", "either"), ("C12", "worker {local}", "the number kept of")},
    ),
    "a job that counts on nobody": (
        lambda s: s.redis.sadd(f"hub:job_workers:{JOB}", NOBODY),
        {("C10", f"worker {'-'.join(('f' * 8, 'ffff', 'ffff', 'ffff', 'f' * 12))} and job {JOB}", "the job counts")},
    ),
}  # fmt: skip
WORKERS: dict[str, tuple[Break, ReportedProgress]] = {
    "a worker that is not listed": (
        lambda s: s.redis.zrem("hub:workers", s.local),
        {("C12", "worker {local}", "not among the workers,")},
    ),
    "a worker nobody would find dead": (
        lambda s: s.redis.zrem("hub:worker_beats", s.local),
        {("C10", "worker {local}", "nothing is kept of its beats")},
    ),
    "a worker long dead": (
        lambda s: s.redis.zadd("hub:worker_beats", {s.local: s.clock_ms() - HOUR_MS}),
        {("C10", "worker {local}", "silent for longer")},
    ),
    "a worker listed that is gone": (
        lambda s: s.redis.zadd("hub:workers", {NOBODY: 5}),
        {("C12", f"hub:workers {NOBODY}", "names what does not belong")},
    ),
    "a beat of nobody": (
        lambda s: s.redis.zadd("hub:worker_beats", {NOBODY: 5}),
        {("C12", f"hub:worker_beats {NOBODY}", "names what does not belong")},
    ),
    "a worker that counts its rooms wrongly": (
        lambda s: s.redis.hincrby(f"hub:worker_rooms:{s.local}", "one", 1),
        {("C12", "worker {local}", "the number kept of its jobs")},
    ),
    "a worker with a room too many": (
        lambda s: (s.redis.hset(f"hub:worker_rooms:{s.local}", "three", 1),
                   s.redis.zadd("hub:room_workers:three", {s.local: 5})),
        {("C12", "worker {local}", "the number kept of its jobs")},
    ),
    "a worker with a shared room too many": (
        lambda s: (s.redis.hset(f"hub:worker_rooms:{s.local}", "@global", 1),
                   s.redis.zadd("hub:room_workers:*", {s.local: 5}),
                   s.redis.zadd("hub:room_workers:@global", {s.local: 5})),
        {("C12", "worker {local}", "the number kept of its jobs"),
         ("C12", "hub:room_workers:one {local.key}", "names what does not")},
    ),
    "a worker its room does not list": (
        lambda s: s.redis.zrem("hub:room_workers:one", s.local),
        {("C12", "worker {local}", "not among the workers of a room")},
    ),
    "a shared worker that is not listed": (
        lambda s: s.redis.zrem("hub:room_workers:*", s.shared),
        {("C12", "worker {shared}", "not among the workers of a room")},
    ),
    "a shared worker listed twice": (
        lambda s: s.redis.zadd("hub:room_workers:two", {s.shared: 5}),
        {("C12", "hub:room_workers:two {shared.key}", "names what does not belong")},
    ),
    "a record that does not say whose it is": (
        lambda s: s.redis.hdel(f"hub:worker:{s.local}", "user"),
        {("C10", "worker {local}", "its record does not say")},
    ),
    "what is left of a worker": (
        lambda s: (s.redis.hset(f"hub:worker_rooms:{NOBODY}", "one", 1),
                   s.redis.sadd(f"hub:worker_jobs:{NOBODY}", JOB)),
        {("C10", "worker ffffffff-ffff-ffff-ffff-ffffffffffff", "gone, but some")},
    ),
    "a worker half removed": (
        lambda s: s.redis.sadd("hub:dead_workers", NOBODY),
        {("C10", "worker ffffffff-ffff-ffff-ffff-ffffffffffff", "gone, but what it held")},
    ),
    "a worker about to be removed that lives": (
        lambda s: s.redis.sadd("hub:dead_workers", s.local),
        {("C10", "hub:dead_workers {local.key}", "names a worker that is not gone")},
    ),
    "a worker that hung up and is gone": (
        lambda s: s.redis.zadd("hub:hung_up", {NOBODY: 5}),
        {("C12", f"hub:hung_up {NOBODY}", "names a worker that is gone")},
    ),
    "a provider of nobody": (
        lambda s: (s.redis.hset(f"hub:provider:{PROVIDER}", "worker", NOBODY),
                   s.redis.srem(f"hub:worker_providers:{s.local}", PROVIDER),
                   s.redis.sadd(f"hub:worker_providers:{NOBODY}", PROVIDER)),
        {("C10", f"provider {PROVIDER}", "its worker is gone"),
         ("C10", "worker ffffffff-ffff-ffff-ffff-ffffffffffff", "gone, but some")},
    ),
    "a provider its worker does not list": (
        lambda s: s.redis.srem(f"hub:worker_providers:{s.local}", PROVIDER),
        {("C10", f"provider {PROVIDER}", "not among the providers of its worker")},
    ),
    "a provider its room does not list": (
        lambda s: s.redis.zrem("hub:room_providers:one", PROVIDER),
        {("C12", f"provider {PROVIDER}", "not among the providers of its room")},
    ),
    "a provider without its name": (
        lambda s: s.redis.delete(f"hub:provider_name:{s.provider}"),
        {("C12", f"provider {PROVIDER}", "not known by its id")},
    ),
    "a provider another worker lists": (
        lambda s: s.redis.sadd(f"hub:worker_providers:{s.shared}", PROVIDER),
        {("C12", f"hub:worker_providers:{{shared.key}} {PROVIDER}", "names what does not belong")},
    ),
    "a name of no provider": (
        lambda s: s.redis.set(f"hub:provider_name:{NOBODY}", "one:frames:q"),
        {("C12", f"hub:provider_name:{NOBODY}", "names what does not belong")},
    ),
    "a provider in another room": (
        lambda s: s.redis.zadd("hub:room_providers:two", {PROVIDER: 5}),
        {("C12", f"hub:room_providers:two {PROVIDER}", "names what does not belong")},
    ),
    "a claim remembered for ever": (
        lambda s: s.redis.set("hub:claim:c1", "x"),
        {("C12", "hub:claim:c1", "has no lifetime")},
    ),
}  # fmt: skip
BREAKS = TASKS | JOBS | WORKERS


class _Id:
    """An id inside an expected subject: as people see it, or with `.key` as it stands in keys."""

    def __init__(self, shop: Shop, name: str) -> None:
        self.key = shop.ids[name]
        self._shown = shop.shown(name)

    def __format__(self, _: str) -> str:
        return self._shown


@pytest.mark.parametrize("name", BREAKS)
async def test_the_doctor_finds_exactly_what_is_broken_and_repairs_it(name: str, shop: Shop, hub: Hub) -> None:
    breaks, said = BREAKS[name]
    ids = {each: _Id(shop, each) for each in shop.ids}
    expected = sorted((rule, subject.format(**ids), words) for rule, subject, words in said)
    breaks(shop)

    found = await look(hub)
    assert sorted((each.invariant, each.subject) for each in found) == [each[:2] for each in expected]
    for rule, subject, words in expected:
        assert any((f.invariant, f.subject) == (rule, subject) and f.problem.startswith(words) for f in found), found
    assert not any(each.repaired for each in found)

    repaired = await look(hub, repair=True)
    assert sorted((each.invariant, each.subject) for each in repaired) == [each[:2] for each in expected]
    assert [each for each in repaired if not each.repaired] == []
    assert await look(hub) == []


async def repair(hub: Hub) -> None:
    found = await look(hub, repair=True)
    assert found
    assert all(each.repaired for each in found)


async def test_a_pending_task_missing_from_its_queue_can_be_claimed_after_the_repair(shop: Shop, hub: Hub) -> None:
    shop.redis.delete(f"hub:queue:{JOB}")
    assert await hub.claims.claim(shop.local, USER) == []
    await repair(hub)
    assert [task.id for task in await hub.claims.claim(shop.local, USER)] == [shop.waiting]


async def test_an_ended_task_in_a_queue_is_not_claimed(shop: Shop, hub: Hub) -> None:
    shop.redis.zadd(f"hub:queue:{JOB}", {shop.dead: 5})
    await repair(hub)
    assert [task.id for task in await hub.claims.claim(shop.local, USER, Claim(5))] == [shop.waiting]
    assert (await hub.tasks.get(shop.dead)).status == "failed"


async def test_a_task_of_an_unknown_worker_fails(shop: Shop, hub: Hub) -> None:
    shop.redis.hset(f"hub:task:{shop.running}", "worker", NOBODY)
    await repair(hub)
    task = await hub.tasks.get(shop.running)
    assert (task.status, task.error, task.worker) == ("failed", "Worker disconnected", None)


async def test_the_tasks_of_a_long_dead_worker_fail_and_the_worker_is_removed(shop: Shop, hub: Hub) -> None:
    shop.redis.zadd("hub:worker_beats", {shop.local: shop.clock_ms() - HOUR_MS})
    await repair(hub)
    assert {(await hub.tasks.get(task)).status for task in (shop.claimed, shop.running)} == {"failed"}
    with pytest.raises(WorkerNotFound):
        await hub.workers.get(shop.local)


async def test_silent_workers_are_no_finding_while_their_brake_is_engaged(shop: Shop, hub: Hub) -> None:
    shop.redis.zadd("hub:worker_beats", {shop.local: shop.clock_ms() - HOUR_MS})
    shop.redis.hset("hub:worker_brake", "state", "engaged")
    assert await look(hub) == []
    shop.redis.hset("hub:brake", "state", "engaged")
    shop.redis.delete("hub:worker_brake")
    assert len(await look(hub)) == 1


async def test_a_job_without_workers_is_removed_once_its_counters_are_right(shop: Shop, hub: Hub) -> None:
    shop.redis.hincrby(f"hub:job:{LATE}", "later", 3)
    await hub.tasks.move(shop.late, "cancelled", superuser=True)
    await hub.workers.delete(shop.local, USER, superuser=False)
    assert (await hub.jobs.get(LATE)).workers == ()
    await repair(hub)
    with pytest.raises(JobNotFound):
        await hub.jobs.get(LATE)


async def test_a_job_whose_record_was_lost_can_be_registered_again_with_its_tasks(shop: Shop, hub: Hub) -> None:
    shop.redis.delete(f"hub:job:{GONE}")
    await repair(hub)
    job, created = await hub.jobs.register(JobRequest("one", "modifiers", "gone", '{"new":1}'), {"new": 1}, USER, False)
    assert (created, job.full) == (True, GONE)
    assert [task.id for task in (await hub.tasks.page_of_job("one", GONE, None, 10, 0)).items] == [shop.over]
    assert await look(hub) == []


async def test_a_task_without_a_status_is_removed_from_every_index(shop: Shop, hub: Hub) -> None:
    shop.redis.hdel(f"hub:task:{shop.waiting}", "status")
    await repair(hub)
    with pytest.raises(TaskNotFound):
        await hub.tasks.get(shop.waiting)
    assert (await hub.tasks.page_of_room("one", "pending", 10, 0)).total == 1
    assert await look(hub) == []


# No repair can know how to repair these: an operator has to look.
UNMENDED: dict[str, tuple[Break, set[tuple[str, str]]]] = {
    "a served job whose schema is lost": (
        lambda s: (s.redis.delete(f"hub:job:{JOB}"), s.redis.hset(f"hub:job:{JOB}", "tasks", 5)),
        {("C12", f"job {JOB}"), ("C12", f"hub:room_jobs:one {JOB}"), SCHEMAS_HELD[:2]},
    ),
    "a queue that is no queue": (
        lambda s: (s.redis.delete(f"hub:queue:{SHARED}"), s.redis.set(f"hub:queue:{SHARED}", "1")),
        {("C12", f"hub:queue:{SHARED}")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNMENDED)
async def test_a_finding_that_cannot_be_repaired_is_reported_and_left_alone(name: str, shop: Shop, hub: Hub) -> None:
    breaks, expected = UNMENDED[name]
    breaks(shop)
    found = await look(hub)
    assert {(each.invariant, each.subject) for each in found} == expected
    await look(hub, repair=True)
    left = await look(hub, repair=True)
    assert left
    assert {(each.invariant, each.subject) for each in left} <= expected
    assert not any(each.repaired for each in left)


async def test_a_worker_in_the_middle_of_its_removal_is_reported_with_the_steps_left(shop: Shop, hub: Hub) -> None:
    remove = hub.store.script("workers/remove")
    reply = await remove(
        worker=shop.local, user=USER, superuser=0, why="deleted", silent_ms=-1, limit=1, request="r", incarnation=""
    )
    assert reply == ["ok", 1]
    assert [(each.subject, each.problem) for each in await look(hub)] == [
        (f"worker {shop.shown('local')}", "gone, but what it held has not all failed")
    ]
    await repair(hub)
    assert {(await hub.tasks.get(task)).error for task in (shop.claimed, shop.running)} == {"Worker disconnected"}
    assert await look(hub) == []
