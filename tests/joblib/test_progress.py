"""The progress, message and log of running tasks."""

from __future__ import annotations

import pytest

from tests.joblib.people import TASK, done, fresh, invalid, moment, problem
from tests.world import wait_until

SHOWN = TASK | {"progress", "message", "progress_at", "log"}


def say(person, worker, task, /, headers=None, **said):
    answer = person.call(
        "POST", "/tasks/progress", {"worker_id": worker, "tasks": [{"id": task, **said}]}, headers=headers
    )
    return [each["outcome"] for each in done(answer, 200)["tasks"]]


@pytest.fixture
def running(alice, full):
    worker, task = alice.claimed(full)
    alice.run(task, "running")
    return worker, task


def test_a_task_without_progress_shows_no_additional_members(alice, running):
    assert set(alice.look(running[1])) == TASK


def test_reported_progress_is_shown_and_omitted_members_stay(alice, bob, running, room):
    worker, task = running
    assert say(alice, worker, task, progress=0.4, message="step 3", log=["begins", "two\nlines"]) == ["ok"]
    first = bob.look(task)
    assert set(first) == SHOWN
    assert (first["progress"], first["message"]) == (0.4, "step 3")
    assert [each["text"] for each in first["log"]] == ["begins", "two", "lines"]
    assert moment(first["progress_at"]) == moment(first["log"][0]["at"])
    assert say(alice, worker, task, progress=1) == ["ok"]
    second = bob.look(task)
    assert (second["progress"], second["message"], second["log"]) == (1, "step 3", first["log"])
    assert moment(second["progress_at"]) > moment(first["progress_at"])
    assert [set(each) for each in bob.listed(f"/rooms/{room}/tasks")] == [TASK], "lists read less"


def test_a_log_keeps_the_latest_hundred_lines_and_four_kib_of_each(alice, running):
    worker, task = running
    for start in (0, 60, 120):
        say(alice, worker, task, log=[str(n) for n in range(start, start + 60)])
    assert [each["text"] for each in alice.look(task)["log"]] == [str(n) for n in range(80, 180)]
    say(alice, worker, task, log=["\u00df" * 5000], message="m" * 5000)
    found = alice.look(task)
    assert (found["log"][-1]["text"], len(found["message"])) == ("\u00df" * 2048, 1024)


def test_a_progress_report_repeated_with_its_key_adds_nothing(alice, running):
    worker, task = running
    for _ in range(2):
        assert say(alice, worker, task, headers={"idempotency-key": "k"}, log=["once"]) == ["ok"]
    assert [each["text"] for each in alice.look(task)["log"]] == ["once"]


def test_only_the_claim_that_runs_a_task_may_report_its_progress(alice, bob, full, running):
    worker, task = running
    assert say(alice, worker, task, claim="17", log=["late"]) == ["conflict"]
    assert say(alice, worker, fresh_task(), log=["x"]) == ["gone"]
    assert say(bob, bob.job(full.split(":")[0]), task, log=["x"]) == ["forbidden"]
    refused = bob.call("POST", "/tasks/progress", {"worker_id": worker, "tasks": [{"id": task}]})
    problem(refused, 403, "forbidden")
    done(alice.move(task, "cancelled"), 200)
    assert say(alice, worker, task, log=["late"]) == ["conflict"]
    assert set(alice.look(task)) == TASK


def fresh_task():
    return "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"progress": 1.1}, "progress"), ({"progress": -1}, "progress"), ({"progress": "half"}, "progress"),
        ({"log": ["x"] * 101}, "log"), ({"message": 5}, "message"), ({"claim": "x"}, "claim"),
    ],
)  # fmt: skip
def test_an_invalid_progress_report_does_not_validate(alice, running, said, place):
    worker, task = running
    answer = alice.call("POST", "/tasks/progress", {"worker_id": worker, "tasks": [{"id": task, **said}]})
    invalid(answer, "body", "tasks", 0, place)


async def test_progress_sends_an_event_to_the_room_of_the_task(listen, alice, running, full, room):
    worker, task = running
    there = await listen(room)
    say(alice, worker, task, progress=0.25, message="\u00df")
    [(event, data)] = await there.heard()
    assert event == "task_progress_event"
    assert data == {
        "id": task, "name": full, "room_id": room, "worker_id": worker, "progress": 0.25, "message": "\u00df",
        "progress_at": alice.look(task)["progress_at"],
    }  # fmt: skip


def test_a_stuck_task_fails_with_a_reason_although_its_worker_beats(alice, full, room):
    worker = alice.job(room)
    task = alice.submit(full, maxSilenceSeconds=1)
    assert alice.look(task)["maxSilenceSeconds"] == 1
    done(alice.ask(worker, limit=1, start=True), 200)

    def stuck():
        alice.beat(worker)
        return alice.look(task)["status"] == "failed"

    wait_until(stuck)
    assert alice.look(task)["error"] == "No progress for longer than maxSilenceSeconds (1)"


def test_an_invalid_limit_of_silence_does_not_validate(alice, full, room):
    alice.job(room)
    invalid(alice.send(room, full, {"maxSilenceSeconds": 0.5}), "body", "maxSilenceSeconds")
    key = {"idempotency-key": fresh()}
    task = done(alice.send(room, full, {"maxSilenceSeconds": 5}, **key), 202)["id"]
    assert done(alice.send(room, full, {"maxSilenceSeconds": 5}, **key), 202)["id"] == task
    assert alice.send(room, full, {"maxSilenceSeconds": 6}, **key).status_code == 422
