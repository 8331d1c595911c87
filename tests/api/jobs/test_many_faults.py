"""Bodies with very many faults: the refusal names the first and how many there are, and costs no more than the body."""

from __future__ import annotations

import pytest

from hub.api.jobs.bodies import FAULTS_MAX, validated
from hub.api.shapes import job_bodies
from hub.errors import Malformed

J = "/v1/joblib"
ID = "0" * 32


async def test_a_body_with_a_hundred_thousand_faults_gets_a_short_refusal(api):
    tasks = [{"id": ID, "log": [1] * 100}] * 1000
    answer = await api.post(f"{J}/tasks/progress", json={"worker_id": ID, "tasks": tasks})
    faults = answer.json()["detail"]
    assert answer.status_code == 422
    assert len(faults) == FAULTS_MAX + 1
    assert faults[0]["loc"] == ["body", "tasks", 0, "log", 0]
    assert faults[-1]["msg"] == "1000 faults were found, of which these are the first 20"
    assert len(answer.content) < 10_000


async def test_a_refusal_does_not_repeat_the_body_for_each_fault(api):
    tasks = [{"note": "x" * 3_000}] * 20
    answer = await api.post(f"{J}/tasks/progress", json={"worker_id": ID, "tasks": tasks})
    assert answer.status_code == 422
    assert len(answer.content) < 2 * 64 * 1024


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (job_bodies.ClaimBody, {"worker_id": ID, "results": [{"status": 1}] * 100}),
        (job_bodies.ClaimBody, {"worker_id": ID, "results": [1] * 300_000}),
        (job_bodies.WorkerBeatBody, {"tasks": [{}] * 1000, "claims": [1] * 1000}),
        (job_bodies.WorkerBeatBody, {"claims": [1] * 300_000}),
        (job_bodies.ProgressBody, {"worker_id": ID, "tasks": [{"id": ID, "log": [1] * 100}] * 1000}),
        (job_bodies.SubmitBody, {"payloads": [1] * 1000}),
        (job_bodies.SubmitBody, {"payload": {}, "after": [1] * 300_000}),
        (job_bodies.ScheduleBody, {"payload": 1, "cron": 1, "job": 1}),
    ],
)
def test_no_body_model_lists_very_many_faults(model, document):
    with pytest.raises(Malformed) as refused:
        validated(model, document, "body", b"x")
    assert len(refused.value.facts["errors"]) <= FAULTS_MAX + 1


@pytest.mark.parametrize(
    "document",
    [{"worker_id": ID, "tasks": [{"id": ID, "log": [1] * 100}] * 1000}, {"worker_id": ID, "tasks": [{}] * 1000}],
)
def test_pydantic_stops_after_a_thousand_faults(document):
    with pytest.raises(ValueError) as refused:
        job_bodies.ProgressBody.model_validate(document)
    assert refused.value.error_count() <= 1_000
