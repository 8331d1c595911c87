"""Rules of pools: how long a slot may be held and left unused, who is told before, and what a change means."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from hub.core import Hub
from hub.store.connection import open_store
from tests.world import borrow, eventually, give_back, listed, publish, settings_for, sweepers

POOL = "gpu:a100"


async def rule(api: httpx.AsyncClient, pattern: str = "gpu:*", **members: Any) -> dict[str, Any]:
    answer = await api.put(f"/admin/pools/{pattern}/rules", json={"by": "ann", **members})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def step(redis, seconds: float) -> None:
    """Move the hub clock on."""
    redis.hincrby("hub:store", "clock_ms", int(seconds * 1000))


def told(redis) -> list[tuple[str, str]]:
    """Return the reason and the rounded seconds left of every warning in the history."""
    events = [fields for _, fields in redis.xrange("hub:history") if fields["event"] == "grant.ending"]
    return [(each["why"], str(round(int(each["ends_in_ms"]) / 1000))) for each in events]


def ended(redis) -> list[str]:
    events = [fields for _, fields in redis.xrange("hub:history")]
    return [f"{each['event']} {each['why']}" for each in events if each["event"] in ("grant.ended", "grant.lapsed")]


@pytest.fixture
async def slots(api: httpx.AsyncClient) -> httpx.AsyncClient:
    await publish(api, "n1", **{POOL: ["s1"], "gpu:a100:80g": ["s2"], "cpu:big": ["s3"]})
    return api


async def used(api: httpx.AsyncClient, lease: dict[str, Any], call: str = "activity", **more: Any) -> dict[str, Any]:
    body = {"leaseToken": lease["leaseToken"], **more}
    answer = await api.post(f"/leases/{lease['browserId']}/{call}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def held(api: httpx.AsyncClient, label: str = POOL, **more: Any) -> dict[str, Any]:
    answer = await borrow(api, label, **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(
    ("label", "ttl_s"), [(POOL, 120), ("gpu:a100:80g", 180), ("cpu:big", 900)], ids=["star", "longest", "no rule"]
)
async def test_the_longest_pattern_that_fits_the_pool_wins(slots, label, ttl_s):
    await rule(slots, "gpu:*", ttlSeconds=120)
    await rule(slots, "*:a100:80g", ttlSeconds=180)
    await rule(slots, "gpu", ttlSeconds=240)
    assert (await held(slots, label))["ttlSeconds"] == ttl_s


async def test_the_length_of_a_rule_replaces_a_default_and_no_wish(slots):
    await rule(slots, ttlSeconds=120)
    lease = await held(slots, ttlSeconds=300)
    assert lease["ttlSeconds"] == 300
    body = {"browserId": "s1", "leaseToken": lease["leaseToken"], "ttlSeconds": 600}
    assert (await slots.post("/session/renew", json=body)).json()["ttlSeconds"] == 600
    await give_back(slots, POOL, "s1")
    lease = await held(slots, ttlSeconds=60, ttlIsDefault=True)
    assert lease["ttlSeconds"] == 120
    body = {"browserId": "s1", "leaseToken": lease["leaseToken"], "ttlSeconds": 600, "ttlIsDefault": True}
    assert (await slots.post("/session/renew", json=body)).json()["ttlSeconds"] <= 120


async def test_a_waiter_gets_the_length_of_the_rule_too(make_api):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await publish(api, "n1", **{POOL: ["s1"]})
        await rule(api, ttlSeconds=120)
        await held(api)
        waiting = asyncio.create_task(borrow(api, POOL))

        async def waits() -> bool:
            return bool((await api.get("/queue")).json()["waiting"])

        await eventually(waits)
        await give_back(api, POOL, "s1")
        assert (await waiting).json()["ttlSeconds"] == pytest.approx(120, abs=1)


async def test_the_longest_hold_ends_a_lease_that_is_renewed_after_one_warning(slots, hub: Hub, redis):
    await rule(slots, maxHoldSeconds=600, warnSeconds=60)
    lease = await held(slots, ttlSeconds=500)
    body = {"browserId": "s1", "leaseToken": lease["leaseToken"], "ttlSeconds": 500}
    step(redis, 300)
    await hub.rules.enforce()
    assert told(redis) == []
    assert (await slots.post("/session/renew", json=body)).json()["ttlSeconds"] == pytest.approx(300, abs=2)
    step(redis, 245)
    for _ in range(3):
        await hub.rules.enforce()
    assert told(redis) == [("max-hold", told(redis)[0][1])]
    assert 50 <= int(told(redis)[0][1]) <= 60
    await used(slots, lease)
    step(redis, 56)
    await hub.rules.enforce()
    assert (ended(redis), len(told(redis))) == (["grant.ended max-hold"], 1)
    assert listed(redis, f"available:{POOL}") == ["s1"]
    assert redis.zcard("hub:lease_limits") == 0
    refused = await slots.post("/session/renew", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "grant-over")


async def test_a_holder_that_never_told_of_use_counts_as_busy_and_why_says_so(slots, hub: Hub, redis):
    await rule(slots, idleSeconds=30)
    lease = await held(slots, ttlSeconds=3600)
    await rule(slots, idleSeconds=31)  # the change counts for live leases, with the next sweep
    _, leases = sweepers(hub)
    for _ in range(3):  # an end by a rule is told before it comes
        step(redis, 1000)
        redis.delete("borrow_idle:s1")  # it has run out by itself
        redis.hset("hub:slot:s1", "idle_visible_ms", 1)
        assert (await leases.sweep()).expired == 0
        await hub.rules.enforce()
    assert redis.exists("session:s1")
    found = (await slots.get("/why/slot/s1")).json()
    assert "counts as busy" in found["because"]
    assert redis.exists("borrow_idle:s1")
    assert (await used(slots, lease))["endsBy"] == "idle"
    assert "counts as busy" not in (await slots.get("/why/slot/s1")).json()["because"]


async def test_use_is_told_in_neutral_names_as_well(slots):
    await rule(slots, idleSeconds=30)
    lease = await held(slots)
    neutral = {"accept": "application/vnd.capacity-hub+json"}
    body = {"lease": {"token": lease["leaseToken"]}}
    answer = await slots.post("/leases/s1/activity", json=body, headers=neutral)
    assert (answer.status_code, answer.json()["slotId"], answer.json()["endsBy"]) == (200, "s1", "idle")


async def test_no_use_ends_a_lease_although_it_is_renewed_and_use_moves_the_end(slots, hub: Hub, redis):
    await rule(slots, idleSeconds=100, warnSeconds=20)
    lease = await held(slots, ttlSeconds=3600)
    assert (await used(slots, lease))["endsInSeconds"] == pytest.approx(100, abs=1)
    body = {"browserId": "s1", "leaseToken": lease["leaseToken"], "ttlSeconds": 3600}
    step(redis, 85)
    await slots.post("/session/renew", json=body)
    await hub.rules.enforce()
    assert [why for why, _ in told(redis)] == ["idle"]
    await used(slots, lease)
    step(redis, 50)
    await hub.rules.enforce()
    assert (len(told(redis)), redis.hget("hub:slot:s1", "warned_ms")) == (1, None)
    step(redis, 40)
    redis.delete("borrow_idle:s1")
    redis.hset("hub:slot:s1", "idle_visible_ms", 1)
    await hub.rules.enforce()
    assert [why for why, _ in told(redis)] == ["idle", "idle"]
    step(redis, 20)
    await hub.rules.enforce()
    assert ended(redis) == ["grant.lapsed idle"]
    refused = await slots.post("/leases/s1/activity", json={"leaseToken": lease["leaseToken"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "grant-over")
    assert "it was not used" in refused.json()["detail"]


async def test_a_pause_counts_as_use_up_to_the_longest_hold_and_can_be_ended(slots, hub: Hub, redis):
    await rule(slots, idleSeconds=100, maxHoldSeconds=1000, warnSeconds=20)
    lease = await held(slots, ttlSeconds=900)
    paused = await used(slots, lease, "pause", seconds=500)
    assert (paused["pausedSeconds"], paused["endsBy"]) == (500, "idle")
    step(redis, 450)
    await hub.rules.enforce()
    assert told(redis) == []
    paused = await used(slots, lease, "pause", seconds=86_400)
    assert paused["pausedSeconds"] == pytest.approx(550, abs=2)
    assert paused["endsBy"] == "max-hold"
    assert (await used(slots, lease, "pause", seconds=0))["endsInSeconds"] == pytest.approx(100, abs=1)


async def test_a_change_counts_for_live_leases_after_one_warning(slots, hub: Hub, redis):
    lease = await held(slots, ttlSeconds=3600)
    step(redis, 600)
    await rule(slots, maxHoldSeconds=300, warnSeconds=50)
    _, leases = sweepers(hub)
    assert (await leases.sweep()).expired == 0
    await hub.rules.enforce()
    assert [why for why, _ in told(redis)] == ["rule-change"]
    assert (await slots.get("/sessions/s1")).json()["endsInSeconds"] == pytest.approx(50, abs=2)
    await hub.rules.enforce()
    assert ended(redis) == []
    watched = await slots.post(
        "/leases/watch", json={"leases": [{"browserId": "s1", "leaseToken": lease["leaseToken"]}], "ending": {}}
    )
    assert watched.json()["ending"][0]["reason"] == "rule-change"
    step(redis, 51)
    await hub.rules.enforce()
    assert (ended(redis), len(told(redis))) == (["grant.ended max-hold"], 1)
    # Its holder may believe in its lease for longer: the slot is lent again after the grace.
    assert (listed(redis, f"available:{POOL}"), redis.zcard("hub:revoked")) == ([], 1)


async def test_a_rule_that_is_removed_ends_no_live_lease(slots, hub: Hub, redis):
    await rule(slots, maxHoldSeconds=300, idleSeconds=100)
    lease = await held(slots, ttlSeconds=250)
    await used(slots, lease)
    assert (await slots.delete("/admin/pools/gpu:*/rules")).status_code == 200
    _, leases = sweepers(hub)
    await leases.sweep()
    step(redis, 240)
    await hub.rules.enforce()
    assert (told(redis), ended(redis), redis.zcard("hub:lease_limits")) == ([], [], 0)
    assert not redis.exists("borrow_idle:s1")


async def test_a_live_lease_that_has_been_swept_keeps_its_limits(slots, hub: Hub, redis):
    await rule(slots, maxHoldSeconds=300, idleSeconds=100)
    await held(slots, ttlSeconds=250)
    before = redis.hgetall("hub:slot:s1")
    await rule(slots, "cpu:*", idleSeconds=5)
    _, leases = sweepers(hub)
    await leases.sweep()
    assert redis.hgetall("hub:slot:s1") == before


async def test_watchers_hear_of_an_end_at_once_and_when_it_is_off(slots, hub: Hub, redis):
    await rule(slots, idleSeconds=100, warnSeconds=20)
    lease = await held(slots, ttlSeconds=3600)
    await used(slots, lease)
    asked = {"leases": [{"browserId": "s1", "leaseToken": lease["leaseToken"]}], "waitSeconds": 20, "ending": {}}
    waiting = asyncio.create_task(slots.post("/leases/watch", json=asked))
    step(redis, 85)
    await hub.rules.enforce()
    (found,) = (await waiting).json()["ending"]
    assert (found["browserId"], found["reason"]) == ("s1", "idle")
    assert 0 < found["secondsLeft"] <= 20
    asked["ending"] = {"s1": found["end"]}
    waiting = asyncio.create_task(slots.post("/leases/watch", json=asked))
    await used(slots, lease)
    assert [(each["reason"], each["end"]) for each in (await waiting).json()["ending"]] == [("", "")]


async def test_of_many_hubs_one_tells_and_one_ends(slots, hub: Hub, redis, redis_server):
    await rule(slots, maxHoldSeconds=300, warnSeconds=60)
    await held(slots, ttlSeconds=300)
    async with open_store(settings_for(redis_server.url)) as store:
        other = Hub(store, settings_for(redis_server.url))
        step(redis, 245)
        await asyncio.gather(*(each.rules.enforce() for each in (hub, other) * 5))
        step(redis, 60)
        await asyncio.gather(*(each.rules.enforce() for each in (hub, other) * 5))
    assert (len(told(redis)), ended(redis)) == (1, ["grant.ended max-hold"])


async def test_hubs_give_the_rules_back_to_a_store_that_lost_them(slots, hub: Hub, redis):
    await rule(slots, idleSeconds=30)
    await hub.rules.enforce()
    redis.delete("hub:rules")
    redis.hdel("hub:store", "rules")
    assert (await slots.get("/admin/pools/rules")).json() == {"rules": []}
    await hub.rules.recall()
    found = (await slots.get("/admin/pools/gpu:*/rules")).json()
    assert (found["idleSeconds"], found["setBy"]) == (30, "ann")
    await rule(slots, idleSeconds=40)
    await hub.rules.recall()  # it knows an earlier state, and changes nothing
    assert (await slots.get("/admin/pools/gpu:*/rules")).json()["idleSeconds"] == 40


async def test_the_idle_setting_ends_no_lease_whose_holder_tells_of_no_use(make_api, hub: Hub, redis):
    """A holder that renewed its lease at a third of its length lost it with a shorter idle time."""
    async with make_api(idle_timeout_s=8) as api:
        await publish(api, "n1", **{POOL: ["s1"]})
        lease = await held(api, ttlSeconds=60)
        step(redis, 11)
        redis.delete("borrow_idle:s1")  # it has run out by itself
        redis.hset("hub:slot:s1", "idle_visible_ms", 1)
        _, leases = sweepers(hub)
        assert (await leases.sweep()).expired == 0
        body = {"browserId": "s1", "leaseToken": lease["leaseToken"], "ttlSeconds": 60}
        assert (await api.post("/session/renew", json=body)).status_code == 200
        await used(api, lease)
        step(redis, 9)
        redis.delete("borrow_idle:s1")
        redis.hset("hub:slot:s1", "idle_visible_ms", 1)
        for _ in range(2):
            await hub.rules.enforce()
    assert ended(redis) == ["grant.lapsed idle"]


async def test_a_node_that_extends_the_footprint_says_that_a_client_is_connected(slots, hub: Hub, redis):
    await rule(slots, idleSeconds=100)
    lease = await held(slots, ttlSeconds=3600)
    await used(slots, lease)
    redis.set("borrow_idle:s1", "1", ex=600)
    step(redis, 105)
    for _ in range(3):
        await hub.rules.enforce()
    assert ended(redis) == []


def commands(redis) -> int:
    return sum(int(each["calls"]) for each in redis.info("commandstats").values())


async def test_a_lease_in_a_pool_without_rules_costs_no_further_command(slots, hub: Hub, redis):
    async def cost() -> list[int]:
        counts = []
        for call in ("borrow", "renew", "return"):
            before = commands(redis)
            if call == "borrow":
                lease = await held(slots, "cpu:big", ttlSeconds=600)
            elif call == "renew":
                body = {"browserId": "s3", "leaseToken": lease["leaseToken"], "ttlSeconds": 800}
                await slots.post("/session/renew", json=body)
            else:
                await give_back(slots, "cpu:big", "s3")
            counts.append(commands(redis) - before)
        return counts

    async def least() -> list[int]:  # ticks and rounds of the hubs come in between
        return [min(each) for each in zip(*[await cost() for _ in range(8)], strict=True)]

    await cost()  # from now on the slot is marked for replacement
    without = await least()
    await rule(slots, maxHoldSeconds=300, idleSeconds=100)
    assert await least() == without


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("PUT", "/admin/pools/gpu:*/rules", {}, "missing-member"),
        ("PUT", "/admin/pools/gpu:*/rules", {"idleSeconds": 0}, "invalid-value"),
        ("PUT", "/admin/pools/gpu:*/rules", {"idleSeconds": "soon"}, "invalid-value"),
        ("PUT", "/admin/pools/gpu:*/rules", {"ttlSeconds": 1e9}, "invalid-value"),
        ("PUT", "/admin/pools/gpu:*/rules", {"idleSeconds": 10, "warnSeconds": 10}, "invalid-value"),
        ("PUT", "/admin/pools/gpu:%20*/rules", {"idleSeconds": 10}, "invalid-value"),
        ("PUT", f"/admin/pools/{'x' * 201}/rules", {"idleSeconds": 10}, "invalid-value"),
        ("GET", "/admin/pools/gpu:*/rules", None, "no-such-rule"),
        ("POST", "/leases/s1/activity", {}, "missing-member"),
        ("POST", "/leases/s1/pause", {"leaseToken": "1"}, "missing-member"),
        ("POST", "/leases/s1/pause", {"leaseToken": "1", "seconds": -1}, "invalid-value"),
        ("POST", "/leases/s1/activity", {"leaseToken": "1"}, "grant-over"),
    ],
    ids=str,
)
async def test_bad_requests_about_pool_rules_or_the_use_of_leases_are_refused_with_a_code(
    slots, method, path, body, code
):
    answer = await slots.request(method, path, json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == code, answer.text


async def test_more_rules_than_allowed_are_refused_in_words(slots, redis):
    redis.hset("hub:rules", mapping={f"a:{number}": "{}" for number in range(200)})
    answer = await slots.put("/admin/pools/gpu:*/rules", json={"idleSeconds": 10})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-request")


async def test_changes_of_rules_are_audited(slots):
    await rule(slots, idleSeconds=30)
    await slots.delete("/admin/pools/gpu:*/rules")
    found = [each for each in (await slots.get("/audit")).json() if each["action"].startswith("pool.rule")]
    assert [(each["action"], each["details"]["pattern"]) for each in found] == [
        ("pool.rule.remove", "gpu:*"), ("pool.rule.set", "gpu:*"),
    ]  # fmt: skip
    assert (found[1]["actor"], found[1]["details"]["idleSeconds"]) == ("ann", "30")


async def test_ends_by_rules_are_counted_by_pool(slots, hub: Hub, redis):
    await rule(slots, maxHoldSeconds=300)
    await held(slots, ttlSeconds=300)
    for _ in range(2):
        step(redis, 299)
        await hub.rules.enforce()
    assert 'hub_leases_ended_by_rule_total{label="gpu:a100",why="max-hold"}' in (await slots.get("/metrics")).text


async def test_a_laxer_rule_that_is_removed_gives_the_lease_a_warning_and_keeps_no_sweep_from_ending_others(
    make_api, hub: Hub, redis
):
    async with make_api(idle_timeout_s=60, borrow_ttl_min_s=1) as api:
        await publish(api, "n1", **{POOL: ["s1"], "cpu:big": ["s3"]})
        await rule(api, idleSeconds=300)
        lease = await held(api, ttlSeconds=3600)
        await used(api, lease)
        await held(api, "cpu:big", ttlSeconds=10)
        assert (await api.delete("/admin/pools/gpu:*/rules")).status_code == 200
        step(redis, 40)
        _, leases = sweepers(hub)
        report = await leases.sweep()
        assert (redis.exists("session:s3"), report.errors) == (0, 0), report
        assert redis.hget("hub:slot:s1", "watch_idle") == "60000"
        assert int(redis.hget("hub:slot:s1", "spared_ms")) > int(redis.hget("hub:store", "clock_ms"))


async def test_a_ticket_has_a_length_that_an_older_hub_can_lend(make_api, redis):
    """A default is told apart by a field of its own: an older hub would take a negative length as it stands."""
    async with make_api(borrow_queue_timeout_s=20) as api:
        await publish(api, "n1", **{POOL: ["s1"]})
        lease = await held(api)
        waiting = asyncio.create_task(borrow(api, POOL, run="r2"))

        async def is_waiting() -> bool:
            return bool((await api.get("/queue")).json()["waiting"])

        await eventually(is_waiting)
        (name,) = redis.keys("hub:ticket:*")
        assert redis.hmget(name, "ttl_ms", "ttl_default") == ["900000", "1"]
        await rule(api, ttlSeconds=120)
        await give_back(api, POOL, lease["browserId"])
        assert (await waiting).json()["ttlSeconds"] == pytest.approx(120, abs=30)


async def test_a_stricter_rule_is_no_use_of_the_slot(slots, hub: Hub, redis):
    await rule(slots, idleSeconds=80)
    lease = await held(slots, ttlSeconds=3600)
    await used(slots, lease)
    before = redis.hget("hub:slot:s1", "active_ms")
    step(redis, 50)
    await rule(slots, idleSeconds=40, warnSeconds=10)
    await sweepers(hub)[1].sweep()
    await hub.rules.enforce()
    assert told(redis) == [("rule-change", "10")]
    step(redis, 11)
    await hub.rules.enforce()
    assert redis.hget("hub:slot:s1", "active_ms") in (before, None)
    assert ended(redis) == ["grant.lapsed idle"]
