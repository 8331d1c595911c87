"""The holdings of users and rooms: every record counts once, the doctor finds a wrong number and puts it right."""

from __future__ import annotations

import pytest

from hub.doctor.holdings import COUNTS, Holdings
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


async def test_a_room_that_holds_too_much_by_its_counter_alone_is_closed_with_it(hub, shop, redis):
    before = kept(redis)
    redis.zadd("hub:used:tasks", {"room:empty": 600})
    redis.hset("hub:room_openers", "empty", USER)
    redis.zincrby("hub:used:rooms", 1, OWNER)
    assert {each.subject for each in await look(hub)} == {"hub:used:tasks", "hub:used:rooms"}
    assert all(each.repaired for each in await look(hub, repair=True))
    assert kept(redis) == before
    assert not redis.hexists("hub:room_openers", "empty")
    assert await look(hub) == []


@pytest.mark.parametrize("counts", [0, 1, 5])
async def test_a_room_that_holds_nothing_and_is_still_open_is_found_and_closed(hub, shop, redis, counts):
    before = kept(redis)
    redis.hset("hub:room_openers", "empty", USER)
    redis.zincrby("hub:used:rooms", counts, OWNER)
    [finding] = await look(hub)
    assert (finding.invariant, finding.subject) == ("C12", "hub:used:rooms")
    assert [each.repaired for each in await look(hub, repair=True)] == [True]
    assert kept(redis) == before
    assert not redis.hexists("hub:room_openers", "empty")
    assert await look(hub) == []


class Busy(Holdings):
    """A counter during whose first `times` counts a record is made."""

    def __init__(self, hub, redis, times: int) -> None:
        super().__init__(hub.store)
        self.redis, self.times = redis, times

    async def _counted(self):
        counted = await super()._counted()
        if self.times:
            self.times -= 1
            self.redis.hincrby("hub:store", "last_us", 1)
        return counted


async def test_the_doctor_counts_again_when_a_record_was_made_during_its_count(hub, shop, redis):
    redis.zincrby("hub:used:tasks", 1000, OWNER)
    busy = Busy(hub, redis, COUNTS - 1)
    assert [each.owner for each in (await busy.wrong())["tasks"]] == [OWNER]
    assert busy.times == 0


async def test_the_doctor_says_when_it_could_not_count_what_is_held(hub, shop, redis, caplog):
    redis.zincrby("hub:used:tasks", 1000, OWNER)
    busy = Busy(hub, redis, COUNTS)
    assert await busy.words(["tasks", "rooms"]) == [[], []]
    assert [each.message for each in caplog.records if "holdings not counted" in each.message]
    assert busy.times == 0
