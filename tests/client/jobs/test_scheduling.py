"""The SDK submits tasks that are unique, that wait for others, and at certain times."""

from __future__ import annotations

import asyncio

import pytest

from hub.client.jobs import JobsClient, SyncJobsClient, Worker
from hub.errors import Malformed
from tests.client.jobs.live import QUICK, TOKEN, tokens_file
from tests.world import PATIENCE_S

JOB = "lab:analysis:Note"


@pytest.mark.slow
async def test_a_program_submits_unique_dependent_and_scheduled_tasks(start_hub, tmp_path, redis):
    hub = start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **QUICK)
    worker, seen = Worker(hub.url, TOKEN, room="lab"), []
    go, fired = asyncio.Event(), asyncio.Event()

    @worker.job("analysis", "Note")
    async def note(payload, task):
        if payload.get("waits"):
            await go.wait()
        seen.append(payload["n"])
        if payload["n"] == 3:
            fired.set()

    async with worker, JobsClient(hub.url, TOKEN) as jobs:
        first = await jobs.submit(JOB, {"n": 1, "waits": True}, "lab", unique_key="k", unique_for=60)
        assert await jobs.submit(JOB, {"n": 1}, "lab", unique_key="k", unique_for=60) == first
        last = await jobs.submit(JOB, {"n": 2}, "lab", after=[first], on_failure="run")
        go.set()
        await asyncio.wait_for(jobs.result(last), PATIENCE_S)
        assert seen == [1, 2]
        assert await jobs.submit(JOB, {"n": 1}, "lab", unique_key="k", unique_for=60) == first

        await jobs.schedule("often", JOB, {"n": 3}, "lab", every=1, catch_up="skip")
        await asyncio.wait_for(fired.wait(), PATIENCE_S)
        with pytest.raises(Malformed, match="has not five fields"):
            await jobs.schedule("often", JOB, {"n": 3}, "lab", cron="now")
        with SyncJobsClient(hub.url, TOKEN) as other:
            await asyncio.to_thread(other.unschedule, "often", "lab")
    assert redis.keys("hub:schedule*") == []
