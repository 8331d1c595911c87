"""A label that no pool serves is told apart from one whose slots are all lent."""

from __future__ import annotations

import asyncio

import pytest

from hub.capacity.hints import nearest
from tests.world import PATIENCE_S, borrow, eventually, publish, push

POOL = "gpu:a100"
HINT = "no pool serves gpu:a10O; did you mean gpu:a100?"


async def test_a_label_that_no_pool_serves_is_refused_at_once_to_who_does_not_wait_for_a_pool(api):
    await publish(api, "n1", **{POOL: ["s1"]})
    refused = await borrow(api, "gpu:a10O", waitForPool=False)
    assert (refused.status_code, refused.headers["content-type"]) == (404, "application/problem+json")
    assert (refused.json()["code"], refused.json()["detail"]) == ("no-such-pool", HINT)
    assert (await borrow(api, POOL, waitForPool=False)).status_code == 200


@pytest.mark.parametrize("label", [POOL, "gpu:a100:eu", "gpu:a100:eu:x"])
async def test_a_pool_whose_slots_are_all_lent_serves(api, label):
    await publish(api, "n1", **{"gpu:a100": ["s1"]})
    assert (await borrow(api, POOL)).status_code == 200
    full = await borrow(api, label, waitForPool=False, maxWaitSeconds=0)
    assert full.status_code == 503
    assert "hint" not in full.json()


async def test_longer_pools_serve_and_pools_of_other_programs_too(api, redis):
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
async def test_a_pool_serves_where_the_hub_lends_from_it(make_api, options, label, status):
    async with make_api(**options) as api:
        await publish(api, "n1", **{"gpu:a100:eu": ["s1"]})
        assert (await borrow(api, "gpu:a100:eu")).status_code == 200
        assert (await borrow(api, label, waitForPool=False, maxWaitSeconds=0)).status_code == status


async def test_who_may_wait_for_a_pool_waits_as_ever_and_gets_the_first_slot_of_one_that_comes(make_api):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S) as api:
        waiting = asyncio.create_task(borrow(api, "gpu:late"))

        async def waits() -> bool:
            return bool((await api.get("/autoscale/gpu:late")).json()["waiting"])

        await eventually(waits)
        await publish(api, "n1", **{"gpu:late": ["s1"]})
        assert (await waiting).json()["browserId"] == "s1"


async def test_a_borrow_that_was_refused_for_want_of_a_slot_says_that_no_pool_serves_it(api):
    await publish(api, "n1", **{POOL: ["s1"]})
    refused = await borrow(api, "gpu:a10O", maxWaitSeconds=0)
    assert (refused.status_code, refused.json()["code"], refused.json()["hint"]) == (503, "no-capacity", HINT)
    assert (await borrow(api, "other:thing", maxWaitSeconds=0)).json()["hint"] == "no pool serves other:thing"


async def test_an_autoscaler_is_told_of_a_spelling_mistake_and_of_nothing_else(api):
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
def test_the_pool_that_was_probably_meant(label, meant):
    assert nearest(label, ["cpu:big", "gpu:a100", "gpu:a100:eu"]) == meant
