"""LeaseSweeperService: leases that lapse, and footprints other programs delete to end them."""

from __future__ import annotations

import json

import pytest

from hub.core import Hub
from hub.store.connection import open_store
from tests.world import SLACK_S, age_lease, beat, borrow, give_back, listed, picture, publish, settings_for, sweepers

LABEL = "a:b"


async def sweep(hub, **options):
    _, leases = sweepers(hub)
    done = await leases.sweep(**options)
    assert done.errors == 0
    return done


@pytest.fixture
async def lent(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    return (await borrow(api, LABEL)).json()


async def test_a_live_lease_is_left_alone(api, hub, redis, lent):
    await sweep(hub)
    before = picture(redis, own=True)
    done = await sweep(hub)
    assert (done.scanned, done.expired) == (1, 0)
    assert picture(redis, own=True) == before


async def test_the_slot_of_a_lapsed_lease_goes_to_the_end_of_its_list_with_a_recycle_mark(api, hub, redis, lent):
    await api.post("/results/browser/s1/test", json={"testId": "t1"})
    await age_lease(hub, "s1")
    done = await sweep(hub)
    assert (done.scanned, done.expired) == (1, 1)
    assert (listed(redis, f"available:{LABEL}"), redis.exists(f"inuse:{LABEL}")) == (["s2", "s1"], 0)
    assert [key for key in redis.keys("*:s1") if not key.startswith("hub:")] == ["recycle:s1"]
    assert 120 - SLACK_S <= redis.ttl("recycle:s1") <= 120
    assert (await beat(api, "n1"))["recycle"] == ["s1"]
    assert (await sweep(hub)).scanned == 0


@pytest.mark.parametrize("clock", ["borrow_ttl", "borrow_idle"])
async def test_a_deleted_footprint_ends_the_lease(make_api, redis_server, redis, clock):
    settings = settings_for(redis_server.url, idle_timeout_s=60)
    async with make_api(idle_timeout_s=60) as api, open_store(settings) as store:
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        await borrow(api, LABEL)
        hub = Hub(store, settings)
        assert (await sweep(hub)).expired == 0
        redis.delete(f"{clock}:s1")
        assert (await sweep(hub)).expired == 1
    assert listed(redis, f"available:{LABEL}") == ["s2", "s1"]
    assert not redis.exists("session:s1", "borrow_ttl:s1", "borrow_idle:s1", "browser_run:s1")


async def test_without_an_idle_rule_the_idle_key_is_not_read(api, hub, redis, lent):
    redis.set("borrow_idle:s1", "1", px=1)
    assert (await sweep(hub)).expired == 0


async def test_the_lease_of_a_slot_that_its_node_removed_ends_when_it_lapses(make_api, hub, redis):
    async with make_api(borrow_concurrency_caps=f"{LABEL}=1") as api:
        await publish(api, "n1", **{LABEL: ["s1", "s2"]})
        await borrow(api, LABEL)
        redis.delete(f"inuse:{LABEL}")
        await age_lease(hub, "s1")
        assert (await sweep(hub)).expired == 1
        assert redis.exists("recycle:s1")
        assert listed(redis, f"available:{LABEL}") == ["s2"]
        assert (await borrow(api, LABEL)).json()["browserId"] == "s2"


@pytest.mark.parametrize("change", ["renewed", "returned", "lent again"])
async def test_a_lease_that_changed_after_it_was_nominated_is_not_touched(api, hub, redis, lent, change, monkeypatch):
    await age_lease(hub, "s1")
    real = hub.leases.lapse

    async def late(slots):
        assert "s1" in slots
        if change == "renewed":
            redis.zadd("hub:deadlines", {"s1": int(redis.hget("hub:store", "clock_ms")) + 60_000})
        else:
            await give_back(api, LABEL, "s1")
        if change == "lent again":
            await borrow(api, LABEL)
            await borrow(api, LABEL)
        return await real(slots)

    monkeypatch.setattr(hub.leases, "lapse", late)
    await sweep(hub)
    assert redis.exists("session:s1") == (change != "returned")
    assert len(listed(redis, f"available:{LABEL}") + listed(redis, f"inuse:{LABEL}")) == 2


async def test_a_dry_run_counts_what_is_overdue_and_changes_nothing(api, hub, redis, lent):
    await age_lease(hub, "s1")
    before = picture(redis, own=True)
    done = await sweep(hub, dry_run=True)
    assert (done.scanned, done.expired) == (1, 1)
    assert picture(redis, own=True) == before


async def test_two_hubs_that_sweep_at_once_end_a_lease_once(api, hub, redis, redis_server, lent):
    await age_lease(hub, "s1")
    settings = settings_for(redis_server.url)
    async with open_store(settings) as store:
        first = sweepers(hub)[1]
        second = sweepers(Hub(store, settings))[1]
        done = [await first.sweep(), await second.sweep()]
    assert sum(each.expired for each in done) == 1
    assert listed(redis, f"available:{LABEL}") == ["s2", "s1"]


async def test_more_leases_than_one_batch_lapse_in_one_pass(api, hub, redis):
    await api.post("/node/register", json={"nodeId": "n1", "pools": {LABEL: 150}})
    for _ in range(150):
        await borrow(api, LABEL)
    redis.zadd("hub:deadlines", dict.fromkeys(redis.zrange("hub:deadlines", 0, -1), 0), xx=True)
    assert (await sweep(hub)).expired == 150
    assert (redis.llen(f"available:{LABEL}"), redis.exists(f"inuse:{LABEL}")) == (150, 0)


async def test_the_end_of_a_lease_can_be_read_in_the_audit_log(api, hub, redis, lent):
    await age_lease(hub, "s1")
    await sweep(hub)
    entries = [json.loads(entry) for entry in redis.lrange("audit:entries", 0, -1)]
    assert [entry["Action"] for entry in entries if entry["Details"].get("browserId") == "s1"] != []
