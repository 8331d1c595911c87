"""Redis away, emptied, or restarted under a hub: 503 as long as it is away, and then everything as it was."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import pytest

from tests.joblib.people import J, Person, done, empty, fresh, problem
from tests.joblib.stage import INTERVAL_S, QUICK, TIMEOUT_S, stage
from tests.joblib.test_conventions import GUARDED, OPEN
from tests.socket_client import SocketClient
from tests.world import PATIENCE_S, SLACK_S, eventually, wait_until

HASTY = {"REDIS_ASYNC_TIMEOUT_MS": "500", "REDIS_CONNECT_TIMEOUT_MS": "500"}  # where nothing but 503 is expected


@pytest.fixture(scope="module")
def ann(fragile):
    return fragile.person("alice-t")


def back(person: Person) -> None:
    """Wait until the hub has found Redis again."""
    wait_until(lambda: person.get("/workers").status_code == 200)


BODIES = {
    "/tasks/claim": {"worker_id": str(uuid4())}, "/rooms/lab/jobs": {"category": "modifiers", "name": "Rotate"},
    "/rooms/lab/providers": {"category": "files", "name": "disk"},
}  # fmt: skip


def requests():
    """Every request of the API, in order."""
    for method, path in [*GUARDED, *(("GET", path) for path, _ in OPEN)]:
        body = BODIES.get(path, {"status": "running"} if method == "PATCH" else {}) if method != "GET" else None
        yield method, path, body, {"x-request-hash": "h"} if path.endswith("results") else {}


@pytest.mark.parametrize("how", ["gone", "hung"])
def test_every_call_is_answered_with_retry_after_while_redis_is_away(http, how):
    with stage(http, 1, **QUICK, **HASTY) as hasty, away(hasty, how):
        ann = hasty.person("alice-t")
        for method, path, body, headers in requests():
            for token in ("alice-t", "root-t", "token-that-might-be-in-redis"):
                answer = ann.showing(token).call(method, path, body, headers=headers)
                assert answer.status_code == 503, (method, path, token, answer.text)
                assert int(answer.headers["retry-after"]) >= 1
                assert answer.headers["content-type"] == "application/problem+json"


@contextmanager
def away(fragile, how):
    """Redis is killed, or hangs, while the block runs."""
    if how == "gone":
        with fragile.without_redis():
            yield
    else:
        with fragile.hanging_redis():
            yield


@pytest.mark.parametrize("how", ["gone", "hung"])
def test_an_outage_longer_than_the_timeout_removes_no_worker_that_comes_back(fragile, ann, full, room, how):
    worker, task = ann.claimed(full)
    provider = ann.provider(room, worker_id=worker)
    waiting = ann.submit(full)
    before = picture(ann, room)
    with away(fragile, how):
        time.sleep(TIMEOUT_S + INTERVAL_S + 0.2)
    back(ann)
    assert picture(ann, room) == before
    assert ann.beat(worker).status_code == 200
    assert ann.run(task, "running", "completed")["status"] == "completed"
    assert ann.claim(worker)["id"] == waiting
    empty(ann.answer(provider, b""))


def test_a_task_whose_claim_was_not_answered_goes_to_the_next_claim(fragile, ann, full):
    worker, held = ann.claimed(full)
    task = ann.submit(full)
    with away(fragile, "hung"):  # it hears the claim, and takes it when it is back
        problem(ann.ask(worker), 503, "store-unavailable")
    back(ann)
    wait_until(lambda: ann.look(task)["status"] == "pending" and bool(ann.claim(worker)))
    assert (ann.look(task)["worker_id"], ann.look(held)["status"]) == (worker, "claimed")


def picture(person, room):
    return [person.listed(f"/rooms/{room}/{what}") for what in ("jobs", "tasks", "providers")]


def test_a_waiting_read_during_an_outage_is_not_told_that_its_task_is_unknown(fragile, ann, full):
    _, task = ann.claimed(full)
    with ThreadPoolExecutor(1) as pool:
        look = pool.submit(ann.get, f"/tasks/{task}", prefer="wait=6")
        fragile.waiting(task)
        with away(fragile, "gone"):
            answer = look.result()
    assert answer.status_code in (200, 503), answer.text
    back(ann)


async def test_events_are_sent_again_after_an_outage(fragile, ann, room):
    client = SocketClient(reconnection=False)
    told = []
    client.on("jobs_invalidate", lambda data: told.append(data))
    await client.connect(fragile.urls[0], auth={"token": "alice-t"}, transports=["websocket"])
    await client.call("room_join", {"room_id": room}, timeout=PATIENCE_S)
    with away(fragile, "gone"):
        await asyncio.sleep(0.5)
    await asyncio.to_thread(back, ann)

    async def heard():
        await asyncio.to_thread(ann.job, room, fresh("J"))
        await asyncio.sleep(0.1)
        return bool(told)

    await eventually(heard)
    assert client.connected
    await client.shutdown()


# The store is emptied under a running hub.


def test_an_emptied_store_behaves_like_a_new_hub(fragile, ann, full, room):
    worker, task = ann.claimed(full)
    fragile.server.client().flushdb()
    problem(ann.beat(worker), 404, "worker-not-found")
    problem(ann.ask(worker), 404, "worker-not-found")
    problem(ann.leave(worker), 404, "worker-not-found")
    problem(ann.get(f"/tasks/{task}"), 404, "task-not-found")
    problem(ann.move(task, "running"), 404, "task-not-found")
    problem(ann.send(room, full), 404, "job-not-found")
    problem(ann.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")
    for path in ("/workers", *(f"/rooms/{room}/{what}" for what in ("jobs", "tasks", "workers", "providers"))):
        assert ann.listed(path) == []


@pytest.mark.parametrize("command", ["FLUSHDB", "FLUSHALL", "SCRIPT FLUSH"])
def test_the_hub_works_after_the_store_was_emptied_repeatedly(fragile, ann, full, room, command):
    for _ in range(3):
        fragile.server.client().execute_command(*command.split())
        worker, task = ann.claimed(full)
        made = ann.provider(room, worker_id=worker)
        fragile.server.client().function_flush()
        assert ann.run(task, "running", "completed")["status"] == "completed"
        empty(ann.answer(made, b""))
        with ThreadPoolExecutor(1) as pool:
            waiting = ann.submit(full)
            look = pool.submit(ann.get, f"/tasks/{waiting}", prefer="wait=8")
            fragile.waiting(waiting)
            done(ann.move(waiting, "cancelled"), 200)
            assert done(look.result(), 200)["status"] == "cancelled"
        empty(ann.leave(worker))
        problem(ann.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")


def test_silent_workers_are_removed_after_the_store_was_emptied_too(fragile, ann, full):
    fragile.server.client().flushdb()
    _, task = ann.claimed(full)
    wait_until(lambda: ann.look(task)["error"] == "Worker disconnected")


def test_a_waiting_read_is_answered_in_time_when_the_store_is_emptied(fragile, ann, full):
    _, task = ann.claimed(full)
    with ThreadPoolExecutor(1) as pool:
        look = pool.submit(ann.get, f"/tasks/{task}", prefer="wait=6")
        fragile.waiting(task)
        fragile.server.client().flushdb()
        answer = look.result()
    problem(answer, 404, "task-not-found")
    assert answer.elapsed.total_seconds() < 6 + SLACK_S
    assert ann.http.get(f"{fragile.urls[0]}{J}/workers").status_code == 200
