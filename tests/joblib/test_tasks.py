"""Tasks over the wire: submitted, moved, listed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from uuid import uuid4

import pytest

from tests.joblib.people import TASK, J, done, empty, fresh, invalid, is_id, moment, problem

STATUSES = ["pending", "claimed", "running", "completed", "failed", "cancelled"]
ALLOWED = {
    "pending": {"claimed", "cancelled"},
    "claimed": {"running", "failed", "cancelled"},
    "running": {"completed", "failed", "cancelled"},
}
WAY = {
    "pending": [], "claimed": ["claimed"], "running": ["claimed", "running"],
    "completed": ["claimed", "running", "completed"], "failed": ["claimed", "failed"], "cancelled": ["cancelled"],
}  # fmt: skip


def test_a_new_task_is_pending_in_the_room_it_was_submitted_to(alice, stranger, full, room):
    alice.job(room)
    other = fresh()
    answer = alice.send(other, full, {"payload": {"angle": 90.0}})
    task = done(answer, 202)
    assert set(task) == TASK
    assert is_id(task["id"])
    moment(task["created_at"])
    assert task == {
        "id": task["id"], "job_name": full, "room_id": other, "status": "pending", "created_at": task["created_at"],
        "started_at": None, "completed_at": None, "worker_id": None, "error": None, "payload": {"angle": 90.0},
        "queue_position": 1,
    }  # fmt: skip
    assert (answer.headers["location"], answer.headers["retry-after"]) == (f"{J}/tasks/{task['id']}", "1")
    assert stranger.look(task["id"]) == task
    assert stranger.listed(f"/rooms/{other}/tasks") == [task]
    assert stranger.listed(f"/rooms/{other}/jobs/{full}/tasks") == [task]


PAYLOADS = [
    "{}", '{"a":[]}', '{"a":{}}', '{"a":1.0}', '{"a":1}', '{"a":9007199254740993,"b":-9223372036854775809}',
    '{"a":"日本 🦀 ü","b":"\\u0000"}', '{"a":0.1,"b":1e-7,"c":1E+300}', '{"b":1,"a":[{"c":[[]]}]}',
    '{"a":[null,true,false]}',
    '{"":{"":[{}]}}',
]  # fmt: skip


@pytest.mark.parametrize("text", PAYLOADS)
def test_a_payload_comes_back_as_it_was_sent(alice, full, room, text):
    def exact(answer):
        document = json.loads(answer.text, parse_float=lambda n: ("float", float(n)), parse_int=lambda n: ("int", n))
        return document.get("task", document)["payload"]

    worker = alice.job(room)
    sent = alice.call("POST", f"/rooms/{room}/tasks/{full}", content=f'{{"payload": {text}}}'.encode())
    assert sent.status_code == 202
    answers = [sent, alice.get(f"/tasks/{sent.json()['id']}"), alice.ask(worker)]
    expected = json.loads(text, parse_float=lambda n: ("float", float(n)), parse_int=lambda n: ("int", n))
    assert [exact(answer) for answer in answers] == [expected] * 3
    assert [json.dumps(exact(answer)) for answer in answers] == [json.dumps(expected)] * 3


def test_a_payload_may_be_left_out_but_must_be_an_object(alice, full, room):
    alice.job(room)
    assert done(alice.send(room, full, {}), 202)["payload"] == {}
    for wrong in (None, [], "x", 1, True):
        invalid(alice.send(room, full, {"payload": wrong}), "body", "payload")
    assert alice.call("POST", f"/rooms/{room}/tasks/{full}").status_code == 422
    assert len(alice.listed(f"/rooms/{room}/tasks")) == 1


def test_without_validation_a_payload_is_not_checked_against_the_schema(alice, full, room):
    alice.job(room, schema={"type": "object", "required": ["angle"], "additionalProperties": False})
    assert alice.send(room, full, {"payload": {"color": "red"}}).status_code == 202


def test_a_submit_to_an_unknown_job_stores_nothing(alice, full, room):
    for answer in (alice.send(room, full), alice.send(room, "@global:modifiers:" + fresh())):
        problem(answer, 404, "job-not-found")
    worker = alice.job(room)
    empty(alice.leave(worker))
    problem(alice.send(room, full), 404, "job-not-found")
    assert alice.listed(f"/rooms/{room}/tasks") == []


def test_any_user_may_submit_to_any_room(alice, bob, root, full, room):
    alice.job(room)
    name = fresh("J")
    root.job("@global", name)
    assert bob.send(room, full).status_code == 202
    for where in ("@global", "@internal", fresh()):
        assert done(bob.send(where, f"@global:modifiers:{name}"), 202)["room_id"] == where


def test_the_queue_position_counts_tasks_of_all_rooms_of_a_job(alice, full, room):
    worker = alice.job(room)
    rooms = [room, fresh(), room, fresh()]
    sent = [done(alice.send(where, full), 202) for where in rooms]
    ids = [task["id"] for task in sent]
    assert [task["queue_position"] for task in sent] == [1, 2, 3, 4]
    alice.job(room, "other")
    assert done(alice.send(room, f"{room}:modifiers:other"), 202)["queue_position"] == 1
    assert alice.claim(worker)["queue_position"] is None
    done(alice.move(ids[2], "cancelled"), 200)
    assert [alice.look(task)["queue_position"] for task in ids] == [None, 1, None, 2]
    assert [task["queue_position"] for task in alice.listed(f"/rooms/{room}/jobs/{full}/tasks")] == [None, None]
    assert [task["queue_position"] for task in alice.listed(f"/rooms/{rooms[3]}/tasks")] == [2]


def test_task_lists_can_be_filtered_by_status(alice, root, full, room):
    alice.job(room)
    by_status = {}
    for status in STATUSES:
        task = alice.submit(full)
        by_status[status] = root.run(task, *WAY[status])
    for path in (f"/rooms/{room}/tasks", f"/rooms/{room}/jobs/{full}/tasks"):
        for status, task in by_status.items():
            assert alice.listed(f"{path}?status={status}") == [task]
        assert alice.listed(path) == [by_status[status] for status in reversed(STATUSES)]


# 6


@pytest.mark.parametrize("start", STATUSES)
def test_every_illegal_move_is_a_conflict(alice, root, full, room, start):
    alice.job(room)
    for target in STATUSES:
        task = alice.submit(full)
        before = root.run(task, *WAY[start])
        answer = root.move(task, target)
        if target in ALLOWED.get(start, ()):
            assert done(answer, 200)["status"] == target
            assert alice.look(task)["status"] == target
        else:
            detail = problem(answer, 409, "invalid-task-transition")
            assert start in detail
            assert target in detail
            assert alice.look(task) == before


def test_times_of_a_task_are_set_once_and_in_order(alice, full):
    _, task = alice.claimed(full)
    claimed = alice.look(task)
    assert (claimed["started_at"], claimed["completed_at"]) == (None, None)
    running = done(alice.move(task, "running"), 200)
    assert (running["completed_at"], running["created_at"]) == (None, claimed["created_at"])
    ended = done(alice.move(task, "completed"), 200)
    assert ended["started_at"] == running["started_at"]
    times = [moment(ended[name]) for name in ("created_at", "started_at", "completed_at")]
    assert all(later > earlier for later, earlier in pairwise(reversed(times)))
    assert alice.look(task) == ended
    assert set(ended) == TASK


@pytest.mark.parametrize("way", [["cancelled"], ["claimed", "failed"], ["claimed", "cancelled"]])
def test_a_task_that_never_ran_has_an_end_time_and_no_start_time(alice, root, full, room, way):
    alice.job(room)
    task = root.run(alice.submit(full), *way)
    assert task["started_at"] is None
    assert moment(task["completed_at"]) >= moment(task["created_at"])
    assert task["queue_position"] is None


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_the_error_is_kept_for_every_end_of_a_task(alice, full, status):
    _, task = alice.claimed(full)
    assert done(alice.move(task, "running", error="too early"), 200)["error"] is None
    assert done(alice.move(task, status, error="ü: line\nbreak"), 200)["error"] == "ü: line\nbreak"
    assert alice.look(task)["error"] == "ü: line\nbreak"


@pytest.mark.parametrize("error", [{}, {"error": None}, {"error": ""}])
def test_an_empty_error_is_stored_as_null(alice, full, error):
    _, task = alice.claimed(full)
    assert done(alice.move(task, "failed", **error), 200)["error"] is None


def test_an_unknown_task_is_refused_before_the_rights_of_the_caller_are_checked(alice, bob, full):
    unknown = str(uuid4())
    assert unknown in problem(alice.move(unknown, "running"), 404, "task-not-found")
    problem(alice.get(f"/tasks/{unknown}"), 404, "task-not-found")
    _, task = alice.claimed(full)
    alice.run(task, "running", "completed")
    problem(bob.move(task, "running"), 403, "forbidden")
    problem(alice.move(task, "running"), 409, "invalid-task-transition")


# 2.5 and D1: who may move a task; alice serves, bob submits.


@pytest.fixture
def served(alice, bob, root, full, room):
    """Tasks of bob's that a worker of alice's holds, in every status that is no end: `served["running"]`."""
    worker = alice.job(room)
    tasks = {status: bob.submit(full) for status in ("claimed", "running", "pending")}
    for status in ("claimed", "running"):
        assert alice.claim(worker)["id"] == tasks[status]
    alice.run(tasks["running"], "running")
    return tasks


@pytest.mark.parametrize("status", ["pending", "claimed", "running"])
def test_the_submitter_may_only_cancel(bob, served, status):
    for target in STATUSES:
        if target != "cancelled":
            problem(bob.move(served[status], target), 403, "forbidden")
    assert done(bob.move(served[status], "cancelled"), 200)["status"] == "cancelled"
    problem(bob.move(served[status], "cancelled"), 409, "invalid-task-transition")


@pytest.mark.parametrize("status", ["pending", "claimed", "running"])
def test_a_superuser_may_make_every_legal_move(root, served, status):
    for target in sorted(ALLOWED[status] - {"cancelled"}):
        assert done(root.move(served[status], target), 200)["status"] == target
        break


def test_the_owner_of_a_worker_may_move_only_the_tasks_it_holds(alice, served):
    problem(alice.move(served["pending"], "cancelled"), 403, "forbidden")
    problem(alice.move(served["pending"], "claimed"), 403, "forbidden")
    assert done(alice.move(served["claimed"], "cancelled"), 200)["status"] == "cancelled"
    assert done(alice.move(served["running"], "failed"), 200)["status"] == "failed"


def test_other_users_may_not_move_a_task(alice, bob, root, full, room):
    _, task = alice.claimed(full)
    waiting = alice.submit(full)
    for target in STATUSES:
        problem(bob.move(task, target), 403, "forbidden")
        problem(bob.move(waiting, target), 403, "forbidden")


def test_a_superuser_may_claim_by_hand_and_the_task_has_no_worker_then(alice, root, full, room):
    worker = alice.job(room)
    task = alice.submit(full)
    found = done(root.move(task, "claimed"), 200)
    assert (found["status"], found["worker_id"], found["queue_position"]) == ("claimed", None, None)
    assert alice.claim(worker) is None
    problem(alice.move(task, "running"), 403, "forbidden")


def test_of_many_concurrent_moves_one_succeeds(alice, full):
    for _ in range(5):
        _, task = alice.claimed(full)
        alice.run(task, "running")
        targets = ["completed", "failed", "cancelled"] * 4
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda target, task=task: alice.move(task, target), targets))
        won = [answer.json()["status"] for answer in answers if answer.status_code == 200]
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 11
        assert [alice.look(task)["status"]] == won


def test_of_a_move_and_a_concurrent_removal_of_the_worker_one_succeeds(alice, full):
    for _ in range(5):
        worker, task = alice.claimed(full)
        alice.run(task, "running")
        with ThreadPoolExecutor(2) as pool:
            left = pool.submit(alice.leave, worker)
            moved = pool.submit(alice.move, task, "completed").result()
        empty(left.result())
        ended = alice.look(task)
        if moved.status_code == 200:
            assert (ended["status"], ended["error"]) == ("completed", None)
        else:
            problem(moved, 403, "forbidden")
            assert (ended["status"], ended["error"]) == ("failed", "Worker disconnected")
        assert ended["worker_id"] is None


def test_a_task_does_not_show_who_submitted_it(alice, bob, full, room):
    alice.job(room)
    task = bob.submit(full)
    made_by_chance = ("id", "room_id", "job_name", "created_at")  # these may contain the digits of the id of bob
    shown = json.dumps({name: value for name, value in alice.look(task).items() if name not in made_by_chance})
    assert str(0xB0B) not in shown
    assert "b0b" not in shown
