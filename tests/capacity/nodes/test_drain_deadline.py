"""Draining with a deadline: what is lent stays until then on the hub clock, and ends exactly once after it."""

from __future__ import annotations

import asyncio

import pytest

from hub.core import Hub
from hub.doctor import examine
from hub.store.connection import open_store
from hub.sweeping.drains import DrainDeadlines
from tests.world import beat, borrow, eventually, give_back, listed, picture, publish, settings_for, sweepers

LABEL = "gpu:a100"


async def drain(api, seconds=None, node="n1", verb="drain"):
    body = {} if seconds is None else {"deadlineSeconds": seconds}
    answer = await api.post(f"/admin/nodes/{node}/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def lent_node(api, slots=3, lent=2, node="n1"):
    """Return a node with some of its slots lent."""
    await publish(api, node, **{LABEL: [f"{node}-s{n}" for n in range(slots)]})
    return [(await borrow(api, LABEL)).json() for _ in range(lent)]


def let_pass(redis, seconds):
    """Move the hub clock on."""
    redis.hincrby("hub:store", "clock_ms", seconds * 1000)


async def in_line(redis):
    return redis.zcard(f"hub:line:{LABEL}") > 0


async def swept(api):
    answer = (await api.post("/admin/sweep")).json()
    assert answer["leases"]["errors"] == 0
    return answer["leases"]["drained"]


async def shown(api, node="n1"):
    found = (await api.get(f"/nodes/{node}")).json()
    return found["draining"], found["deadlineSecondsLeft"], found["lent"]


async def test_a_lease_on_a_draining_node_lasts_until_the_deadline_and_ends_then(api, redis):
    leases = await lent_node(api)
    answer = await drain(api, 600)
    assert answer.pop("deadlineSecondsLeft") == pytest.approx(600, abs=1)
    assert answer == {"nodeId": "n1", "draining": True, "heldBack": 1, "lent": 2}
    let_pass(redis, 590)
    assert await swept(api) == 0
    draining, left_s, lent = await shown(api)
    assert (draining, lent) == (True, 2)
    assert left_s == pytest.approx(10, abs=2)
    renewed = {"browserId": "n1-s0", "leaseToken": leases[0]["leaseToken"]}
    assert (await api.post("/session/renew", json=renewed)).status_code == 200
    let_pass(redis, 11)
    assert await swept(api) == 2
    assert await shown(api) == (True, None, 0)
    assert (await api.post("/session/renew", json=renewed)).json()["code"] == "grant-over"
    assert (await borrow(api, LABEL)).json()["code"] == "no-capacity"
    slots = (await api.get("/nodes/n1")).json()["slotList"]
    assert [slot["state"] for slot in slots] == ["held"] * 3


async def test_a_lease_ended_by_the_deadline_leaves_the_same_keys_as_a_lapsed_one(api, redis):
    await lent_node(api, slots=2, lent=1)
    before = picture(redis)
    await drain(api, 1)
    let_pass(redis, 2)
    assert await swept(api) == 1
    gone = {"session:n1-s0", "borrow_ttl:n1-s0", "browser_run:n1-s0", f"inuse:{LABEL}", f"available:{LABEL}"}
    assert before.keys() - picture(redis).keys() == gone
    assert 100 < redis.ttl("recycle:n1-s0") <= 120
    orders = await beat(api, "n1")
    assert (orders["drain"], orders["lent"], orders["recycle"]) == (True, {}, ["n1-s0"])
    assert redis.zcard("hub:deadlines") == redis.zcard(f"hub:asked:{LABEL}") == redis.zcard("hub:run:r1") == 0


async def test_a_slot_returned_before_the_deadline_is_not_affected_by_it(api, redis):
    await lent_node(api)
    await drain(api, 60)
    await give_back(api, LABEL, "n1-s0")
    await give_back(api, LABEL, "n1-s1")
    let_pass(redis, 61)
    assert await swept(api) == 0
    await drain(api, verb="undrain")
    assert sorted(listed(redis, f"available:{LABEL}")) == ["n1-s0", "n1-s1", "n1-s2"]


async def test_the_last_drain_call_decides_about_the_deadline(api, redis):
    await lent_node(api)
    await drain(api, 60)
    assert (await drain(api, 3600))["deadlineSecondsLeft"] == pytest.approx(3600, abs=1)
    let_pass(redis, 100)
    assert await swept(api) == 0
    assert (await drain(api))["deadlineSecondsLeft"] is None
    let_pass(redis, 500)
    assert redis.zcard("hub:drain_deadlines") == 0
    assert await shown(api) == (True, None, 2)
    assert (await drain(api, 1))["lent"] == 2
    let_pass(redis, 2)
    assert await swept(api) == 2


@pytest.mark.parametrize("how", ["undrained", "left", "expired"])
async def test_an_undrain_or_the_end_of_the_node_removes_the_drain_deadline(api, redis, how):
    await lent_node(api)
    await drain(api, 60)
    if how == "undrained":
        assert (await drain(api, verb="undrain"))["deadlineSecondsLeft"] is None
    elif how == "left":
        await api.delete("/node/n1")
    else:
        redis.delete("node_alive:n1")
        redis.hset("node:n1", "LastSeen", "2020-01-01T00:00:00.0000000Z")
        redis.zadd("hub:beats", {"n1": -3_600_000})
        assert (await api.post("/admin/sweep")).json()["nodes"]["expired"] == 1
    assert redis.exists("hub:drain_deadlines") == 0
    if how == "undrained":
        let_pass(redis, 61)
        assert await swept(api) == 0
        assert (await shown(api))[2] == 2


async def test_an_outage_of_all_hubs_does_not_bring_the_drain_deadline_nearer(api, redis):
    await lent_node(api)
    await drain(api, 60)
    redis.hincrby("hub:store", "tick_ms", -3_600_000)
    assert await swept(api) == 0
    assert (await shown(api))[1] > 58


@pytest.mark.parametrize("wrong", [0, -1, 0.5, 604_801, 1e308, "soon", "", True, [], {}, "nan", "inf", "1e9"], ids=repr)
async def test_an_impossible_deadline_is_refused_with_what_is_allowed(api, redis, wrong):
    await lent_node(api)
    before = picture(redis, own=True)
    answer = await api.post("/admin/nodes/n1/drain", json={"deadlineSeconds": wrong})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")
    assert answer.json()["detail"] == "deadlineSeconds must be a number from 1 to 604800"
    assert picture(redis, own=True) == before


@pytest.mark.parametrize("right", [1, 604_800, "90", 1.5], ids=repr)
async def test_a_deadline_may_be_whole_seconds_fractions_or_text(api, right):
    await lent_node(api)
    assert (await drain(api, right))["deadlineSecondsLeft"] == pytest.approx(float(right), abs=1)


async def test_the_deadlines_of_a_node_are_in_the_listing_and_in_the_audit_log(api, redis):
    await lent_node(api)
    await publish(api, "n2")
    await drain(api, 60)
    rows = (await api.get("/nodes?detail=1")).json()["nodes"]
    assert {row["nodeId"]: row["deadlineSecondsLeft"] is not None for row in rows} == {"n1": True, "n2": False}
    let_pass(redis, 61)
    await swept(api)
    asked, ended = [
        (await api.get(f"/audit?action={action}")).json()[0]["details"]
        for action in ("node.drain", "node.drainDeadline")
    ]
    assert asked == {"nodeId": "n1", "heldBack": "1", "lent": "2", "deadlineSeconds": "60.0"}
    assert (ended["ended"], sorted(ended["slots"].split(","))) == ("2", ["n1-s0", "n1-s1"])


async def test_a_dry_sweep_counts_overdue_leases_and_ends_none(api, redis):
    await lent_node(api)
    await drain(api, 60)
    let_pass(redis, 61)
    assert (await api.post("/admin/sweep", json={"dryRun": True})).json()["leases"]["drained"] == 2
    assert (await shown(api))[2] == 2


async def test_a_node_with_more_leases_than_one_batch_is_emptied_at_its_deadline(api, hub, redis):
    await lent_node(api, slots=300, lent=200)
    await lent_node(api, slots=5, lent=0, node="n2")
    await drain(api, 60)
    let_pass(redis, 61)
    assert await swept(api) == 200
    assert await shown(api) == (True, None, 0)
    assert len(listed(redis, f"available:{LABEL}")) == 5
    assert await examine(hub.store, repair=False, settings=hub.settings, pause_s=0.01) == []


@pytest.mark.race
async def test_concurrent_sweepers_returns_and_lapses_end_each_lease_once(api, redis, redis_server):
    leases = await lent_node(api, slots=120, lent=120)
    await drain(api, 60)
    let_pass(redis, 61)
    settings = settings_for(redis_server.url)
    async with open_store(settings) as one, open_store(settings) as two:
        hubs = Hub(one, settings), Hub(two, settings)
        redis.zadd("hub:deadlines", dict.fromkeys((lease["browserId"] for lease in leases[:40]), 0))
        (drained, *more), *_ = await asyncio.gather(
            asyncio.gather(*(DrainDeadlines(hub.store, hub.audit).enforce() for hub in hubs * 3)),
            *(give_back(api, LABEL, lease["browserId"]) for lease in leases[40:80]),
            *(sweepers(hub)[1].sweep() for hub in hubs),
        )
        assert drained[1] == 0
        assert sum(count for count, _ in (drained, *more)) <= 120
    assert redis.zcard(f"hub:asked:{LABEL}") == redis.llen(f"inuse:{LABEL}") == redis.hlen("hub:lent:n1") == 0
    states = [slot["state"] for slot in (await api.get("/nodes/n1")).json()["slotList"]]
    assert states == ["held"] * 120


async def test_a_lease_ended_by_a_deadline_makes_room_under_its_cap(make_api, redis):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1", borrow_queue_timeout_s=20) as api:
        await lent_node(api, slots=1, lent=1)
        await publish(api, "n2", **{LABEL: ["t1"]})
        waiting = asyncio.create_task(borrow(api, LABEL, run="r2"))
        await eventually(lambda: in_line(redis))
        await drain(api, 1)
        let_pass(redis, 2)
        assert await swept(api) == 1
        assert (await waiting).json()["browserId"] == "t1"
