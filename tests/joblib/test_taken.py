"""A worker may ask whether something was taken from it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.joblib.people import done, invalid, problem


def taken(person, worker, since=0, **headers):
    return done(person.get(f"/workers/{worker}/taken?since={since}", **headers), 200)


def test_moves_by_the_worker_itself_do_not_count_as_taken(alice, full, room):
    worker, task = alice.claimed(full)
    alice.run(task, "running", "completed")
    assert taken(alice, worker) == {"id": worker, "taken": 0}


def test_a_cancellation_wakes_a_waiting_worker_and_is_told_to_a_later_question(alice, full):
    worker, task = alice.claimed(full)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(taken, alice, worker, 0, prefer="wait=8")
        done(alice.move(task, "cancelled"), 200)
        assert waiting.result()["taken"] == 1
    assert taken(alice, worker)["taken"] == 1
    assert taken(alice, worker, 1)["taken"] == 1


def test_cancelling_a_pending_task_takes_nothing_from_a_worker(alice, hubs, full, room):
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
