"""Schedules on the wire: made, shown, paused, deleted, and what is refused."""

from __future__ import annotations

import pytest

from tests.api.jobs.people import is_problem

J = "/v1/joblib"
JOB = "lab:modifiers:Rotate"
NIGHTLY = f"{J}/rooms/lab/schedules/nightly"
MEMBERS = {
    "name", "room", "job", "payload", "catchUp", "paused", "createdAt", "nextAt", "lastAt", "lastTask", "fired", "why",
    "problem",
}  # fmt: skip


@pytest.fixture
async def lab(api):
    await api.put(f"{J}/rooms/lab/jobs", json={"category": "modifiers", "name": "Rotate"})
    return api


async def put(api, path=NIGHTLY, **body):
    return await api.put(path, json={"job": JOB, "cron": "30 2 * * *", "timeZone": "Europe/Berlin", **body})


async def test_a_schedule_is_made_shown_paused_and_deleted(lab):
    made = await put(lab, payload={"angle": 1.0}, catchUp="all", maxAttempts=3, priority=5)
    assert made.status_code == 201
    found = made.json()
    assert set(found) == MEMBERS | {"cron", "timeZone", "maxAttempts", "backoffSeconds", "priority"}
    assert (found["payload"], found["catchUp"], found["nextAt"][14:]) == ({"angle": 1.0}, "all", "30:00.000000Z")
    assert (await lab.get(NIGHTLY)).json() == found
    assert (await lab.get(f"{J}/rooms/lab/schedules")).json()["items"] == [found]
    assert (await put(lab, payload={"angle": 2})).status_code == 200
    paused = (await lab.patch(NIGHTLY, json={"paused": True})).json()
    assert (paused["paused"], paused["nextAt"]) == (True, None)
    assert (await lab.patch(NIGHTLY, json={"paused": False})).json()["nextAt"] == found["nextAt"]
    assert (await lab.delete(NIGHTLY)).status_code == 204
    is_problem(await lab.get(NIGHTLY), 404, "schedule-not-found")
    assert (await lab.get(f"{J}/rooms/lab/schedules")).json()["total"] == 0


async def test_a_schedule_with_an_interval_shows_its_interval(lab):
    made = (await lab.put(NIGHTLY, json={"job": JOB, "everySeconds": 90})).json()
    assert set(made) == MEMBERS | {"everySeconds"}
    assert made["everySeconds"] == 90


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"cron": "30 2 * *"}, ["body", "cron"]),
        ({"timeZone": "Europe/Atlantis"}, ["body", "cron"]),
        ({"timeZone": "localtime"}, ["body", "cron"]),
        ({"timeZone": "posixrules"}, ["body", "cron"]),
        ({"timeZone": "posix/Europe/Berlin"}, ["body", "cron"]),
        ({"timeZone": "right/Europe/Berlin"}, ["body", "cron"]),
        ({"everySeconds": 60}, ["body"]),
        ({"cron": None}, ["body"]),
        ({"cron": None, "timeZone": "UTC", "everySeconds": 0.5}, ["body", "everySeconds"]),
        ({"cron": None, "everySeconds": 60}, ["body"]),
        ({"catchUp": "some"}, ["body", "catchUp"]),
        ({"uniqueSeconds": 5}, ["body"]),
        ({"job": "@internal:modifiers:Rotate"}, ["body", "job"]),
    ],
)
async def test_an_impossible_schedule_is_refused_and_stores_nothing(lab, redis, wrong, where):
    answer = await put(lab, **wrong)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"][0]["loc"] == where
    assert redis.keys("hub:schedule*") == []


async def test_a_schedule_with_a_bad_name_job_or_room_is_refused(lab):
    assert (await put(lab, f"{J}/rooms/lab/schedules/{'n' * 101}")).json()["detail"][0]["loc"] == ["path", "schedule"]
    assert (await put(lab, f"{J}/rooms/lab/schedules/a%20b")).status_code == 422
    is_problem(await put(lab, job="lab:modifiers:Nobody"), 404, "job-not-found")
    is_problem(await put(lab, f"{J}/rooms/a:b/schedules/nightly"), 400, "invalid-room-id")
    for method in ("GET", "PATCH", "DELETE"):
        body = {"json": {"paused": True}} if method == "PATCH" else {}
        is_problem(await lab.request(method, NIGHTLY, **body), 404, "schedule-not-found")


async def test_an_unreadable_schedule_is_listed_with_its_reason_and_can_still_be_changed(lab, redis):
    await put(lab)
    await put(lab, f"{J}/rooms/lab/schedules/whole")
    redis.hset("hub:schedule:lab:nightly", "zone", "Europe/Atlantis")
    problem = "'Europe/Atlantis' is no time zone: write one such as Europe/Berlin"
    whole, found = (await lab.get(f"{J}/rooms/lab/schedules")).json()["items"]
    assert (whole["problem"], found["problem"], found["nextAt"]) == (None, problem, None)
    assert (found["timeZone"], found["cron"]) == ("Europe/Atlantis", "30 2 * * *")
    assert (await lab.get(NIGHTLY)).json() == found
    for paused in (True, False):
        said = (await lab.patch(NIGHTLY, json={"paused": paused})).json()
        assert (said["paused"], said["problem"]) == (paused, problem)
    assert (await put(lab)).json()["problem"] is None
    redis.hset("hub:schedule:lab:nightly", "zone", "Europe/Atlantis")
    assert (await lab.delete(NIGHTLY)).status_code == 204


async def test_the_console_lists_a_schedule_that_cannot_be_read(lab, redis):
    await put(lab)
    redis.delete("hub:schedule:lab:nightly")
    redis.set("hub:schedule:lab:nightly", "mine")
    [found] = (await lab.get("/console/schedules")).json()["schedules"]
    assert found["problem"] == "what is stored under its name was written by no hub"
