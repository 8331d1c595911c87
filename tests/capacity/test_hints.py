"""A label that no pool serves is told apart from one whose slots are all lent."""

from __future__ import annotations

import asyncio

import pytest

from hub.capacity.hints import nearest
from tests.world import PATIENCE_S, borrow, eventually, publish, push

POOL = "gpu:a100"
HINT = "no pool serves gpu:a10O; did you mean gpu:a100?"


async def test_with_wait_for_pool_false_a_label_without_a_pool_is_refused_at_once(api):
    await publish(api, "n1", **{POOL: ["s1"]})
    refused = await borrow(api, "gpu:a10O", waitForPool=False)
    assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json")
    assert (refused.json()["code"], refused.json()["detail"]) == ("no-such-pool", HINT)
    assert (await borrow(api, POOL, waitForPool=False)).status_code == 200


@pytest.mark.parametrize("label", [POOL, "gpu:a100:eu", "gpu:a100:eu:x"])
async def test_a_pool_whose_slots_are_all_lent_counts_as_a_pool_that_serves(api, label):
    await publish(api, "n1", **{"gpu:a100": ["s1"]})
    assert (await borrow(api, POOL)).status_code == 200
    full = await borrow(api, label, waitForPool=False, maxWaitSeconds=0)
    assert full.status_code == 503
    assert "hint" not in full.json()


async def test_longer_pools_and_pools_of_other_programs_count_as_pools_that_serve(api, redis):
    await publish(api, "n1", **{"gpu:a100:eu": ["s1"]})
    push(redis, "cpu:big", ("c1", "n7"))
    assert (await borrow(api, "gpu:a100", waitForPool=False)).status_code == 200
    assert (await borrow(api, "cpu:big", waitForPool=False)).status_code == 200


@pytest.mark.parametrize(
    ("options", "label", "status"),
    [
        ({"borrow_prefix_expand": False}, "gpu:a100", 404),
        ({"borrow_trailing_fallback": False}, "gpu:a100:eu:x", 404),
        ({"borrow_wildcards": False}, "gpu:*:us", 404),
        ({"borrow_wildcards": True}, "gpu:*:us", 503),
        ({}, "gpu:a100:eu:x", 503),
    ],
)
async def test_only_pools_that_the_matching_rules_allow_count_as_pools_that_serve(make_api, options, label, status):
    async with make_api(**options) as api:
        await publish(api, "n1", **{"gpu:a100:eu": ["s1"]})
        assert (await borrow(api, "gpu:a100:eu")).status_code == 200
        assert (await borrow(api, label, waitForPool=False, maxWaitSeconds=0)).status_code == status


async def test_a_borrow_without_a_pool_waits_and_gets_the_first_slot_of_a_new_pool(make_api):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        waiting = asyncio.create_task(borrow(api, "gpu:late"))

        async def waits() -> bool:
            return bool((await api.get("/autoscale/gpu:late")).json()["waiting"])

        await eventually(waits)
        await publish(api, "n1", **{"gpu:late": ["s1"]})
        assert (await waiting).json()["browserId"] == "s1"


async def test_a_refusal_for_want_of_a_slot_says_if_no_pool_serves_the_label(api):
    await publish(api, "n1", **{POOL: ["s1"]})
    refused = await borrow(api, "gpu:a10O", maxWaitSeconds=0)
    assert (refused.status_code, refused.json()["code"], refused.json()["hint"]) == (503, "no-capacity", HINT)
    assert (await borrow(api, "other:thing", maxWaitSeconds=0)).json()["hint"] == "no pool serves other:thing"


async def test_autoscaling_hints_at_a_misspelt_label_and_at_nothing_else(api):
    assert (await api.get("/autoscale/gpu:x")).json()["hint"] == "no pool serves gpu:x; there is no pool yet"
    await publish(api, "n1", **{POOL: ["s1"]})
    assert (await api.get("/autoscale/gpu:a10O")).json()["hint"] == HINT
    assert "hint" not in (await api.get(f"/autoscale/{POOL}")).json()


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("gpu:a10O", "gpu:a100"), ("GPU:A100", "gpu:a100"), ("gpu:a100:ue", "gpu:a100:eu"), ("gpu:h100", "gpu:a100"),
        ("chrome:linux", ""),
    ],
)  # fmt: skip
def test_the_hint_names_the_pool_nearest_to_the_label(label, meant):
    assert nearest(label, ["cpu:big", "gpu:a100", "gpu:a100:eu"]) == meant
