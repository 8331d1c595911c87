"""A hub that stood still and goes on: the requests it reads then are of callers that have turned to another hub."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import httpx
import pytest

from tests.joblib.people import done, fresh
from tests.joblib.stage import CALM, stage
from tests.world import wait_until

SHORT_S = 1.0  # a caller's patience with a hub that stands still


@pytest.fixture(scope="module")
def pair(http):
    """Two hubs; the first of them stands still now and then."""
    with stage(http, 2, **CALM) as found:
        yield found


@contextmanager
def still(pair):
    """Stop the first hub while the block runs; afterwards wait until it has read the requests that came meanwhile."""
    pair.hubs[0].signal(signal.SIGSTOP)
    try:
        yield
    finally:
        pair.hubs[0].signal(signal.SIGCONT)
        ann = pair.person("alice-t").at(0)
        for _ in range(3):  # what was sent before is carried out before
            wait_until(lambda: ann.get("/workers").status_code == 200)


def in_vain(person, method, path, body, **headers):
    """A call to a hub that stands still, given up, over a connection of its own."""
    with httpx.Client(trust_env=False) as http:
        alone = type(person)(http, person._hubs[:1], person.token)
        with pytest.raises(httpx.TimeoutException):
            alone.call(method, path, body, headers=headers, timeout=SHORT_S)


@pytest.mark.parametrize("key", [{}, {"Idempotency-Key": "K"}], ids=["plain", "with a key"])
def test_a_claim_whose_caller_hung_up_is_not_carried_out(pair, key):
    ann, room = pair.person("alice-t"), fresh()
    other = ann.at(1)
    worker = other.job(room)
    with still(pair):
        in_vain(ann, "POST", "/tasks/claim", {"worker_id": worker}, **key)
        assert done(other.call("POST", "/tasks/claim", {"worker_id": worker}, headers=key), 200)["task"] is None
        task = other.submit(f"{room}:modifiers:Rotate")
    assert other.look(task)["status"] == "pending"
    assert other.claim(worker)["id"] == task


def test_a_report_whose_caller_hung_up_is_not_carried_out(pair):
    ann, room = pair.person("alice-t"), fresh()
    other = ann.at(1)
    worker = other.job(room)
    full = f"{room}:modifiers:Rotate"
    task = done(other.send(room, full, {"maxAttempts": 9, "backoffSeconds": 0}), 202)["id"]
    other.claim(worker)
    with still(pair):
        in_vain(ann, "PATCH", f"/tasks/{task}", {"status": "failed"})
        for _ in range(2):
            done(other.move(task, "failed"), 200)
            assert other.claim(worker)["id"] == task
    found = other.look(task)
    assert (found["status"], found["attempt"]) == ("claimed", 3)


def test_a_submit_or_a_removal_whose_caller_hung_up_is_not_carried_out(pair):
    ann, room = pair.person("alice-t"), fresh()
    other = ann.at(1)
    worker = other.job(room)
    with still(pair):
        in_vain(ann, "POST", f"/rooms/{room}/tasks/{room}:modifiers:Rotate", {})
        in_vain(ann, "DELETE", f"/workers/{worker}", None)
    assert other.listed(f"/rooms/{room}/tasks") == []
    assert done(other.beat(worker), 200)


def test_a_claim_is_named_on_request_and_a_report_on_an_older_claim_is_refused(pair):
    ann, room = pair.person("alice-t"), fresh()
    worker = ann.job(room)
    full = f"{room}:modifiers:Rotate"
    task = done(ann.send(room, full, {"maxAttempts": 9, "backoffSeconds": 0}), 202)["id"]
    [first] = done(ann.ask(worker, limit=1, start=True), 200)["tasks"]
    done(ann.call("PATCH", f"/tasks/{task}", {"status": "failed", "claim": first["claim"]}), 200)
    [second] = done(ann.ask(worker, limit=1, start=True), 200)["tasks"]
    assert int(second["claim"]) > int(first["claim"])
    late = ann.call("PATCH", f"/tasks/{task}", {"status": "failed", "claim": first["claim"]})
    assert (late.status_code, late.json()["type"].rsplit("/", 1)[1]) == (409, "invalid-task-transition")
    said = [{"id": task, "status": "completed", "claim": first["claim"]}]
    assert done(ann.ask(worker, limit=0, results=said), 200)["results"] == [{"id": task, "outcome": "conflict"}]
    assert ann.look(task)["status"] == "running"
    assert ann.call("PATCH", f"/tasks/{task}", {"status": "failed", "claim": "first"}).status_code == 422
