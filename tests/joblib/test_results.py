"""Results of tasks: reported with the end, kept with the task, returned by a read of the task alone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.joblib.people import TASK, done, invalid, moment, problem

MIB = 1_048_576


def report(task, status="completed", **more):
    return {"id": task, "status": status, **more}


@pytest.mark.parametrize("value", [{"n": 144}, [], {}, "", 0, False, "ß", 1.0, 12345678901234567890123, [[None]]])
def test_a_result_comes_back_as_it_was_sent(alice, full, value):
    worker, task = alice.claimed(full)
    alice.run(task, "running")
    assert done(alice.ask(worker, results=[report(task, result=value)]), 200)["results"][0]["outcome"] == "ok"
    answer = alice.get(f"/tasks/{task}")
    assert json.loads(answer.text)["result"] == value
    assert f'"result":{json.dumps(value, separators=(",", ":"))}' in answer.text


def test_a_move_may_contain_the_result_and_a_waiting_read_returns_it(alice, bob, full):
    _, task = alice.claimed(full)
    alice.run(task, "running")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bob.get, f"/tasks/{task}", prefer="wait=8")
        moved = done(alice.move(task, "completed", result={"n": [1, 2]}), 200)
        found = done(waiting.result(), 200)
    assert set(moved) == TASK
    assert (found["status"], found["result"]) == ("completed", {"n": [1, 2]})


@pytest.mark.parametrize("more", [{}, {"result": None}])
def test_a_task_without_a_result_shows_no_additional_members(alice, full, more):
    _, task = alice.claimed(full)
    alice.run(task, "running")
    done(alice.move(task, "completed", **more), 200)
    assert set(alice.look(task)) == TASK


def test_lists_and_claims_do_not_contain_results(alice, full, room):
    worker, task = alice.claimed(full)
    alice.run(task, "running")
    done(alice.move(task, "completed", result={"n": 1}), 200)
    for path in (f"/rooms/{room}/tasks", f"/rooms/{room}/jobs/{full}/tasks"):
        assert [set(each) for each in alice.listed(path)] == [TASK]
    assert alice.claim(worker) is None


def test_a_late_or_repeated_report_does_not_change_the_result(alice, full):
    worker, task = alice.claimed(full)
    alice.run(task, "running")
    first, key = [report(task, result="first")], {"idempotency-key": "k1"}
    said = done(alice.ask(worker, results=first, headers=key), 200)["results"]
    assert done(alice.ask(worker, results=[report(task, result="again")], headers=key), 200)["results"] == said
    late = done(alice.ask(worker, results=[report(task, result="late")]), 200)["results"]
    assert late == [{"id": task, "outcome": "conflict"}]
    problem(alice.move(task, "completed", result="moved"), 409, "invalid-task-transition")
    assert alice.look(task)["result"] == "first"


def test_a_report_of_an_outdated_claim_stores_no_result(alice, full, room):
    worker = alice.job(room)
    task = alice.submit(full)
    [before] = done(alice.ask(worker, limit=1, start=True), 200)["tasks"]
    done(alice.ask(worker, results=[report(task, "pending", claim=before["claim"])], limit=0), 200)
    [after] = done(alice.ask(worker, limit=1, start=True), 200)["tasks"]
    said = [report(task, claim=before["claim"], result="late")]
    assert done(alice.ask(worker, results=said, limit=0), 200)["results"][0]["outcome"] == "conflict"
    assert alice.look(task)["status"] == "running"
    done(alice.ask(worker, results=[report(task, claim=after["claim"], result="mine")], limit=0), 200)
    assert alice.look(task)["result"] == "mine"


def test_a_result_that_is_too_large_is_refused_with_advice(alice, full):
    _, task = alice.claimed(full)
    alice.run(task, "running")
    said = problem(alice.move(task, "completed", result="x" * MIB), 413, "too-large")
    assert "store it elsewhere and return a reference" in said
    assert alice.look(task)["status"] == "running"
    done(alice.move(task, "completed", result="x" * (MIB - 2)), 200)
    assert len(alice.look(task)["result"]) == MIB - 2


def test_a_report_with_a_too_large_result_fails_its_task_and_leaves_the_others(alice, full, room):
    worker = alice.job(room)
    tasks = [alice.submit(full) for _ in range(2)]
    done(alice.ask(worker, limit=2, start=True), 200)
    said = [report(tasks[0], result="x" * MIB), report(tasks[1], result="small")]
    outcomes = done(alice.ask(worker, results=said, limit=0), 200)["results"]
    assert [each["outcome"] for each in outcomes] == ["too-large", "ok"]
    failed, completed = (alice.look(task) for task in tasks)
    assert (failed["status"], completed["result"]) == ("failed", "small")
    assert "1048578 bytes" in failed["error"]
    assert "store it elsewhere and return a reference" in failed["error"]


@pytest.mark.parametrize("status", ["failed", "cancelled", "running"])
def test_only_completed_tasks_have_a_result(alice, full, status):
    worker, task = alice.claimed(full)
    invalid(alice.move(task, status, result=1), "body")
    invalid(alice.ask(worker, results=[report(task, status, result=1)]), "body", "results", 0)
    assert alice.look(task)["status"] == "claimed"


def test_a_result_nested_too_deeply_is_refused(alice, full):
    _, task = alice.claimed(full)
    alice.run(task, "running")
    deep = json.loads("[" * 129 + "]" * 129)
    invalid(alice.move(task, "completed", result=deep), "body", "result")
    assert alice.look(task)["status"] == "running"


def test_a_result_can_be_read_only_with_access_to_its_room(alice, full, hubs):
    _, task = alice.claimed(full)
    alice.run(task, "running")
    done(alice.move(task, "completed", result="secret"), 200)
    assert moment(alice.look(task)["completed_at"])
    [record] = hubs.server.client().keys(f"hub:task_result:{task.replace('-', '')}")
    assert hubs.server.client().ttl(record) == -1
