"""Paths below `/v2`: a newcomer's curl gets neutral names without a header, and a misspelt member is refused."""

from __future__ import annotations

import httpx
import pytest
from structlog.testing import capture_logs

from hub.api.app import TABLE
from hub.api.contract.neutral import neutral_names
from hub.api.shapes.neutral import MEDIA_TYPE
from tests.contract.names import OLD, members

SLOT = {"slotId": "s1", "label": "gpu:a100:eu", "address": "ws://there"}


def unknown(lines):
    return [each for each in lines if each["event"] == "unknown member"]


@pytest.fixture
async def fleet(api: httpx.AsyncClient) -> httpx.AsyncClient:
    assert (await api.post("/v2/node/register", json={"nodeId": "n1", "slots": [SLOT]})).is_success
    return api


async def test_a_borrow_and_a_return_below_v2_need_no_header_and_no_word_of_sessions(fleet):
    answer = await fleet.post("/v2/borrow", json={"label": "gpu:a100", "ttlSeconds": 60})
    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
    lent = answer.json()
    assert (lent["slotId"], lent["pool"], lent["address"]) == ("s1", "gpu:a100:eu", "ws://there")
    assert not [name for name in members(lent) if OLD.search(name)]
    held = {"slotId": "s1", "lease": lent["lease"]}
    renewed = (await fleet.post("/v2/renew", json={**held, "ttlSeconds": 90})).json()
    assert renewed["lease"]["ttlSeconds"] == 90
    (listed,) = (await fleet.get("/v2/leases")).json()["leases"]
    assert listed == {**(await fleet.get("/v2/leases/s1")).json(), "secondsLeft": listed["secondsLeft"]}
    assert (await fleet.post("/v2/leases/watch", json={"leases": [held], "waitSeconds": 0})).json()["over"] == []
    assert (await fleet.get("/v2/leases/s1/verify", params={"token": lent["lease"]["token"]})).json()["valid"]
    assert (await fleet.post("/v2/return", json={"label": "gpu:a100", **held})).json() == {"returned": "s1"}


async def test_a_call_below_v2_is_answered_as_one_with_the_header(fleet):
    headers = {"accept": MEDIA_TYPE}
    for path in ("/pools", "/pools/gpu:a100:eu", "/nodes", "/nodes/n1", "/sessions", "/queue", "/nothing", "/nodes/x"):
        below, asked = await fleet.get(f"/v2{path}"), await fleet.get(path, headers=headers)
        assert (below.status_code, below.headers["content-type"]) == (asked.status_code, asked.headers["content-type"])
        assert members(below.json()) == members(asked.json()), path
    assert (await fleet.get("/v2/nodes/x")).json()["instance"] == "/nodes/x"


async def test_jobs_below_v2_are_in_camel_case_and_their_location_stays_there(api):
    job = {"category": "modifiers", "name": "Rotate", "schema": {}}
    made = (await api.put("/v2/rooms/lab/jobs", json=job)).json()
    assert "workerId" in made
    answer = await api.post("/v2/rooms/lab/tasks/lab:modifiers:Rotate", json={"payload": {}})
    assert answer.headers["location"].startswith("/v2/")
    seen = (await api.get(answer.headers["location"])).json()
    assert (seen["jobName"], "job_name" in seen) == ("lab:modifiers:Rotate", False)
    claimed = (await api.post("/v2/tasks/claim", json={"workerId": made["workerId"]})).json()
    assert claimed["task"]["id"] == seen["id"]


async def test_the_old_wire_is_as_it_was(fleet):
    answer = await fleet.post("/session/borrow", json={"labelKey": "gpu:a100"})
    assert (answer.headers["content-type"], answer.json()["browserId"]) == ("application/json", "s1")
    for path in ("/borrow", "/v2", "/v2borrow", "/v2/v2/borrow", "/v2/api/v1/nodes", "/api/v1/v2/nodes"):
        assert (await fleet.post(path, json={"label": "gpu:a100"})).status_code == 404, path


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        ("/v2/borrow", "/session/borrow"), ("/v2/session/borrow", "/session/borrow"), ("/v2/leases", "/sessions"),
        ("/v2/leases/s1", "/sessions/s1"), ("/v2/leases/watch", "/leases/watch"), ("/v2/borrowed", "/borrowed"),
        ("/v2/leases/s1/verify", "/leases/s1/verify"), ("/v2/tasks/claim", "/v1/joblib/tasks/claim"),
        ("/v2/dead", "/v1/joblib/dead"), ("/v2/v1/joblib/dead", "/v1/joblib/dead"), ("/v2/pools", "/pools"),
    ],
)  # fmt: skip
def test_a_path_below_v2_is_that_of_an_operation(path, whole):
    asked = TABLE.look_up("GET", path)
    assert (asked.path, asked.neutral) == (whole, True)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/borrow", {"label": "gpu:a100", "ttlSecond": 5}),
        ("/v2/tasks/claim", {"workerIds": "w1"}),
        ("/v2/admin/tokens", {"user": "ada", "scope": ["submit"]}),
    ],
)
async def test_a_misspelt_member_below_v2_is_refused_with_the_nearest_name(fleet, path, body):
    answer = await fleet.post(path, json=body)
    said = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert said.get("code", said["type"].rpartition("/")[2]) == "unknown-member"
    wrong = list(body)[-1]
    meant = wrong.removesuffix("s") if wrong == "workerIds" else f"{wrong}s"
    assert said["detail"] == f"{wrong} is no member here; did you mean {meant}?"


async def test_an_unknown_member_on_the_old_wire_is_served_and_logged_once(fleet):
    with capture_logs() as lines:
        for number in range(3):
            body = {"labelKey": "gpu:a100", "ttlSecondz": number, "zzz": 1}
            assert (await fleet.post("/session/borrow", json=body)).status_code == 200
            await fleet.post("/session/return", json={"labelKey": "gpu:a100", "browserId": "s1"})
    logged = unknown(lines)
    assert sorted(each["member"] for each in logged) == ["ttlSecondz", "zzz"]
    assert {each["operation"] for each in logged} == {"borrowSlot"}
    assert "did you mean ttlSeconds?" in logged[[each["member"] for each in logged].index("ttlSecondz")]["hint"]


async def test_the_log_of_unknown_members_is_bounded(fleet):
    neutral_names.cache_clear()  # else members that tests before this one sent count as logged
    with capture_logs() as lines:
        for number in range(20):
            body = {"nodeId": "n1", **{f"m{number}x{each}": 1 for each in range(10)}, "m" * 5000: 1}
            assert (await fleet.post("/node/register", json=body)).is_success
    assert (len(unknown(lines)), max(len(each["member"]) for each in unknown(lines))) == (50, 60)


async def test_members_that_the_hub_knows_under_any_spelling_are_not_logged(fleet):
    slot = {**SLOT, "slotId": "s2", "memory": 1}
    with capture_logs() as lines:
        await fleet.post("/node/register", json={"NodeId": "n2", "Capacity": 1, "slots": [slot]})
        await fleet.post("/session/return", json={"label": "gpu:a100:eu", "slotId": "s2", "lease": {"token": "1"}})
    assert unknown(lines) == []
