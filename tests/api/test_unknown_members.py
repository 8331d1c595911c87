"""Members that an operation does not have: refused with the nearest name where a caller asks for neutral names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hub.api.shapes.neutral import MEDIA_TYPE

CONTRACT = json.loads((Path(__file__).parents[2] / "hub/api/contract/openapi.json").read_text())
NEUTRAL = {"accept": MEDIA_TYPE}
WITH_BODIES = [
    (method.upper(), path)
    for path, methods in CONTRACT["paths"].items()
    for method, said in methods.items()
    if method != "parameters" and "application/json" in said.get("requestBody", {}).get("content", {})
    if not path.endswith("/results")  # a provider's answer: any JSON is allowed
]


@pytest.fixture
async def fleet(api):
    slots = [{"label": "gpu:a100", "slotId": f"s{n}", "address": "x:1"} for n in range(3)]
    assert (await api.post("/node/register", json={"nodeId": "rack-7", "slots": slots})).is_success
    return api


async def test_a_borrow_in_neutral_names_with_an_unknown_count_is_refused(fleet):
    answer = await fleet.post("/session/borrow", json={"label": "gpu:a100", "count": 2}, headers=NEUTRAL)
    assert answer.status_code == 400
    assert answer.json()["detail"] == (
        "count is no member here; it may have anyOf, label, maxWaitSeconds, name, prefer, priority, realms, runId,"
        " runName, ttlIsDefault, ttlSeconds, waitForPool, where"
    )
    assert (await fleet.get("/sessions")).json()["total"] == 0


@pytest.mark.parametrize(
    ("member", "meant"),
    [("ttlSecond", "ttlSeconds"), ("Label", "label"), ("max_wait_seconds", "maxWaitSeconds"), ("runID", "runId")],
)
async def test_the_refusal_of_an_unknown_member_names_the_nearest_known_one(fleet, member, meant):
    answer = await fleet.post("/session/borrow", json={"label": "gpu:a100", member: 5}, headers=NEUTRAL)
    assert (answer.status_code, answer.json()["detail"]) == (400, f"{member} is no member here; did you mean {meant}?")


async def test_an_unknown_member_within_a_member_is_refused_too(fleet):
    calls = [
        ("/leases/watch", {"leases": [{"slotId": "s1", "lease": {"token": "1", "tokn": "2"}}]}, "tokn", "token"),
        ("/node/heartbeats", {"beats": [{"nodeId": "rack-7", "versoin": 1}]}, "versoin", "version"),
    ]
    for path, body, member, meant in calls:
        answer = await fleet.post(path, json=body, headers=NEUTRAL)
        assert (answer.status_code, answer.json()["detail"]) == (
            400,
            f"{member} is no member here; did you mean {meant}?",
        )


async def test_a_borrow_in_old_names_with_an_unknown_count_is_served(fleet):
    answer = await fleet.post("/session/borrow", json={"labelKey": "gpu:a100", "count": 2})
    assert answer.status_code == 200


async def test_further_members_of_a_slot_are_its_attributes(fleet):
    slot = {"label": "gpu:a100", "slotId": "s9", "address": "x:1", "memory": "80G", "attributes": {"zone": "eu"}}
    answer = await fleet.post("/node/register", json={"nodeId": "rack-9", "slots": [slot]}, headers=NEUTRAL)
    assert answer.is_success, answer.text


@pytest.mark.parametrize(("method", "path"), WITH_BODIES)
async def test_every_operation_in_neutral_names_refuses_an_unknown_member(api, method, path):
    ids = {"job_name": "lab:modifiers:Rotate", "label": "gpu:a100", "name": "capacity_limits"}
    sent = re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], "0" * 32), path)
    schema = CONTRACT["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]
    example, headers = schema["example"], NEUTRAL
    if path == "/node/join":
        token = (await api.post("/admin/tokens", json={"join": "fleet"})).json()["token"]
        headers = {**NEUTRAL, "authorization": f"Bearer {token}"}
    good = await api.request(method, sent, json=example, headers=headers)
    answer = await api.request(method, sent, json={**example, "zzz": 1}, headers=headers)
    assert answer.status_code == 400, answer.text
    assert "unknown-member" in answer.text
    assert "zzz" in answer.text
    assert "no member" in answer.text.lower()
    assert "no member" not in good.text.lower()
