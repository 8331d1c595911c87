"""Jobs with very many workers."""

from __future__ import annotations

from hub.jobs.models import JobRequest

USER = "a" * 32
JOB = "r1:modifiers:A"


async def test_a_job_has_any_number_of_workers(hub, redis):
    await hub.jobs.register(JobRequest("r1", "modifiers", "A"), {}, USER, superuser=False)
    redis.sadd(f"hub:job_workers:{JOB}", *(f"{number:032x}" for number in range(20_000)))
    job, created = await hub.jobs.register(JobRequest("r1", "modifiers", "A"), {}, USER, superuser=False)
    assert (created, len(job.workers)) == (False, 20_002)
    assert len((await hub.jobs.get(JOB)).workers) == 20_002
    assert [len(shown.workers) for shown in (await hub.jobs.page("r1", 10, 0)).items] == [20_002]
