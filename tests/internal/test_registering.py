"""Registering `@internal` jobs from configuration: once, over any schema, and again when the store was emptied."""

import dataclasses
import json

import pytest

from hub.errors import InternalJobNotConfigured
from hub.internal.registry import load_internal_jobs, register
from hub.jobs.models import JobRequest
from tests.internal import sample
from tests.internal.conftest import MODULE
from tests.internal.people import KEYS, USER, submit
from tests.world import eventually

NAMES = set(sample.internal_jobs)


async def names_of(hub):
    return {job.full for job in (await hub.jobs.page("a room", 50, 0)).items}


async def test_internal_jobs_are_listed_in_every_room_and_can_be_executed(registered, redis):
    assert await names_of(registered) == NAMES
    job = await registered.jobs.get(sample.WRITE)
    assert (json.loads(job.schema), job.workers) == (sample.SCHEMA, ())
    assert redis.smembers(KEYS.executors) == NAMES


async def test_registering_internal_jobs_again_changes_nothing(registered):
    before = await registered.jobs.get(sample.WRITE)
    await register(registered, load_internal_jobs(registered.settings))
    assert await registered.jobs.get(sample.WRITE) == before
    assert await names_of(registered) == NAMES


async def test_the_schema_in_the_module_replaces_the_stored_one(hub):
    wanted = JobRequest("@internal", "modifiers", "Write", '{"old":1}')
    old, _ = await hub.jobs.register(wanted, {"old": 1}, USER, True)
    await register(hub, load_internal_jobs(hub.settings))
    job = await hub.jobs.get(sample.WRITE)
    assert (job.id, json.loads(job.schema)) == (old.id, sample.SCHEMA)


async def test_a_job_registered_only_over_http_is_not_executed(registered):
    await registered.jobs.register(JobRequest("@internal", "modifiers", "Other"), {}, USER, True)
    with pytest.raises(InternalJobNotConfigured):
        await submit(registered, "@internal:modifiers:Other", {})


async def test_a_job_removed_from_the_module_stays_registered_and_its_submits_are_refused(registered):
    jobs = load_internal_jobs(registered.settings)
    await register(registered, {full: job for full, job in jobs.items() if full != sample.FAIL})
    assert await names_of(registered) == NAMES
    assert (await submit(registered, sample.WRITE, {})).status == "claimed"
    with pytest.raises(InternalJobNotConfigured):
        await submit(registered, sample.FAIL, {})


async def test_a_changed_schema_is_shown_after_the_next_start(registered):
    job = dataclasses.replace(load_internal_jobs(registered.settings)[sample.WRITE], schema={"a": 1}, text='{"a":1}')
    await register(registered, {sample.WRITE: job})
    assert (await registered.jobs.get(sample.WRITE)).schema == '{"a":1}'


async def test_a_hub_registers_internal_jobs_at_its_start_and_after_the_store_was_emptied(start_hub, redis):
    start_hub(HUB_INTERNAL_JOBS=MODULE)
    assert redis.smembers(KEYS.executors) == NAMES
    redis.flushall()

    async def all_there():
        return redis.smembers(KEYS.executors) == NAMES and redis.zcard(KEYS.room_jobs("@internal")) == len(NAMES)

    await eventually(all_there)


async def test_a_hub_without_internal_jobs_leaves_those_of_other_hubs_alone(registered, start_hub, redis):
    start_hub()
    assert redis.smembers(KEYS.executors) == NAMES
