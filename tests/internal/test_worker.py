"""The internal worker: which messages it runs, which it leaves alone, and what it reports."""

import asyncio
import json
from contextlib import suppress

import pytest

from hub.core import Hub
from hub.errors import ForeignKey
from hub.internal.registry import load_internal_jobs, register
from hub.internal.worker import GROUP, STOPPED, InternalWorker
from hub.jobs.names import dashed
from hub.store.connection import open_store
from hub.store.group import GroupReader
from tests.internal import sample
from tests.internal.conftest import MODULE
from tests.internal.people import KEYS, ended, events_heard, submit
from tests.world import eventually, settings_for


async def said(file, lines):
    """Wait until the jobs have written this many lines, and return all lines."""
    await eventually(lambda: file.exists() and len(file.read_text().splitlines()) >= lines)
    return file.read_text().splitlines()


def deliver_to_one_that_dies(redis, idle_ms=60_000):
    """Have all messages read by a worker that is killed before it does anything; that was a while ago."""
    ((_, entries),) = redis.xreadgroup(GROUP, "dead", {KEYS.taskiq: ">"})
    redis.xclaim(KEYS.taskiq, GROUP, "dead", 0, [entry for entry, _ in entries], idle=idle_ms, justid=True)
    return [entry for entry, _ in entries]


@pytest.mark.parametrize("full", [sample.WRITE, sample.LATER, sample.HOLD])
async def test_a_task_is_run_once_with_its_payload_and_completed(start_worker, registered, redis, file, full):
    start_worker()
    payload = {"file": str(file), "text": "é", "until": str(file)}
    with events_heard(redis) as heard:
        task = await submit(registered, full, payload, room="a room")
        done = await ended(registered, task, "completed")
    assert file.read_text() == f"a room {dashed(task.id)} é\n"
    assert (done.error, done.worker) == (None, None)
    assert done.created_us < done.started_us < done.completed_us
    assert [data["status"] for _, _, data in heard] == ["claimed", "running", "completed"]
    assert redis.xlen(KEYS.taskiq) == 0
    assert redis.xpending(KEYS.taskiq, GROUP)["pending"] == 0


async def test_a_task_whose_function_raises_fails_with_the_text_of_the_error(start_worker, registered):
    start_worker()
    task = await submit(registered, sample.FAIL, {"text": "no such atom"})
    assert (await ended(registered, task, "failed")).error == "no such atom"


async def test_a_task_submitted_before_any_executor_started_is_run(start_worker, registered, file):
    tasks = [await submit(registered, sample.WRITE, {"file": str(file)}) for _ in range(3)]
    start_worker(concurrency=1)
    for task in tasks:
        await ended(registered, task, "completed")
    assert [line.split()[1] for line in await said(file, 3)] == [dashed(task.id) for task in tasks]


async def test_a_task_cancelled_while_it_waited_is_not_run(start_worker, registered, file, tmp_path):
    start_worker(concurrency=1)
    first = await submit(registered, sample.LATER, {"file": str(file), "until": str(tmp_path / "go")})
    await said(file, 1)
    cancelled = await submit(registered, sample.WRITE, {"file": str(file)})
    last = await submit(registered, sample.WRITE, {"file": str(file)})
    await registered.tasks.move(cancelled.id, "cancelled", superuser=True)
    (tmp_path / "go").touch()
    await ended(registered, last, "completed")
    assert [line.split()[1] for line in file.read_text().splitlines()] == [dashed(first.id), dashed(last.id)]
    assert (await registered.tasks.get(cancelled.id)).started_us is None


async def test_the_message_of_a_cancelled_task_is_dropped(start_worker, registered, redis, file):
    cancelled = await submit(registered, sample.WRITE, {"file": str(file)})
    ((_, fields),) = redis.xrange(KEYS.taskiq)
    await registered.tasks.move(cancelled.id, "cancelled", superuser=True)
    redis.xadd(KEYS.taskiq, fields)
    last = await submit(registered, sample.WRITE, {"file": str(file)})
    start_worker(concurrency=1)
    await ended(registered, last, "completed")
    assert [line.split()[1] for line in file.read_text().splitlines()] == [dashed(last.id)]
    assert redis.xpending(KEYS.taskiq, GROUP)["pending"] == 0


async def test_a_message_delivered_twice_runs_its_task_once(start_worker, registered, redis, file):
    task = await submit(registered, sample.WRITE, {"file": str(file)})
    ((_, fields),) = redis.xrange(KEYS.taskiq)
    redis.xadd(KEYS.taskiq, fields)
    last = await submit(registered, sample.WRITE, {"file": str(file)})
    start_worker()
    start_worker()
    for each in (task, last):
        await ended(registered, each, "completed")
    assert sorted(line.split()[1] for line in file.read_text().splitlines()) == sorted(
        [dashed(task.id), dashed(last.id)]
    )


async def test_a_message_left_unread_by_a_dead_executor_is_run(start_worker, registered, redis, file):
    redis.xgroup_create(KEYS.taskiq, GROUP, "0", mkstream=True)
    task = await submit(registered, sample.WRITE, {"file": str(file)})
    deliver_to_one_that_dies(redis)
    start_worker()
    await ended(registered, task, "completed")
    assert len(await said(file, 1)) == 1


async def test_a_task_left_running_by_a_dead_executor_is_left_alone(start_worker, registered, redis, file):
    redis.xgroup_create(KEYS.taskiq, GROUP, "0", mkstream=True)
    lost = await submit(registered, sample.WRITE, {"file": str(file)})
    deliver_to_one_that_dies(redis)
    await registered.tasks.move(lost.id, "running", superuser=True)
    start_worker(concurrency=1)
    last = await submit(registered, sample.WRITE, {"file": str(file)})
    await ended(registered, last, "completed")
    await eventually(lambda: redis.xpending(KEYS.taskiq, GROUP)["pending"] == 0)
    assert (await registered.tasks.get(lost.id)).status == "running"
    assert [line.split()[1] for line in file.read_text().splitlines()] == [dashed(last.id)]


async def test_two_executors_share_the_tasks(start_worker, registered, file):
    tasks = [await submit(registered, sample.WRITE, {"file": str(file)}) for _ in range(40)]
    start_worker(concurrency=3)
    start_worker(concurrency=3)
    for task in tasks:
        await ended(registered, task, "completed")
    assert sorted(line.split()[1] for line in file.read_text().splitlines()) == sorted(dashed(t.id) for t in tasks)


@pytest.mark.parametrize("full", [sample.LATER, sample.HOLD])
async def test_no_more_tasks_run_at_once_than_the_limit(start_worker, registered, redis, file, tmp_path, full):
    start_worker(concurrency=2)
    wait = {"file": str(file), "until": str(tmp_path / "go")}
    tasks = [await submit(registered, full, wait) for _ in range(5)]
    await said(file, 2)
    statuses = [(await registered.tasks.get(task.id)).status for task in tasks]
    assert statuses == ["running", "running", "claimed", "claimed", "claimed"]
    assert redis.xinfo_groups(KEYS.taskiq)[0]["last-delivered-id"] == redis.xrange(KEYS.taskiq)[1][0]
    (tmp_path / "go").touch()
    for task in tasks:
        await ended(registered, task, "completed")


async def test_a_job_that_one_executor_does_not_know_is_left_for_another(start_worker, registered, redis, file):
    start_worker(only=[sample.WRITE])
    strange = await submit(registered, sample.LATER, {"file": str(file), "until": str(file)})
    known = await submit(registered, sample.WRITE, {"file": str(file)})
    await ended(registered, known, "completed")
    assert (await registered.tasks.get(strange.id)).status == "claimed"
    ((entry, _),) = redis.xrange(KEYS.taskiq)
    ((waiting,),) = [redis.xpending_range(KEYS.taskiq, GROUP, "-", "+", 10)]
    assert waiting["message_id"] == entry
    redis.xclaim(KEYS.taskiq, GROUP, waiting["consumer"], 0, [entry], idle=60_000, justid=True)
    start_worker(only=[sample.LATER])
    await ended(registered, strange, "completed")


@pytest.mark.parametrize(
    "data",
    [
        "no JSON",
        "{}",
        json.dumps({"task_id": "x", "task_name": sample.WRITE, "labels": {}, "args": [], "kwargs": {}}),
        json.dumps(
            {"task_id": "x", "task_name": sample.WRITE, "labels": {}, "args": [], "kwargs": {"task_id": "not one"}}
        ),
    ],
)
async def test_a_meaningless_message_is_dropped(start_worker, registered, redis, file, data):
    redis.xadd(KEYS.taskiq, {"data": data})
    redis.xadd(KEYS.taskiq, {"other": data})
    last = await submit(registered, sample.WRITE, {"file": str(file)})
    start_worker(concurrency=1)
    await ended(registered, last, "completed")
    assert redis.xpending(KEYS.taskiq, GROUP)["pending"] == 0


async def test_a_task_cancelled_while_it_ran_stays_cancelled(start_worker, registered, file, tmp_path):
    start_worker(concurrency=1)
    task = await submit(registered, sample.LATER, {"file": str(file), "until": str(tmp_path / "go")})
    await said(file, 1)
    await registered.tasks.move(task.id, "cancelled", superuser=True)
    (tmp_path / "go").touch()
    last = await submit(registered, sample.WRITE, {"file": str(file)})
    await ended(registered, last, "completed")
    assert (await registered.tasks.get(task.id)).status == "cancelled"


async def test_an_executor_goes_on_after_the_store_was_emptied(start_worker, registered, redis, file):
    start_worker()
    first = await submit(registered, sample.WRITE, {"file": str(file)})
    await ended(registered, first, "completed")
    redis.flushall()
    await registered.store.open()
    for job in sample.internal_jobs:
        await registered.jobs.ensure_internal(job, {}, "{}")
    task = await submit(registered, sample.WRITE, {"file": str(file)})
    await ended(registered, task, "completed")


async def test_with_a_prefix_the_stream_is_under_the_prefix(redis_server, redis, file):
    settings = settings_for(redis_server.url, internal_jobs=MODULE, key_prefix="{mine}:")
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        jobs = load_internal_jobs(settings)
        await register(hub, jobs)
        task = await submit(hub, sample.WRITE, {"file": str(file)})
        assert redis.xlen("{mine}:taskiq") == 1
        worker = InternalWorker(hub, jobs, 1, 1.0)
        running = asyncio.ensure_future(worker.run())
        await ended(hub, task, "completed")
        worker.stop()
        await running
    assert not redis.exists("taskiq")


async def test_a_key_of_another_program_ends_the_executor_with_a_sentence(registered, redis):
    redis.set(KEYS.taskiq, "mine")
    with pytest.raises(ForeignKey, match="The key taskiq of Redis is no stream"):
        await InternalWorker(registered, {}, 1, 1.0).run()


async def test_a_stopping_executor_lets_running_tasks_end(registered, start_worker, file, tmp_path):
    worker = start_worker(concurrency=1)
    task = await submit(registered, sample.HOLD, {"file": str(file), "until": str(tmp_path / "go")})
    await said(file, 1)
    worker.stop()
    waiting = await submit(registered, sample.WRITE, {"file": str(file)})
    (tmp_path / "go").touch()
    await ended(registered, task, "completed")
    assert (await registered.tasks.get(waiting.id)).status == "claimed"


@pytest.mark.parametrize("full", [sample.LATER, sample.HOLD])
async def test_a_task_that_runs_longer_than_the_grace_fails(registered, start_worker, file, tmp_path, full):
    worker = start_worker(grace_s=0.0)
    task = await submit(registered, full, {"file": str(file), "until": str(tmp_path / "never")})
    await said(file, 1)
    worker.stop()
    assert (await ended(registered, task, "failed")).error == STOPPED
    (tmp_path / "never").touch()


async def test_a_reader_that_swallows_its_cancellation_does_not_keep_the_executor_running(registered, monkeypatch):
    reading = asyncio.Event()

    async def swallow(*_):
        reading.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return []

    monkeypatch.setattr(GroupReader, "next", swallow)
    worker = InternalWorker(registered, {}, 1, 1.0)
    running = asyncio.ensure_future(worker.run())
    await reading.wait()
    worker.stop()
    await asyncio.wait_for(running, 30)


async def test_a_stopping_executor_leaves_the_consumer_group(start_worker, registered, redis, file):
    worker = start_worker()
    await ended(registered, await submit(registered, sample.WRITE, {"file": str(file)}), "completed")
    assert len(redis.xinfo_consumers(KEYS.taskiq, GROUP)) == 1
    worker.stop()
    await eventually(lambda: redis.xinfo_consumers(KEYS.taskiq, GROUP) == [])


async def test_a_leaving_reader_releases_its_messages_at_once(registered, redis):
    def reader(name):
        return GroupReader(registered.store, KEYS.taskiq, GROUP, name, 3600.0)

    first, second = reader("first"), reader("second")
    await first.join()
    await submit(registered, sample.WRITE, {})
    found = await first.next(10)
    assert await second.next(10) == []
    await first.close()
    third = reader("third")
    assert await third.next(10) == found
    await third.acknowledge(found[0][0])
    for each in (second, third):
        await each.close()
    assert [left["name"] for left in redis.xinfo_consumers(KEYS.taskiq, GROUP)] == ["first"]


async def test_dead_readers_without_messages_are_removed_from_the_consumer_group(registered, redis):
    redis.xgroup_create(KEYS.taskiq, GROUP, "0", mkstream=True)
    redis.xgroup_createconsumer(KEYS.taskiq, GROUP, "holds nothing")
    await submit(registered, sample.WRITE, {"file": "f"})
    deliver_to_one_that_dies(redis)
    forget = registered.store.script("internal/forget_readers")
    assert await forget(key=KEYS.taskiq, group=GROUP, idle_ms=60_000) == 0
    assert await forget(key=KEYS.taskiq, group=GROUP, idle_ms=-1) == 1
    assert [reader["name"] for reader in redis.xinfo_consumers(KEYS.taskiq, GROUP)] == ["dead"]
