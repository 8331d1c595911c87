"""`@internal` jobs from end to end: a hub, an internal worker, and callers over HTTP."""

import pytest

from hub.jobs.names import to_id
from tests.internal import sample
from tests.internal.conftest import MODULE
from tests.internal.people import KEYS
from tests.world import eventually

BASE = "/v1/joblib"


@pytest.fixture
async def people(start_hub):
    """A superuser's client of a hub that has the jobs of the sample."""
    hub = start_hub(HUB_INTERNAL_JOBS=MODULE, HUB_SWEEPER_INTERVAL_SECONDS="0.2")
    async with hub.client() as client:
        yield client


def make_overdue(redis, task):
    """Make the task one that began, or was submitted, two hours ago."""
    hours_ms = 2 * 3_600_000
    clock_ms = int(redis.hget(KEYS.store, "clock_ms"))
    assert redis.zadd(KEYS.internal_tasks, {to_id(task): clock_ms - hours_ms}, xx=True, ch=True) == 1


async def submit(people, full, payload, room="room"):
    return await people.post(f"{BASE}/rooms/{room}/tasks/{full}", json={"payload": payload})


@pytest.mark.story
async def test_an_internal_task_is_claimed_on_submit_run_by_an_executor_and_completed(people, worker_process, tmp_path):
    worker_process()
    file = tmp_path / "said"
    answer = await submit(people, sample.WRITE, {"file": str(file), "text": "hello"})
    task = answer.json()
    assert (answer.status_code, task["status"], task["worker_id"], task["queue_position"]) == (
        202,
        "claimed",
        None,
        None,
    )
    assert answer.headers["location"] == f"{BASE}/tasks/{task['id']}"
    assert answer.headers["retry-after"] == "1"
    done = (await people.get(f"{BASE}/tasks/{task['id']}", headers={"Prefer": "wait=30"})).json()
    assert (done["status"], done["error"]) == ("completed", None)
    assert done["created_at"] < done["started_at"] < done["completed_at"]
    assert file.read_text() == f"room {task['id']} hello\n"


async def test_several_internal_tasks_at_once_are_all_run(people, worker_process, tmp_path):
    worker_process()
    payloads = [{"file": str(tmp_path / "said"), "text": str(n)} for n in range(5)]
    answer = await people.post(f"{BASE}/rooms/room/tasks/{sample.WRITE}", json={"payloads": payloads})
    assert answer.status_code == 202
    for task in answer.json()["ids"]:
        done = await people.get(f"{BASE}/tasks/{task}", headers={"Prefer": "wait=30"})
        assert done.json()["status"] == "completed"


async def test_a_submit_with_a_key_makes_one_task_and_refuses_another_request_with_the_key(people, redis):
    path, key = f"{BASE}/rooms/room/tasks/{sample.WRITE}", {"Idempotency-Key": "one"}
    first = await people.post(path, json={"payload": {"n": 1}}, headers=key)
    again = await people.post(path, json={"payload": {"n": 1}}, headers=key)
    other = await people.post(path, json={"payload": {"n": 2}}, headers=key)
    assert (first.status_code, again.json(), other.status_code) == (202, first.json(), 422)
    assert redis.xlen(KEYS.taskiq) == 1


async def test_no_worker_can_claim_an_internal_task(people):
    answer = await people.put(
        f"{BASE}/rooms/@internal/jobs", json={"category": "modifiers", "name": "Write", "schema": sample.SCHEMA}
    )
    worker = answer.json()["worker_id"]
    await submit(people, sample.WRITE, {})
    assert (await people.post(f"{BASE}/tasks/claim", json={"worker_id": worker})).json() == {"task": None}


async def test_a_submit_to_a_job_without_an_executor_is_refused_with_503(people):
    await people.put(f"{BASE}/rooms/@internal/jobs", json={"category": "modifiers", "name": "Other"})
    answer = await submit(people, "@internal:modifiers:Other", {})
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/v1/problems/internal-job-not-configured"
    assert (await people.get(f"{BASE}/rooms/room/tasks")).json()["total"] == 0


async def test_a_failed_dispatch_is_answered_202_with_a_failed_task(people, redis):
    redis.set(KEYS.taskiq, "of another program")
    answer = await submit(people, sample.WRITE, {})
    assert (answer.status_code, answer.json()["status"]) == (202, "failed")
    assert answer.json()["error"] == "Failed to dispatch to internal executor"


async def test_the_running_task_of_a_killed_executor_fails_at_its_timeout(people, worker_process, redis, tmp_path):
    worker = worker_process()
    file = tmp_path / "said"
    task = (await submit(people, sample.HOLD, {"file": str(file), "until": str(tmp_path / "never")})).json()
    await eventually(lambda: file.exists())
    worker.kill()
    make_overdue(redis, task["id"])
    done = (await people.get(f"{BASE}/tasks/{task['id']}", headers={"Prefer": "wait=20"})).json()
    assert (done["status"], done["error"]) == ("failed", "Internal worker timeout")


async def test_an_internal_task_that_no_executor_takes_fails_at_its_timeout_and_its_message_is_deleted(people, redis):
    task = (await submit(people, sample.WRITE, {})).json()
    assert redis.xlen(KEYS.taskiq) == 1
    make_overdue(redis, task["id"])
    done = (await people.get(f"{BASE}/tasks/{task['id']}", headers={"Prefer": "wait=20"})).json()
    assert (done["status"], done["error"]) == ("failed", "Internal worker timeout")
    assert redis.xlen(KEYS.taskiq) == 0
