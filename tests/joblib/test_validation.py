"""Payloads are checked against the schema of their job where the hub is told to, and nowhere else."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from hub.jobs import checking
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


def test_without_being_told_to_a_hub_checks_nothing(alice, room, full):
    alice.job(room, schema=SCHEMA)
    assert alice.submit(full, payload={"angle": "north"})


def test_a_payload_that_does_not_fit_is_refused_with_its_place_and_nothing_is_stored(carol, room, full):
    carol.job(room, schema=SCHEMA)
    assert carol.submit(full, payload={"angle": 1, "axes": ["x"]})
    invalid(carol.send(room, full, {"payload": {"angle": 1, "axes": ["x", "z"]}}), "body", "payload", "axes", 1)
    answer = carol.send(room, full, {"payload": {"angle": -1}})
    assert answer.json()["detail"][0]["msg"] == "-1 is less than the minimum of 0"
    invalid(carol.send(room, full, {"payloads": [{"angle": 1}, {}]}), "body", "payloads", 1)
    assert len(carol.listed(f"/rooms/{room}/tasks")) == 1


def test_a_schema_that_is_none_or_stands_elsewhere_checks_nothing(carol, room):
    for number, schema in enumerate(
        ({"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/x"})
    ):
        carol.job(room, f"a{number}", schema=schema)
        assert carol.submit(f"{room}:modifiers:a{number}", payload={"n": 1})


def test_an_unknown_job_is_unknown_as_ever(carol, room):
    assert carol.send(room, f"{room}:modifiers:none", {}).status_code == 404


def test_a_schema_that_takes_for_ever_holds_up_nobody(carol, room, full):
    names = [f"d{number}" for number in range(40)]
    steps = {name: {"anyOf": [{"$ref": f"#/$defs/{after}"}] * 2} for name, after in pairwise(names)}
    carol.job(room, schema={"$defs": {**steps, names[-1]: {"type": "null"}}, "$ref": "#/$defs/d0"})
    refused = carol.send(room, full, {"payload": {"n": 1}})
    invalid(refused, "body", "payload")
    assert "could not be checked within 1 s" in refused.text
    other = fresh()
    carol.job(other, schema=SCHEMA)
    assert done(carol.send(other, f"{other}:modifiers:Rotate", {"payload": {"angle": 1}}), 202)


def test_a_schema_is_compiled_once_and_read_as_draft_2020_12_says():
    schema = '{"$comment":"counted","prefixItems":[{"type":"string"}],"unevaluatedItems":false}'
    before = checking.compiled.cache_info()
    for payload, path in (('["a"]', None), ('["a",1]', []), ("[1]", [0])):
        assert checking.answer(schema, [payload]).get("path") == path
    after = checking.compiled.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)


async def test_a_process_that_has_ended_is_begun_anew_and_one_that_breaks_down_refuses():
    validation = Validation()
    try:
        assert await validation.check("j", '{"type":"object"}', ["{}"]) is None
        assert validation._process is not None
        validation._process.kill()
        await validation._process.wait()
        fault = await validation.check("j", '{"required":["a"]}', ["{}"])
        assert fault is not None
        assert (fault.number, fault.path, fault.message) == (0, [], '"a" is a required property')
        cut = asyncio.create_task(validation.check("j", '{"required":["a"]}', ["{}"]))
        await asyncio.sleep(0)
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        assert await validation.check("j", '{"required":[]}', ["{}"]) is None
    finally:
        await validation.close()
