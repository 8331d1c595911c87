"""A worker of many jobs gets the oldest task of all of them, however many other queues are ahead."""

from __future__ import annotations

import random

import pytest

from hub.jobs.models import Claim, JobRequest, Options

USER = "a" * 32
JOBS = [f"@global:modifiers:Job{number:02d}" for number in range(60)]


async def linked_to(hub, names):
    """Return a worker that serves these jobs."""
    worker = ""
    for full in names:
        room, category, name = full.split(":")
        job, _ = await hub.jobs.register(JobRequest(room, category, name, worker=worker), {}, USER, superuser=True)
        worker = job.worker
    return worker


@pytest.mark.parametrize("seed", range(4))
async def test_a_claim_takes_only_the_oldest_tasks_of_the_jobs_of_its_worker(hub, seed):
    chance = random.Random(seed)
    all_of_them = await linked_to(hub, JOBS)
    chosen = {size: chance.sample(JOBS, size) for size in (1, 2, 3, 20)}
    serves = {await linked_to(hub, names): set(names) for names in chosen.values()} | {all_of_them: set(JOBS)}
    waiting = {}  # task -> (its place, its job)
    for _ in range(150):
        what = chance.choice(["submit", "submit", "claim", "cancel", "take"])
        if what == "submit":
            priority = chance.choice([0, 0, 3600])
            made = await hub.tasks.submit(
                "r1", chance.choice(JOBS), ["{}"] * chance.randint(1, 4), USER, Options(priority=priority)
            )
            waiting |= {task.id: (task.created_us - 1_000_000 * priority, task.job) for task in made}
        elif what == "claim":
            worker, most = chance.choice(list(serves)), chance.choice([1, 1, 2, 5, 30])
            mine = [task for task in sorted(waiting, key=waiting.get) if waiting[task][1] in serves[worker]]
            taken = [task.id for task in await hub.claims.claim(worker, USER, Claim(most=most))]
            assert taken == mine[:most]
            for task in taken:
                del waiting[task]
        elif waiting:
            task = chance.choice([*waiting, min(waiting, key=waiting.get)])
            if what == "cancel":
                await hub.tasks.move(task, "cancelled", user=USER)
                del waiting[task]
            else:  # claimed without a worker
                await hub.tasks.move(task, "claimed", user=USER, superuser=True)
                del waiting[task]
    left = [task.id for task in await hub.claims.claim(all_of_them, USER, Claim(most=1000))]
    assert left == sorted(waiting, key=waiting.get)
    assert await hub.claims.claim(all_of_them, USER) == []


async def test_a_task_is_found_behind_more_queues_than_one_claim_looks_through(hub):
    await linked_to(hub, JOBS)
    for full in JOBS[:57]:
        await hub.tasks.submit("r1", full, ["{}"], USER)
    worker = await linked_to(hub, JOBS[57:])
    assert await hub.claims.claim(worker, USER) == []
    [last] = await hub.tasks.submit("r1", JOBS[59], ["{}"], USER)
    assert [task.id for task in await hub.claims.claim(worker, USER)] == [last.id]
