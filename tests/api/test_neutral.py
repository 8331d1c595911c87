"""Neutral names: a caller who asks for them gets no old name, every other caller gets the old ones."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import httpx
import pytest

from hub.api.publish import FILE
from hub.api.shapes.neutral import LEASE, MEDIA_TYPE, NAMES, attributes, slot_in_old_names
from tests.api.people import NAMELESS
from tests.contract.checking import Contract
from tests.contract.names import OLD, members, old_names
from tests.contract.walk import Walk
from tests.world import PATIENCE_S

DOCUMENT: dict[str, Any] = json.loads(FILE.read_bytes())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
ACCEPT = {"accept": MEDIA_TYPE}
SLOT = {
    "slotId": "s1", "label": "gpu:a100:eu", "address": "ws://there", "kind": "card", "attributes": {"memory": "80G"},
}  # fmt: skip


def old_and_new(operation: dict[str, Any]) -> list[tuple[Any, Any]]:
    answers = [each for status, each in operation["responses"].items() if status < "300"]
    contents = [each.get("content", {}) for each in answers]
    return [(each["application/json"], each[MEDIA_TYPE]) for each in contents if "application/json" in each]


def test_the_contract_shows_both_media_types_and_the_neutral_one_has_no_old_name():
    shown = [pair for methods in DOCUMENT["paths"].values() for each in methods.values() for pair in old_and_new(each)]
    assert len(shown) > 50
    neutral = {name: schema for name, schema in SCHEMAS.items() if name.startswith("Neutral")}
    assert {"NeutralGrant", "NeutralRenewed", "NeutralTaskInFull"} <= set(neutral)
    times = {new for old, new in NAMES.items() if old.endswith("Utc")}
    for name, schema in neutral.items():
        for member, said in schema["properties"].items():
            said = DOCUMENT["components"]["schemas"].get(str(said.get("$ref", "")).rpartition("/")[2], said)
            kinds = {each.get("format") for each in (said, *said.get("anyOf", ()))}
            never = "empty when it never was" in said.get("description", "")
            assert member not in times or never or "date-time" in kinds, f"{name}.{member} is no time of RFC 3339"
        assert [member for member in schema["properties"] if OLD.search(member)] == [], name
        assert len(schema["properties"]) >= len(SCHEMAS[name.removeprefix("Neutral")]["properties"]) - 2, name


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("BorrowBody", "labelKey", "label"), ("ReturnBody", "browserId", "slotId"), ("HeldBody", "leaseToken", "lease"),
        ("SlotBody", "webSocketEndpoint", "address"), ("SlotBody", "browserType", "kind"),
        ("ClaimBody", "worker_id", "workerId"), ("ProviderBody", "content_type", "contentType"),
    ],
)  # fmt: skip
def test_the_contract_shows_the_neutral_names_that_bodies_accept(body: str, old: str, new: str):
    assert {old, new} <= SCHEMAS[body]["properties"].keys()
    assert not {old, new} & set(SCHEMAS[body].get("required", ()))


@pytest.mark.parametrize("name", [name for name in SCHEMAS if not re.search("^Neutral|Body$", name)])
def test_no_two_members_of_a_model_have_the_same_neutral_name(name: str):
    listed = SCHEMAS[name].get("properties", {})
    called = [NAMES.get(each, each) for each in listed if each not in LEASE]
    assert len(called) == len(set(called))


async def test_a_slot_is_published_borrowed_and_returned_in_neutral_names(api: httpx.AsyncClient):
    said = (await api.post("/node/register", json={"nodeId": "n1", "slots": [SLOT]}, headers=ACCEPT)).json()
    assert said["slots"] == [{"slotId": "s1", "label": "gpu:a100:eu", "status": "published"}]
    answer = await api.post("/session/borrow", json={"label": "gpu:a100", "ttlSeconds": 60}, headers=ACCEPT)
    assert (answer.headers["content-type"], answer.headers["vary"]) == (MEDIA_TYPE, "Accept")
    lent = answer.json()
    lease, run = lent.pop("lease"), lent.pop("runId")
    assert lent == {
        "slotId": "s1", "label": "gpu:a100", "pool": "gpu:a100:eu", "address": "ws://there", "kind": "card",
        "nodeId": "n1", "runName": None, "attributes": {"memory": "80G"}, "holder": NAMELESS,
    }  # fmt: skip
    assert (lease.keys(), lease["ttlSeconds"]) == ({"token", "ttlSeconds", "expiresAt"}, 60)
    assert datetime.fromisoformat(lease["expiresAt"]).tzinfo is not None
    assert answer.headers["correlation-id"] == run
    beat = (await api.post("/node/heartbeat", json={"nodeId": "n1"}, headers=ACCEPT)).json()
    assert beat["lentFor"]["s1"]["label"] == "gpu:a100"
    held = {"slotId": "s1", "label": "gpu:a100:eu", "lease": lease}
    renewed = (await api.post("/session/renew", json={**held, "ttlSeconds": 120}, headers=ACCEPT)).json()
    assert (renewed["slotId"], renewed["lease"]["ttlSeconds"]) == ("s1", 120)
    (listed,) = (await api.get("/sessions", headers=ACCEPT)).json()["leases"]
    assert (listed["slotId"], listed["pool"], "borrowedAt" in listed) == ("s1", "gpu:a100:eu", True)
    over = (await api.post("/leases/watch", json={"leases": [{"slotId": "s1", "lease": {"token": "7"}}]})).json()
    assert over["over"][0]["browserId"] == "s1"
    assert (await api.post("/session/return", json=held, headers=ACCEPT)).json() == {"returned": "s1"}
    again = await api.post("/session/renew", json=held, headers=ACCEPT)
    assert (again.status_code, again.headers["content-type"]) == (409, "application/problem+json")
    assert not [name for name in members(again.json()) if OLD.search(name)]


async def test_a_caller_who_does_not_ask_for_neutral_names_gets_the_old_names(api: httpx.AsyncClient):
    await api.post("/node/register", json={"nodeId": "n1", "slots": [SLOT]})
    answer = await api.post("/session/borrow", json={"labelKey": "gpu:a100"}, headers={"accept": "application/json"})
    assert (answer.headers["content-type"], "vary" in answer.headers) == ("application/json", False)
    lent = answer.json()
    assert list(lent) == [name for name in SCHEMAS["Grant"]["properties"] if name not in ("bundle", "realm")]
    assert (lent["webSocketEndpoint"], lent["browserType"], lent["item"]["memory"]) == ("ws://there", "card", "80G")


@pytest.mark.parametrize(
    ("path", "body", "member"),
    [
        ("/v2/return", {}, "label|slotId"), ("/v2/renew", {}, "slotId"), ("/v2/borrow", {"label": ""}, "label"),
        ("/v2/leases/s1/activity", {}, "lease.token"), ("/v2/leases/watch", {"leases": [{}]}, "leases"),
        ("/v2/renew", {"slotId": "s1", "browserId": "s2"}, "browserId"),
    ],
)  # fmt: skip
async def test_a_refusal_names_members_as_the_caller_does(api: httpx.AsyncClient, path: str, body: Any, member: str):
    refusal = (await api.post(path, json=body)).json()
    assert refusal["member"] == member
    assert member == "leases" or member in refusal["detail"]


async def test_a_refusal_of_a_label_speaks_of_labels(api: httpx.AsyncClient):
    refusal = (await api.post("/v2/borrow", json={"label": "gpu"})).json()
    assert refusal["detail"].startswith("invalid label: ")


@pytest.mark.parametrize("lease", ["7", 7, [], {}, {"token": ""}, {"token": None}, None], ids=repr)
@pytest.mark.parametrize("path", ["/v2/return", "/v2/renew"])
async def test_a_lease_without_a_token_is_refused_and_ends_nothing(api: httpx.AsyncClient, path: str, lease: object):
    await api.post("/node/register", json={"nodeId": "n1", "slots": [SLOT]})
    lent = (await api.post("/v2/borrow", json={"label": "gpu:a100"})).json()
    answer = await api.post(path, json={"slotId": lent["slotId"], "label": lent["label"], "lease": lease})
    assert (answer.status_code, answer.json()["member"]) == (400, "lease")
    assert len((await api.get("/v2/leases")).json()["leases"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        ("/session/borrow", {"labelKey": "gpu:a", "label": "gpu:b"}, ("labelKey", "label")),
        ("/session/return", {"label": "gpu:a", "slotId": "s1", "browserId": "s2"}, ("browserId", "slotId")),
        ("/session/renew", {"slotId": "s1", "leaseToken": "1", "lease": {"token": "2"}}, ("leaseToken", "lease.token")),
        ("/leases/watch", {"leases": [{"slotId": "s1", "browserId": "s2"}]}, ("browserId", "slotId")),
        ("/v1/joblib/tasks/claim", {"worker_id": "1", "workerId": "2"}, ("worker_id", "workerId")),
    ],
)
async def test_a_member_given_under_both_names_with_different_values_is_refused(
    api: httpx.AsyncClient, path, body, names
):
    answer = await api.post(path, json=body)
    assert answer.status_code == 422, answer.text
    for name in names:
        assert name in answer.text


async def test_a_refusal_in_neutral_names_speaks_of_slots(api: httpx.AsyncClient):
    said = [
        (await api.post("/session/borrow", json={"labelKey": "gpu:a100"}, headers=headers)).json()["detail"]
        for headers in ({}, ACCEPT)
    ]
    assert [text.partition(" for gpu:a100")[0] for text in said] == ["No browser available", "No slot available"]


async def test_a_member_given_under_both_names_with_the_same_value_is_accepted(api: httpx.AsyncClient):
    await api.post("/node/register", json={"nodeId": "n1", "slots": [SLOT]})
    both = {"labelKey": "gpu:a100", "label": "gpu:a100"}
    slot = (await api.post("/session/borrow", json=both)).json()["browserId"]
    answer = await api.post("/session/return", json={**both, "slotId": slot, "browserId": slot})
    assert answer.json() == {"returned": "s1"}


async def test_tasks_are_answered_in_camel_case_and_their_payloads_are_unchanged(api: httpx.AsyncClient):
    payload = {"browserId": "mine", "snake_case": {"labelKey": 1}}
    made = (await api.post("/v1/joblib/workers", headers=ACCEPT)).json()
    assert made.keys() == {"id", "lastHeartbeat"}
    job = {"category": "modifiers", "name": "Rotate", "workerId": made["id"], "schema": {"x_y": {}}}
    put = (await api.put("/v1/joblib/rooms/lab/jobs", json=job, headers=ACCEPT)).json()
    assert (put["fullName"], put["schema"], put["workerId"]) == ("lab:modifiers:Rotate", {"x_y": {}}, made["id"])
    path = "/v1/joblib/rooms/lab/tasks/lab:modifiers:Rotate"
    task = (await api.post(path, json={"payload": payload}, headers=ACCEPT)).json()
    assert (task["jobName"], task["roomId"], task["payload"]) == ("lab:modifiers:Rotate", "lab", payload)
    claim = {"workerId": made["id"], "limit": 1}
    (claimed,) = (await api.post("/v1/joblib/tasks/claim", json=claim, headers=ACCEPT)).json()["tasks"]
    assert (claimed["workerId"], claimed["payload"]) == (made["id"], payload)
    (listed,) = (await api.get("/v1/joblib/rooms/lab/tasks", headers=ACCEPT)).json()["items"]
    assert not [name for name in listed if OLD.search(name)]


def test_every_operation_answers_neutral_names_as_the_contract_says(live_hub):
    """The walk of `tests/contract`, whose steps read the old names, once more beside itself."""
    contract, neutral = Contract(), Contract()

    def both(answer: httpx.Response) -> None:
        contract.check(answer)
        if answer.request.method == "GET" and answer.headers.get("content-type") == "application/json":
            headers = {**answer.request.headers, **ACCEPT}
            said = httpx.get(answer.request.url, headers=headers, timeout=PATIENCE_S)
            neutral.check(said)
            if said.is_success:
                assert said.headers["content-type"] == MEDIA_TYPE, said.request.url
                assert not said.request.url.path.startswith("/why/") or old_names(said.json()) == []

    with httpx.Client(base_url=live_hub.url, timeout=PATIENCE_S) as http:
        walk = Walk(live_hub, http, both)
        for act in (walk.nodes, walk.lending, walk.queue, walk.looking, walk.pools, walk.tokens, walk.work):
            act()
    assert {"listLeases", "listNodes", "getNode", "listPools", "listQueue", "getTask", "listJobs"} <= neutral.answered


def test_a_running_hub_answers_a_heartbeat_in_neutral_names_when_asked(live_hub):
    headers = {"x-hub-secret": live_hub.node_secret}
    with httpx.Client(base_url=live_hub.url, headers=headers, timeout=PATIENCE_S) as http:
        http.post("/node/register", json={"nodeId": "n1"}).raise_for_status()
        for accept, kind in (("application/json", "application/json"), (MEDIA_TYPE, MEDIA_TYPE)):
            answer = http.post("/node/heartbeat", json={"nodeId": "n1"}, headers={"accept": accept})
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)


def test_a_slot_published_in_old_names_keeps_its_own_members_kind_and_address():
    old = {"labelKey": "gpu:a100", "slotId": "s1", "kind": "mine", "address": "mine", "attributes": {"a": 1}}
    assert slot_in_old_names(old) is old


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ({"browserId": "s1", "nodeId": "n1", "labels": {}, "args": None, "memory": "80G"}, {"memory": "80G"}),
        ({"browserVersion": "156.0", "labels": {"zone": "eu"}}, {"version": "156.0", "labels": {"zone": "eu"}}),
        ({"attributes": {"memory": "80G", "zone": "us"}, "zone": "eu"}, {"memory": "80G", "zone": "eu"}),
        ("no object", "no object"),
    ],
)
def test_attributes_are_the_further_members_that_were_published(item: Any, shown: Any):
    assert attributes(item) == shown
