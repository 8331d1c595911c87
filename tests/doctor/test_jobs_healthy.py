"""Jobs, tasks, workers and providers in use: the doctor finds nothing, and looking changes nothing."""

from __future__ import annotations

import asyncio
import random

from redis import Redis

from hub.core import Hub
from hub.doctor import examine
from hub.errors import HubError
from hub.jobs.jobs import new_id
from hub.jobs.models import Claim, JobRequest, Options, ProviderRequest, Result
from tests.doctor.test_examine import problems
from tests.world import picture

USER = "a" * 32
FAR_US = 4_000_000_000_000_000
ROOMS = ("one", "two", "@global")


class Life:
    """One user that makes a number of random calls, of every kind."""

    def __init__(self, hub: Hub, name: int) -> None:
        self._hub = hub
        self._rolls = random.Random(name)
        self._name = name

    async def run(self, rounds: int) -> None:
        for self._round in range(rounds):
            worker, jobs = await self._register()
            for full in jobs:
                await self._submit(full)
            for _ in range(3):
                await self._work(worker)
            await self._hub.workers.beat(worker, USER)
            if self._rolls.random() < 0.6:
                await self._hub.workers.delete(worker, USER, superuser=False)

    async def _register(self) -> tuple[str, list[str]]:
        worker, jobs = None, []
        for room in self._rolls.sample(ROOMS, 2):
            wanted = JobRequest(room, "modifiers", f"job{self._rolls.randrange(3)}", worker=worker)
            job, _ = await self._hub.jobs.register(wanted, {}, USER, superuser=True)
            worker = job.worker
            jobs.append(job.full)
            await self._hub.providers.register(
                ProviderRequest(room, "frames", f"p{self._rolls.randrange(3)}", worker=worker), USER, superuser=True
            )
        assert worker is not None
        return worker, jobs

    async def _submit(self, full: str) -> None:
        room = f"r{self._name}-{self._round}" if self._rolls.random() < 0.5 else "one"
        options = Options(
            priority=self._rolls.choice((0, 5)),
            due_us=FAR_US if self._rolls.random() < 0.2 else 0,
            max_attempts=self._rolls.choice((1, 2)),
            backoff_ms=self._rolls.choice((0, 50)),
        )
        try:
            made = await self._hub.tasks.submit(room, full, ["{}", '{"a":1}', "{}"], USER, options)
            if self._rolls.random() < 0.5:
                await self._hub.tasks.move(made[0].id, "cancelled", user=USER)
        except HubError:  # another worker's job may be gone, or the task taken
            return

    async def _work(self, worker: str) -> None:
        wanted = Claim(self._rolls.randrange(1, 4), self._rolls.random() < 0.7, self._rolls.choice((0, 60_000)))
        tasks = await self._hub.claims.claim(worker, USER, wanted)
        words = ("completed", "failed", "pending", "cancelled")
        await self._hub.tasks.finish(worker, USER, [Result(t.id, self._rolls.choice(words), "so") for t in tasks[1:]])
        for task in tasks[:1]:
            if self._rolls.random() < 0.3:
                await self._hub.tasks.finish(worker, USER, [Result(task.id, "failed", "x")])
                try:
                    await self._hub.tasks.retry(task.id, USER, superuser=False)
                except HubError:
                    continue


async def test_a_healthy_store_in_use_has_no_findings(hub: Hub) -> None:
    forget = hub.store.script("tasks/forget")

    def life(first: int) -> asyncio.Future[list[None]]:
        return asyncio.gather(*(Life(hub, name).run(25) for name in range(first, first + 4)))

    users, looks = life(0), 0
    while not users.done() or looks < 3:
        if users.done():  # quicker than three looks: others come
            await users
            users = life(4 * (looks + 1))
        await hub.clock.tick()
        assert await examine(hub.store, settings=hub.settings, pause_s=0.05) == []
        await forget(keep_us=0, limit=50)
        looks += 1
    await users
    assert await problems(hub) == []
    while (await forget(keep_us=0, limit=50))[3]:
        pass
    assert await problems(hub) == []


async def test_an_examination_changes_nothing(hub: Hub, redis: Redis) -> None:
    job, _ = await hub.jobs.register(JobRequest("one", "modifiers", "a"), {}, USER, superuser=False)
    await hub.tasks.submit("one", job.full, ["{}"] * 3, USER)
    redis.zrem(f"hub:queue:{job.full}", new_id())
    redis.delete(f"hub:queue:{job.full}")
    assert len(await problems(hub)) == 4
    before = picture(redis, own=True)
    await examine(hub.store, settings=hub.settings, pause_s=0.01)
    assert picture(redis, own=True) == before
