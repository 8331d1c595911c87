"""Unique tasks: of a job in its room there is one at a time under a key, and for a while after its submit."""

from __future__ import annotations

import asyncio

import pytest

from hub.core import Hub
from hub.jobs.models import Claim, Options, Result
from hub.store.connection import open_store
from tests.jobs.conftest import JOB, USER, worker_of
from tests.world import settings_for

OTHER = "r1:modifiers:B"
ONE = Options(unique_key="import-42")
HOUR = Options(unique_key="import-42", unique_ms=3_600_000)


async def submit(hub, options=ONE, job=JOB, room="r1", key=""):
    [task] = await hub.tasks.submit(room, job, ['{"n":1}'], USER, options, key)
    return task


async def claim(hub, worker):
    [task] = await hub.claims.claim(worker, USER, Claim(start=True))
    return task


async def end(hub, worker, task, status):
    assert await hub.tasks.finish(worker, USER, [Result(task.id, status, "", task.claim)]) == ["ok"]


def keys(redis):
    return redis.keys("hub:unique:*")


async def test_a_second_unique_submit_gets_the_first_task_while_that_has_not_ended(hub, redis):
    worker = await worker_of(hub)
    first = await submit(hub)
    assert (await submit(hub)).id == first.id  # pending
    task = await claim(hub, worker)
    again = await submit(hub)
    assert (again.id, again.status, again.stood, first.stood) == (first.id, "running", True, False)
    assert redis.zcard(f"hub:queue:{JOB}") == 0
    await end(hub, worker, task, "completed")
    assert keys(redis) == []
    assert (await submit(hub)).id != first.id


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_failed_or_cancelled_task_frees_its_unique_key_at_once(hub, redis, status):
    worker = await worker_of(hub)
    first = await submit(hub, HOUR)
    await end(hub, worker, await claim(hub, worker), status)
    assert keys(redis) == []
    assert (await submit(hub, HOUR)).id != first.id


async def test_a_retried_task_keeps_its_unique_key(hub):
    worker = await worker_of(hub)
    first = await submit(hub, Options(unique_key="import-42", max_attempts=2, backoff_ms=0))
    await end(hub, worker, await claim(hub, worker), "failed")
    assert (await submit(hub)).id == first.id


async def test_a_completed_task_keeps_its_unique_key_until_the_window_is_over(hub, redis):
    worker = await worker_of(hub)
    first = await submit(hub, HOUR)
    assert redis.ttl(keys(redis)[0]) == -1  # as long as it takes
    await end(hub, worker, await claim(hub, worker), "completed")
    [key] = keys(redis)
    assert redis.pexpiretime(key) == first.created_us // 1000 + 3_600_000
    assert (await submit(hub, HOUR)).id == first.id
    redis.pexpireat(key, 1)
    assert (await submit(hub, HOUR)).id != first.id


async def test_a_unique_key_belongs_to_one_job_in_one_room(hub):
    await worker_of(hub, "A", "B")
    made = [await submit(hub), await submit(hub, job=OTHER), await submit(hub, room="r2")]
    made.append(await submit(hub, Options(unique_key="import-43")))
    assert len({task.id for task in made}) == 4


async def test_of_many_concurrent_unique_submits_one_makes_a_task(hub, settings):
    await worker_of(hub)
    async with open_store(settings) as store:
        hubs = [hub, Hub(store, settings)]
        found = await asyncio.gather(*(submit(hubs[n % 2]) for n in range(40)))
    assert len({task.id for task in found}) == 1
    assert [task.stood for task in found].count(False) == 1


async def test_a_late_repeat_of_a_unique_submit_gets_the_same_answer(hub, settings):
    worker = await worker_of(hub)
    first = await submit(hub, key="k1")
    assert (await submit(hub, key="k2")).id == first.id
    await end(hub, worker, await claim(hub, worker), "completed")
    third = await submit(hub, key="k3")
    async with open_store(settings) as store:
        elsewhere = Hub(store, settings)
        found = [(await submit(elsewhere, key=key)).id for key in ("k1", "k2", "k3")]
    assert found == [first.id, first.id, third.id]


async def test_a_task_retried_by_hand_does_not_take_over_the_unique_key(hub):
    worker = await worker_of(hub)
    first = await submit(hub)
    await end(hub, worker, await claim(hub, worker), "failed")
    second = await submit(hub)
    assert (await hub.tasks.retry(first.id, USER, superuser=False)).id != second.id
    assert (await submit(hub)).id == second.id


async def test_hubs_restore_a_task_and_its_unique_key_that_the_store_lost(lossy):
    await lossy.worker()
    lossy.keep()
    url = lossy.server.url
    async with open_store(settings_for(url)) as store:
        other = Hub(store, settings_for(url))
        await other.clock.tick()
        first = await submit(lossy.hub)
        assert (await submit(other)).id == first.id
        await lossy.forget()
        await lossy.recall(other)  # the repeat that got this task makes no second one
        await lossy.recall()
        assert (await submit(other)).id == first.id
    assert lossy.server.client().zcard(f"hub:queue:{JOB}") == 1


async def test_a_restored_end_of_a_unique_task_frees_its_key_again(lossy):
    worker = await lossy.worker()
    await submit(lossy.hub)
    task = await lossy.claim(worker)
    lossy.keep()
    await lossy.say(worker, task, "completed")
    await lossy.forget()
    await lossy.recall()
    assert (await submit(lossy.hub)).id != task.id


async def test_a_unique_submit_that_finds_a_task_is_answered_200_with_it(api):
    road = f"/v1/joblib/rooms/r1/tasks/{JOB}"
    await api.put("/v1/joblib/rooms/r1/jobs", json={"category": "modifiers", "name": "A"})
    made = [await api.post(road, json={"payload": {"n": n}, "uniqueKey": "k", "uniqueSeconds": 60}) for n in (1, 2)]
    assert [answer.status_code for answer in made] == [202, 200]
    assert made[0].json() == made[1].json()
    assert made[0].headers["location"] == made[1].headers["location"]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"uniqueKey": ""}, ["body", "uniqueKey"]),
        ({"uniqueKey": "k" * 256}, ["body", "uniqueKey"]),
        ({"uniqueKey": "k", "uniqueSeconds": -1}, ["body", "uniqueSeconds"]),
        ({"uniqueKey": "k", "uniqueSeconds": 31_536_001}, ["body", "uniqueSeconds"]),
        ({"uniqueSeconds": 60}, ["body"]),
        ({"uniqueKey": "k", "payloads": [{}]}, ["body"]),
    ],
)
async def test_invalid_unique_options_are_refused_with_their_place(api, wrong, where):
    await api.put("/v1/joblib/rooms/r1/jobs", json={"category": "modifiers", "name": "A"})
    answer = await api.post(f"/v1/joblib/rooms/r1/tasks/{JOB}", json=wrong)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == where
