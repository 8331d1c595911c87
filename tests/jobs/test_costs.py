"""The Redis commands of a plain task: options of other tasks add none."""

from __future__ import annotations

import pytest

from hub.jobs.models import Claim, JobRequest, Result
from tests.jobs.conftest import JOB, USER

ASIDE = ("config|resetstat", "fcall", "info")
COSTS = {"submit": 20, "claim": 24, "finish": 19}  # commands in the script, with the reading of the store


@pytest.fixture
def spent(redis):
    """How many commands scripts have run since."""
    redis.config_resetstat()

    def count():
        stats = redis.info("commandstats")
        redis.config_resetstat()
        return sum(each["calls"] for name, each in stats.items() if name[8:] not in ASIDE)

    return count


async def test_a_plain_task_costs_a_fixed_number_of_redis_commands(hub, spent):
    job, _ = await hub.jobs.register(JobRequest("r1", "modifiers", "A"), {}, USER, superuser=False)
    await hub.tasks.submit("r1", JOB, ["{}"], USER)
    await hub.claims.claim(job.worker, USER)
    found = {}
    spent()
    await hub.tasks.submit("r1", JOB, ['{"n":1}'], USER)
    found["submit"] = spent()
    [task] = await hub.claims.claim(job.worker, USER, Claim(start=True))
    found["claim"] = spent()
    await hub.tasks.finish(job.worker, USER, [Result(task.id, "completed", "", task.claim)])
    found["finish"] = spent()
    assert found == COSTS
