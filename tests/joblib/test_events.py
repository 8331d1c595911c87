"""The events that each call sends over Socket.IO, and to whom."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
import socketio

from tests.joblib.people import LONGEST_S, done, empty, fresh, problem, request_hash
from tests.socket_client import SocketClient
from tests.world import PATIENCE_S, eventually

STATUS = {
    "id", "name", "room_id", "status", "created_at", "started_at", "completed_at", "queue_position", "worker_id",
    "error",
}  # fmt: skip


def status_event(task, **changes):
    """Return the event of a task that looks like this."""
    said = {name: task[name] for name in STATUS - {"name"}} | {"name": task["job_name"]}
    return ("task_status_event", said | changes)


def ordered(told):
    """Events without their order, of which nothing is promised."""
    return sorted(told, key=lambda event: json.dumps(event, sort_keys=True))


async def test_a_registration_sends_an_event_to_the_room_of_the_job(listen, alice, room):
    listener, elsewhere = await listen(room, hub=0), await listen(fresh(), "@global", hub=1)
    answer = alice.put_job(room)
    assert answer.status_code == 201
    assert await listener.heard() == [("jobs_invalidate", {})]
    assert alice.put_job(room, worker_id=answer.json()["worker_id"]).status_code == 200
    assert await listener.heard() == [("jobs_invalidate", {})]
    assert await elsewhere.heard() == []


async def test_the_registration_of_a_global_job_sends_an_event_to_the_global_room_alone(listen, root, room):
    listener, everywhere = await listen(room), await listen("@global", hub=1)
    root.job("@global", fresh("J"))
    assert await everywhere.heard() == [("jobs_invalidate", {})]
    assert await listener.heard() == []


async def test_a_submit_sends_events_to_the_room_of_the_task_and_the_workers_of_the_job(listen, alice, full, room):
    worker, other = alice.job(room), fresh()
    watcher, serving, outside = await listen(other), await listen(hub=1), await listen(room)
    await serving.offer(full, worker)
    task = done(alice.send(other, full, {"payload": {"secret": 1}}), 202)
    assert await watcher.heard() == [status_event(task)]
    assert set(status_event(task)[1]) == STATUS
    assert await serving.heard() == [("task_available", {"job_name": full, "room_id": other, "task_id": task["id"]})]
    assert await outside.heard() == []


async def test_the_status_event_of_a_new_task_is_sent_before_the_available_event(listen, alice, full, room):
    worker = alice.job(room)
    both = await listen(room)
    await both.offer(full, worker)
    for _ in range(5):
        alice.submit(full)
    names = [event for event, _ in await both.heard()]
    assert names == ["task_status_event", "task_available"] * 5


async def test_each_task_of_a_batch_sends_its_events(listen, alice, full, room):
    worker = alice.job(room)
    both = await listen(room)
    await both.offer(full, worker)
    ids = done(alice.send(room, full, {"payloads": [{}] * 3}), 202)["ids"]
    told = await both.heard()
    assert [data["id"] for event, data in told if event == "task_status_event"] == ids
    assert [data["task_id"] for event, data in told if event == "task_available"] == ids
    assert [data.get("queue_position") for event, data in told if event == "task_status_event"] == [1, 2, 3]


async def test_workers_get_an_event_when_a_delayed_task_is_due(listen, alice, full, room):
    worker = alice.job(room)
    both = await listen(room)
    await both.offer(full, worker)
    due = datetime.now(UTC) + timedelta(seconds=5)
    task = alice.submit(full, notBefore=due.isoformat())
    assert [(event, data["queue_position"]) for event, data in await both.heard()] == [("task_status_event", None)]
    await eventually(lambda: any(event == "task_available" for event, _ in both.told))
    assert datetime.now(UTC) >= due
    assert ("task_available", {"job_name": full, "room_id": room, "task_id": task}) in await both.heard()


async def test_workers_get_an_event_when_a_task_is_given_back(listen, alice, full, room):
    worker, task = alice.claimed(full)
    both = await listen(room)
    await both.offer(full, worker)
    done(alice.ask(worker, limit=0, results=[{"id": task, "status": "pending"}]), 200)
    told = [(event, data.get("status")) for event, data in await both.heard()]
    assert told == [("task_status_event", "pending"), ("task_available", None)]


async def test_every_move_of_a_task_sends_an_event_to_its_room(listen, alice, full, room):
    worker = alice.job(room)
    watcher, serving = await listen(room, hub=1), await listen(hub=0)
    await serving.offer(full, worker)
    task = done(alice.send(room, full), 202)
    told = [status_event(task), status_event(alice.claim(worker))]
    for status, more in (("running", {}), ("failed", {"error": "no atoms"})):
        told.append(status_event(done(alice.move(task["id"], status, **more), 200)))
    assert await watcher.heard() == told
    assert [event for event, _ in await serving.heard()] == ["task_available"]


async def test_calls_that_change_nothing_send_no_event(listen, alice, bob, root, full, room):
    worker, task = alice.claimed(full)
    provider = alice.provider(room)
    watcher = await listen(room, "@global", "@internal")
    assert alice.claim(worker) is None
    alice.worker()
    assert alice.beat(worker).status_code == 200
    problem(bob.beat(worker), 403, "forbidden")
    problem(alice.put_job(room, schema={"other": 1}), 409, "schema-conflict")
    problem(alice.put_job(room, category="shiny"), 400, "invalid-category")
    problem(alice.put_job("@global"), 403, "forbidden")
    problem(alice.send(room, f"{room}:modifiers:none"), 404, "job-not-found")
    problem(alice.move(task, "completed"), 409, "invalid-task-transition")
    problem(bob.move(task, "running"), 403, "forbidden")
    problem(bob.put_provider(room), 403, "forbidden")
    problem(bob.upload(provider["id"], "h", b""), 403, "forbidden")
    problem(bob.call("DELETE", f"/providers/{provider['id']}"), 403, "forbidden")
    for path in ("jobs", "tasks", "workers", "providers", f"jobs/{full}"):
        assert alice.get(f"/rooms/{room}/{path}").status_code == 200
    assert await watcher.heard() == []


async def test_the_removal_of_a_worker_sends_one_event_to_everyone_it_concerns(listen, alice, room):
    other, third = fresh(), fresh()
    worker = alice.job(room, "a")
    alice.job(room, "b", worker)
    alice.job(other, "c", worker)
    alice.job(other, "c")
    for name in ("x", "y"):
        alice.provider(room, name, worker_id=worker)
    alice.provider(third, worker_id=worker)
    held = [alice.submit(f"{room}:modifiers:a", where) for where in (room, third)]
    done_before = alice.submit(f"{room}:modifiers:b")
    waiting = alice.submit(f"{room}:modifiers:b", third)
    for task in (*held, done_before):
        assert alice.claim(worker)["id"] == task
    alice.run(held[1], "running")
    alice.run(done_before, "running", "completed")
    listeners = {where: await listen(where, hub=hub) for hub, where in ((0, room), (1, other), (1, third))}
    empty(alice.leave(worker))
    after = {task: status_event(alice.look(task), worker_id=worker) for task in held}
    assert ordered(await listeners[room].heard()) == ordered(
        [("jobs_invalidate", {}), ("providers_invalidate", {}), after[held[0]]]
    )
    assert await listeners[other].heard() == [("jobs_invalidate", {})]
    assert ordered(await listeners[third].heard()) == ordered([("providers_invalidate", {}), after[held[1]]])
    done(alice.move(waiting, "cancelled"), 200)
    assert await listeners[room].heard() == [("jobs_invalidate", {})]
    assert [event for event, _ in await listeners[third].heard()] == ["task_status_event"]


async def test_a_job_that_loses_its_last_task_after_its_workers_sends_an_event(listen, alice, full, room):
    worker, elsewhere = alice.job(room), fresh()
    task = alice.submit(full, elsewhere)
    empty(alice.leave(worker))
    watcher, submitter = await listen(room), await listen(elsewhere)
    ended = done(alice.move(task, "cancelled"), 200)
    assert await watcher.heard() == [("jobs_invalidate", {})]
    assert await submitter.heard() == [status_event(ended)]


async def test_registering_and_deleting_providers_sends_events_to_their_room(listen, alice, bob, room):
    watcher, serving = await listen(room), await listen(hub=1)
    made = alice.provider(room)
    assert await watcher.heard() == [("providers_invalidate", {})]
    alice.provider(room)
    assert await watcher.heard() == [("providers_invalidate", {})]
    await serving.serve(made["full_name"], made["worker_id"])
    empty(alice.answer(made, b"x"))
    ready = ("provider_result_ready", {"provider_name": made["full_name"], "request_hash": request_hash("")})
    assert await watcher.heard() == [ready]
    empty(alice.call("DELETE", f"/providers/{made['id']}"))
    assert await watcher.heard() == [("providers_invalidate", {})]
    assert [event for event, _ in await serving.heard()] == ["provider_request"]


@pytest.mark.parametrize(
    ("query", "params"),
    [("", "{}"), ("b=2&a=%C3%BC&b=3", '{"a":"\\u00fc","b":"3"}'), ("q=%F0%9F%A6%80", '{"q":"\\ud83e\\udd80"}')],
)
async def test_a_read_sends_the_provider_the_same_text_that_was_hashed(listen, alice, bob, room, query, params):
    made = alice.provider(room)
    full = made["full_name"]
    serving, watcher = await listen(hub=1), await listen(room)
    await serving.serve(full, made["worker_id"])
    problem(bob.read(room, full, query, "wait=0"), 504, "provider-timeout")
    digest = sha256(params.encode()).hexdigest()
    assert await serving.heard() == [
        ("provider_request", {"request_id": digest, "provider_name": full, "params": params})
    ]
    assert await watcher.heard() == []


async def test_a_provider_is_asked_once_for_the_same_read_of_many_callers(listen, alice, bob, room):
    made = alice.provider(room)
    full = made["full_name"]
    serving = await listen(hub=1)
    await serving.serve(full, made["worker_id"])
    asked = []

    async def heard_both():
        asked.extend(data for event, data in await serving.heard() if event == "provider_request")
        return len(asked) >= 2

    with ThreadPoolExecutor(7) as pool:
        reads = [pool.submit(bob.read, room, full, query, f"wait={LONGEST_S}") for query in ["q=1"] * 6 + ["q=2"]]
        await eventually(heard_both)
        for data in asked:
            empty(alice.upload(made["id"], data["request_id"], data["params"].encode()))
        answers = [await asyncio.wrap_future(read) for read in reads]
    assert sorted(answer.content for answer in answers) == [b'{"q":"1"}'] * 6 + [b'{"q":"2"}']
    assert len(asked) == 2
    for _ in range(2):
        problem(bob.read(room, full, "q=3", "wait=0"), 504, "provider-timeout")
    assert len(await serving.heard()) == 1


# 13.2: rooms


async def test_a_client_that_left_a_room_gets_no_more_events_of_it(listen, alice, full, room):
    worker, made = alice.job(room), alice.provider(room)
    listener = await listen(room)
    await listener.offer(full, worker)
    await listener.serve(made["full_name"], made["worker_id"])
    await listener.say("leave_job_room", {"job_name": full, "worker_id": worker})
    await listener.say("leave_provider_room", {"provider_name": made["full_name"], "worker_id": made["worker_id"]})
    alice.submit(full)
    problem(alice.read(room, made["full_name"], prefer="wait=0"), 504, "provider-timeout")
    assert [event for event, _ in await listener.heard()] == ["task_status_event"]
    await listener.say("room_leave", {"room_id": room})
    alice.submit(full)
    assert await listener.heard() == []


ODD = [
    ("join_job_room", {"job_name": "no such job", "worker_id": "None"}), ("join_job_room", {"job_name": "x:y:z"}),
    ("join_job_room", "text"), ("join_job_room", None), ("join_job_room", [1, 2]),
    ("join_job_room", {"job_name": 1, "worker_id": 2}),
    ("join_provider_room", {"provider_name": "x:y:z", "worker_id": "not an id"}), ("join_provider_room", {}),
    ("leave_job_room", {"job_name": "x:y:z", "worker_id": "00000000-0000-4000-8000-000000000000"}),
    ("leave_provider_room", {"provider_name": "never:joined:it", "worker_id": "None"}),
    ("leave_provider_room", 7), ("room_join", {}), ("room_join", {"room_id": 1}), ("room_leave", None),
    ("no_such_event", {"a": 1}),
]  # fmt: skip


async def test_unknown_messages_are_ignored_and_the_connection_goes_on(listen, alice, full, room):
    listener = await listen(room)
    for event, data in ODD:
        await listener.client.emit(event, data)
    worker = alice.job(room)
    await listener.offer(full, worker)
    await listener.offer(full, worker)
    alice.submit(full)
    assert [event for event, _ in await listener.heard()] == ["jobs_invalidate", "task_status_event", "task_available"]


async def test_a_removed_worker_may_leave_its_job_room(listen, alice, full, room):
    worker = alice.job(room)
    listener = await listen()
    await listener.offer(full, worker)
    empty(alice.leave(worker))
    await listener.say("leave_job_room", {"job_name": full, "worker_id": worker})
    assert await listener.heard() == []


@pytest.mark.parametrize("token", ["nobody", "gone-t"])
async def test_a_client_with_a_wrong_token_is_not_connected(hubs, token):
    client = SocketClient(reconnection=False)
    with pytest.raises(socketio.exceptions.ConnectionError):
        await client.connect(hubs.urls[0], auth={"token": token}, transports=["websocket"])
    await client.shutdown()


async def test_strangers_may_hear_what_they_may_read_and_bind_no_worker(listen, alice, full, room):
    worker = alice.job(room)
    stranger = await listen(room, token=None)
    await stranger.offer(full, worker)
    alice.submit(full)
    assert "task_status_event" in [event for event, _ in await stranger.heard()]


@pytest.mark.parametrize("transport", ["polling", "websocket"])
@pytest.mark.parametrize("how", ["auth", "header"])
async def test_a_token_may_be_in_the_auth_data_or_a_header_over_either_transport(hubs, transport, how, alice, room):
    client = SocketClient(reconnection=False)
    told = asyncio.Queue()
    client.on("jobs_invalidate", told.put)
    shown = {"auth": {"token": "alice-t"}} if how == "auth" else {"headers": {"Authorization": "Bearer alice-t"}}
    await client.connect(hubs.urls[1], transports=[transport], **shown)
    assert await client.call("room_join", {"room_id": room}, timeout=PATIENCE_S) is not None
    alice.job(room)
    assert await asyncio.wait_for(told.get(), PATIENCE_S) == {}
    await client.shutdown()
