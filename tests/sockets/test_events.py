"""Changes in Redis reach every client in the room, on each hub."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis import Redis

from hub.api.sockets.sockets import BACKLOG
from hub.errors import ProviderTimeout
from hub.jobs.models import Claim, JobRequest, Options, ProviderRequest
from hub.jobs.names import dashed
from tests.sockets.people import ANN, JOB, OK, Listener, connections, new_worker, publish
from tests.world import eventually


async def offered(hub: Any) -> str:
    """Return a worker of Ann's that offers the job."""
    job, _ = await hub.jobs.register(JobRequest("lab", "modifiers", "Rotate"), {}, ANN, superuser=False)
    return str(job.worker)


def hubs_that_listen(redis: Redis) -> int:
    """Return how many there are."""
    return int(redis.pubsub_numsub("hub:socketio")[0][1])


async def told(listener: Listener, count: int) -> list[tuple[str, Any]]:
    """Wait until the listener has this many events, and return them."""
    await eventually(lambda: len(listener.told) >= count)
    return listener.told


@pytest.mark.parametrize("transport", ["websocket", "polling"])
async def test_task_events_go_to_its_room_and_available_events_to_the_room_of_its_job(transport, here, listen, hub):
    reader = await listen(here, None, transports=[transport])
    worker = await listen(here, "ann", transports=[transport])
    assert (await reader.join("lab"), await worker.offer(new_worker())) == (OK, OK)

    worker_id = await offered(hub)
    (task,) = await hub.tasks.submit("lab", JOB, ["{}"], ANN, Options())
    await hub.claims.claim(worker_id, ANN, Claim())

    seen = await told(reader, 3)
    assert seen[0] == ("jobs_invalidate", {})
    assert [event for event, _ in seen] == ["jobs_invalidate", "task_status_event", "task_status_event"]
    assert set(seen[1][1]) == {
        "id", "name", "room_id", "status", "created_at", "started_at", "completed_at", "queue_position", "worker_id",
        "error",
    }  # fmt: skip
    assert [(data["id"], data["status"], data["queue_position"], data["worker_id"]) for _, data in seen[1:]] == [
        (dashed(task.id), "pending", 1, None),
        (dashed(task.id), "claimed", None, dashed(worker_id)),
    ]
    available = {"job_name": JOB, "room_id": "lab", "task_id": dashed(task.id)}
    assert await told(worker, 1) == [("task_available", available)]


async def test_providers_get_questions_and_readers_hear_of_new_and_deleted_providers(here, listen, hub):
    reader, provider = await listen(here, None), await listen(here, "ann")
    full = "lab:frames:Disk"
    assert await reader.join("lab") == OK
    assert await provider.say("join_provider_room", {"provider_name": full, "worker_id": "None"}) == OK
    made, _ = await hub.providers.register(
        ProviderRequest("lab", "frames", "Disk", worker=(await hub.workers.create(ANN, new_worker())).id), ANN, False
    )
    reading = asyncio.ensure_future(hub.providers.read(made, {"path": "/ä"}, 5))
    ((event, request),) = await told(provider, 1)
    assert (event, request["provider_name"], request["params"]) == ("provider_request", full, '{"path":"/\\u00e4"}')
    await hub.providers.upload(made.id, request["request_id"], b"42", ANN, False)
    assert await reading == b"42"
    await hub.providers.delete(made.id, ANN, False)
    assert await told(reader, 3) == [
        ("providers_invalidate", {}),
        ("provider_result_ready", {"provider_name": full, "request_hash": request["request_id"]}),
        ("providers_invalidate", {}),
    ]


async def test_a_provider_that_connects_after_a_question_gets_it_again(here, listen, hub):
    made, _ = await hub.providers.register(ProviderRequest("lab", "frames", "Disk"), ANN, False)
    with pytest.raises(ProviderTimeout):
        await hub.providers.read(made, {}, 0)
    provider = await listen(here, "ann")
    joining = {"provider_name": "lab:frames:Disk", "worker_id": dashed(made.worker)}
    assert await provider.say("join_provider_room", joining) == OK
    for _ in range(2):  # the second is content with the first one's question
        with pytest.raises(ProviderTimeout):
            await hub.providers.read(made, {}, 0)
    ((event, request),) = await told(provider, 1)
    assert event == "provider_request"
    await hub.providers.upload(made.id, request["request_id"], b"42", ANN, False)
    assert await hub.providers.read(made, {}, 0) == b"42"
    assert len(provider.told) == 1


async def test_each_client_of_every_hub_gets_an_event_once(here, start, listen, redis):
    listeners = [await listen(process) for process in (here, here, start())]
    for listener in listeners:
        assert await listener.join("lab") == OK
        assert await listener.join("lab") == OK
    assert publish(redis, "jobs_invalidate", "room:lab") == 2
    publish(redis, "last", "room:lab")
    for listener in listeners:
        assert await told(listener, 2) == [("jobs_invalidate", {}), ("last", {})]


async def test_a_client_hears_only_the_rooms_it_is_in(here, listen, redis):
    listener = await listen(here)
    await listener.join("lab")
    for room in ("room:labs", "room:@global", f"jobs:{JOB}", "lab"):
        publish(redis, "elsewhere", room)
    publish(redis, "first", "room:lab")
    assert await told(listener, 1) == [("first", {})]
    assert await listener.say("room_leave", {"room_id": "lab"}) == OK
    assert await listener.join("@global") == OK
    publish(redis, "second", "room:lab")
    publish(redis, "third", "room:@global")
    assert await told(listener, 2) == [("first", {}), ("third", {})]


async def test_after_the_acknowledgement_of_a_join_no_event_is_missed(start, listen, redis):
    """The hub has heard nothing before: its first client must not wait for the channel to be opened."""
    hub, before = start(), hubs_that_listen(redis)
    listener = await listen(hub)
    assert hubs_that_listen(redis) == before + 1
    assert await listener.join("lab") == OK
    for number in range(200):
        publish(redis, "jobs_invalidate", "room:lab", {"number": number})
    seen = await told(listener, 200)
    assert [data["number"] for _, data in seen] == list(range(200))


async def test_invalid_messages_on_the_channel_are_ignored(here, listen, redis):
    listener = await listen(here)
    await listener.join("lab")
    for text in (
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"method":"emit"}',
        '{"method":"emit","room":["x"],"namespace":"/"}',
        "ÿ",
    ):
        redis.publish("hub:socketio", text)
    redis.publish("hub:socketio", b"\xff\xfe")
    publish(redis, "jobs_invalidate", "room:lab")
    assert await told(listener, 1) == [("jobs_invalidate", {})]


async def test_a_client_that_does_not_read_is_cut_off_and_delays_no_other(here, listen, redis, hub):
    worker = (await hub.workers.create(ANN, new_worker())).id
    reads, deaf = await listen(here), await listen(here)
    await reads.join("lab")
    await deaf.join("deaf")
    assert await deaf.offer(worker) == OK
    transport = deaf.client.eio.ws._response.connection.transport
    transport.pause_reading()
    for _ in range(100):  # more than the buffers of both ends hold
        publish(redis, "noise", "room:deaf", {"text": "x" * 100_000})
    for _ in range(BACKLOG):
        publish(redis, "noise", "room:deaf")
    publish(redis, "jobs_invalidate", "room:lab")
    assert await told(reads, 1) == [("jobs_invalidate", {})]
    await eventually(lambda: connections(redis, worker) == 0)
    transport.abort()
