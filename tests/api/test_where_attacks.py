"""Slots with attributes and borrows with `where`, at the edges: labels of one segment, many and odd attributes."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from hub.store.classing import TOLD_S
from tests.world import PATIENCE_S

GPU = {"label": "gpu:a100", "slotId": "s0", "attributes": {"vram": 80}}


async def register(api: httpx.AsyncClient, *slots: dict[str, Any], status: int = 200, **more: Any) -> dict[str, Any]:
    """Register node n1 with these slots."""
    body = {"nodeId": "n1", "policy": "reuse", "slots": list(slots), **more}
    answer = await api.post("/v2/node/register", json=body, timeout=PATIENCE_S)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def borrow(api: httpx.AsyncClient, label: str = "gpu", **more: Any) -> dict[str, Any]:
    """Return the answer to a borrow that does not wait, the refusal too."""
    answer = await api.post("/v2/borrow", json={"label": label, "where": "vram == 80", "maxWaitSeconds": 0, **more})
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("names", [("slotId", "label", "pool"), ("browserId", "labelKey", "matchedLabel")])
async def test_a_slot_that_is_lent_under_one_segment_is_given_back_under_the_label_of_its_grant(api, names):
    slot, label, pool = names
    await register(api, GPU)
    road = "/v2/borrow" if slot == "slotId" else "/session/borrow"
    for which in (label, pool):
        got = (await api.post(road, json={"label": "gpu", "where": "vram == 80"})).json()
        given_back = await api.post("/session/return", json={slot: got[slot], label: got[which]})
        assert (given_back.status_code, given_back.json().get("note")) == (200, None), given_back.text


async def test_a_node_whose_slot_is_lent_under_one_segment_registers_again_with_what_the_hub_told_it(api, redis):
    await register(api, GPU)
    lease = await borrow(api)
    told = (await api.post("/v2/node/heartbeat", json={"nodeId": "n1"})).json()
    assert told["lentFor"]["s0"]["label"] == "gpu"
    redis.flushall()
    rows = await register(api, GPU, lent=told["lent"], lentFor=told["lentFor"])
    assert [row["status"] for row in rows["slots"]] == ["lent"]
    (held,) = (await api.get("/v2/sessions")).json()["leases"]
    assert (held["slotId"], held["label"], held["pool"]) == (lease["slotId"], "gpu", "gpu:a100")


async def test_a_label_of_one_segment_names_a_queue_a_cap_and_the_leases_under_it(api):
    await register(api, GPU, GPU | {"slotId": "s1"})
    await borrow(api)
    assert (await api.get("/queue", params={"label": "gpu"})).status_code == 200
    assert (await api.get("/v2/sessions", params={"label": "gpu"})).json()["total"] == 1
    assert (await api.put("/admin/caps/gpu", json={"cap": 1})).json()["inFlight"] == 1
    assert (await borrow(api))["code"] == "capped"
    assert (await api.put("/admin/caps/gpu", json={"cap": None})).status_code == 200
    assert (await borrow(api))["slotId"] == "s1"
    served = await api.put("/admin/caps/gpu", json={"cap": 1, "served": True})
    assert (served.status_code, served.json()["reason"]) == (400, "too-few")


async def test_a_cap_of_the_environment_may_name_one_segment(make_api):
    async with make_api(borrow_concurrency_caps="gpu=1") as api:
        await register(api, GPU, GPU | {"slotId": "s1"})
        assert (await borrow(api))["slotId"] == "s0"
        assert (await borrow(api))["code"] == "capped"


async def test_callers_that_are_refused_at_one_moment_share_one_look_at_the_attributes(api, redis):
    await register(api, GPU)
    redis.config_resetstat()
    wishes = [borrow(api, where=f"vram == {number}") for number in range(20)]
    assert {answer["hint"] for answer in await asyncio.gather(*wishes)} == {
        f"vram == {number}: the slot of gpu with attributes has 80" for number in range(20)
    }
    assert redis.info("commandstats")["cmdstat_hgetall"]["calls"] < 5  # the classes of a pool are a hash


async def test_a_label_of_one_segment_is_allowed_where_all_below_it_are(make_api):
    secrets = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}
    async with make_api(**secrets) as api:
        for patterns, code in ((["gpu:*"], "no-capacity"), (["*"], "no-capacity"), (["gpu:a100"], "label")):
            wish = {"user": "ada", "scopes": ["borrow"], "labels": patterns}
            made = await api.post("/admin/tokens", json=wish, headers={"x-hub-secret": secrets["admin_secret"]})
            token = {"authorization": f"Bearer {made.json()['token']}"}
            asked = {"label": "gpu", "where": "vram == 80", "maxWaitSeconds": 0}
            assert (await api.post("/v2/borrow", json=asked, headers=token)).json()["code"] == code


async def test_a_slot_beyond_the_most_sets_of_attributes_is_explained_to_borrowers_and_operators(
    make_api, caplog, monkeypatch
):
    monkeypatch.setattr("hub.store.classing._told", [-TOLD_S])
    async with make_api(classes_max=1) as api:
        answer = await register(api, GPU, GPU | {"label": "cpu:big", "slotId": "s1", "attributes": {"cores": 64}})
        assert [row.get("note") for row in answer["slots"]] == [None, "too-many-classes"]
        refused = await borrow(api, "cpu:big", where="cores >= 32")
        assert refused["hint"] == (
            "no slot of cpu:big has attributes, and the hub has as many kinds of slots as HUB_CLASSES_MAX allows"
        )
        told = [record.getMessage() for record in caplog.records]
        assert len([line for line in told if "slot published without a class" in line]) == 1, told
        assert "n1" in caplog.text


async def test_every_slot_of_a_node_gets_its_class_however_many_calls_that_takes(api, redis):
    redis.sadd("hub:all_lines", *(f"cpu:none\t{number:016x}" for number in range(1000)))  # then a call makes one class
    slots = [GPU | {"slotId": f"s{number}", "attributes": {"index": number}} for number in range(40)]
    rows = (await register(api, *slots))["slots"]
    assert [(row["status"], row.get("note")) for row in rows] == [("published", None)] * 40
    said = {slot["slotId"]: {"index": number + 0.5} for number, slot in enumerate(slots[:20])}
    beat = await api.post("/v2/node/heartbeat", json={"nodeId": "n1", "attributes": said})
    assert (beat.status_code, beat.json().get("notes")) == (200, None)
    assert (await borrow(api, where="index == 39"))["slotId"] == "s39"
    assert (await borrow(api, where="index == 19.5"))["slotId"] == "s19"


@pytest.mark.parametrize("value", ["a\nb", "\0", ["fine", "a\tb"]])
async def test_a_control_character_in_an_attribute_is_refused_on_either_road(api, value):
    said = {"name": value}
    for label in ("label", "labelKey"):
        refused = await register(api, {label: "gpu:a100", "slotId": "s0", "attributes": said}, status=400)
        assert (refused["code"], refused["member"]) == ("invalid-value", "attributes")
    await register(api, GPU)
    beat = await api.post("/v2/node/heartbeat", json={"nodeId": "n1", "attributes": {"s0": said}})
    assert (beat.status_code, beat.json()["member"]) == (400, "attributes")


NAMED_LIKE_MEMBERS = {
    "browserType": "x", "nodeId": "x", "labels": "x", "labelKey": "x:y", "label": "x:z", "slotId": "x",
    "browserId": "x", "kind": "x", "address": "x", "webSocketEndpoint": "x", "endpoint": "x", "idleTimeoutSeconds": "x",
    "leaseToken": "x", "args": "x", "browserVersion": "x", "attributes": "x", "warm": "x", "version": "x",
}  # fmt: skip


@pytest.mark.parametrize("by_beat", [False, True])
@pytest.mark.parametrize("label", ["label", "labelKey"])
async def test_an_attribute_named_like_a_member_of_slots_changes_no_member_of_the_grant(api, label, by_beat):
    slot = {label: "gpu:a100", "slotId": "s0", "webSocketEndpoint": "ws://a"}
    said: dict[str, Any] = {"kind": "y"} if by_beat else NAMED_LIKE_MEMBERS
    await register(api, {**slot, "attributes": said})
    if by_beat:
        await api.post("/v2/node/heartbeat", json={"nodeId": "n1", "attributes": {"s0": NAMED_LIKE_MEMBERS}})
    where = "labelKey == 'x:y' && kind == 'x' && nodeId == 'x'"
    lease = await borrow(api, "gpu:a100", where=where)
    members = [lease[name] for name in ("nodeId", "slotId", "label", "kind", "address")]
    assert members == ["n1", "s0", "gpu:a100", "a100", "ws://a"]
    assert lease["attributes"] == NAMED_LIKE_MEMBERS
