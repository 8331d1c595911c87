"""A worker may ask whether something was taken from it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.joblib.people import done, invalid, problem


def taken(person, worker, since=0, **headers):
    return done(person.get(f"/workers/{worker}/taken?since={since}", **headers), 200)


def test_tasks_that_a_worker_ends_itself_are_not_counted_as_taken_from_it(alice, full, room):
    worker, task = alice.claimed(full)
    alice.run(task, "running", "completed")
    assert taken(alice, worker) == {"id": worker, "taken": 0}


def test_a_cancellation_of_its_task_answers_the_worker_that_waits_and_later_calls_too(alice, full):
    worker, task = alice.claimed(full)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(taken, alice, worker, 0, prefer="wait=8")
        done(alice.move(task, "cancelled"), 200)
        assert waiting.result()["taken"] == 1
    assert taken(alice, worker)["taken"] == 1
    assert taken(alice, worker, 1)["taken"] == 1


def test_the_cancellation_of_a_pending_task_counts_for_no_worker(alice, hubs, full, room):
    worker, _ = alice.claimed(full)
    done(alice.move(alice.submit(full), "cancelled"), 200)
    assert taken(alice, worker)["taken"] == 0
    assert alice.leave(worker).status_code == 204
    assert not hubs.server.client().exists(f"hub:worker:{worker.replace('-', '')}")
    problem(alice.get(f"/workers/{worker}/taken"), 404, "worker-not-found")


def test_only_the_owner_of_a_worker_may_ask_what_was_taken(alice, bob, root, full, room):
    worker = alice.job(room)
    for other in (bob, root):
        problem(other.get(f"/workers/{worker}/taken"), 403, "forbidden")
    invalid(alice.get(f"/workers/{worker}/taken?since=x"), "query", "since")
