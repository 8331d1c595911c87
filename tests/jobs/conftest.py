"""A Redis that comes back without its last second, and a hub on it."""

from __future__ import annotations

import shutil

import pytest

from hub.core import Hub
from hub.jobs.models import Claim, JobRequest, Options, Result
from hub.store.connection import open_store
from hub.sweeping.workers import WorkerSweeperService
from tests.world import eventually, settings_for

USER = "a" * 32
JOB = "r1:modifiers:A"


async def worker_of(hub, *names, user=USER, room="r1"):
    """Return a worker that serves jobs of these names, or of the name A."""
    worker = None
    for name in names or ("A",):
        wanted = JobRequest(room, "modifiers", name, worker=worker)
        worker = (await hub.jobs.register(wanted, {}, user, superuser=room.startswith("@")))[0].worker
    return worker


async def sweep(hub):
    """Make one pass over the workers and return what it did."""
    done = await WorkerSweeperService(hub.store, hub.settings, hub.workers).sweep()
    assert done.errors == 0
    return done


class Forgetful:
    """A hub on a Redis that forgets what came after `keep`."""

    def __init__(self, folder, server, hub):
        self.server, self.hub, self._older = server, hub, folder / "older"

    async def worker(self):
        return await worker_of(self.hub)

    async def submit(self, **options):
        [task] = await self.hub.tasks.submit("r1", JOB, ['{"n":1}'], USER, Options(**options))
        return task.id

    async def claim(self, worker, **more):
        [task] = await self.hub.claims.claim(worker, USER, Claim(start=True, **more))
        return task

    async def say(self, worker, task, status, error="", value=""):
        assert await self.hub.tasks.finish(worker, USER, [Result(task.id, status, error, task.claim, value)]) == ["ok"]

    def keep(self):
        shutil.copytree(self.server.folder, self._older)

    async def forget(self):
        self.server.kill()
        shutil.rmtree(self.server.folder)
        shutil.copytree(self._older, self.server.folder)
        self.server.start()

    async def recall(self, hub=None):
        clock = (hub or self.hub).clock

        async def back():
            await clock.tick()
            return clock.away_since is None

        await eventually(back)
        await clock.tick()

    async def status(self, task):
        return (await self.hub.tasks.get(task)).status


@pytest.fixture
async def lossy(own_redis, tmp_path):
    async with open_store(settings_for(own_redis.url)) as store:
        hub = Hub(store, settings_for(own_redis.url))
        await hub.clock.tick()
        yield Forgetful(tmp_path, own_redis, hub)
