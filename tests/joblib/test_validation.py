"""Payloads are checked against the schema of their job where the hub is told to, and nowhere else."""

from __future__ import annotations

import asyncio
import json
import signal
from itertools import pairwise
from typing import Any

import pytest

from hub.jobs import checking
from hub.jobs import validation as module
from hub.jobs.validation import Validation
from tests.joblib.people import Person, done, fresh, invalid
from tests.joblib.stage import CALM, stage

SCHEMA = {
    "type": "object", "required": ["angle"],
    "properties": {"angle": {"type": "number", "minimum": 0}, "axes": {"type": "array", "items": {"enum": ["x", "y"]}}},
}  # fmt: skip


@pytest.fixture(scope="module")
def checking_stage(http):
    with stage(http, 1, **CALM, HUB_VALIDATE_PAYLOADS="submit") as found:
        yield found


@pytest.fixture
def carol(checking_stage) -> Person:
    return checking_stage.person("alice-t")


def test_a_hub_validates_payloads_only_when_the_setting_says_so(alice, room, full):
    alice.job(room, schema=SCHEMA)
    assert alice.submit(full, payload={"angle": "north"})


def test_a_payload_that_does_not_fit_is_refused_with_its_place_and_not_stored(carol, room, full):
    carol.job(room, schema=SCHEMA)
    assert carol.submit(full, payload={"angle": 1, "axes": ["x"]})
    invalid(carol.send(room, full, {"payload": {"angle": 1, "axes": ["x", "z"]}}), "body", "payload", "axes", 1)
    answer = carol.send(room, full, {"payload": {"angle": -1}})
    assert answer.json()["detail"][0]["msg"] == "-1 is less than the minimum of 0"
    invalid(carol.send(room, full, {"payloads": [{"angle": 1}, {}]}), "body", "payloads", 1)
    assert len(carol.listed(f"/rooms/{room}/tasks")) == 1


def test_a_job_may_ask_for_payloads_that_fit_whatever_the_setting_says(alice, room, full):
    worker = alice.job(room, schema=SCHEMA, validate=True)
    for number in range(3):  # the hub has no memory of the schema that could be missing or old
        assert alice.submit(full, payload={"angle": number})
        invalid(alice.send(room, full, {"payload": {"angle": -1}}), "body", "payload", "angle")
    many = [{"angle": n} for n in range(700)]  # more than one call of the store takes
    invalid(alice.send(room, full, {"payloads": [*many, {}]}), "body", "payloads", 700)
    assert len(done(alice.send(room, full, {"payloads": many}), 202)["ids"]) == 700
    assert done(alice.call("GET", f"/rooms/{room}/tasks"), 200)["total"] == 703
    alice.job(room, worker=worker, schema=SCHEMA)  # the latest registration decides
    assert alice.submit(full, payload={"angle": -1})


def test_a_repeat_of_a_submit_is_answered_although_the_job_asks_for_other_payloads_by_now(alice, room, full):
    worker = alice.job(room, schema=SCHEMA)
    first = done(alice.send(room, full, {"payload": {"angle": -1}}, **{"Idempotency-Key": f"{room}-1"}), 202)
    alice.job(room, worker=worker, schema=SCHEMA, validate=True)
    again = done(alice.send(room, full, {"payload": {"angle": -1}}, **{"Idempotency-Key": f"{room}-1"}), 202)
    assert again["id"] == first["id"]


def test_a_failure_that_no_attempt_can_mend_is_not_tried_again(alice, room, full):
    worker = alice.job(room, maxAttempts=3)
    failed, unfit = alice.submit(full), alice.submit(full)
    assert [each["id"] for each in done(alice.ask(worker, limit=2, start=True), 200)["tasks"]] == [failed, unfit]
    results = [
        {"id": failed, "status": "failed"},
        {"id": unfit, "status": "failed", "error": "no angle", "retry": False},
    ]
    for _ in range(2):
        said = done(alice.ask(worker, headers={"Idempotency-Key": f"{room}-1"}, limit=0, results=results), 200)
        assert {each["outcome"] for each in said["results"]} == {"ok"}
    assert done(alice.call("GET", f"/tasks/{failed}"), 200)["status"] == "pending"
    ended = done(alice.call("GET", f"/tasks/{unfit}"), 200)
    assert (ended["status"], ended["error"]) == ("failed", "no angle")


def test_a_missing_or_external_schema_validates_every_payload(carol, room):
    for number, schema in enumerate(
        ({"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/x"})
    ):
        carol.job(room, f"a{number}", schema=schema)
        assert carol.submit(f"{room}:modifiers:a{number}", payload={"n": 1})


def test_a_submit_to_an_unknown_job_is_not_found_with_validation_too(carol, room):
    assert carol.send(room, f"{room}:modifiers:none", {}).status_code == 404


def endless(what: str = "") -> dict[str, Any]:
    """Return a schema that takes for ever."""
    names = [f"d{number}" for number in range(40)]
    steps = {name: {"anyOf": [{"$ref": f"#/$defs/{after}"}] * 2} for name, after in pairwise(names)}
    return {"title": what, "$defs": {**steps, names[-1]: {"type": "null"}}, "$ref": "#/$defs/d0"}


def test_a_schema_that_takes_forever_delays_no_other_user(carol, room, full):
    carol.job(room, schema=endless(room))
    refused = carol.send(room, full, {"payload": {"n": 1}})
    invalid(refused, "body", "payload")
    assert "could not be checked within 1 s" in refused.text
    other = fresh()
    carol.job(other, schema=SCHEMA)
    assert done(carol.send(other, f"{other}:modifiers:Rotate", {"payload": {"angle": 1}}), 202)


def test_a_schema_that_took_too_long_is_refused_at_its_next_registration(carol, room, full):
    carol.job(room, schema=endless(room))
    assert carol.send(room, full, {"payload": {"n": 1}}).status_code == 422
    for other in ("Rotate", "Another"):
        refused = carol.put_job(room, other, schema=endless(room))
        invalid(refused, "body", "schema")
        assert "took more than 1 s of processor time for 7 characters: it should need less" in refused.text
    assert carol.job(room, "Third", schema=SCHEMA)


async def test_a_single_submit_waits_for_at_most_one_of_eight_checks_of_another_user():
    validation, over = Validation(), []

    async def submit(user: str, schema: Any) -> None:
        await validation.check("j", json.dumps(schema), ['{"angle":1}'], user)
        over.append(user)

    try:
        slow = [asyncio.create_task(submit("slow", endless())) for _ in range(8)]
        await asyncio.sleep(0)  # the first of them has its turn
        await submit("quick", SCHEMA)
        assert over == ["slow", "quick"]
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        await submit("quick", SCHEMA)
    finally:
        await validation.close()


@pytest.mark.parametrize("payloads", [["{}", '"%s"' % ("x" * 70_000)]])
async def test_a_schema_whose_check_is_slow_only_for_large_payloads_is_not_refused_later(payloads):
    validation = Validation()
    try:
        fault = await validation.check("j", json.dumps(endless()), payloads, "u")
        assert fault is not None
        assert ("could not be checked within 1 s" in fault.message, fault.took) == (True, "")
    finally:
        await validation.close()


async def test_a_schema_whose_check_was_stalled_without_processor_time_is_not_refused_later(monkeypatch):
    validation = Validation()
    try:
        assert await validation.check("j", '{"type":"object"}', ["{}"], "u") is None
        assert validation._process is not None
        validation._process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(module, "STALLED_S", 0.01)
        fault = await validation.check("j", '{"type":"object"}', ["{}"], "u")
        assert fault is not None
        assert (fault.message, fault.took) == (
            "Input could not be checked against the schema of j; try again",
            "",
        )
    finally:
        await validation.close()


def test_a_schema_is_compiled_once_and_read_as_draft_2020_12():
    schema = '{"$comment":"counted","prefixItems":[{"type":"string"}],"unevaluatedItems":false}'
    before = checking.compiled.cache_info()
    for payload, path in (('["a"]', None), ('["a",1]', []), ("[1]", [0])):
        assert checking.answer(schema, [payload]).get("path") == path
    after = checking.compiled.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)


async def test_an_ended_validation_process_is_started_again_and_a_failing_one_refuses():
    validation = Validation()
    try:
        assert await validation.check("j", '{"type":"object"}', ["{}"], "u") is None
        assert validation._process is not None
        validation._process.kill()
        await validation._process.wait()
        fault = await validation.check("j", '{"required":["a"]}', ["{}"], "u")
        assert fault is not None
        assert (fault.number, fault.path, fault.message) == (0, [], '"a" is a required property')
        cut = asyncio.create_task(validation.check("j", '{"required":["a"]}', ["{}"], "u"))
        await asyncio.sleep(0)
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        assert await validation.check("j", '{"required":[]}', ["{}"], "u") is None
    finally:
        await validation.close()
