"""Caps on live leases per requested label: checked with the lease, counted over everything that ends one."""

from __future__ import annotations

import asyncio

import pytest

from tests.world import borrow, give_back, publish, push

LABEL = "Maps:Chromium:Prod"


async def taken(api, label=LABEL):
    answer = await borrow(api, label)
    return answer.json().get("browserId") or answer.json()["code"]


async def test_a_reached_cap_refuses_a_borrow_although_slots_are_free(make_api):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        assert [await taken(api) for _ in range(2)] == ["s1", "capped"]
        await give_back(api, LABEL, "s1")
        assert await taken(api) == "s2"


async def test_a_cap_counts_the_requested_label_and_not_the_pool_that_served_it(make_api):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1,{LABEL}:emea=1") as api:
        await publish(api, "n1", **{LABEL: ["s1", "s2", "s3"]})
        assert await taken(api, f"{LABEL}:emea") == "s1"
        assert await taken(api, f"{LABEL}:emea") == "capped"
        assert await taken(api) == "s2"
        assert await taken(api, f"{LABEL}:apac") == "s3"


async def test_the_default_cap_applies_to_labels_without_a_cap(make_api):
    async with make_api(borrow_concurrency_caps="a:b=2", borrow_concurrency_default=1) as api:
        await publish(api, "n1", **{"a:b": ["s1", "s2", "s3"], "c:d": ["t1", "t2"]})
        assert [await taken(api, label) for label in ("a:b", "a:b", "a:b", "c:d", "c:d")] == [
            "s1", "s2", "capped", "t1", "capped",
        ]  # fmt: skip


async def test_simultaneous_borrows_do_not_pass_a_cap(make_api):
    async with (
        make_api(borrow_concurrency_caps=f"{LABEL}=3") as api,
        make_api(borrow_concurrency_caps=f"{LABEL}=3") as b,
    ):
        await publish(api, "n1", **{LABEL: [f"s{n}" for n in range(20)]})
        got = await asyncio.gather(*(taken(each) for _ in range(10) for each in (api, b)))
        assert got.count("capped") == 17


@pytest.mark.parametrize("end", ["return", "withdraw", "leave", "admin removes", "lapse"])
async def test_every_end_of_a_lease_makes_room_under_its_cap_once(make_api, redis, end):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        await publish(api, "n1", **{LABEL: ["s1"]})
        await publish(api, "n2", **{LABEL: ["s2", "s3"]})
        assert [await taken(api) for _ in range(2)] == ["s1", "capped"]
        for _ in range(2):
            if end == "return":
                await give_back(api, LABEL, "s1")
            elif end == "withdraw":
                await api.delete("/node/n1/slots/s1")
            elif end == "lapse":
                redis.delete("borrow_ttl:s1")
                await api.post("/admin/sweep")
            else:
                await api.delete("/node/n1" if end == "leave" else "/admin/nodes/n1")
        assert [await taken(api) for _ in range(2)] == ["s2", "capped"]


async def test_a_session_of_another_program_counts_under_the_cap_once_it_was_seen(make_api, redis):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        push(redis, LABEL, ("s1", "n1"), lent=True)
        push(redis, LABEL, ("s2", "n1"))
        redis.hset("session:s1", mapping={"browserId": "s1", "labelKey": LABEL, "runId": "r", "nodeId": "n1"})
        redis.set("borrow_ttl:s1", "1", ex=100)
        await api.post("/admin/sweep")
        assert await taken(api) == "capped"
        await give_back(api, LABEL, "s1")
        assert await taken(api) == "s2"


async def test_counts_under_caps_survive_a_new_hub(make_api):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        assert await taken(api) == "s1"
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        assert await taken(api) == "capped"
