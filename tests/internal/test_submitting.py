"""Submitting to `@internal` jobs: claimed and dispatched in one step, or failed, or refused with nothing stored."""

import json
import uuid

import pytest

from hub.errors import InternalJobNotConfigured, InvalidTaskTransition, JobNotFound, KeyReused
from hub.jobs.names import dashed
from tests.internal import sample
from tests.internal.people import KEYS, events_heard, read_as_taskiq, submit
from tests.world import picture

OUR_OWN = (KEYS.socketio, KEYS.history, KEYS.store)


def stored(redis):
    """Return all that is kept, but for the store's own record and its history."""
    return {key: value for key, value in picture(redis, own=True).items() if key not in OUR_OWN}


async def test_an_internal_task_is_claimed_from_the_start_and_has_no_worker(registered):
    task = await submit(registered, sample.WRITE, {"file": "f"})
    assert (task.status, task.worker, task.position, task.started_us, task.error) == ("claimed", None, None, None, None)
    assert task == await registered.tasks.get(task.id)
    listed = await registered.tasks.page_of_room("room", "claimed", 10, 0)
    assert (listed.total, listed.items) == (1, [task])
    assert (await registered.tasks.page_of_room("room", None, 10, 0)).total == 1


async def test_submitting_an_internal_task_sends_one_event(registered, redis):
    with events_heard(redis) as heard:
        task = await submit(registered, sample.WRITE, {"file": "f"})
    ((event, room, data),) = heard
    assert (event, room) == ("task_status_event", "room:room")
    assert (data["id"], data["name"], data["status"]) == (dashed(task.id), sample.WRITE, "claimed")
    assert (data["queue_position"], data["worker_id"], data["error"]) == (None, None, None)


async def test_the_stream_broker_of_taskiq_can_read_the_message(registered, redis_server):
    payload = {"n": 12345678901234567890123, "f": 1.0, "text": "é \u2028", "empty": [], "none": None, "in": {"a": {}}}
    task = await submit(registered, sample.WRITE, payload, room="a room")
    (message,) = await read_as_taskiq(redis_server.url, 1)
    assert (message.task_name, message.args) == (sample.WRITE, [])
    assert message.kwargs == {"task_id": dashed(task.id), "room_id": "a room", "payload": payload}
    assert (message.labels, message.labels_types) == ({}, {})


async def test_messages_are_in_the_order_of_their_tasks(registered, redis_server):
    tasks = [await submit(registered, sample.WRITE, {"n": n}) for n in range(20)]
    messages = await read_as_taskiq(redis_server.url, 20)
    assert [message.kwargs["task_id"] for message in messages] == [dashed(task.id) for task in tasks]


async def test_an_executor_may_start_the_task_as_soon_as_it_reads_the_message(registered, redis_server):
    await submit(registered, sample.WRITE, {})
    (message,) = await read_as_taskiq(redis_server.url, 1)
    task = uuid.UUID(message.kwargs["task_id"]).hex
    assert (await registered.tasks.move(task, "running", superuser=True)).status == "running"


async def test_a_repeated_submit_of_an_internal_task_changes_nothing(registered, redis):
    task = await submit(registered, sample.WRITE, {"n": 1})
    before = stored(redis)
    with events_heard(redis) as heard:
        assert await submit(registered, sample.WRITE, {"n": 1}, task=task.id) == task
    assert (stored(redis), heard) == (before, [])


async def test_a_key_used_with_another_request_is_refused(registered, redis):
    task = await submit(registered, sample.WRITE, {"n": 1}, key="k", fingerprint="one")
    assert await submit(registered, sample.WRITE, {"n": 1}, task=task.id, key="k", fingerprint="one") == task
    before = stored(redis)
    with pytest.raises(KeyReused):
        await submit(registered, sample.WRITE, {"n": 2}, task=task.id, key="k", fingerprint="other")
    assert stored(redis) == before
    assert 0 < redis.ttl(KEYS.submitted("k")) <= 86_400


@pytest.mark.parametrize("end", ["cancelled", "failed"])
async def test_the_message_is_deleted_when_its_task_ends(registered, redis, end):
    task, other = [await submit(registered, sample.WRITE, {}) for _ in range(2)]
    await registered.tasks.move(task.id, end, superuser=True)
    ((_, fields),) = redis.xrange(KEYS.taskiq)
    assert json.loads(fields["data"])["kwargs"]["task_id"] == dashed(other.id)


async def test_a_task_cancelled_by_its_submitter_cannot_run(registered):
    task = await submit(registered, sample.WRITE, {})
    assert (await registered.tasks.move(task.id, "cancelled", user=task.user)).status == "cancelled"
    with pytest.raises(InvalidTaskTransition):
        await registered.tasks.move(task.id, "running", superuser=True)


async def test_a_stream_that_refuses_the_message_makes_a_failed_task(registered, redis):
    redis.set(KEYS.taskiq, "of another program")
    with events_heard(redis) as heard:
        task = await submit(registered, sample.WRITE, {"n": 1})
    assert (task.status, task.error) == ("failed", "Failed to dispatch to internal executor")
    assert task.completed_us is not None
    assert task.started_us is None
    assert [(event, data["status"], data["error"]) for event, _, data in heard] == [
        ("task_status_event", "failed", "Failed to dispatch to internal executor")
    ]
    assert (await registered.tasks.page_of_room("room", "failed", 10, 0)).items == [task]
    assert (await registered.tasks.page_of_room("room", "claimed", 10, 0)).total == 0
    assert redis.zcard(KEYS.internal_tasks) == 0
    assert redis.get(KEYS.taskiq) == "of another program"


async def test_a_payload_that_cannot_be_a_message_makes_a_failed_task(registered, redis):
    text = '{"a":' * 400 + "1" + "}" * 400
    task = await submit(registered, sample.WRITE, text)
    assert (task.status, task.error, task.payload) == ("failed", "Failed to dispatch to internal executor", text)
    assert redis.xlen(KEYS.taskiq) == 0


async def test_a_job_without_an_executor_is_refused_and_nothing_is_stored(registered, redis):
    redis.srem(KEYS.executors, sample.WRITE)
    before = stored(redis)
    with events_heard(redis) as heard, pytest.raises(InternalJobNotConfigured, match=sample.WRITE):
        await submit(registered, sample.WRITE, {"n": 1}, key="k", fingerprint="one")
    assert (stored(redis), heard) == (before, [])


@pytest.mark.parametrize(
    ("full", "sentence"),
    [("@internal:modifiers:Other", "There is no active job"), ("@internal:modifiers", "Invalid job name format")],
)
async def test_an_unregistered_job_is_not_found_and_nothing_is_stored(registered, redis, full, sentence):
    before = stored(redis)
    with pytest.raises(JobNotFound, match=sentence):
        await submit(registered, full, {}, key="k", fingerprint="one")
    assert stored(redis) == before
