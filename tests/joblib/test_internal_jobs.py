"""`@internal` jobs over the wire: configured, dispatched, never claimed, never forgotten."""

from __future__ import annotations

import pytest

from tests.internal.processes import WorkerProcess
from tests.internal.sample import LATER, SCHEMA, WRITE
from tests.joblib.listener import Listener
from tests.joblib.people import TASK, done, empty, moment, problem
from tests.joblib.stage import Stage, stage
from tests.world import wait_until

TIMEOUT_S = 6  # so that what is said at once is said in time
SETTINGS = {
    "HUB_INTERNAL_JOBS": "tests.internal.sample",
    "HUB_INTERNAL_TASK_TIMEOUT_SECONDS": str(TIMEOUT_S),
    "HUB_SWEEPER_INTERVAL_SECONDS": "0.5",
}


OLD = {"type": "array"}


@pytest.fixture(scope="module")
def internal(http):
    """A hub with the @internal jobs of the sample, one of which was stored with another schema before; it ends tasks
    that take longer than the timeout."""
    with stage(http, 1, **SETTINGS | {"HUB_INTERNAL_JOBS": ""}) as found:
        first = done(found.person("root-t").put_job("@internal", "Write", schema=OLD), 201)
        found.restart_hub(crash=True, **SETTINGS)
        assert done(found.person(None).get(f"/rooms/lab/jobs/{WRITE}"), 200)["id"] == first["id"]
        yield found


@pytest.fixture(scope="module")
def boss(internal: Stage):
    return internal.person("root-t")


@pytest.fixture(scope="module")
def ann(internal: Stage):
    return internal.person("alice-t")


def test_configured_internal_jobs_are_listed_without_a_worker_and_with_their_schema(internal):
    stranger = internal.person(None)
    job = done(stranger.get(f"/rooms/lab/jobs/{LATER}"), 200)
    assert (job["schema"], job["workers"], job["room_id"]) == ({}, [], "@internal")
    assert done(stranger.get(f"/rooms/lab/jobs/{WRITE}"), 200)["schema"] == SCHEMA
    assert WRITE in [found["full_name"] for found in stranger.get("/rooms/lab/jobs").json()["items"]]


def test_a_job_without_an_executor_is_refused_and_nothing_is_stored(boss, ann, room):
    worker = boss.job("@internal", "Nobody")
    problem(ann.send(room, "@internal:modifiers:Nobody"), 503, "internal-job-not-configured")
    assert ann.listed(f"/rooms/{room}/tasks") == []
    problem(ann.send(room, "@internal:modifiers:Unknown"), 404, "job-not-found")
    assert done(ann.get("/rooms/lab/jobs/@internal:modifiers:Nobody"), 200)["workers"] == [worker]
    empty(boss.leave(worker))
    assert done(ann.get("/rooms/lab/jobs/@internal:modifiers:Nobody"), 200)["workers"] == []
    problem(ann.send(room, "@internal:modifiers:Nobody"), 503, "internal-job-not-configured")


@pytest.fixture
async def listener(internal, boss, room):
    """Hears the room, and the job as its workers would."""
    fence = str(boss.provider("fence", "fence")["id"])
    found = Listener(internal.urls[0], "root-t", boss, fence)
    await found.connect()
    await found.join(room)
    await found.heard()  # events of before may still be on their way to its hub
    yield found
    await found.hang_up()


async def test_an_internal_task_is_dispatched_at_once_and_cannot_be_claimed(ann, boss, listener, room):
    worker = boss.job("@internal", "Later", schema={})
    await listener.offer(LATER, worker)
    answer = ann.send(room, LATER, {"payload": {"a": 1}})
    task = done(answer, 202)
    assert set(task) == TASK
    assert (task["status"], task["worker_id"], task["queue_position"]) == ("claimed", None, None)
    assert answer.headers["location"].endswith(task["id"])
    assert answer.headers["retry-after"] == "1"
    assert boss.claim(worker) is None
    told = await listener.heard()
    assert [(event, data["status"], data["queue_position"]) for event, data in told] == [
        ("task_status_event", "claimed", None)
    ]
    problem(ann.move(task["id"], "running"), 403, "forbidden")
    done(boss.move(task["id"], "running"), 200)
    assert done(boss.move(task["id"], "completed"), 200)["worker_id"] is None


async def test_an_internal_task_that_takes_too_long_is_ended_by_the_sweep(ann, boss, listener, room):
    started, waiting = (ann.submit(LATER, room) for _ in range(2))
    done(boss.move(started, "running"), 200)
    await listener.heard()
    wait_until(lambda: [ann.look(task)["status"] for task in (started, waiting)] == ["failed", "failed"])
    for task in (started, waiting):
        found = ann.look(task)
        assert found["error"] == "Internal worker timeout"
        assert (
            moment(found["completed_at"]) - moment(found["started_at"] or found["created_at"])
        ).total_seconds() >= TIMEOUT_S
    told = [(event, data["id"], data["status"]) for event, data in await listener.heard()]
    assert sorted(told) == sorted(("task_status_event", task, "failed") for task in (started, waiting))


def test_the_submitter_may_cancel_an_internal_task(ann, room):
    task = ann.submit(LATER, room)
    assert done(ann.move(task, "cancelled"), 200)["status"] == "cancelled"


def test_an_internal_job_without_tasks_is_kept(boss, ann, room):
    worker = boss.job("@internal", "Later", schema={})
    done(boss.move(ann.submit(LATER, room), "failed"), 200)
    empty(boss.leave(worker))
    assert worker not in done(ann.get(f"/rooms/{room}/jobs/{LATER}"), 200)["workers"]
    assert ann.send(room, LATER).status_code == 202


def test_an_executor_runs_submitted_tasks(internal, ann, room, tmp_path):
    file = tmp_path / "said"
    task = ann.submit(WRITE, room, {"file": str(file), "text": "hello"})
    worker = WorkerProcess([], {**SETTINGS, "HUB_REDIS_URL": internal.server.url})
    try:
        worker.wait_until_started()
        again = ann.submit(WRITE, room, {"file": str(file), "text": "again"})
        wait_until(lambda: ann.look(again)["status"] == "completed", why=worker.log)
    finally:
        worker.kill()
    first, second = f"{room} {task} hello", f"{room} {again} again"
    assert sorted(file.read_text().splitlines()) in ([second], sorted([first, second]))
