"""Jobs with needs and limits in use: the doctor finds nothing after any step."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from redis import Redis

from hub.core import Hub
from hub.errors import HubError
from hub.jobs.models import Result
from tests.doctor.classed import offer
from tests.doctor.shop import FAR_US, look
from tests.jobs.terms import USER, claim, serving, submit, sweep

STEPS = 100
NAMES = ("A", "B")
NEEDS: tuple[tuple[tuple[str, int], ...], ...] = ((), (), (("gpu:a", 1),), (("gpu:a", 2),))
BY_C, BY_D = {"key": "c", "running": 1}, {"key": "d", "running": 1}
LIMITS: tuple[list[dict[str, Any]] | None, ...] = (
    None, [BY_C], [BY_C, BY_D], [{"key": "c", "running": 2}, {"running": 3}], [{"count": 2, "per_ms": 10_000}],
    [{"key": "c", "count": 1, "per_ms": 5_000}, {"running": 2}],
)  # fmt: skip


class RandomTerms:
    """Two workers of two jobs, whose needs and limits change, one thing after the other."""

    def __init__(self, hub: Hub, redis: Redis, seed: int) -> None:
        self.hub, self.redis, self.chance = hub, redis, random.Random(seed)
        self.workers: dict[str, list[str]] = {name: [] for name in NAMES}

    async def step(self) -> None:
        often = (self.submit, self.submit, self.claim, self.claim, self.report, self.sweep)
        rare = (self.register, self.register, self.cancel, self.leave, self.lose, self.wait, self.submit_many)
        await self.hub.clock.tick()
        steps: tuple[Callable[[], Awaitable[None]], ...] = (*often, *often, *rare)
        await self.chance.choice(steps)()

    async def register(self) -> None:
        name = self.chance.choice(NAMES)
        needs, limits = self.chance.choice(NEEDS), self.chance.choice(LIMITS)
        worker = self.chance.choice([None, *self.workers[name]]) if len(self.workers[name]) < 2 else None
        self.workers[name].append(await serving(self.hub, *needs, name=name, worker=worker, limits=limits))

    def payload(self) -> str:
        return orjson.dumps({"c": self.chance.choice("xy"), "d": self.chance.choice("xyz")}).decode()

    async def submit(self, count: int = 1) -> None:
        name = self.chance.choice(NAMES)
        if not self.workers[name]:
            return
        await submit(
            self.hub, count, name=name, payload=self.payload(), priority=self.chance.choice((0, 0, 50)),
            due_us=self.chance.choice((0, 0, 0, FAR_US)), max_attempts=self.chance.choice((1, 3)), backoff_ms=0,
        )  # fmt: skip

    async def submit_many(self) -> None:
        await self.submit(60)

    async def claim(self) -> None:
        workers = [each for name in NAMES for each in self.workers[name]]
        if workers:
            await claim(
                self.hub, self.chance.choice(workers), self.chance.choice((1, 3)), start=self.chance.random() < 0.7
            )

    async def report(self) -> None:
        for task in self.redis.zrange("hub:held_tasks", 0, 1):
            worker = self.redis.hget(f"hub:task:{task}", "worker")
            status = self.chance.choice(("completed", "completed", "failed", "pending"))
            await self.hub.tasks.finish(worker, USER, [Result(task, status)])

    async def cancel(self) -> None:
        waiting = sorted(
            each for key in self.redis.scan_iter("hub:room_tasks:pending:*") for each in self.redis.zrange(key, 0, -1)
        )
        held = self.redis.zrange("hub:held_tasks", 0, -1)
        for task in self.chance.sample(waiting, min(2, len(waiting))) + held[:1]:
            await self.hub.tasks.move(task, "cancelled", superuser=True)

    async def leave(self) -> None:
        name = self.chance.choice(NAMES)
        if self.workers[name]:
            worker = self.workers[name].pop()
            self.workers = {name: [each for each in there if each != worker] for name, there in self.workers.items()}
            try:
                await self.hub.workers.delete(worker, USER, superuser=False)
            except HubError:
                return

    async def lose(self) -> None:
        """End a lease of a task before the task ends."""
        if lent := sorted(self.redis.scan_iter("session:*")):
            key = self.chance.choice(lent)
            label, token = self.redis.hmget(key, "labelKey", "leaseToken")
            await self.hub.leases.give_back(key.partition(":")[2], label, token, by="operator")

    async def wait(self) -> None:
        self.redis.hincrby("hub:store", "clock_ms", self.chance.choice((1_000, 5_000, 10_000)))
        for worker in self.redis.zrange("hub:workers", 0, -1):
            await self.hub.workers.beat(worker, USER)

    async def sweep(self) -> None:
        await sweep(self.hub)


@pytest.mark.parametrize("seed", range(3))
async def test_a_store_with_needs_and_limits_has_nothing_to_repair(hub: Hub, redis: Redis, seed: int) -> None:
    await hub.clock.tick()
    await offer(hub, "gpu:a", dict.fromkeys(("g1", "g2", "g3"), None))
    life = RandomTerms(hub, redis, seed)
    for name, needs, limits in (("A", NEEDS[2], [BY_C]), ("B", (), LIMITS[4])):
        life.workers[name].append(worker := await serving(hub, *needs, name=name, limits=limits))
        await submit(hub, 60, name=name)
        await claim(hub, worker)
    kept = lent = changing = rates = 0
    for _ in range(STEPS):
        kept += any(redis.scan_iter("hub:limit_held:*"))
        lent += any(redis.scan_iter("session:*"))
        changing += redis.exists("hub:limit_backlogs")
        rates += redis.exists("hub:limits_due")
        await hub.clock.tick()
        assert await look(hub) == []
        await life.step()
    assert min(kept, lent, changing, rates) > 0, "the walk meets every state"
