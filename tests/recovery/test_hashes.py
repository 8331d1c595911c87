"""Hashes of other programs that got stuck, on a real Redis: what is brought back, and what never is."""

from __future__ import annotations

from datetime import UTC

import pytest
from redis import Redis

from hub.errors import RecordsUnavailable
from hub.recovery.hashes import BATCH, HashRecords
from hub.recovery.models import RedisSource, Reset
from tests.recovery.hashes import COUNTED, FIELDS, at_exactly, now_s, put, records_of
from tests.world import SLACK_S, picture

NOW_S = 1_750_000_000


async def test_a_stuck_record_is_reset_and_a_fresh_one_is_not(hub, redis):
    put(redis, "old", 120)
    put(redis, "fresh", 30)
    put(redis, "done", 9999, status="Done")
    before = now_s(redis)
    records = records_of(hub, error_field="why", error_text="gave up")
    await records.check()
    assert await records.count() == 1
    assert await records.reset() == Reset(("old",), ())
    found = redis.hgetall("order:old")
    assert before <= float(found.pop("updated_at")) <= now_s(redis)
    assert found == {"status": "Pending", "why": "gave up"}
    assert redis.hget("order:fresh", "status") == "Processing"
    assert (await records.count(), await records.reset()) == (0, Reset())


async def test_stuck_records_are_listed_longest_stuck_first_with_their_times(hub, redis):
    put(redis, "a", 100, tries="1")
    put(redis, "b", 300, tries="")
    put(redis, "c", 200)
    records = records_of(hub, **COUNTED)
    found = await records.look(10)
    assert [(stuck.id, stuck.status, stuck.attempts) for stuck in found] == [
        ("b", "Processing", 0),
        ("c", "Processing", 0),
        ("a", "Processing", 1),
    ]
    for stuck, age_s in zip(found, (300, 200, 100), strict=True):
        assert age_s <= stuck.age_s < age_s + SLACK_S
        assert abs(stuck.updated_at.timestamp() - (now_s(redis) - age_s)) < SLACK_S
    assert [stuck.id for stuck in await records.look(2)] == ["b", "c"]
    assert [stuck.id for stuck in await records.look(9, older_than_s=150)] == ["b", "c"]
    assert [stuck.id for stuck in await records.look(9, older_than_s=1, ids=["a", "b", "nobody"])] == ["b", "a"]
    assert [stuck.attempts for stuck in await records_of(hub).look(1)] == [None]


async def test_looking_changes_nothing(hub, redis):
    put(redis, "a")
    put(redis, "b", score=1, index="sorted")
    before = picture(redis, own=True)
    for records in (records_of(hub, **COUNTED), records_of(hub, index="sorted")):
        await records.check()
        await records.count()
        await records.look(9)
        await records.look(9, ids=["a"])
    assert picture(redis, own=True) == before


@pytest.mark.parametrize("by_score", [False, True])
async def test_a_record_is_stuck_one_microsecond_after_the_threshold(hub, redis, by_score):
    now_us = NOW_S * 1_000_000 + 123_456
    written = f"{NOW_S - 60}.123456"
    put(redis, "edge", updated_at=written, score=float(written) if by_score else None)
    records = at_exactly(records_of(hub), now_us)
    assert (await records.look(9), await records.reset(), await records.reset(["edge"])) == ([], Reset(), Reset())
    records = at_exactly(records_of(hub), now_us + 1)
    assert [stuck.age_s for stuck in await records.look(9)] == [60.000001]
    assert await records.reset() == Reset(("edge",), ())


FORMS = {
    "1749990000": "1750000000",
    "1749990000.5": "1750000000.1",
    "1749990000.123": "1750000000.123",
    "1749990000.1234567": "1750000000.1234560",
    "1749990000000": "1750000000123",
    "1749990000000.25": "1750000000123.45",
    "2025-06-15T12:20:00Z": "2025-06-15T15:06:40Z",
    "2025-06-15 12:20:00Z": "2025-06-15 15:06:40Z",
    "2025-06-15T12:20:00.1234567Z": "2025-06-15T15:06:40.1234560Z",
    "2025-06-15T12:20:00.123456+00:00": "2025-06-15T15:06:40.123456+00:00",
    "2025-06-15T14:20:00.123+02:00": "2025-06-15T17:06:40.123+02:00",
    "2025-06-15t06:50:00-0530": "2025-06-15t09:36:40-0530",
    "2025-06-15T23:20:00+14:00": "2025-06-16T05:06:40+14:00",
    "1970-01-01T00:00:00.5Z": "2025-06-15T15:06:40.1Z",
}


@pytest.mark.parametrize("text", FORMS)
async def test_a_reset_writes_the_time_in_the_form_it_had(hub, redis, text):
    put(redis, "a", updated_at=text)
    assert await at_exactly(records_of(hub), NOW_S * 1_000_000 + 123_456).reset() == Reset(("a",), ())
    assert redis.hget("order:a", "updated_at") == FORMS[text]


AGES = {
    "1749999900": 100.0,
    "1749999900.25": 99.75,
    "1749999900.1234561": 99.876543,  # never older than it says
    "1749999900250": 99.75,
    "1749999900250.5": 99.7495,
    "2025-06-15T15:05:00Z": 100.0,
    "2025-06-15 17:05:00.250001+02:00": 99.749999,
    "2025-06-15T15:05:00.999999999Z": 99.0,
    "1970-01-01T00:00:00.5Z": 1749999999.5,
    "0": 1750000000.0,
}


@pytest.mark.parametrize("text", AGES)
async def test_ages_are_exact_to_the_microsecond(hub, redis, text):
    put(redis, "a", updated_at=text)
    [stuck] = await at_exactly(records_of(hub), NOW_S * 1_000_000).look(1)
    assert stuck.age_s == AGES[text]
    assert stuck.updated_at.timestamp() == pytest.approx(NOW_S - AGES[text], abs=1e-5)
    assert stuck.updated_at.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["", "soon", "-5", "1e9", "0x10", "nan", "inf", " 1749990000", "1749990000,5", "2025-13-01T00:00:00Z",
     "2025-06-15", "0000-01-01T00:00:00Z", "2025-06-15T12:20:00.1234567890Z", "9" * 30, "9" * 400,
     # What programs write that have no time, on any clock of the world.
     "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00-14:00",
     "1969-12-31T23:59:59.999999Z", "1970-01-01T00:59:59+01:00"],
)  # fmt: skip
async def test_a_record_with_an_unreadable_time_is_never_touched(hub, redis, text):
    put(redis, "a", updated_at=text)
    put(redis, "waits")
    before = redis.hgetall("order:a")
    for records in (records_of(hub), records_of(hub, time_zone="UTC")):
        assert [stuck.id for stuck in await records.look(9)] == ["waits"]
        assert await records.reset(["a"]) == Reset()
    assert (await records.count(), await records.reset()) == (1, Reset(("waits",), ()))
    assert redis.hgetall("order:a") == before


@pytest.mark.parametrize("text", ["2025-06-15T12:20:00", "2025-06-15 12:20:00.123456"])
async def test_a_time_without_an_offset_counts_only_if_the_source_names_a_zone(hub, redis, text):
    put(redis, "a", updated_at=text)
    put(redis, "sure", updated_at=f"{text}Z")
    silent = at_exactly(records_of(hub), NOW_S * 1_000_000)
    assert [stuck.id for stuck in await silent.look(9)] == ["sure"]
    assert await silent.reset(["a"]) == Reset()
    assert await silent.reset() == Reset(("sure",), ())
    assert redis.hget("order:a", "updated_at") == text
    assert await at_exactly(records_of(hub, time_zone="UTC"), NOW_S * 1_000_000).reset() == Reset(("a",), ())
    written = redis.hget("order:a", "updated_at")
    assert written == f"2025-06-15{text[10]}15:06:40{'.000000' if '.' in text else ''}"


async def test_a_record_without_a_time_or_from_the_future_is_never_touched(hub, redis):
    redis.hset("order:none", "status", "Processing")
    redis.sadd("orders", "none", "gone")
    put(redis, "tomorrow", -86_400)
    redis.zadd("sorted", {"none": 1, "gone": 1})
    for index in ("orders", "sorted"):
        assert await records_of(hub, index=index).reset() == Reset()
        assert await records_of(hub, index=index).reset(["none", "gone", "tomorrow"]) == Reset()


async def test_only_members_of_the_index_are_records(hub, redis):
    put(redis, "in")
    put(redis, "out", index="others")
    records = records_of(hub)
    assert await records.look(9, ids=["out"]) == []
    assert await records.reset(["in", "out", "in"]) == Reset(("in",), ())


async def test_statuses_may_be_numbers(hub, redis):
    put(redis, "a", status="1")
    put(redis, "b", status="01")
    assert await records_of(hub, stuck=1, becomes=0, failed=-1).reset() == Reset(("a",), ())
    assert redis.hget("order:a", "status") == "0"


async def test_a_record_fails_after_the_configured_number_of_resets(hub, redis):
    put(redis, "a", tries="1")
    put(redis, "b", tries="2")
    put(redis, "c")
    put(redis, "d", tries="none")
    done = await records_of(hub, **COUNTED).reset()
    assert (set(done.reset), done.failed) == ({"a", "c", "d"}, ("b",))
    found = {id: redis.hmget(f"order:{id}", "status", "tries", "why") for id in "abcd"}
    assert found == {
        "a": ["Pending", "2", "stuck"],
        "b": ["Failed", "2", "stuck"],
        "c": ["Pending", "1", "stuck"],
        "d": ["Pending", "1", "stuck"],
    }


# -- a sorted index -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit_s", [1, 0.001])
async def test_of_a_sorted_index_only_members_with_an_overdue_score_are_read_and_scores_are_corrected(
    hub, redis, unit_s
):
    now = int(now_s(redis))
    put(redis, "old", updated_at=f"{now - 120}", score=(now - 120) / unit_s)
    put(redis, "beats", updated_at=f"{now - 120}", score=now / unit_s)
    put(redis, "bumped", updated_at=f"{now}", score=(now - 120) / unit_s)
    records = records_of(hub)
    assert [stuck.id for stuck in await records.look(9)] == ["old"]
    assert await records.reset() == Reset(("old",), ())
    assert await records.reset(["beats", "bumped"]) == Reset()
    score = redis.zscore("orders", "old") * unit_s
    assert now <= score <= now_s(redis)
    assert (redis.zscore("orders", "old") % 1, redis.zcard("orders")) == (0, 3)
    assert redis.zscore("orders", "bumped") == (now - 120) / unit_s


async def test_fresh_members_with_overdue_scores_do_not_hide_stuck_ones(hub, redis):
    now = now_s(redis)
    pipe = redis.pipeline()
    for number in range(3 * BATCH):  # overdue by score, all of the same score, and done long ago
        pipe.zadd("orders", {f"done{number}": now - 7200})
        pipe.hset(f"order:done{number}", mapping={"status": "Done", "updated_at": now - 7200})
    pipe.execute()
    for number in range(5):
        put(redis, f"late{number}", 120, score=now - 120)
    records = records_of(hub, batch_size=2)
    assert [len((await records.reset()).reset) for _ in range(4)] == [2, 2, 1, 0]
    assert {redis.hget(f"order:late{number}", "status") for number in range(5)} == {"Pending"}


async def test_scores_in_seconds_and_in_milliseconds_are_told_apart(hub, redis):
    now = now_s(redis)
    put(redis, "s", 600, score=now - 600)
    put(redis, "ms", 500, score=(now - 500) * 1000)
    put(redis, "always", 400, score="-inf")
    put(redis, "never", 400, score="+inf")
    put(redis, "fresh-s", 400, score=now)
    put(redis, "fresh-ms", 400, score=now * 1000)
    assert [stuck.id for stuck in await records_of(hub).look(9)] == ["s", "ms", "always"]
    assert set((await records_of(hub).reset()).reset) == {"s", "ms", "always"}


# -- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sorted", [False, True])
async def test_a_hundred_thousand_members_are_walked_in_batches(hub, redis, is_sorted, monkeypatch):
    pipe = redis.pipeline(transaction=False)
    for start in range(0, 100_000, 1000):
        ids = [f"{number}" for number in range(start, start + 1000)]
        if is_sorted:
            pipe.zadd("orders", dict.fromkeys(ids, 1.0))
        else:
            pipe.sadd("orders", *ids)
    pipe.execute()
    for number in range(7, 100_000, 250):
        redis.hset(f"order:{number}", mapping={"status": "Processing", "updated_at": "1749990000"})
    records = records_of(hub)
    sizes, pages = [], []
    call, read = records._redis.call, records._redis.read

    async def counted_call(script, keys, rest=(), **named):
        sizes.append(len(rest))
        return await call(script, keys, rest, **named)

    async def counted_read(*command):
        answer = await read(*command)
        if command[0] in ("ZRANGE", "SSCAN"):
            pages.append(len(answer[1] if command[0] == "SSCAN" else answer))
        return answer

    monkeypatch.setattr(records._redis, "call", counted_call)
    monkeypatch.setattr(records._redis, "read", counted_read)
    assert await records.count() == 400
    assert (max(sizes) <= BATCH, sum(sizes) >= 100_000, max(pages) <= 2 * BATCH) == (True, True, True)
    walked = len(sizes)
    sizes.clear()
    done = [(await records.reset()).count for _ in range(4)]
    assert done == [BATCH, BATCH, 400 - 2 * BATCH, 0]
    assert len(sizes) < 2.5 * walked, "one walk for all batches, and one that finds nothing more"
    assert max(sizes) <= BATCH


async def test_more_ids_than_one_batch_are_reset_in_batches(hub, redis):
    ids = [str(number) for number in range(BATCH + 5)]
    for id in ids:
        put(redis, id)
    assert set((await records_of(hub).reset(ids)).reset) == set(ids)


async def test_a_batch_is_written_as_a_whole_or_not_at_all(hub, redis, redis_server):
    """A key that the hub may not touch stands in for anything that ends a script half-way."""
    put(redis, "a", 300)
    put(redis, "z", 300)
    redis.execute_command("ACL", "SETUSER", "shy", "on", ">s3cret", "+@all", "~orders", "~order:a")
    try:
        source = RedisSource(**FIELDS, url=redis_server.url.replace("redis://", "redis://shy:s3cret@"))
        records = HashRecords(source, None)
        with pytest.raises(
            RecordsUnavailable, match=r"source orders, url: 127.0.0.1:\d+/0 does not let the hub in: "
        ) as e:
            await records.reset(["a", "z"])
        assert "s3cret" not in str(e.value)
        await records.close()
        assert redis.hget("order:a", "status") == "Processing"
    finally:
        redis.execute_command("ACL", "DELUSER", "shy")


async def test_a_member_that_is_no_hash_delays_no_other(hub, redis):
    put(redis, "a")
    redis.sadd("orders", "text")
    redis.set("order:text", "hello")
    assert await records_of(hub).reset(["text", "a"]) == Reset(("a",), ())


async def test_ids_may_contain_any_bytes(hub, redis, redis_server):
    for id in ("ä:1", "{x}", "a b", "*"):
        put(redis, id)
    raw = Redis.from_url(redis_server.url)
    raw.sadd("orders", b"\xff\x00")
    raw.hset(b"order:\xff\x00", mapping={"status": "Processing", "updated_at": "1749990000"})
    done = await records_of(hub).reset()
    assert len(done.reset) == 5
    assert raw.hget(b"order:\xff\x00", "status") == b"Pending"
    raw.close()


@pytest.mark.parametrize("score", ["+inf", "1.7e308", "1e300"])
async def test_a_score_beyond_all_times_means_never(hub, redis, score):
    put(redis, "never", score=score)
    records = records_of(hub)
    await records.check() if score == "+inf" else None
    assert (await records.look(1, ids=["never"]), await records.reset(["never"]), await records.reset()) == (
        [],
        Reset(),
        Reset(),
    )


async def test_a_number_of_resets_beyond_all_integers_counts_as_over_the_limit(hub, redis):
    put(redis, "a", tries="9" * 400)
    records = records_of(hub, **COUNTED)
    assert [stuck.attempts > 2 for stuck in await records.look(1)] == [True]
    assert await records.reset() == Reset((), ("a",))


# -- walks that take too long ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sorted", [False, True])
async def test_a_walk_that_takes_too_long_is_continued_where_it_stopped(hub, redis, is_sorted, monkeypatch):
    monkeypatch.setattr("hub.recovery.nominees.WALK_S", 0.0)
    pipe = redis.pipeline()
    for number in range(8 * BATCH):
        name, at = f"n{number}", 1749990000 + number
        pipe.zadd("orders", {name: at}) if is_sorted else pipe.sadd("orders", name)
        status = "Done" if number % 100 else "Processing"
        pipe.hset(f"order:{name}", mapping={"status": status, "updated_at": at})
    pipe.execute()
    records = records_of(hub)
    counts = [await records.count() for _ in range(10)]
    assert max(counts) < 8 * BATCH / 100 <= sum(counts)
    done: list[str] = []
    for _ in range(20):  # each one walks no further than a batch
        done += (await records.reset()).reset
    assert sorted(done) == sorted(f"n{number}" for number in range(0, 8 * BATCH, 100))
    assert len(await records.look(99)) == 0, "and who looks sees all"


async def test_counted_records_are_listed_and_reset_without_another_walk(hub, redis, monkeypatch):
    for number in range(2 * BATCH):
        put(redis, f"n{number}", 120 + number)
    records = records_of(hub)
    assert await records.count() == 2 * BATCH
    walks = []
    read = records._redis.read

    async def counted(*command):
        walks.append(command[0])
        return await read(*command)

    monkeypatch.setattr(records._redis, "read", counted)
    assert [stuck.id for stuck in await records.look(1)] == [f"n{2 * BATCH - 1}"]
    assert set((await records.reset()).reset) == {f"n{number}" for number in range(BATCH, 2 * BATCH)}
    assert len((await records.reset()).reset) == BATCH
    assert "SSCAN" not in walks
    put(redis, "late", 99)
    assert [stuck.id for stuck in await records.look(1)] == ["late"]
    assert await records.reset() == Reset(("late",), ())
