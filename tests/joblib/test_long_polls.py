"""`Prefer: wait=N` on a task."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import pytest

from tests.joblib.people import LONGEST_S, all_at_once, done, problem, timed
from tests.world import SLACK_S


def looking(person):
    """Return a function that reads a task with a preference."""
    return lambda task, prefer: person.get(f"/tasks/{task}", prefer=prefer)


def waited(person, task, prefer):
    """Return the answer to a look with this preference, and the seconds it took."""
    return timed(looking(person), task, prefer)


@contextmanager
def meanwhile(hubs, task, person):
    """Wait for a task as long as one may while the block runs, which begins when a hub waits; yields the future."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(waited, person, task, f"wait={LONGEST_S}")
        hubs.waiting(task)
        yield future


@pytest.fixture
def task(alice, full):
    """A claimed task."""
    return alice.claimed(full)[1]


def test_a_read_of_a_task_waits_as_long_as_requested(stranger, task):
    one_second = ["wait=1", "wait=1.9", "respond-async, wait=1", "wait=1, respond-async", "foo;wait=1", "wait=01"]
    beyond_the_setting = ["wait=8", "wait=9", "wait=3600", "wait=99999999999999999999"]
    prefers = one_second + beyond_the_setting
    for prefer, (answer, took_s) in zip(
        prefers, all_at_once(looking(stranger), *[(task, prefer) for prefer in prefers]), strict=True
    ):
        seconds = 1 if prefer in one_second else LONGEST_S
        assert done(answer, 200)["status"] == "claimed"
        assert answer.headers["preference-applied"] == f"wait={seconds}", prefer
        assert seconds - 0.05 <= took_s < seconds + SLACK_S, prefer


@pytest.mark.parametrize(
    "prefer",
    [
        "wait=0",
        "wait=abc",
        "wait=3s",
        "WAIT=1",
        "wait = 1",
        "wait =1",
        "await=1",
        "wait=",
        "wait=-1",
        "respond-async",
        "",
    ],
)
def test_without_a_valid_wait_preference_a_read_is_answered_at_once(stranger, task, prefer):
    answer, took_s = waited(stranger, task, prefer)
    assert done(answer, 200)["status"] == "claimed"
    assert "preference-applied" not in answer.headers
    assert took_s < SLACK_S


def test_a_read_of_an_ended_task_is_answered_at_once(alice, stranger, task):
    alice.run(task, "running", "completed")
    answer, took_s = waited(stranger, task, f"wait={LONGEST_S}")
    assert done(answer, 200)["status"] == "completed"
    assert "preference-applied" not in answer.headers
    assert took_s < SLACK_S


def test_a_read_of_an_unknown_task_is_answered_at_once(stranger):
    answer, took_s = waited(stranger, uuid4(), f"wait={LONGEST_S}")
    problem(answer, 404, "task-not-found")
    assert took_s < SLACK_S


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("hub", [0, 1])
def test_a_waiting_read_is_answered_at_once_when_the_task_ends_at_either_hub(hubs, alice, stranger, task, end, hub):
    with meanwhile(hubs, task, stranger.at(0)) as look:
        done(alice.at(hub).move(task, "running"), 200)
        time.sleep(0.1)
        assert not look.done()  # that it runs is no end
        ended = done(alice.at(hub).move(task, end), 200)
        answer, took_s = look.result()
    assert done(answer, 200) == ended
    assert answer.headers["preference-applied"] == f"wait={LONGEST_S}"
    assert took_s < LONGEST_S


def test_a_waiting_read_is_answered_when_the_worker_of_the_task_is_removed(hubs, alice, stranger, full):
    worker, task = alice.claimed(full)
    with meanwhile(hubs, task, stranger) as look:
        alice.leave(worker)
        answer, took_s = look.result()
    assert done(answer, 200)["error"] == "Worker disconnected"
    assert took_s < LONGEST_S


def test_many_callers_may_wait_for_one_task(hubs, alice, stranger, task):
    alice.run(task, "running")
    with ThreadPoolExecutor(20) as pool:
        looks = [pool.submit(waited, stranger, task, f"wait={LONGEST_S}") for _ in range(20)]
        hubs.waiting(task, 2)
        alice.run(task, "completed")
        answers = [look.result() for look in looks]
    assert {answer.json()["status"] for answer, _ in answers} == {"completed"}
    assert max(took_s for _, took_s in answers) < LONGEST_S
