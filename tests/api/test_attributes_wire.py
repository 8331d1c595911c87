"""What nodes say of their slots, attributes and what is warm, and how it is shown."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.world import PATIENCE_S

LABEL = "gpu:a100"
ROOMY: dict[str, Any] = {"vram": 80, "model": "a100", "mig": False, "features": ["nvlink", "ecc"]}


async def register(api: httpx.AsyncClient, *slots: dict[str, Any], status: int = 200, **more: Any) -> dict[str, Any]:
    """Register node n1 with slots of one label, each with further members."""
    listed = [{"label": LABEL, "slotId": f"s{number}", **slot} for number, slot in enumerate(slots)]
    answer = await api.post("/v2/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": listed, **more})
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def beat(api: httpx.AsyncClient, status: int = 200, **said: Any) -> dict[str, Any]:
    answer = await api.post("/v2/node/heartbeat", json={"nodeId": "n1", **said})
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def alike(api: httpx.AsyncClient) -> dict[str, tuple[Any, list[str]]]:
    """Return what is shown of each slot of the node: its attributes, and what is warm in it."""
    listed = (await api.get("/nodes/n1")).json()["slotList"]
    return {slot["browserId"]: (slot.get("attributes"), slot.get("warm", [])) for slot in listed}


async def suits(api: httpx.AsyncClient, where: str) -> str:
    """Return the slot that a borrow with this expression gets, and give it back; the code of its refusal for none."""
    answer = (await api.post("/v2/borrow", json={"label": LABEL, "where": where, "maxWaitSeconds": 0})).json()
    if "slotId" not in answer:
        return str(answer["code"])
    await api.post("/v2/return", json={name: answer[name] for name in ("label", "slotId", "lease")})
    return str(answer["slotId"])


@pytest.mark.parametrize("label", ["label", "labelKey"])
async def test_a_slot_is_shown_with_what_its_node_says_of_it_under_either_name(api, label):
    slot = {label: LABEL, "slotId": "s0", "attributes": ROOMY, "warm": ["repo-42", "repo-7"]}
    await api.post("/node/register", json={"nodeId": "n1", "slots": [slot, {label: LABEL, "slotId": "s1"}]})
    said = ROOMY | {"features": ["ecc", "nvlink"]}
    assert await alike(api) == {"s0": (said, ["repo-42", "repo-7"]), "s1": (None, [])}
    assert await suits(api, "vram == 80 && 'ecc' in features && !mig") == "s0"
    lent = (await api.post("/v2/borrow", json={"label": LABEL, "where": "vram == 80"})).json()
    assert lent["attributes"] == ROOMY


async def test_a_slot_that_does_not_say_what_is_demanded_suits_neither_an_expression_nor_its_opposite(api):
    await register(api, {}, {"attributes": None}, {"attributes": {}})
    assert [await suits(api, where) for where in ("vram > 1", "!(vram > 1)")] == ["no-capacity"] * 2
    assert await alike(api) == {"s0": (None, []), "s1": (None, []), "s2": ({}, [])}


async def test_publishing_again_says_anew_what_a_slot_is_like(api):
    await register(api, {"attributes": ROOMY, "warm": ["a"]})
    await register(api, {"attributes": {"vram": 40}})
    assert await alike(api) == {"s0": ({"vram": 40}, [])}
    await register(api, {})
    assert await alike(api) == {"s0": (None, [])}


async def test_a_heartbeat_says_what_has_changed_of_a_slot_and_nothing_of_the_others(api):
    await register(api, {"attributes": ROOMY, "warm": ["a"]}, {"attributes": ROOMY, "warm": ["b"]}, {})
    assert "notes" not in await beat(api, attributes={"s0": {"vram": 40}, "s1": None}, warm={"s1": ["c"], "s2": ["d"]})
    assert await alike(api) == {"s0": ({"vram": 40}, ["a"]), "s1": (None, ["c"]), "s2": (None, ["d"])}
    assert await suits(api, "vram == 40") == "s0"
    beats = [{"nodeId": "n1", "warm": {"s0": []}}, {"nodeId": "n1", "warm": {"s1": [7]}}]
    both = (await api.post("/v2/node/heartbeats", json={"beats": beats})).json()["beats"]
    assert (both[0]["known"], both[1]["error"]["member"]) == (True, "warm")
    assert (await alike(api))["s0"] == ({"vram": 40}, [])


async def test_a_heartbeat_is_told_of_what_it_could_not_say(api):
    await register(api, {}, incarnation="p1", number=7)
    await api.post("/node/register", json={"nodeId": "n2", "slots": [{"labelKey": LABEL, "slotId": "other"}]})
    said = await beat(api, incarnation="p1", number=8, warm={"other": ["a"], "none": ["a"], "s0": ["a"]})
    assert said["notes"] == {"other": "foreign", "none": "unknown"}
    late = await beat(api, incarnation="p1", number=6, warm={"s0": ["b"]})
    assert (late["notes"], (await alike(api))["s0"]) == ({"s0": "late"}, (None, ["a"]))
    await register(api, {}, incarnation="p2", number=1)
    assert (await beat(api, incarnation="p1", number=9, warm={"s0": ["b"]}))["superseded"] is True
    assert (await api.post("/node/heartbeat", json={"nodeId": "n9", "warm": {"s0": []}})).json()["known"] is False


@pytest.mark.parametrize("label", ["label", "labelKey"])
async def test_borrowers_are_told_the_attributes_that_a_slot_has_now(api, label):
    slot = {label: LABEL, "slotId": "s0", "cuda": 12, "attributes": {"vram": 24, "driver-version": "550"}}
    await api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": [slot]})
    await beat(api, attributes={"s0": {"vram": 80, "warm": True}})
    for wish in ({}, {"where": "vram == 80"}):
        lent = (
            await api.post("/v2/borrow", json={"label": LABEL, **wish}, headers={"idempotency-key": str(wish)})
        ).json()
        assert lent["attributes"] == {"cuda": 12, "driver-version": "550", "vram": 80, "warm": True}
        assert (await api.get(f"/v2/queue/{wish}")).json()["attributes"] == lent["attributes"]
        await api.post("/v2/return", json={name: lent[name] for name in ("label", "slotId", "lease")})


async def test_a_waiter_gets_the_slot_that_becomes_as_it_wants(make_api):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        await register(api, {"attributes": {"vram": 24}})
        wish = {"label": LABEL, "where": "vram >= 40", "maxWaitSeconds": 0.01}
        key = {"idempotency-key": "k"}
        waited = await api.post("/v2/borrow", json=wish, headers=key)
        assert waited.json()["code"] == "timeout"
        await beat(api, attributes={"s0": {"vram": 80}})
        assert (await api.post("/v2/borrow", json=wish, headers=key)).json()["slotId"] == "s0"


async def test_slots_beyond_the_most_sets_of_attributes_stay_plain_and_their_node_is_told(make_api):
    async with make_api(classes_max=2) as api:
        rows = (await register(api, *({"attributes": {"index": number}} for number in range(3))))["slots"]
        assert [row.get("note") for row in rows] == [None, None, "too-many-classes"]
        assert [row["status"] for row in rows] == ["published"] * 3
        assert [said for said, _ in (await alike(api)).values()] == [{"index": 0}, {"index": 1}, None]
        listed = {"slots": [{"label": LABEL, "slotId": "s9", "attributes": {"index": 9}}]}
        (row,) = (await api.post("/v2/node/n1/slots", json=listed)).json()["slots"]
        assert row["note"] == "too-many-classes"
        assert (await beat(api, attributes={"s2": {"index": 3}}))["notes"] == {"s2": "too-many-classes"}
        assert "hub_slot_classes 2.0" in (await api.get("/metrics")).text
        assert (await api.post("/v2/borrow", json={"label": LABEL})).status_code == 200


async def test_what_no_expression_can_name_is_for_the_borrower_alone(api):
    said = {"driver-version": "550.54", "in": 3, "note": None, "vram": 80}
    await register(api, {"attributes": said})
    assert await alike(api) == {"s0": ({"vram": 80}, [])}
    lent = (await api.post("/v2/borrow", json={"label": LABEL})).json()
    assert lent["attributes"] == {"driver-version": "550.54", "in": 3, "vram": 80}


async def test_an_attribute_may_have_the_name_of_a_member_of_slots(api):
    await register(api, {"attributes": {"warm": True, "label": "x"}, "warm": ["a"]})
    assert await alike(api) == {"s0": ({"warm": True, "label": "x"}, ["a"])}


@pytest.mark.parametrize(
    ("slot", "member"),
    [
        ({"attributes": []}, "attributes"), ({"attributes": "fast"}, "attributes"), ({"attributes": 7}, "attributes"),
        ({"attributes": {"a": {"b": 1}}}, "attributes"), ({"attributes": {"a": [1]}}, "attributes"),
        ({"attributes": {"a": ["x", None]}}, "attributes"), ({"attributes": {"a": 2**60}}, "attributes"),
        ({"attributes": {f"a{n}": n for n in range(33)}}, "attributes"),
        ({"attributes": {"a": "x" * 5000}}, "attributes"),
        ({"warm": "a"}, "warm"), ({"warm": {}}, "warm"), ({"warm": ["a b"]}, "warm"), ({"warm": [""]}, "warm"),
        ({"warm": ["x" * 65]}, "warm"), ({"warm": [1]}, "warm"), ({"warm": [f"k{n}" for n in range(17)]}, "warm"),
    ],
)  # fmt: skip
async def test_attributes_and_keys_that_are_none_are_refused_with_their_member(api, slot, member):
    refused = await register(api, slot, status=400)
    assert (refused["code"], refused["member"]) == ("invalid-value", member)
    await register(api, {})
    said = {name: {"s0": value} for name, value in slot.items()}
    assert (await beat(api, status=400, **said))["member"] == member
    assert await alike(api) == {"s0": (None, [])}


@pytest.mark.parametrize("said", [[], "s0", {"a b": ["x"]}, {f"s{n}": [] for n in range(1001)}])
async def test_a_heartbeat_says_of_slots_by_their_ids(api, said):
    await register(api, {})
    await beat(api, status=400, warm=said)
    await beat(api, status=400, attributes=said)


async def test_the_attributes_under_a_label_are_listed_with_their_values(api):
    await register(
        api, {"attributes": ROOMY}, {"attributes": {"vram": 24, "mig": True}}, {"attributes": {"vram": "80"}}, {}
    )
    assert (await api.post("/v2/borrow", json={"label": LABEL, "where": "vram == 24"})).status_code == 200
    for label in (LABEL, "gpu", "gpu:a100:eu"):
        found = (await api.get(f"/pools/{label}/attributes")).json()
        assert found.pop("label") == label
        assert found == {
            "slots": 3, "truncated": False, "attributes": [
                {"name": "features", "type": "list", "slots": 1,
                 "values": [{"value": "ecc", "slots": 1, "free": 1}, {"value": "nvlink", "slots": 1, "free": 1}]},
                {"name": "mig", "type": "bool", "slots": 2,
                 "values": [{"value": False, "slots": 1, "free": 1}, {"value": True, "slots": 1, "free": 0}]},
                {"name": "model", "type": "text", "slots": 1, "values": [{"value": "a100", "slots": 1, "free": 1}]},
                {"name": "vram", "type": "number", "slots": 2,
                 "values": [{"value": 24, "slots": 1, "free": 0}, {"value": 80, "slots": 1, "free": 1}]},
                {"name": "vram", "type": "text", "slots": 1, "values": [{"value": "80", "slots": 1, "free": 1}]},
            ],
        }  # fmt: skip


async def test_a_label_without_attributes_lists_none_and_one_without_a_pool_says_so(api):
    await register(api, {})
    assert (await api.get(f"/pools/{LABEL}/attributes")).json() == {
        "label": LABEL, "slots": 0, "attributes": [], "truncated": False,
    }  # fmt: skip
    assert (await api.get("/pools/gpu:a10O/attributes")).json()["hint"].endswith("did you mean gpu:a100?")
    assert (await api.get("/pools/gpu::x/attributes")).json()["code"] == "invalid-label"
