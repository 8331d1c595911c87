"""Lists that are looked at from their head, some entries at a time: entries that cannot be read stop none behind them.

Each case plants more of them than a look takes where the list begins: entries without a record, entries whose key
another program uses, and records that say what no hub writes. One pass serves the whole entry behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.audit import AuditLog
from hub.core import Hub
from hub.doctor import examine
from hub.errors import NotFound, TaskNotFound, WorkerNotFound
from hub.jobs.models import Claim, JobRequest, Options, Result
from hub.jobs.names import dashed
from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule
from hub.sweeping.drains import DrainDeadlines
from hub.sweeping.tasks import TaskSweeperService
from hub.sweeping.workers import WorkerSweeperService
from tests.world import add_node, age_node, borrow, eventually, give_back, publish, sweepers

J = "/v1/joblib"
USER, JOB = "a" * 32, "r1:modifiers:A"
MANY = 150  # more than any look at a list of tasks takes, and than a script's `limit`
FIRST, BEHIND = -9e12, -8e12  # where they stand, before everything that is due
KINDS = ("gone", "foreign", "garbage")


@dataclass
class World:
    """A hub with a worker of a job, an application on the same store, and what plants entries."""

    hub: Hub
    api: httpx.AsyncClient
    redis: Redis
    worker: str

    async def submit(self, **options: Any) -> str:
        [task] = await self.hub.tasks.submit("r1", JOB, ["{}"], USER, Options(**options))
        return task.id

    async def claim(self) -> list[str]:
        return [task.id for task in await self.hub.claims.claim(self.worker, USER, Claim(start=True))]

    async def finish(self, task: str) -> None:
        assert await self.hub.tasks.finish(self.worker, USER, [Result(task, "completed")]) == ["ok"]

    async def sweep_tasks(self) -> None:
        await TaskSweeperService(self.hub.store, self.hub.settings, self.hub.workers).sweep()

    async def sweep_workers(self) -> None:
        await WorkerSweeperService(self.hub.store, self.hub.settings, self.hub.workers).sweep()

    async def sweep_leases(self) -> None:
        await sweepers(self.hub)[1].sweep()

    async def sweep_nodes(self) -> None:
        await sweepers(self.hub)[0].sweep()

    def plant(self, kind: str, index: str, record: str, like: str = "") -> list[str]:
        """Put unreadable entries before the head of an index; `record` is the key of one, `like` of a whole one."""
        ids = [f"{number:032x}" for number in range(MANY)]
        garbage = dict.fromkeys(self.redis.hgetall(like), "x") if like else {"other": "1"}
        for each in ids:
            if kind == "foreign":
                self.redis.set(record.format(each), "mine")
            elif kind == "garbage":
                self.redis.hset(record.format(each), mapping=garbage)
        if self.redis.type(index) == "set":
            self.redis.sadd(index, *ids)
        else:
            self.redis.zadd(index, dict.fromkeys(ids, FIRST))
        return ids

    def put_first(self, index: str, member: str) -> None:
        """Move the whole entry right behind those that are planted."""
        assert self.redis.zscore(index, member) is not None
        self.redis.zadd(index, {member: BEHIND})


@pytest.fixture
async def world(hub: Hub, make_api: Callable[..., Any], redis: Redis) -> AsyncIterator[World]:
    await hub.clock.tick()
    job, _ = await hub.jobs.register(JobRequest("r1", "modifiers", "A"), {}, USER, superuser=False)
    assert job.worker is not None
    async with make_api(borrow_queue_timeout_s=60) as api:
        yield World(hub, api, redis, job.worker)


Case = Callable[[World, str], Awaitable[None]]
CASES: dict[str, Case] = {}


def case(test: Case) -> Case:
    CASES[test.__name__] = test
    return test


@case
async def later(w: World, kind: str) -> None:
    task = await w.submit(due_us=4 * 10**15)
    w.put_first("hub:later", task)
    w.plant(kind, "hub:later", "hub:task:{}", f"hub:task:{task}")
    await w.sweep_tasks()
    assert await w.claim() == [task]


@case
async def the_queue_of_a_job(w: World, kind: str) -> None:
    task = await w.submit()
    w.put_first(f"hub:queue:{JOB}", task)
    w.plant(kind, f"hub:queue:{JOB}", "hub:task:{}", f"hub:task:{task}")
    assert await w.claim() == [task]


@case
async def heads_of_queues(w: World, kind: str) -> None:
    for name in ("B", "C"):
        await w.hub.jobs.register(JobRequest("r1", "modifiers", name, worker=w.worker), {}, USER, superuser=False)
    task = await w.submit()
    w.plant(kind, "hub:heads", "hub:job:{}", f"hub:job:{JOB}")
    assert await w.claim() == [task]


async def overdue(w: World, kind: str, index: str) -> None:
    task = await w.submit(max_silence_ms=1000)
    await w.claim()
    w.redis.zadd(index, {task: BEHIND})
    w.plant(kind, index, "hub:task:{}", f"hub:task:{task}")
    await w.sweep_tasks()
    await w.sweep_workers()
    assert (await w.hub.tasks.get(task)).status == "failed"


for _list in ("runtimes", "silences", "ownerless", "internal_tasks"):
    CASES[_list] = partial(overdue, index=f"hub:{_list}")


@case
async def blocked(w: World, kind: str) -> None:
    parent = await w.submit()
    child = await w.submit(after=(parent,))
    w.redis.hset(f"hub:task:{parent}", mapping={"status": "completed", "done": "1"})
    w.redis.zrem(f"hub:queue:{JOB}", parent)
    w.put_first("hub:blocked", child)
    w.plant(kind, "hub:blocked", "hub:task:{}", f"hub:task:{child}")
    await w.sweep_tasks()
    assert await w.claim() == [child]


@case
async def settling(w: World, kind: str) -> None:
    parent = await w.submit()
    child = await w.submit(after=(parent,))
    await w.claim()
    entries = {"gone": "{:032x}:completed", "foreign": "nothing {}", "garbage": "{:032x}:COMPLETED"}
    w.redis.zadd("hub:settling", {entries[kind].format(number): FIRST for number in range(MANY)})
    await w.finish(parent)
    await w.sweep_tasks()
    assert await w.claim() == [child]


@case
async def finished(w: World, kind: str) -> None:
    task = await w.submit()
    await w.claim()
    await w.finish(task)
    w.put_first("hub:finished", task)
    w.plant(kind, "hub:finished", "hub:task:{}", f"hub:task:{task}")
    await w.sweep_tasks()
    with pytest.raises(TaskNotFound):
        await w.hub.tasks.get(task)


@case
async def deleted_jobs(w: World, kind: str) -> None:
    await w.hub.workers.delete(w.worker, USER, superuser=False)
    w.put_first("hub:deleted_jobs", JOB)
    w.plant(kind, "hub:deleted_jobs", "hub:job:{}", f"hub:job:{JOB}")
    await w.sweep_tasks()
    assert not w.redis.exists(f"hub:job:{JOB}")


@case
async def hung_up(w: World, kind: str) -> None:
    w.redis.zadd("hub:hung_up", {w.worker: BEHIND})
    w.plant(kind, "hub:hung_up", "hub:worker:{}", f"hub:worker:{w.worker}")
    await w.sweep_tasks()
    with pytest.raises(WorkerNotFound):
        await w.hub.workers.get(w.worker)


@case
async def silent_workers(w: World, kind: str) -> None:
    w.put_first("hub:worker_beats", w.worker)
    w.plant(kind, "hub:worker_beats", "hub:worker:{}", f"hub:worker:{w.worker}")
    w.redis.hset("hub:worker_brake", mapping={"state": "released", "released_until_ms": 10**15})
    await w.sweep_workers()
    with pytest.raises(WorkerNotFound):
        await w.hub.workers.get(w.worker)


@case
async def dead_workers(w: World, kind: str) -> None:
    task = await w.submit()
    await w.claim()
    w.redis.delete(f"hub:worker:{w.worker}")
    w.redis.sadd("hub:dead_workers", w.worker)
    w.plant(kind, "hub:dead_workers", "hub:worker_tasks:{}")
    for _ in range(1 + MANY // 50):  # a pass takes any 50 of a set
        await w.sweep_tasks()
    assert (await w.hub.tasks.get(task)).status == "failed"


@case
async def dead_letters(w: World, kind: str) -> None:
    task = await w.submit(max_attempts=2)
    await w.hub.workers.delete(w.worker, USER, superuser=False)
    w.redis.hset(f"hub:task:{task}", mapping={"status": "failed", "done": 1})
    w.redis.zadd("hub:dead", {task: BEHIND})
    w.plant(kind, "hub:dead", "hub:task:{}", f"hub:task:{task}")
    w.redis.zadd("hub:dead", {f"{number:032x}": 9e15 for number in range(MANY)})  # the newest come first
    assert [each.id for each in (await w.hub.tasks.dead_page(500, 0)).items] == [task]


@case
async def the_queue_of_a_label(w: World, kind: str) -> None:
    await publish(w.api, "n1", **{"a:b": ["s1"]})
    assert (await borrow(w.api, "a:b")).status_code == 200
    waiting = asyncio.create_task(borrow(w.api, "a:b", maxWaitSeconds=60))
    await eventually(lambda: w.redis.exists("hub:line:a:b"))
    [found] = w.redis.zrange("hub:line:a:b", 0, -1)
    w.put_first("hub:line:a:b", found)
    w.plant(kind, "hub:line:a:b", "hub:ticket:{}", f"hub:ticket:{found}")
    assert (await give_back(w.api, "a:b", "s1")).status_code == 200
    assert (await waiting).json()["browserId"] == "s1"


@case
async def deadlines_of_tickets(w: World, kind: str) -> None:
    w.redis.hset("hub:ticket:late", mapping={"label": "a:b", "run": "r", "hub": "h", "score": 1})
    w.redis.zadd("hub:patience", {"late": BEHIND})
    w.plant(kind, "hub:patience", "hub:ticket:{}", "hub:ticket:late")
    await w.hub.queue.look_after()
    assert w.redis.zcard("hub:patience") == 0


async def _lent(w: World) -> None:
    await publish(w.api, "n1", **{"a:b": ["s1"]})
    assert (await borrow(w.api, "a:b")).status_code == 200


@case
async def deadlines_of_leases_without_sessions(w: World, kind: str) -> None:
    await _lent(w)
    w.put_first("hub:deadlines", "s1")
    w.plant(kind, "hub:deadlines", "session:{}", "session:s1")
    await w.sweep_leases()
    assert w.redis.llen("available:a:b") == 1


@case
async def deadlines_of_leases_without_records(w: World, kind: str) -> None:
    await _lent(w)
    w.put_first("hub:deadlines", "s1")
    w.plant(kind, "hub:deadlines", "hub:slot:{}", "hub:slot:s1")
    await w.sweep_leases()
    assert w.redis.llen("available:a:b") == 1


@case
async def drains(w: World, kind: str) -> None:
    await _lent(w)
    await w.api.post("/admin/nodes/n1/drain", json={"deadlineSeconds": 5})
    w.put_first("hub:drain_deadlines", "n1")
    planted = w.plant(kind, "hub:drain_deadlines", "hub:duty:{}", "hub:duty:n1")
    w.redis.sadd("nodes", *planted)
    await DrainDeadlines(w.hub.store, AuditLog(w.hub.store, 100)).enforce()
    assert w.redis.zcard("hub:deadlines") == 0


@case
async def silent_nodes(w: World, kind: str) -> None:
    await add_node(w.hub, "n1")
    age_node(w.redis, "n1", 3600)
    w.put_first("hub:beats", "n1")
    planted = w.plant(kind, "hub:beats", "node:{}", "node:n1")
    w.redis.sadd("nodes", *planted)
    w.redis.hset("hub:brake", mapping={"state": "released", "released_until_ms": 10**15})
    await w.sweep_nodes()
    with pytest.raises(NotFound):
        await w.hub.nodes.get("n1")


@case
async def silent_hubs(w: World, kind: str) -> None:
    w.redis.zadd("hub:hubs", {"silent": BEHIND})
    w.redis.sadd("hub:waiters:silent", "t")
    w.plant(kind, "hub:hubs", "hub:waiters:{}")
    await w.hub.queue.look_after()
    assert w.redis.zscore("hub:hubs", "silent") is None


@case
async def hubs_that_owe_a_lease(w: World, kind: str) -> None:
    w.redis.zadd("hub:hubs", {"silent": BEHIND})
    w.redis.sadd("hub:handed:silent", "t")
    w.plant(kind, "hub:hubs", "hub:handed:{}")
    await w.hub.queue.look_after()
    assert w.redis.zscore("hub:hubs", "silent") is None


@case
async def slots_that_are_to_be_lent_again(w: World, kind: str) -> None:
    await _lent(w)
    await w.api.post("/admin/sessions/s1/end", json={"reason": "t"})
    w.redis.zadd("hub:revoked", {"s1": BEHIND})
    w.plant(kind, "hub:revoked", "hub:slot:{}", "hub:slot:s1")
    await w.hub.queue.look_after()
    assert w.redis.zcard("hub:revoked") == 0


@case
async def tokens_of_nodes_that_lapsed(w: World, kind: str) -> None:
    w.plant(kind, "hub:joined", "hub:token:{}")
    for number in range(MANY // 10):  # ten go with each that joins
        await w.hub.tokens.join(f"node-{number}", f"{number:02x}" * 32, "fleet", kept=True)
    assert w.redis.zcount("hub:joined", "-inf", 0) == 0


@case
async def answers_of_providers(w: World, kind: str) -> None:
    made = await w.api.put(f"{J}/rooms/r1/providers", json={"category": "files", "name": "p"})
    assert made.status_code < 300, made.text
    w.plant(kind, "hub:room_results:r1", "hub:result:{}")
    w.redis.hset("hub:room_sizes:r1", "total", 10**9)
    asked = await w.api.get(f"{J}/rooms/r1/providers/r1:files:p", params={"path": "a"}, headers={"prefer": "wait=0"})
    digest = w.redis.keys("hub:wanted:*")[0].rpartition(":")[2]
    path = f"{J}/providers/{made.json()['id']}/results"
    kept = await w.api.post(path, content=b"{}", headers={"x-request-hash": digest})
    assert kept.status_code < 300, (asked.text, kept.text)


@case
async def entries_of_the_audit_log(w: World, kind: str) -> None:
    await w.api.post("/admin/nodes/n1/drain", json={})
    await publish(w.api, "n1", **{"a:b": ["s1"]})
    await w.api.post("/admin/nodes/n1/drain", json={})
    before = (await w.api.get("/audit")).json()
    entry = {"gone": "", "foreign": '["x"]', "garbage": '{"TimestampUtc": 5, "Category": [], "Action": {}}'}[kind]
    w.redis.lpush("audit:events", *[entry] * MANY)
    after = (await w.api.get("/audit", params={"take": 500})).json()
    assert [each for each in after if each.get("action")] == before


@case
async def events(w: World, kind: str) -> None:
    await publish(w.api, "n1", **{"a:b": ["s1"]})
    said = {"gone": {"x": "x"}, "foreign": {"event": "x"}, "garbage": {"event": "slot.published", "slot": b"\xff"}}[
        kind
    ]
    for _ in range(MANY):
        w.redis.xadd("hub:history", said)
    found = await w.api.get("/history", params={"node": "n1"})
    assert found.status_code == 200
    assert "slot.published" in found.text


@case
async def schedules(w: World, kind: str) -> None:
    wanted = Schedule("r1", "s", JOB, "{}", Rule(every_ms=60_000))
    await w.hub.schedules.put(wanted, USER, superuser=False)
    w.redis.hset("hub:schedule:r1:s", "due", 1)
    w.redis.zadd("hub:schedules", {"r1:s": 2})
    w.plant(kind, "hub:schedules", "hub:schedule:{}", "hub:schedule:r1:s")
    assert await w.hub.schedules.fire_due() == 1


@case
async def the_walk_of_the_doctor(w: World, kind: str) -> None:
    task = await w.submit()
    w.plant(kind, "hub:later", "hub:task:{}", f"hub:task:{task}")
    w.redis.zrem(f"hub:queue:{JOB}", task)
    found = await examine(w.hub.store, settings=w.hub.settings, pause_s=0)
    assert any(dashed(task) in each.subject for each in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
async def test_unreadable_entries_at_the_head_of_an_index_stop_none_behind_them(
    world: World, name: str, kind: str
) -> None:
    await CASES[name](world, kind)
