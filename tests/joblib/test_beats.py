"""Beats that say what a worker holds, over the wire."""

from __future__ import annotations

import pytest

from tests.joblib.people import done, problem
from tests.world import wait_until


def told(person, worker, *tasks, **more):
    body = {"tasks": [{"id": task["id"], "claim": task["claim"]} for task in tasks], **more}
    return done(person.call("PATCH", f"/workers/{worker}", body), 200)


def test_a_task_missing_from_two_heartbeats_of_its_worker_is_retried(quick, full):
    ann = quick.person("alice-t")
    worker = ann.job(full.split(":")[0])
    for _ in range(2):
        ann.submit(full, maxAttempts=2, backoffSeconds=0)
    kept, forgotten = done(ann.ask(worker, limit=2, start=True), 200)["tasks"]
    answer = told(ann, worker, kept, forgotten)
    assert (set(answer), answer["lost"]) == ({"id", "last_heartbeat", "lost"}, [])

    def tried_again():
        assert told(ann, worker, kept)["lost"] == []
        return ann.look(forgotten["id"])["attempt"] == 2

    wait_until(tried_again)
    assert [ann.look(task["id"])["status"] for task in (kept, forgotten)] == ["running", "pending"]
    assert told(ann, worker, kept, forgotten)["lost"] == [forgotten["id"]]


@pytest.mark.parametrize(
    "body", [{"tasks": 1}, {"tasks": [{"id": "x", "claim": "1"}]}, {"tasks": [{"id": "0" * 32}]}, [], {"claims": [1]}]
)
def test_an_invalid_heartbeat_is_refused_with_the_place_of_the_fault(alice, room, body):
    answer = alice.call("PATCH", f"/workers/{alice.job(room)}", body)
    assert (answer.status_code, answer.json()["detail"][0]["loc"][0]) == (422, "body")


def test_a_process_replaced_by_another_as_the_worker_is_told_so_by_every_call(alice, room):
    worker = alice.job(room, incarnation="old")
    alice.job(room, "Rotate", worker, incarnation="new")
    said = {"incarnation": "old"}
    for answer in (
        alice.call("PATCH", f"/workers/{worker}", {"tasks": [], **said}), alice.ask(worker, **said),
        alice.call("DELETE", f"/workers/{worker}?incarnation=old"), alice.put_job(room, worker_id=worker, **said),
    ):  # fmt: skip
        problem(answer, 409, "superseded")
    assert told(alice, worker, incarnation="new")["lost"] == []
    assert alice.call("DELETE", f"/workers/{worker}?incarnation=new").status_code == 204
