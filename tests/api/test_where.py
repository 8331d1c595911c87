"""Borrows that say what their slot must be like: `where`, `anyOf` and `prefer`."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.world import PATIENCE_S, eventually

LIKE: dict[str, dict[str, Any]] = {
    "small": {"vram": 24, "model": "3090"},
    "large": {"vram": 80, "model": "a100", "features": ["nvlink"]},
}


async def offer(api: httpx.AsyncClient, label: str = "gpu:a100", **slots: dict[str, Any] | None) -> None:
    """Publish slots of node n1 with attributes, in this order: `offer(api, small={"vram": 24})`."""
    listed = [{"label": label, "slotId": name, "attributes": said} for name, said in slots.items()]
    body = {"nodeId": "n1", "policy": "reuse", "slots": listed}
    answer = await api.post("/node/register", json=body)
    assert answer.status_code == 200, answer.text


async def ask(api: httpx.AsyncClient, label: str | None = "gpu:a100", key: str = "", **more: Any) -> httpx.Response:
    """Ask for a slot under the names of this hub, without waiting unless told."""
    headers = {"idempotency-key": key} if key else {}
    body = {"label": label, "maxWaitSeconds": 0, **more}
    return await api.post("/v2/borrow", json=body, headers=headers, timeout=PATIENCE_S)


async def lent(api: httpx.AsyncClient, label: str | None = "gpu:a100", **more: Any) -> tuple[str, str]:
    """Return the slot that a borrow gets, and the label that it is served under."""
    answer = await ask(api, label, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["slotId"], answer.json()["label"]


async def test_a_borrow_with_where_gets_a_slot_that_is_so(api):
    await offer(api, **LIKE)
    assert await lent(api, where="vram >= 40 && 'nvlink' in features") == ("large", "gpu:a100")
    refused = await ask(api, where="vram >= 40")
    assert (refused.status_code, refused.json()["code"]) == (503, "no-capacity")
    assert await lent(api) == ("small", "gpu:a100")


async def test_a_label_of_one_segment_is_served_by_all_pools_that_begin_with_it_where_a_slot_is_demanded(api):
    await offer(api, "gpu:a100:eu", **LIKE)
    assert await lent(api, "gpu", where="vram < 40") == ("small", "gpu")
    assert (await ask(api, "gpu")).json()["reason"] == "too-few"


async def test_a_label_of_one_segment_needs_the_expansion_of_prefixes(make_api):
    async with make_api(borrow_prefix_expand=False) as api:
        assert (await ask(api, "gpu", where="vram < 40")).json()["reason"] == "too-few"


async def test_the_kinds_of_labels_hold_for_labels_with_a_kind_alone(make_api):
    async with make_api(label_kinds="a100") as api:
        await offer(api, **LIKE)
        assert await lent(api, "gpu", where="vram == 80") == ("large", "gpu")
        assert (await ask(api, "gpu:h100", where="vram == 80")).json()["reason"] == "kind-not-allowed"


async def test_any_of_is_served_by_the_first_alternative_with_a_free_slot(api):
    await offer(api, **LIKE)
    choice = [{"label": "gpu:h100", "where": ""}, {"label": "gpu", "where": "vram >= 40"}, {"label": "gpu:a100"}]
    got = [await lent(api, None, anyOf=choice) for _ in range(2)]
    assert got == [("large", "gpu"), ("small", "gpu:a100")]
    sessions = (await api.get("/sessions")).json()["sessions"]
    assert {(each["browserId"], each["labelKey"]) for each in sessions} == {("large", "gpu"), ("small", "gpu:a100")}


async def test_the_label_comes_before_any_of(api):
    await offer(api, **LIKE)
    assert await lent(api, "gpu:a100", where="vram < 40", anyOf=[{"label": "gpu:a100"}]) == ("small", "gpu:a100")
    assert await lent(api, "gpu:a100", where="vram < 40", anyOf=[{"labelKey": "gpu:a100"}]) == ("large", "gpu:a100")


async def test_prefer_chooses_the_slot_with_the_dearest_key_among_those_that_are_free(api):
    slots = [{"label": "gpu:a100", "slotId": f"s{n}", "warm": keys} for n, keys in enumerate(([], ["b"], ["b", "a"]))]
    await api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": slots})
    assert [(await lent(api, prefer=["a", "b"]))[0] for _ in slots] == ["s2", "s1", "s0"]


async def test_a_waiter_is_served_by_the_first_slot_that_suits_it(make_api):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        await offer(api, small=LIKE["small"])
        waiting = asyncio.create_task(ask(api, "gpu", where="vram >= 40", maxWaitSeconds=PATIENCE_S, key="k"))
        await eventually(lambda: _waits(api, 1))
        row = (await api.get("/v2/queue")).json()["labels"][0]["tickets"][0]
        assert "hub_wanted_lines 1.0" in (await api.get("/metrics")).text
        assert (row["anyOf"], row["position"]) == ([{"label": "gpu", "where": "vram >= 40"}], 1)
        told = (await api.get("/v2/queue/k")).json()
        assert (told["state"], told["hint"]) == ("waiting", "vram >= 40: the slot of gpu with attributes has 24")
        await offer(api, large=LIKE["large"])
        answer = (await waiting).json()
        assert (answer["slotId"], answer["label"], answer["pool"]) == ("large", "gpu", "gpu:a100")
        assert (await api.get("/v2/queue/k")).json()["label"] == "gpu"


async def test_a_ticket_that_is_attended_again_still_wants_the_same(make_api):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        await offer(api, small=LIKE["small"])
        assert (await ask(api, where="vram >= 40", key="k", maxWaitSeconds=0.01)).json()["code"] == "timeout"
        prefer = {"prefer": f"wait={PATIENCE_S:.0f}"}
        again = asyncio.create_task(api.get("/v2/queue/k", headers=prefer, timeout=PATIENCE_S))
        await eventually(lambda: _waits(api, 1))
        await offer(api, large=LIKE["large"])
        assert ((await again).json()["state"], (await again).json()["slotId"]) == ("granted", "large")


async def _waits(api: httpx.AsyncClient, number: int) -> bool:
    return bool((await api.get("/queue")).json()["waiting"] == number)


async def test_a_repeat_under_one_key_must_ask_for_the_same(api):
    await offer(api, **LIKE)
    assert await lent(api, where="vram >= 40 && model == 'a100'", key="k") == ("large", "gpu:a100")
    assert await lent(api, where="model == 'a100' && vram >= 40.0", key="k") == ("large", "gpu:a100")
    others: list[dict[str, Any]] = [{}, {"where": "vram >= 41"}, {"prefer": ["a"]}, {"anyOf": [{"label": "gpu:h100"}]}]
    for other in others:
        refused = await ask(api, key="k", **other)
        assert (refused.status_code, refused.json()["code"]) == (422, "key-reused")


@pytest.mark.parametrize(
    ("where", "position"),
    [("vram >", 7), ("vram = 4", 6), ("(a", 3), ("a || ", 6), ("x" * 2000, 1025), ("a\0", 2)],
)
async def test_an_expression_that_cannot_be_read_is_refused_at_its_first_fault(api, where, position):
    calls = (
        await ask(api, where=where),
        await ask(api, None, anyOf=[{"label": "gpu:a100", "where": where}]),
        await api.get("/autoscale/gpu:a100", params={"where": where}),
    )
    for refused in calls:
        found = refused.json()
        assert (refused.status_code, found["code"], bool(found["expected"])) == (400, "bad-where", True)
        assert found["position"] == position, found


@pytest.mark.parametrize(
    ("wish", "member"),
    [
        ({"where": {}}, "where"), ({"where": ["a"]}, "where"), ({"anyOf": "gpu"}, "anyOf"), ({"anyOf": {}}, "anyOf"),
        ({"anyOf": [7]}, "anyOf"), ({"anyOf": [{}]}, "anyOf"), ({"anyOf": [{"label": "a:b", "where": 7.5}]}, None),
        ({"anyOf": [{"label": "a:b"}] * 5}, "anyOf"), ({"anyOf": [{"label": {}}]}, "label"),
        ({"prefer": "a"}, "prefer"), ({"prefer": ["a b"]}, "prefer"), ({"prefer": ["a"] * 9}, "prefer"),
        ({"prefer": [None]}, "prefer"), ({"anyOf": [{"label": "a"}]}, None),
        ({"label": None, "where": "a"}, "label"),
        ({"label": None, "anyOf": []}, "label"), ({"anyOf": [{"label": "a:b", "like": "c"}]}, "like"),
    ],
)  # fmt: skip
async def test_a_wish_that_is_none_is_refused_with_the_member(api, wish, member):
    refused = await ask(api, **{"label": "gpu:a100", **wish})
    assert (refused.status_code, refused.json().get("member")) == (400, member), refused.text


async def test_a_where_that_no_slot_could_satisfy_says_what_there_is(api):
    await offer(api, **LIKE)
    assert (await ask(api, where="vrm >= 40")).json()["hint"] == "no slot of gpu:a100 has `vrm`; did you mean vram?"
    assert (await ask(api, where="vram >= 90")).json()[
        "hint"
    ] == "vram >= 90: the 2 slots of gpu:a100 with attributes have 24 or 80"
    both = await ask(api, "cpu:none", anyOf=[{"label": "gpu", "where": "vram >= 90"}])
    assert both.json()["hint"].split("; ") == [
        "no pool serves cpu:none",
        "vram >= 90: the 2 slots of gpu with attributes have 24 or 80",
    ]
    await lent(api, where="vram == 80")
    assert "hint" not in (await ask(api, where="vram == 80")).json()
    refused = await ask(api, None, anyOf=[{"label": "a:b"}, {"label": "c:d", "where": "x"}], waitForPool=False)
    assert (refused.status_code, refused.json()["code"]) == (404, "no-such-pool")


async def test_a_cap_holds_for_the_alternative_that_serves(api):
    await offer(api, one={"a": 1}, two={"a": 1}, three={"a": 1})
    assert (await api.put("/admin/caps/gpu:a100", json={"cap": 1})).status_code == 200
    choice = [{"label": "gpu:a100", "where": "a == 1"}, {"label": "gpu", "where": "a == 1"}]
    assert [(await lent(api, None, anyOf=choice))[1] for _ in range(2)] == ["gpu:a100", "gpu"]
    assert (await ask(api, where="a == 1")).json()["code"] == "capped"


async def test_an_autoscaler_is_told_of_the_slots_and_waiters_that_suit(make_api):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        await offer(api, **LIKE)
        await lent(api, where="vram == 80")
        waiting = asyncio.create_task(ask(api, where="vram == 80", maxWaitSeconds=PATIENCE_S, key="k"))
        await eventually(lambda: _waits(api, 1))
        asked = {where: (await api.get("/autoscale/gpu:a100", params={"where": where})).json()
                 for where in ("vram == 80", "vram == 24", "vram == 7", "")}  # fmt: skip
        shown = {where: (found["total"], found["held"], found["free"], found["waiting"], found["desired"])
                 for where, found in asked.items()}  # fmt: skip
        assert shown == {
            "vram == 80": (1, 1, 0, 1, 2), "vram == 24": (1, 0, 1, 0, 0), "vram == 7": (0, 0, 0, 0, 0),
            "": (2, 1, 1, 1, 2),
        }  # fmt: skip
        assert asked["vram == 7"]["hint"] == "vram == 7: the 2 slots of gpu:a100 with attributes have 24 or 80"
        await api.delete("/queue/k")
        await waiting


SECRETS = {f"{role}_secret": f"{role}-secret-of-the-test" for role in ("runner", "node", "admin")}


async def test_a_token_must_be_allowed_every_label_that_its_borrow_names(make_api):
    async with make_api(**SECRETS) as api:
        wish = {"user": "ada", "scopes": ["borrow"], "labels": ["gpu:*"]}
        made = await api.post("/admin/tokens", json=wish, headers={"x-hub-secret": SECRETS["admin_secret"]})
        api.headers["authorization"] = f"Bearer {made.json()['token']}"
        wishes: list[dict[str, Any]] = [
            {"label": None, "anyOf": [{"label": "gpu:a100"}, {"label": "cpu:big"}]},
            {"label": "gpu:a100", "anyOf": [{"label": "cpu:big"}]}, {"label": "cpu", "where": "a == 1"},
        ]  # fmt: skip
        for each in wishes:
            refused = await ask(api, **each)
            assert (refused.status_code, refused.json()["code"]) == (403, "label"), refused.text
        allowed = await ask(api, None, anyOf=[{"label": "gpu:a100", "where": "a == 1"}, {"label": "gpu:h100"}])
        assert allowed.json()["code"] == "no-capacity"


async def test_so_many_different_expressions_may_wait_and_no_more(make_api, redis):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        redis.sadd("hub:all_lines", *(f"gpu:a100\t{number:016x}" for number in range(1000)))
        refused = await ask(api, where="a == 1", maxWaitSeconds=PATIENCE_S)
        assert (refused.status_code, refused.json()["code"]) == (503, "too-many-expressions")
