"""Workers over the wire: made, heard, removed, and what is removed with them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.joblib.people import JOB, done, empty, framework, fresh, is_id, moment, problem


@pytest.mark.parametrize("body", [None, b"", b"{}", b"garbage"])
def test_a_worker_can_be_created_with_any_body(alice, body):
    answer = done(alice.call("POST", "/workers", content=body), 201)
    assert set(answer) == {"id", "last_heartbeat"}
    assert is_id(answer["id"])
    moment(answer["last_heartbeat"])


def test_each_heartbeat_has_a_later_time(alice):
    worker = alice.worker()
    beats = [moment(done(alice.beat(worker), 200)["last_heartbeat"]) for _ in range(5)]
    assert beats == sorted(set(beats))
    listed = next(item for item in alice.get("/workers").json()["items"] if item["id"] == worker)
    assert moment(listed["last_heartbeat"]) == beats[-1]


def test_only_heartbeats_count_as_a_sign_of_life(alice, full, room):
    worker, task = alice.claimed(full)
    before = seen(alice, worker)
    alice.run(task, "running", "completed")
    alice.claim(worker)
    alice.job(room, "another", worker)
    alice.provider(room, worker_id=worker)
    assert seen(alice, worker) == before
    time.sleep(0.01)
    done(alice.beat(worker), 200)
    assert seen(alice, worker) >= before + timedelta(milliseconds=10)


def seen(person, worker):
    listed = {item["id"]: item for item in person.get("/workers?limit=500").json()["items"]}
    return moment(listed[worker]["last_heartbeat"])


def test_only_its_owner_may_beat_and_claim_for_a_worker(alice, bob, root, stranger):
    worker = alice.worker()
    for person in (bob, root):
        problem(person.beat(worker), 403, "forbidden")
        problem(person.ask(worker), 403, "forbidden")
    framework(stranger.beat(worker), 401, "Unauthorized")
    assert alice.claim(worker) is None


def test_only_its_owner_or_a_superuser_may_remove_a_worker(alice, bob, root):
    mine, other = alice.worker(), alice.worker()
    problem(bob.leave(mine), 403, "forbidden")
    empty(alice.leave(mine))
    empty(root.leave(other))
    for worker in (mine, other, str(uuid4())):
        detail = problem(alice.leave(worker), 404, "worker-not-found")
        assert worker in detail
        problem(alice.beat(worker), 404, "worker-not-found")
        problem(alice.ask(worker), 404, "worker-not-found")
        problem(root.leave(worker), 404, "worker-not-found")


# 9.2


def test_removing_a_worker_fails_the_tasks_it_held_and_keeps_the_others(alice, full, room):
    worker, claimed = alice.claimed(full)
    running, ended, waiting = (alice.submit(full) for _ in range(3))
    assert [alice.claim(worker)["id"] for _ in range(2)] == [running, ended]
    alice.run(running, "running")
    alice.run(ended, "running", "completed")
    empty(alice.leave(worker))
    for task in (claimed, running):
        found = alice.look(task)
        assert (found["status"], found["error"], found["worker_id"]) == ("failed", "Worker disconnected", None)
        assert moment(found["completed_at"]) >= moment(found["created_at"])
    assert alice.look(claimed)["started_at"] is None
    assert moment(alice.look(running)["started_at"])
    found = alice.look(ended)
    assert (found["status"], found["error"], found["worker_id"]) == ("completed", None, None)
    assert (alice.look(waiting)["status"], alice.look(waiting)["queue_position"]) == ("pending", 1)


def test_late_calls_of_a_removed_worker_get_the_errors_that_its_client_expects(alice, bob, root, full):
    worker, task = alice.claimed(full)
    mine = bob.job(full.split(":")[0])
    held = alice.submit(full)
    assert bob.claim(mine)["id"] == held
    empty(bob.leave(mine))
    problem(bob.move(held, "running"), 403, "forbidden")
    problem(root.move(held, "running"), 409, "invalid-task-transition")
    empty(alice.leave(worker))
    problem(root.move(task, "completed"), 409, "invalid-task-transition")
    problem(bob.move(task, "completed"), 403, "forbidden")


def test_the_providers_of_a_removed_worker_are_removed_unless_they_were_taken_over(alice, root, room):
    worker, second = alice.worker(), alice.worker()
    lost = alice.provider(room, "lost", worker_id=worker)
    moved = alice.provider(room, "moved", worker_id=worker)
    alice.provider(room, "moved", worker_id=second)
    empty(alice.leave(worker))
    kept = alice.listed(f"/rooms/{room}/providers")
    assert [provider["name"] for provider in kept if provider["room_id"] == room] == ["moved"]
    problem(alice.get(f"/rooms/{room}/providers/{lost['full_name']}/info"), 404, "provider-not-found")
    problem(alice.upload(lost["id"], "h", b""), 404, "provider-not-found")
    empty(alice.answer(moved, b""))


# 9.3


def test_a_job_without_a_worker_and_without_waiting_tasks_is_hidden(alice, full, room):
    worker, task = alice.claimed(full)
    empty(alice.leave(worker))
    problem(alice.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")
    problem(alice.get(f"/rooms/{room}/jobs/{full}/tasks"), 404, "job-not-found")
    problem(alice.send(room, full), 404, "job-not-found")
    assert full not in [job["full_name"] for job in alice.get(f"/rooms/{room}/jobs").json()["items"]]
    assert alice.look(task)["job_name"] == full
    assert [found["id"] for found in alice.listed(f"/rooms/{room}/tasks")] == [task]


def test_a_job_stays_while_it_has_other_workers_or_waiting_tasks(alice, full, room):
    first, second = alice.job(room), alice.job(room)
    empty(alice.leave(first))
    assert done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)["workers"] == [second]
    task = alice.submit(full)
    empty(alice.leave(second))
    assert done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)["workers"] == []
    assert alice.look(task)["queue_position"] == 1
    done(alice.move(task, "cancelled"), 200)
    problem(alice.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")


def test_a_job_is_hidden_when_its_last_task_ends_after_its_workers(alice, root, full, room):
    worker = alice.job(room)
    waiting, held = alice.submit(full), alice.submit(full)
    for task in (waiting, held):
        done(root.move(task, "claimed"), 200)
    done(root.move(held, "running"), 200)
    empty(alice.leave(worker))
    # Only pending tasks and workers keep a job visible; both tasks were claimed, and the only worker has left.
    problem(alice.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")
    assert done(root.move(held, "completed"), 200)["status"] == "completed"
    assert done(root.move(waiting, "failed", error="lost"), 200)["error"] == "lost"


@pytest.mark.parametrize("schema", [{}, {"a": 1}, {"a": [True, None]}])
def test_a_hidden_job_comes_back_unchanged_but_for_its_schema(alice, bob, full, room, schema):
    answer = alice.put_job(room, schema={"old": 1})
    first = answer.json()
    task = alice.submit(full)
    done(alice.move(task, "cancelled"), 200)
    younger = fresh("Y")
    alice.job(room, younger)
    empty(alice.leave(first["worker_id"]))
    again = done(bob.put_job(room, schema=schema), 201)
    assert (again["id"], again["schema"], again["workers"]) == (first["id"], schema, [again["worker_id"]])
    assert set(again) == JOB
    names = [job["name"] for job in alice.get(f"/rooms/{room}/jobs?limit=500").json()["items"]]
    assert names.index(younger) < names.index("Rotate")
    assert [found["id"] for found in alice.listed(f"/rooms/{room}/jobs/{full}/tasks")] == [task]


def test_a_job_without_workers_keeps_its_old_schema_until_no_task_waits(alice, full, room):
    worker = alice.job(room, schema={"v": 1})
    task = alice.submit(full)
    empty(alice.leave(worker))
    problem(alice.put_job(room, schema={"v": 2}), 409, "schema-conflict")
    done(alice.move(task, "cancelled"), 200)
    assert done(alice.put_job(room, schema={"v": 2}), 201)["schema"] == {"v": 2}


def test_a_submit_concurrent_with_the_removal_of_the_last_worker_is_never_lost(alice, full, room):
    for _ in range(8):
        worker = alice.job(room)
        with ThreadPoolExecutor(2) as pool:
            left = pool.submit(alice.leave, worker)
            sent = pool.submit(alice.send, room, full).result()
        empty(left.result())
        if sent.status_code == 202:
            assert done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)["workers"] == []
            done(alice.move(sent.json()["id"], "cancelled"), 200)
        else:
            problem(sent, 404, "job-not-found")
        problem(alice.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")


def test_a_registration_concurrent_with_the_removal_of_the_last_worker_is_never_lost(alice, bob, full, room):
    for _ in range(8):
        worker = alice.job(room)
        with ThreadPoolExecutor(2) as pool:
            left = pool.submit(alice.leave, worker)
            joined = pool.submit(bob.job, room).result()
        empty(left.result())
        assert done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)["workers"] == [joined]
        empty(bob.leave(joined))


def test_of_many_concurrent_removals_of_a_worker_one_succeeds(alice, root, full):
    worker, task = alice.claimed(full)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda person: person.leave(worker), [alice, root] * 3))
    assert sorted(answer.status_code for answer in answers) == [204] + [404] * 5
    assert alice.look(task)["error"] == "Worker disconnected"
