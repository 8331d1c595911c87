"""Claims over the wire: whose turn it is, and that nothing is handed out twice."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.joblib.people import TASK, done, empty, fresh
from tests.world import SLACK_S


def test_a_claim_without_a_pending_task_is_answered_at_once(alice, room):
    answer = alice.ask(alice.job(room))
    assert done(answer, 200) == {"task": None}
    assert answer.elapsed.total_seconds() < SLACK_S


def test_a_claim_marks_the_task_and_takes_it_from_the_queue(alice, full, room):
    worker = alice.job(room)
    task = done(alice.send(room, full, {"payload": {"a": 1}}), 202)
    claimed = alice.claim(worker)
    assert set(claimed) == TASK
    assert claimed == {**task, "status": "claimed", "worker_id": worker, "queue_position": None}
    assert alice.look(task["id"]) == claimed
    assert alice.claim(worker) is None


def test_a_claim_takes_the_oldest_task_of_all_jobs_of_the_worker(alice, bob, room):
    names = ["b", "a", "c"]
    worker = alice.job(room, names[0])
    for name in names[1:]:
        alice.job(room, name, worker)
    other = fresh()
    alice.job(other, "d", worker)
    bob.job(room, "not ours")
    bob.submit(f"{room}:modifiers:not ours")
    fulls = [f"{room}:modifiers:{name}" for name in ("a", "c", "b", "b", "a", "c", "c")] + [f"{other}:modifiers:d"]
    order = [alice.submit(full, where) for full, where in zip(fulls * 2, [room, fresh()] * len(fulls), strict=True)]
    claimed = [alice.claim(worker) for _ in order]
    assert [task["id"] for task in claimed] == order
    assert [task["job_name"] for task in claimed] == fulls * 2
    assert alice.claim(worker) is None


def test_every_worker_of_a_job_may_claim_tasks_of_any_submitter(alice, bob, full, room):
    first, second = alice.job(room), bob.job(room)
    tasks = [alice.submit(full) for _ in range(3)]
    assert [alice.claim(first)["id"], bob.claim(second)["id"], alice.claim(first)["id"]] == tasks


def test_a_worker_may_hold_any_number_of_tasks(alice, full, room):
    worker = alice.job(room)
    tasks = [alice.submit(full) for _ in range(20)]
    assert [alice.claim(worker)["id"] for _ in tasks] == tasks
    assert {task["worker_id"] for task in alice.listed(f"/rooms/{room}/tasks")} == {worker}


def test_a_worker_without_jobs_gets_no_task(alice, full, room):
    alice.job(room)
    alice.submit(full)
    assert alice.claim(alice.worker()) is None


def test_a_worker_that_joins_later_gets_waiting_tasks(alice, full, room):
    first = alice.job(room)
    task = alice.submit(full)
    empty(alice.leave(first))
    assert alice.claim(alice.job(room))["id"] == task


def test_tasks_of_internal_jobs_are_never_claimed_by_workers(root, alice, room):
    name = fresh("J")
    worker = root.job("@internal", name)
    root.job(room, "mine", worker)
    task = root.submit(f"{room}:modifiers:mine")
    assert root.send(room, f"@internal:modifiers:{name}").status_code == 503
    assert root.claim(worker)["id"] == task
    assert root.claim(worker) is None


@pytest.mark.parametrize("round_", range(3))
def test_one_of_ten_workers_that_claim_a_task_at_once_gets_it(alice, full, room, round_):
    workers = [alice.job(room) for _ in range(10)]
    task = alice.submit(full)
    with ThreadPoolExecutor(10) as pool:
        given = list(pool.map(alice.claim, workers))
    won = [found for found in given if found]
    assert [found["id"] for found in won] == [task]
    assert alice.look(task)["worker_id"] == workers[given.index(won[0])]


def test_thirty_concurrent_claims_of_twenty_tasks_get_twenty_tasks_and_ten_nulls(alice, full, room):
    worker = alice.job(room)
    tasks = [alice.submit(full) for _ in range(20)]
    with ThreadPoolExecutor(30) as pool:
        given = list(pool.map(lambda _: alice.claim(worker), range(30)))
    assert Counter(found["id"] if found else None for found in given) == {**dict.fromkeys(tasks, 1), None: 10}


def test_a_claim_concurrent_with_the_removal_of_its_worker_leaves_no_task_held(alice, full, room):
    for _ in range(5):
        worker = alice.job(room)
        task = alice.submit(full)
        with ThreadPoolExecutor(2) as pool:
            left = pool.submit(alice.leave, worker)
            asked = pool.submit(alice.ask, worker).result()
        empty(left.result())
        found = alice.look(task)
        assert found["worker_id"] is None
        if asked.status_code == 200:
            assert (found["status"], found["error"]) == ("failed", "Worker disconnected")
        else:
            assert (asked.status_code, found["status"]) == (404, "pending")
            done(alice.move(task, "cancelled"), 200)
