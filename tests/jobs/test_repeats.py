"""Calls that come twice: redis-py sends again what it had no answer to, and so do clients."""

from __future__ import annotations

import pytest

from hub.errors import KeyReused
from hub.jobs.models import Claim, JobRequest, Options, Result

USER, OTHER = "a" * 32, "b" * 32
JOB = "r1:modifiers:A"


async def workers_of(hub, *users):
    """A worker of each user, all on one job."""
    found = []
    for user in users:
        job, _ = await hub.jobs.register(JobRequest("r1", "modifiers", "A"), {}, user, superuser=False)
        found.append(job.worker)
    return found


async def test_a_repeated_failure_does_not_take_the_task_from_its_next_worker(hub):
    first, second = await workers_of(hub, USER, USER)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER, Options(max_attempts=5, backoff_ms=0))
    await hub.claims.claim(first, USER)
    await hub.tasks.move(task.id, "failed", user=USER, request="R")
    await hub.claims.claim(second, USER)
    again = await hub.tasks.move(task.id, "failed", user=USER, request="R")
    assert (again.status, again.attempt, again.worker) == ("claimed", 2, second)


async def test_two_reports_on_one_task_in_one_call_are_both_accepted(hub):
    [worker] = await workers_of(hub, USER)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.claims.claim(worker, USER)
    results = [Result(task.id, "running"), Result(task.id, "completed")]
    assert await hub.tasks.finish(worker, USER, results, "R") == ["ok", "ok"]
    assert (await hub.tasks.get(task.id)).status == "completed"


async def test_two_alternately_repeated_claims_each_get_their_first_answer(hub):
    [worker] = await workers_of(hub, USER)
    await hub.tasks.submit("r1", JOB, ["{}"] * 4, USER)
    taken = [
        [t.id for t in await hub.claims.claim(worker, USER, Claim(request=key))] for key in ("K1", "K2", "K1", "K2")
    ]
    assert taken[2:] == taken[:2]
    assert taken[0] != taken[1]


async def test_a_key_stands_for_one_request_until_it_is_forgotten(hub, redis):
    await workers_of(hub, USER)
    [first] = await hub.tasks.submit("r1", JOB, ['{"n":1}'], USER, key="k")
    with pytest.raises(KeyReused):
        await hub.tasks.submit("r1", JOB, ['{"n":2}'], USER, key="k")
    redis.delete(*redis.keys("hub:submitted:*"))
    [second] = await hub.tasks.submit("r1", JOB, ['{"n":2}'], USER, key="k")
    assert (second.payload, second.id != first.id) == ('{"n":2}', True)


async def test_a_retry_repeated_with_its_key_makes_one_task(hub):
    [worker] = await workers_of(hub, USER)
    [task] = await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.claims.claim(worker, USER)
    await hub.tasks.move(task.id, "failed", user=USER)
    tries = [await hub.tasks.retry(task.id, USER, superuser=False, key="k") for _ in range(2)]
    assert tries[0].id == tries[1].id != task.id


async def test_a_repeated_removal_succeeds_again_and_a_second_removal_does_not(hub):
    [worker] = await workers_of(hub, USER)
    remove = hub.store.script("workers/remove")
    named = {
        "worker": worker,
        "user": USER,
        "superuser": 0,
        "why": "deleted",
        "silent_ms": -1,
        "limit": 9,
        "incarnation": "",
    }
    assert [await remove(**named, request="R") for _ in range(2)] == [["ok", 0]] * 2
    assert await remove(**named, request="S") == ["worker"]
