"""What the hub does beyond the contract, for who asks: batches, claims that wait, retries, dead letters, delays."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.joblib.people import LONGEST_S, TASK, all_at_once, done, empty, fresh, invalid, moment, problem
from tests.world import SLACK_S, wait_until


def given(person, worker, **more):
    """Return the ids of the tasks that a claim is given."""
    return [task["id"] for task in done(person.ask(worker, **more), 200)["tasks"]]


def at(seconds):
    """Return a time so many seconds from now, as a caller writes it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


# Submitting.


def test_many_tasks_are_submitted_with_one_call_and_claimed_in_order(alice, full, room):
    worker = alice.job(room)
    answer = done(alice.send(room, full, {"payloads": [{"n": n} for n in range(1000)]}), 202)
    assert set(answer) == {"ids"}
    assert len(set(answer["ids"])) == 1000
    assert alice.look(answer["ids"][999])["queue_position"] == 1000
    assert done(alice.get(f"/rooms/{room}/tasks?limit=1"), 200)["total"] == 1000
    claimed = done(alice.ask(worker, limit=100), 200)["tasks"]
    assert [task["payload"] for task in claimed] == [{"n": n} for n in range(100)]
    assert [task["id"] for task in claimed] == answer["ids"][:100]
    assert alice.claim(worker)["payload"] == {"n": 100}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"payloads": []}, ("payloads",)), ({"payloads": [{}] * 1001}, ("payloads",)),
        ({"payloads": [{}, []]}, ("payloads", 1)),
        ({"payloads": {}}, ("payloads",)), ({"payloads": [{}], "payload": {}}, ("payload",)),
        ({"priority": 101}, ("priority",)),
        ({"priority": -101}, ("priority",)), ({"priority": 1.5}, ("priority",)), ({"priority": "1"}, ("priority",)),
        ({"maxAttempts": 0}, ("maxAttempts",)), ({"maxAttempts": 101}, ("maxAttempts",)),
        ({"backoffSeconds": -1}, ("backoffSeconds",)),
        ({"backoffSeconds": 3601}, ("backoffSeconds",)), ({"notBefore": "tomorrow"}, ("notBefore",)),
        ({"notBefore": "2030-01-01T00:00:00"}, ("notBefore",)), ({"notBefore": 5}, ("notBefore",)),
    ],
)  # fmt: skip
def test_options_out_of_bounds_do_not_validate_and_store_nothing(alice, full, room, body, place):
    alice.job(room)
    invalid(alice.send(room, full, body), "body", *place)
    assert alice.listed(f"/rooms/{room}/tasks") == []


def test_a_priority_is_worth_a_number_of_seconds_in_the_queue(alice, full, room):
    worker = alice.job(room)
    plain = alice.submit(full)
    last, first, second = (alice.submit(full, priority=points) for points in (-100, 100, 50))
    shown = {
        task["id"]: (task["queue_position"], task.get("priority")) for task in alice.listed(f"/rooms/{room}/tasks")
    }
    assert shown == {first: (1, 100), second: (2, 50), plain: (3, None), last: (4, -100)}
    assert given(alice, worker, limit=10) == [first, second, plain, last]


def test_priorities_count_across_the_jobs_of_a_worker(alice, full, room):
    worker = alice.job(room)
    alice.job(room, "other", worker)
    alice.submit(full)
    urgent = alice.submit(f"{room}:modifiers:other", priority=10)
    assert alice.claim(worker)["id"] == urgent


def test_a_task_without_options_shows_no_additional_members(alice, full, room):
    worker = alice.job(room)
    assert set(done(alice.send(room, full), 202)) == TASK
    assert set(alice.claim(worker)) == TASK


def test_a_delayed_task_is_claimed_when_it_is_due_and_not_before(alice, full, room):
    worker = alice.job(room)
    due = at(5)
    answer = done(alice.send(room, full, {"notBefore": due}), 202)
    assert (answer["status"], answer["queue_position"]) == ("pending", None)
    assert moment(answer["notBefore"]) == datetime.fromisoformat(due)
    now = alice.submit(full)
    assert alice.look(now)["queue_position"] == 1
    assert alice.claim(worker)["id"] == now
    assert alice.claim(worker) is None
    claimed = done(alice.ask(worker, waitSeconds=LONGEST_S, limit=1), 200)["tasks"]
    if not claimed:  # the hub was busy; it must be there by now
        claimed = [alice.claim(worker)]
    assert [task["id"] for task in claimed] == [answer["id"]]
    assert datetime.now(UTC) >= datetime.fromisoformat(due)


def test_a_delayed_task_may_be_cancelled_and_keeps_its_job_alive(alice, full, room):
    worker = alice.job(room)
    task = alice.submit(full, notBefore=at(3600))
    empty(alice.leave(worker))
    assert alice.get(f"/rooms/{room}/jobs/{full}").status_code == 200
    assert done(alice.move(task, "cancelled"), 200)["completed_at"]
    problem(alice.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")


def test_a_due_time_in_the_past_means_now(alice, full, room):
    worker = alice.job(room)
    task = alice.submit(full, notBefore="1999-01-01T00:00:00+02:00")
    assert alice.claim(worker)["id"] == task


# Idempotency-Key


def keyed(key):
    return {"idempotency-key": key}


def test_a_repeated_submit_gets_the_same_task(alice, bob, full, room):
    worker = alice.job(room)
    key = fresh("key")
    body = {"payload": {"a": 1}}
    first = done(alice.send(room, full, body, **keyed(key)), 202)
    again = done(alice.send(room, full, body, **keyed(key)), 202)
    assert again == first
    assert alice.claim(worker)["id"] == first["id"]
    assert done(alice.send(room, full, body, **keyed(key)), 202)["status"] == "claimed"
    for other in ({"payload": {"a": 2}}, {"payload": {"a": 1}, "priority": 1}, {"payloads": [{"a": 1}, {}]}):
        problem_422(alice.send(room, full, other, **keyed(key)))
    problem_422(alice.send(fresh(), full, body, **keyed(key)))
    assert done(bob.send(room, full, body, **keyed(key)), 202)["id"] != first["id"]
    assert done(alice.send(room, full, body, **keyed(key + "2")), 202)["id"] != first["id"]
    assert len(alice.listed(f"/rooms/{room}/tasks")) == 3


def problem_422(answer):
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json"), answer.text
    assert answer.json()["type"] == "/v1/problems/key-reused"


def test_a_repeated_batch_gets_the_same_tasks(alice, full, room):
    alice.job(room)
    body = {"payloads": [{"n": n} for n in range(150)]}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: alice.send(room, full, body, **keyed("k" + room)).json(), range(4)))
    assert answers == [answers[0]] * 4
    assert done(alice.get(f"/rooms/{room}/tasks?limit=0"), 200)["total"] == 150


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_an_invalid_key_does_not_validate(alice, full, room, key):
    alice.job(room)
    invalid(alice.send(room, full, {}, **keyed(key)), "header", "idempotency-key")


def test_a_repeated_claim_gets_the_same_tasks(alice, full, room):
    worker = alice.job(room)
    tasks = [alice.submit(full) for _ in range(5)]
    assert given(alice, worker, limit=2, headers=keyed("one")) == tasks[:2]
    assert given(alice, worker, limit=2, headers=keyed("one")) == tasks[:2]
    assert given(alice, worker, limit=2, headers=keyed("two")) == tasks[2:4]
    assert given(alice, worker, limit=2) == tasks[4:]


def test_a_repeated_move_gets_the_answer_of_the_first(alice, full):
    _, task = alice.claimed(full)
    for status in ("running", "completed"):
        answers = [alice.call("PATCH", f"/tasks/{task}", {"status": status}, headers=keyed(status)) for _ in range(3)]
        assert [done(answer, 200) for answer in answers] == [alice.look(task)] * 3
    problem(alice.move(task, "completed"), 409, "invalid-task-transition")
    problem(
        alice.call("PATCH", f"/tasks/{task}", {"status": "failed"}, headers=keyed("x")), 409, "invalid-task-transition"
    )


# Claiming.


def test_a_claim_may_ask_for_several_tasks(alice, full, room):
    worker = alice.job(room)
    assert done(alice.ask(worker, limit=5), 200) == {"task": None, "tasks": [], "results": []}
    tasks = [alice.submit(full) for _ in range(3)]
    answer = done(alice.ask(worker, limit=2), 200)
    assert [task["id"] for task in answer["tasks"]] == tasks[:2]
    assert answer["task"] == answer["tasks"][0]
    assert {task["status"] for task in answer["tasks"]} == {"claimed"}
    assert done(alice.ask(worker, limit=0), 200) == {"task": None, "tasks": [], "results": []}
    assert given(alice, worker, limit=100) == tasks[2:]


def test_a_claim_may_start_the_tasks_it_gets(alice, full, room):
    worker = alice.job(room)
    alice.submit(full)
    task = done(alice.ask(worker, start=True), 200)["task"]
    assert (task["status"], task["worker_id"]) == ("running", worker)
    assert moment(task["started_at"]) >= moment(task["created_at"])
    assert alice.look(task["id"]) == task


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"limit": 101}, ("limit",)), ({"limit": -1}, ("limit",)), ({"limit": "1"}, ("limit",)),
        ({"waitSeconds": -1}, ("waitSeconds",)),
        ({"start": "yes"}, ("start",)), ({"maxRuntimeSeconds": 0}, ("maxRuntimeSeconds",)),
        ({"results": [{"id": str(uuid4()), "status": "claimed"}]}, ("results", 0, "status")),
        ({"results": [{"id": "x", "status": "failed"}]}, ("results", 0, "id")),
    ],
)  # fmt: skip
def test_a_claim_out_of_bounds_does_not_validate_and_claims_nothing(alice, full, room, more, place):
    worker = alice.job(room)
    task = alice.submit(full)
    invalid(alice.ask(worker, **more), "body", *place)
    assert alice.look(task)["status"] == "pending"


@pytest.mark.parametrize("hub", [0, 1])
def test_a_waiting_claim_gets_a_task_submitted_at_either_hub(hubs, alice, full, room, hub):
    worker = alice.job(room)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(alice.at(0).ask, worker, waitSeconds=LONGEST_S)
        hubs.waiting(full)
        assert not asked.done()
        task = alice.at(hub).submit(full)
        answer = asked.result()
    assert done(answer, 200)["task"]["id"] == task
    assert answer.elapsed.total_seconds() < LONGEST_S


def test_a_waiting_claim_without_a_task_ends_in_time(alice, room):
    worker = alice.job(room)
    waits = {1: 1, 0.5: 0.5, 3600: LONGEST_S, 0: 0}
    answers = all_at_once(lambda wait_s: alice.ask(worker, waitSeconds=wait_s), *[(wait_s,) for wait_s in waits])
    for seconds, (answer, took_s) in zip(waits.values(), answers, strict=True):
        assert done(answer, 200) == {"task": None}
        assert seconds - 0.05 <= took_s < seconds + SLACK_S


def test_each_task_wakes_one_of_many_waiting_claims(hubs, alice, full, room):
    workers = [alice.job(room) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(alice.ask, worker, waitSeconds=LONGEST_S) for worker in workers]
        hubs.waiting(full, 2)
        tasks = [alice.submit(full) for _ in range(4)]
        found = [done(each.result(), 200)["task"] for each in asked]
    assert sorted(task["id"] for task in found if task) == sorted(tasks)


def test_a_claim_may_report_the_results_of_other_tasks(alice, bob, full, room):
    worker = alice.job(room)
    tasks = [alice.submit(full) for _ in range(6)]
    claimed = given(alice, worker, limit=5, start=True)
    assert claimed == tasks[:5]
    foreign = bob.claim(bob.job(room))["id"]
    unknown = str(uuid4())
    alice.run(claimed[4], "completed")
    results = [
        {"id": claimed[0], "status": "completed"}, {"id": claimed[1], "status": "failed", "error": "no"},
        {"id": claimed[2], "status": "cancelled"}, {"id": claimed[3], "status": "pending"},
        {"id": claimed[4], "status": "failed"}, {"id": unknown, "status": "completed"},
        {"id": foreign, "status": "completed"},
    ]  # fmt: skip
    answer = done(alice.ask(worker, limit=1, results=results), 200)
    outcomes = ["ok", "ok", "ok", "ok", "conflict", "gone", "forbidden"]
    assert answer["results"] == [{"id": r["id"], "outcome": word} for r, word in zip(results, outcomes, strict=True)]
    assert [task["id"] for task in answer["tasks"]] == [claimed[3]]
    ended = [alice.look(task) for task in claimed]
    assert [task["status"] for task in ended] == ["completed", "failed", "cancelled", "claimed", "completed"]
    assert ended[1]["error"] == "no"
    assert bob.look(foreign)["status"] == "claimed"


def test_a_task_that_was_given_back_shows_no_trace_of_its_claim(alice, full, room):
    worker = alice.job(room)
    task, younger = alice.submit(full), alice.submit(full)
    before = alice.look(task)
    assert alice.claim(worker)["id"] == task
    assert (
        done(alice.ask(worker, limit=0, results=[{"id": task, "status": "pending"}]), 200)["results"][0]["outcome"]
        == "ok"
    )
    assert alice.look(task) == before
    assert given(alice, worker, limit=2) == [task, younger]


def test_a_repeated_claim_with_results_gets_the_answer_of_the_first(alice, full, room):
    worker, task = alice.claimed(full)
    results = [{"id": task, "status": "running"}]
    for _ in range(2):
        answer = done(alice.ask(worker, limit=0, results=results, headers=keyed("again")), 200)
        assert answer["results"] == [{"id": task, "outcome": "ok"}]


def test_a_task_that_runs_longer_than_its_limit_fails(quick, full, room):
    ann = quick.person("alice-t")
    worker = ann.job(room)
    tasks = [ann.submit(full) for _ in range(3)]
    assert done(ann.ask(worker, maxRuntimeSeconds=5, start=True), 200)["task"]["id"] == tasks[0]
    assert done(ann.ask(worker, maxRuntimeSeconds=60), 200)["task"]["id"] == tasks[1]
    assert done(ann.ask(worker, maxRuntimeSeconds=5), 200)["task"]["id"] == tasks[2]
    done(ann.move(tasks[0], "completed"), 200)

    def over():
        done(ann.beat(worker), 200)
        return ann.look(tasks[2])["status"] == "failed"

    wait_until(over)
    assert ann.look(tasks[2])["error"] == "Runtime exceeded"
    assert [ann.look(task)["status"] for task in tasks[:2]] == ["completed", "claimed"]


# Trying again.


def test_a_failing_task_is_retried_until_its_attempts_are_used_up(alice, root, full, room):
    worker = alice.job(room)
    task = alice.submit(full, maxAttempts=3, backoffSeconds=0)
    for attempt in (1, 2):
        claimed = alice.claim(worker)
        assert (claimed["id"], claimed["attempt"], claimed["maxAttempts"]) == (task, attempt, 3)
        alice.run(task, "running")
        again = done(alice.move(task, "failed", error="no luck"), 200)
        assert (again["status"], again["worker_id"], again["started_at"], again["completed_at"]) == (
            "pending",
            None,
            None,
            None,
        )
        wait_until(lambda: alice.look(task)["queue_position"] == 1)
    assert alice.claim(worker)["attempt"] == 3
    alice.run(task, "running")
    assert done(alice.move(task, "failed", error="no luck"), 200)["status"] == "failed"
    assert alice.look(task)["error"] == "no luck"
    assert alice.claim(worker) is None
    assert task in [letter["id"] for letter in root.get("/dead").json()["items"]]


def test_the_pause_before_each_retry_grows(alice, full, room):
    worker = alice.job(room)
    task = alice.submit(full, maxAttempts=3, backoffSeconds=0.3)
    assert alice.claim(worker)["id"] == task
    for expected_s in (0.3, 0.6):
        failed_at = time.monotonic()
        assert done(alice.move(task, "failed"), 200)["queue_position"] is None
        wait_until(lambda: alice.claim(worker) is not None)
        assert time.monotonic() - failed_at >= expected_s - 0.05


def test_a_task_of_a_removed_worker_is_retried(alice, full, room):
    worker = alice.job(room)
    task = alice.submit(full, maxAttempts=2, backoffSeconds=0)
    assert alice.claim(worker)["id"] == task
    empty(alice.leave(worker))
    assert alice.look(task)["status"] == "pending"
    assert alice.get(f"/rooms/{room}/jobs/{full}").status_code == 200
    second = alice.job(room)
    assert done(alice.ask(second, waitSeconds=LONGEST_S), 200)["task"]["attempt"] == 2
    empty(alice.leave(second))
    found = alice.look(task)
    assert (found["status"], found["error"]) == ("failed", "Worker disconnected")


def test_a_cancelled_task_is_not_retried(alice, full, room):
    worker = alice.job(room)
    task = alice.submit(full, maxAttempts=5)
    assert alice.claim(worker)["id"] == task
    assert done(alice.move(task, "cancelled"), 200)["status"] == "cancelled"
    assert alice.claim(worker) is None


@pytest.fixture
def letter(alice, bob, full, room):
    """A task of bob's that has failed for the last time."""
    worker = alice.job(room)
    task = bob.submit(full, payload={"a": [1.0]}, maxAttempts=2, backoffSeconds=0)
    for _ in range(2):
        assert done(alice.ask(worker, waitSeconds=LONGEST_S), 200)["task"]["id"] == task
        done(alice.move(task, "failed", error="dead"), 200)
    return task


def test_only_operators_may_see_dead_letters(alice, bob, root, stranger, letter):
    for method, path in (("GET", "/dead"), ("GET", f"/dead/{letter}"), ("DELETE", f"/dead/{letter}")):
        assert stranger.call(method, path).status_code == 401
        problem(alice.call(method, path), 403, "forbidden")
    page = done(root.get("/dead?limit=1"), 200)
    assert (page["items"][0]["id"], page["limit"], page["offset"]) == (letter, 1, 0)
    assert done(root.get(f"/dead/{letter}"), 200) == alice.look(letter)
    empty(root.call("DELETE", f"/dead/{letter}"))
    problem(root.get(f"/dead/{letter}"), 404, "task-not-found")
    problem(root.call("DELETE", f"/dead/{letter}"), 404, "task-not-found")
    assert alice.look(letter)["status"] == "failed"


def test_a_failed_task_without_retries_is_no_dead_letter(alice, root, full):
    _, task = alice.claimed(full)
    done(alice.move(task, "failed"), 200)
    problem(root.get(f"/dead/{task}"), 404, "task-not-found")


def test_retrying_a_dead_letter_makes_a_new_task(alice, bob, root, full, room, letter):
    problem(alice.call("POST", f"/tasks/{letter}/retry"), 403, "forbidden")
    answer = bob.call("POST", f"/tasks/{letter}/retry")
    task = done(answer, 202)
    assert task["id"] != letter
    assert answer.headers["location"].endswith(task["id"])
    assert (task["status"], task["payload"], task["job_name"], task["room_id"]) == ("pending", {"a": [1.0]}, full, room)
    assert (task["attempt"], task["maxAttempts"]) == (1, 2)
    problem(root.get(f"/dead/{letter}"), 404, "task-not-found")
    assert bob.look(letter)["status"] == "failed"


@pytest.mark.parametrize(
    ("way", "status"), [(["cancelled"], 202), (["running", "failed"], 202), (["running", "completed"], 409), ([], 409)]
)
def test_failed_and_cancelled_tasks_may_be_retried(alice, full, way, status):
    _, task = alice.claimed(full)
    alice.run(task, *way)
    answer = alice.call("POST", f"/tasks/{task}/retry")
    if status == 202:
        assert set(done(answer, 202)) == TASK
    else:
        problem(answer, 409, "invalid-task-transition")
    problem(alice.call("POST", f"/tasks/{uuid4()}/retry"), 404, "task-not-found")
