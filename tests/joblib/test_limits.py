"""Bounds of size and time that the settings set: categories, bodies, retention, what providers answered."""

from __future__ import annotations

import asyncio

import pytest
import socketio

from tests.joblib.people import done, empty, problem
from tests.joblib.stage import stage
from tests.socket_client import SocketClient
from tests.world import PATIENCE_S, eventually, wait_until

SMALL = {
    "ZNDRAW_JOBLIB_ALLOWED_CATEGORIES": '["shiny","modifiers"]',
    "HUB_ALLOWED_PROVIDER_CATEGORIES": '["files"]',
    "ZNDRAW_JOBLIB_WORKER_TIMEOUT_SECONDS": "600",
    "ZNDRAW_JOBLIB_SWEEPER_INTERVAL_SECONDS": "0.5",
    "ZNDRAW_JOBLIB_LONG_POLL_MAX_WAIT_SECONDS": "1",
    "ZNDRAW_JOBLIB_PROVIDER_RESULT_TTL_SECONDS": "5",
    "ZNDRAW_JOBLIB_PROVIDER_INFLIGHT_TTL_SECONDS": "1",
    "ZNDRAW_JOBLIB_TERMINAL_TASK_RETENTION_SECONDS": "5",
    "HUB_TASK_PAYLOAD_MAX_BYTES": "2048",
    "HUB_SCHEMA_MAX_BYTES": "2048",
    "HUB_PROVIDER_RESULT_MAX_BYTES": "4096",
    "HUB_ANONYMOUS_READS": "false",
}


@pytest.fixture(scope="module")
def small(http):
    """A hub with little room, set by the names that the published server knows where there are such."""
    with stage(http, 1, **SMALL) as found:
        yield found


@pytest.fixture(scope="module")
def ann(small):
    return small.person("alice-t")


def too_large(answer):
    assert answer.status_code == 413, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_settings_name_the_allowed_categories(ann, room):
    assert ann.put_job(room, category="shiny").status_code == 201
    assert "shiny" in problem(ann.put_job(room, category="analysis"), 400, "invalid-category")
    assert ann.put_provider(room, category="files").status_code == 201
    assert "files" in problem(ann.put_provider(room, category="frames"), 400, "invalid-category")
    problem(ann.get(f"/rooms/{room}/providers/{room}:frames:disk/info"), 404, "provider-not-found")


def of_size(size):
    """Return a JSON object of so many bytes."""
    return {"a": "x" * (size - len('{"a":""}'))}


def test_the_size_of_a_payload_is_limited(ann, full, room):
    ann.job(room)
    assert ann.send(room, full, {"payload": of_size(2048)}).status_code == 202
    too_large(ann.send(room, full, {"payload": of_size(2049)}))
    too_large(ann.send(room, full, {"payload": {"a": "ü" * 1100}}))
    too_large(ann.send(room, full, {"payloads": [{}, of_size(2049)]}))
    too_large(ann.send(room, full, {"payload": of_size(40_000_000)}))
    assert len(ann.listed(f"/rooms/{room}/tasks")) == 1


def test_the_size_of_a_schema_is_limited(ann, full, room):
    too_large(ann.put_job(room, schema=of_size(2049)))
    problem(ann.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")
    assert ann.put_job(room, schema_=of_size(2048)).status_code == 201
    too_large(ann.put_provider(room, schema=of_size(2049)))


def test_the_size_of_an_answer_of_a_provider_is_limited(ann, room):
    made = ann.provider(room)
    empty(ann.answer(made, b"x" * 4096))
    too_large(ann.answer(made, b"y" * 4097))
    assert ann.read(room, made["full_name"]).content == b"x" * 4096


def test_an_answer_of_a_provider_expires(ann, room):
    made = ann.provider(room)
    empty(ann.answer(made, b"x"))
    wait_until(lambda: ann.read(room, made["full_name"], prefer="wait=0").status_code == 504)


async def test_an_unanswered_question_is_sent_again(small, ann, room):
    full = ann.provider(room)["full_name"]
    asked = []
    client = SocketClient(reconnection=False)
    client.on("provider_request", asked.append)
    await client.connect(small.urls[0], auth={"token": "alice-t"}, transports=["websocket"])
    await client.call("join_provider_room", {"provider_name": full, "worker_id": "None"}, timeout=PATIENCE_S)

    async def asked_twice():
        assert (await asyncio.to_thread(ann.read, room, full, "", "wait=0")).status_code == 504
        return len(asked) >= 2

    await eventually(asked_twice)
    assert asked[0] == asked[1]
    await client.shutdown()


def test_no_long_poll_lasts_longer_than_the_setting_allows(ann, full):
    _, task = ann.claimed(full)
    assert ann.get(f"/tasks/{task}", prefer="wait=5").headers["preference-applied"] == "wait=1"


def test_ended_tasks_are_forgotten_after_their_retention_and_others_are_kept(ann, full, room):
    worker, running = ann.claimed(full)
    done(ann.move(running, "running"), 200)
    ended, waiting = ann.submit(full), ann.submit(full)
    assert ann.claim(worker)["id"] == ended
    ann.run(ended, "running", "completed")
    cancelled = ann.submit(full)
    done(ann.move(cancelled, "cancelled"), 200)
    assert ann.look(ended)["status"] == "completed"
    wait_until(lambda: ann.get(f"/tasks/{ended}").status_code == 404)
    wait_until(lambda: len(ann.listed(f"/rooms/{room}/tasks")) == 2)
    problem(ann.get(f"/tasks/{cancelled}"), 404, "task-not-found")
    problem(ann.move(ended, "failed"), 404, "task-not-found")
    for path in (f"/rooms/{room}/tasks", f"/rooms/{room}/jobs/{full}/tasks"):
        assert [task["id"] for task in ann.listed(path)] == [waiting, running]
        assert ann.listed(f"{path}?status=completed") == ann.listed(f"{path}?status=cancelled") == []
    assert done(ann.move(running, "completed"), 200)["status"] == "completed"


@pytest.mark.parametrize(
    "path", ["/workers", "/rooms/x/jobs", "/rooms/x/tasks", "/rooms/x/workers", "/rooms/x/providers"]
)
def test_a_setting_closes_reads_to_strangers(small, ann, path):
    assert small.person(None).get(path).status_code == 401
    assert small.person("gone-t").get(path).status_code == 401
    assert ann.get(path).status_code == 200


async def test_the_setting_for_anonymous_reads_closes_connections_to_strangers(small):
    for shown in ({}, {"auth": {"token": "nobody"}}, {"headers": {"Authorization": "Bearer gone-t"}}):
        client = SocketClient(reconnection=False)
        with pytest.raises(socketio.exceptions.ConnectionError):
            await client.connect(small.urls[0], transports=["websocket"], **shown)
        await client.shutdown()
