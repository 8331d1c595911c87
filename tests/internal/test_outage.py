"""Internal workers while Redis is away: nothing is lost, nothing runs twice."""

import asyncio

from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.internal.registry import load_internal_jobs, register
from hub.internal.worker import InternalWorker
from hub.store.connection import open_store
from tests.internal import sample
from tests.internal.conftest import MODULE
from tests.internal.people import submit
from tests.world import eventually, settings_for


def refusals(hub, monkeypatch):
    """Return a list that grows with each move of a task that the store does not answer."""
    refused = []
    move = hub.tasks.move

    async def watched(*arguments, **named):
        try:
            return await move(*arguments, **named)
        except StoreUnavailable as error:
            refused.append(error)
            raise

    monkeypatch.setattr(hub.tasks, "move", watched)
    return refused


async def test_tasks_that_end_while_redis_is_away_are_reported_when_it_is_back(own_redis, tmp_path, monkeypatch):
    settings = settings_for(own_redis.url, internal_jobs=MODULE)
    file, go = tmp_path / "said", tmp_path / "go"
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        jobs = load_internal_jobs(settings)
        await register(hub, jobs)
        worker = InternalWorker(hub, jobs, 1, 5.0)
        running = asyncio.ensure_future(worker.run())
        first = await submit(hub, sample.LATER, {"file": str(file), "until": str(go)})
        second = await submit(hub, sample.WRITE, {"file": str(file)})
        await eventually(lambda: file.exists())
        refused = refusals(hub, monkeypatch)
        own_redis.kill()
        go.touch()
        await eventually(lambda: len(refused) > 1)
        own_redis.start()
        for task in (first, second):

            async def completed(task=task):
                return (await hub.tasks.get(task.id)).status == "completed"

            await eventually(completed)
        worker.stop()
        await running
    assert len(file.read_text().splitlines()) == 2


async def test_a_waiting_executor_gets_messages_again_when_redis_is_back(own_redis, tmp_path):
    settings = settings_for(own_redis.url, internal_jobs=MODULE)
    file = tmp_path / "said"
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        jobs = load_internal_jobs(settings)
        await register(hub, jobs)
        worker = InternalWorker(hub, jobs, 1, 5.0)
        running = asyncio.ensure_future(worker.run())
        own_redis.kill()
        own_redis.start()
        task = await submit(hub, sample.WRITE, {"file": str(file)})

        async def completed():
            return (await hub.tasks.get(task.id)).status == "completed"

        await eventually(completed)
        worker.stop()
        await running
