"""Completed tasks whose result is lost are counted by job."""

from __future__ import annotations

from hub.jobs.models import LOST, Claim, JobRequest, Result
from hub.observability import metrics
from hub.sweeping.ended import Ended

USER = "a" * 32
JOB = "r1:modifiers:Lossy"


async def test_each_lost_result_of_a_completed_task_is_counted_once_by_job(hub):
    job, _ = await hub.jobs.register(JobRequest("r1", "modifiers", "Lossy"), {}, USER, superuser=False)
    ended = Ended(hub.store)
    await ended.count()  # what ended before is not counted
    await hub.tasks.submit("r1", JOB, ["{}"] * 4, USER)
    held = await hub.claims.claim(job.worker, USER, Claim(4, start=True))
    ends = [("completed", LOST), ("completed", "1"), ("completed", ""), ("failed", LOST)]
    results = [
        Result(task.id, status, "no" if status == "failed" else "", task.claim, value)
        for task, (status, value) in zip(held, ends, strict=True)
    ]
    assert await hub.tasks.finish(job.worker, USER, results) == ["ok"] * 4
    lost, completed = metrics.results_lost.labels(JOB), metrics.tasks_ended.labels(JOB, "completed")
    before = lost._value.get(), completed._value.get()
    await ended.count()
    await ended.count()
    assert (lost._value.get(), completed._value.get()) == (before[0] + 1, before[1] + 3)
