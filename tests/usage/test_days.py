"""The figures of days: random leases with ends of every kind, days and their bounds, refusals, and several hubs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from redis import Redis

from hub.capacity.models import Lease
from hub.core import Hub
from hub.errors import NoCapacity, StoreUnavailable
from hub.store.connection import open_store
from hub.usage import usage as usage_module
from hub.usage.models import KINDS, Figures
from tests.capacity.queue.crowd import offer, wanted
from tests.usage.figures import DAY_MS, HOUR_MS, age, held_ms, names, sums
from tests.world import age_lease, age_node, settings_for

POOLS = ("gpu:a100", "gpu:h100", "browser:chromium")


async def end(hub: Hub, redis: Redis, how: str, lease: Lease) -> None:
    match how:
        case "returned":
            await hub.leases.give_back(lease.slot, lease.label, lease.token)
        case "revoked":
            await hub.leases.give_back(lease.slot, lease.label, lease.token, revokes="1", reason="x")
        case "lapsed":
            await age_lease(hub, lease.slot)
            await hub.leases.lapse([lease.slot])
        case "withdrawn":
            await hub.pools.withdraw(str(lease.said["nodeId"]), lease.slot)
        case "expired":
            age_node(redis, str(lease.said["nodeId"]), 3600)
            await hub.nodes.expire(str(lease.said["nodeId"]), "expire", keep=False)


@pytest.mark.parametrize("seed", range(4))
async def test_the_figures_of_random_leases_are_those_of_the_history_whatever_they_are_summed_by(
    hub: Hub, redis: Redis, seed: int
) -> None:
    chance = random.Random(seed)
    await hub.clock.tick()
    live: list[Lease] = []
    aged: dict[str, int] = {}
    refused = number = 0
    for _ in range(60):
        number += 1
        await offer(hub, chance.choice(POOLS), f"s{number}", node=f"n{chance.randrange(5)}")
        asked = wanted(chance.choice(POOLS), wait_s=0)
        try:
            lease = await hub.leases.borrow(asked)
        except NoCapacity:
            hub.usage.refused(asked.label, "", "ann")
            refused += 1
            continue
        redis.hset(f"hub:slot:{lease.slot}", mapping={"user": chance.choice("abc"), "team": chance.choice("xy")})
        aged[asked.request] = chance.choice((0, 5_000, HOUR_MS, 3 * DAY_MS + 7))
        age(redis, lease.slot, aged[asked.request])
        live.append(lease)
        if chance.random() < 0.1:
            await hub.usage.fold()
        while live and chance.random() < 0.5:
            lease = live.pop(chance.randrange(len(live)))
            await end(hub, redis, chance.choice(("returned", "revoked", "lapsed", "withdrawn", "expired")), lease)
    for lease in live:
        await end(hub, redis, "returned", lease)
    leases, held = held_ms(redis, aged)
    found = await sums(hub)
    assert leases > 20
    for figures in found.values():
        assert (figures.leases, figures.refusals) == (leases, refused)
        assert abs(figures.held_ms - held) < 1000
    assert len(set(found.values())) == 1


async def test_a_lease_over_midnight_counts_on_the_day_it_began_and_is_held_on_both(hub: Hub, redis: Redis) -> None:
    await offer(hub, POOLS[0], "s1")
    lease = await hub.leases.borrow(wanted(POOLS[0]))
    began, today = int(redis.hget("hub:slot:s1", "began")), hub.usage.today()
    age(redis, "s1", began - (today - 1) * DAY_MS + HOUR_MS)  # it began at 23:00 of the day before yesterday
    running = (await hub.usage.read("slot", today - 5, today))[1]
    await hub.leases.give_back("s1", POOLS[0], lease.token)
    _, ended = await hub.usage.read("slot", today - 5, today)
    for days in (running, ended):
        assert [(days[day].leases, days[day].held_ms) for day in (today - 2, today - 1)] == [(1, HOUR_MS), (0, DAY_MS)]
        assert days[today].leases == 0
        assert days[today].held_ms > 0
    only = await hub.usage.read("slot", today - 1, today - 1)
    assert only == ({"s1": Figures(0, DAY_MS)}, {today - 1: Figures(0, DAY_MS)})


async def test_a_day_is_deleted_after_its_time_and_a_lease_longer_than_that_fills_only_days_that_are_kept(
    redis: Redis, redis_server: Any
) -> None:
    async with open_store(settings_for(redis_server.url, usage_days=3)) as store:
        hub = Hub(store, settings_for(redis_server.url, usage_days=3))
        await offer(hub, POOLS[0], "s1")
        lease = await hub.leases.borrow(wanted(POOLS[0]))
        age(redis, "s1", 10 * DAY_MS)
        await hub.leases.give_back("s1", POOLS[0], lease.token)
        await hub.usage.fold()
        today = hub.usage.today()
        days = sorted(key for key in redis.keys("hub:usage:*:slot"))
        assert days == [f"hub:usage:{today - n}:slot" for n in (2, 1, 0)]
        for key in days:
            assert redis.expiretime(key) == (int(key.split(":")[2]) + 4) * DAY_MS / 1000


async def test_names_beyond_the_bound_of_a_day_are_counted_together(hub: Hub, redis: Redis, monkeypatch: Any) -> None:
    monkeypatch.setattr(usage_module, "NAMES_MAX", 3)
    await offer(hub, POOLS[0], "s1")
    for user in ("a", "b", "c", "d", "e", "a", "d"):
        lease = await hub.leases.borrow(wanted(POOLS[0]))
        redis.hset("hub:slot:s1", mapping={"user": user, "team": "ml"})
        await hub.leases.give_back("s1", POOLS[0], lease.token)
        redis.hdel("hub:slot:s1", "user", "team")
        await hub.usage.fold()
    assert {name: each.leases for name, each in (await names(hub, "user")).items()} == {
        "a": 2, "b": 1, "c": 1, "other": 3,
    }  # fmt: skip
    assert len({figures.leases for figures in (await sums(hub)).values()}) == 1


async def test_refusals_count_once_although_the_hub_does_not_hear_that_they_were_told(hub: Hub) -> None:
    told = hub.usage._fold
    calls = 0

    async def unheard(**named: Any) -> Any:
        nonlocal calls
        reply = await told(**named)
        calls += 1
        if calls == 1:
            raise StoreUnavailable("gone")
        return reply

    hub.usage._fold = unheard  # type: ignore[assignment]
    hub.usage.refused(POOLS[0], "ml", "ann")
    with pytest.raises(StoreUnavailable):
        await hub.usage.fold()
    hub.usage.refused(POOLS[0], "ml", "ann")
    await hub.usage.fold()
    await hub.usage.fold()
    assert {figures.refusals for figures in (await sums(hub)).values()} == {2}
    assert (await names(hub, "user"))["ann"].refusals == 2
    assert (await names(hub, "slot"))[""].refusals == 2


async def test_hubs_that_fold_at_the_same_time_count_each_lease_once(hub: Hub, redis: Redis, redis_server: Any) -> None:
    await offer(hub, POOLS[0], "s1")
    lease = await hub.leases.borrow(wanted(POOLS[0]))
    await hub.leases.give_back("s1", POOLS[0], lease.token)
    (entry,) = redis.lrange("hub:usage_ended", 0, -1)
    redis.rpush("hub:usage_ended", *[entry] * 4999)
    async with open_store(settings_for(redis_server.url)) as store:
        other = Hub(store, settings_for(redis_server.url))
        await asyncio.gather(*(each.usage.fold() for each in (hub, other) * 3))
    assert [figures.leases for figures in (await sums(hub)).values()] == [5000] * len(KINDS)


@pytest.mark.parametrize("entry", ["", "x", "\x1f\x1f", "a\x1fb\x1fc", "9\x1f9\x1f\x1fs\x1fn\x1fl\x1ft\x1fu\x1fmore"])
async def test_an_entry_that_no_hub_wrote_stops_nothing(hub: Hub, redis: Redis, entry: str) -> None:
    await offer(hub, POOLS[0], "s1")
    lease = await hub.leases.borrow(wanted(POOLS[0]))
    redis.rpush("hub:usage_ended", entry)
    await hub.leases.give_back("s1", POOLS[0], lease.token)
    assert (await names(hub, "slot"))["s1"].leases == 1
    redis.set("hub:usage_ended", "of another type")
    lease = await hub.leases.borrow(wanted(POOLS[0]))
    await hub.leases.give_back("s1", POOLS[0], lease.token)
    assert (await names(hub, "slot"))["s1"].leases == 1
