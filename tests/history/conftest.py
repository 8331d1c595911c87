"""A worker of one job, and a clock that has ticked."""

from __future__ import annotations

import pytest

from hub.core import Hub
from hub.jobs.models import JobRequest

USER = "a" * 32
JOB = "one:modifiers:a"


@pytest.fixture
async def worker(hub: Hub) -> str:
    """Return the id of a worker of JOB."""
    await hub.clock.tick()
    job, _ = await hub.jobs.register(JobRequest("one", "modifiers", "a"), {}, USER, superuser=False)
    assert job.worker is not None
    return job.worker
