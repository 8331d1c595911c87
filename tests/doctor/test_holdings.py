"""The holdings of users and rooms: every record counts once, the doctor finds a wrong number and puts it right."""

from __future__ import annotations

import pytest

from hub.jobs.rules import Rule
from hub.jobs.schedules import Schedule
from tests.doctor.shop import JOB, USER, furnish, look

OWNER = f"user:{USER}"


@pytest.fixture
async def shop(hub, redis):
    found = await furnish(hub, redis)
    await hub.schedules.put(Schedule("one", "s", JOB, "{}", Rule(every_ms=60_000)), USER, superuser=False)
    assert await look(hub) == []
    return found


def kept(redis) -> dict[str, dict[str, float]]:
    return {key: dict(redis.zrange(key, 0, -1, withscores=True)) for key in sorted(redis.scan_iter("hub:used:*"))}


async def test_a_store_with_records_of_every_kind_has_a_counter_for_each_kind(shop, redis):
    assert set(kept(redis)) == {
        f"hub:used:{kind}" for kind in ("tasks", "schemas", "schedules", "providers", "rooms")
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["tasks", "schemas", "schedules", "providers", "rooms"])
@pytest.mark.parametrize("how", ["more", "less", "gone", "stranger"])
async def test_a_wrong_counter_is_found_and_corrected(hub, shop, redis, kind, how):
    before, key = kept(redis), f"hub:used:{kind}"
    match how:
        case "more":
            redis.zincrby(key, 1000, OWNER)
        case "less":
            redis.zincrby(key, -1, OWNER)
        case "gone":
            redis.zrem(key, OWNER)
        case _:
            redis.zadd(key, {"user:nobody": 5})
    [finding] = await look(hub)
    assert (finding.invariant, finding.subject) == ("C12", key)
    assert [each.repaired for each in await look(hub, repair=True)] == [True]
    assert kept(redis) == before
    assert await look(hub) == []


async def test_a_dropped_record_does_not_count_any_more(hub, shop, redis):
    redis.hdel(f"hub:task:{shop.waiting}", "at")
    redis.hdel("hub:schedule:one:s", "cron")
    for _ in range(3):  # what named it follows
        await look(hub, repair=True)
    assert await look(hub) == []
    assert not redis.exists(f"hub:task:{shop.waiting}")
    assert not redis.exists("hub:schedule:one:s")
