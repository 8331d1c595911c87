"""What happens to workers, jobs and tasks writes one event, which can be found by each object that it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from hub.core import Hub
from hub.errors import InvalidValue
from hub.history.events import Event, wanted
from hub.history.reading import History
from hub.history.rules import rule
from hub.jobs.jobs import new_id
from hub.jobs.models import Claim, Options, Result
from hub.jobs.names import dashed
from hub.sweeping.brake import Brake
from hub.sweeping.noted import noted
from hub.sweeping.workers import WorkerSweeperService
from tests.history.conftest import JOB, USER


@pytest.fixture
def happened(hub: Hub) -> Callable[..., Any]:
    """The documents of the events asked for, oldest first."""

    async def read(kinds: str = "", **names: str) -> list[dict[str, Any]]:
        found = await History(hub.store).find(wanted(kinds, names), 100)
        return [event.document() for event in reversed(found.events)]

    return read


async def silent(hub: Hub, worker: str) -> None:
    await hub.store.read("ZADD", hub.store.keys.worker_beats, -3_600_000, worker)
    assert await hub.workers.expire(worker, "silent", 60_000) == "ok"


async def deleted(hub: Hub, worker: str) -> None:
    await hub.workers.delete(worker, USER, superuser=False)


async def hung_up(hub: Hub, worker: str) -> None:
    await hub.store.read("ZADD", hub.store.keys.hung_up, 0, worker)
    assert await hub.workers.expire(worker, "hung up", -1) == "ok"


@pytest.mark.parametrize(
    ("how", "words"),
    [(silent, "HUB_WORKER_TIMEOUT_SECONDS"), (deleted, "superuser"), (hung_up, "lost its last connection")],
)
async def test_the_removal_of_a_worker_and_its_job_writes_the_reason(hub, worker, happened, how, words):
    await how(hub, worker)
    gone, orphaned = await happened()
    assert (gone["event"], gone["worker"]) == ("worker.gone", dashed(worker))
    assert words in gone["rule"]
    assert (orphaned["event"], orphaned["job"]) == ("job.orphaned", JOB)
    assert "soft-deleted" in orphaned["rule"]


async def test_a_retried_task_writes_the_error_of_each_failed_attempt(hub, worker, happened):
    (task,) = await hub.tasks.submit("one", JOB, ["{}"], USER, Options(max_attempts=2, backoff_ms=0))
    for _ in range(2):
        await hub.claims.claim(worker, USER, Claim(start=True))
        await hub.tasks.finish(worker, USER, [Result(task.id, "failed", "it broke")])
    retried, dead = sorted(await happened(), key=lambda each: each["event"], reverse=True)
    assert (dead["event"], dead["task"], dead["job"]) == ("task.dead", dashed(task.id), JOB)
    assert (dead["attempt"], dead["error"]) == (2, "it broke")
    assert (retried["event"], retried["task"], retried["job"]) == ("task.retried", dashed(task.id), JOB)
    assert (retried["attempt"], retried["error"]) == (2, "it broke")
    assert "another attempt" in retried["rule"]


async def test_events_are_found_by_worker_task_and_job_in_any_spelling(hub, worker, happened):
    (task,) = await hub.tasks.submit("one", JOB, ["{}"], USER, Options(max_attempts=2, backoff_ms=0))
    await hub.claims.claim(worker, USER, Claim(start=True))
    await hub.workers.delete(worker, USER, superuser=False)
    for spelling in (task.id, dashed(task.id), dashed(task.id).upper()):
        assert [event["event"] for event in await happened(task=spelling)] == ["task.retried"]
    assert [event["event"] for event in await happened(worker=dashed(worker))] == ["worker.gone"]
    assert [event["event"] for event in await happened(job=JOB)] == ["task.retried"]
    assert [event["event"] for event in await happened("worker,task")] == ["worker.gone", "task.retried"]
    assert await happened("job") == []
    with pytest.raises(InvalidValue, match="task must be a UUID"):
        await happened(task="one")


async def test_events_of_the_brake_on_workers_differ_from_those_of_the_brake_on_nodes(
    hub: Hub, redis: Redis, happened: Any
) -> None:
    for _ in range(4):
        await hub.workers.create(USER, new_id())
    for worker in redis.zrange("hub:workers", 0, -1):
        await hub.workers.beat(worker, USER)
        redis.zadd("hub:worker_beats", {worker: -3_600_000})
    service = WorkerSweeperService(hub.store, hub.settings, hub.workers)
    sweep = noted(hub.store, "worker", service.sweep)
    await sweep()
    await Brake(hub.store, hub.settings, "workers").release("me")
    await sweep()
    engaged, swept, released, *_ = await happened("sweep")
    assert (engaged["event"], engaged["of"]) == ("brake.engaged", "workers")
    assert "HUB_SWEEPER_BRAKE_PERCENT of the workers" in engaged["rule"]
    assert (swept["event"], swept["stale"], swept["held"]) == ("sweep.worker", 4, 4)
    assert "all silent workers" in released["rule"]
    assert len(await happened("worker")) == 4


def test_the_event_of_the_brake_on_nodes_keeps_its_text() -> None:
    event = Event("1-0", "brake.engaged", {"of": "nodes", "stale": "4"})
    assert event.why == rule("brake.engaged")
    assert "of the nodes" in event.why
