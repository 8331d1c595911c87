"""Hashes in Redis that can never be found or reached as they are declared: what is refused, and in which words."""

from __future__ import annotations

import pytest

from hub.errors import RecordsUnavailable, SourceRefused
from hub.recovery.addresses import open_redis
from hub.recovery.hashes import HashRecords
from hub.recovery.models import RedisSource, Reset
from hub.settings import Settings
from tests.recovery.hashes import FIELDS, now_s, put, records_of

NO_URL = "it is no URL of a Redis, such as redis://host:6379/0."
SPACE = "there is a space in it, which a URL writes as %20."
NUMBER = "its database is no number, such as redis://host:6379/0."
OPTION = "it has an option, or a value of one, that no connection to Redis takes."
BAD = {
    "http://me:s3cret@there": NO_URL,
    "s3cret://there": NO_URL,
    "me:s3cret@there": NO_URL,
    "redis:/me:s3cret@there": NO_URL,
    "redis:///s3cret": NO_URL,
    "redis://me:s3cret@": NO_URL,
    "redis://me:s3cret@there:port/0": NO_URL,
    "redis://me:s3cret@there:0": NO_URL,
    "redis://me:s3cret@there:70000": NO_URL,
    "redis://me:s3cret@[::1": NO_URL,
    "redis://me:s3/cret@there": NO_URL,
    "redis://me:7/s3cret@there": NO_URL,
    "redis://me:s3#cret@there": NO_URL,
    "redis://me:7#s3cret@there": NO_URL,
    "redis://me:7?s3cret@there": NO_URL,
    "redis+sentinel://me:7/s3cret@there/main": NO_URL,
    "redis+sentinel://a:1,b:s3cret/main": NO_URL,
    "redis+sentinel://a:1/main?password=s3cret": NO_URL,
    "unix://me:s3cret@": NO_URL,
    "unix://me:s3cret/sock": NO_URL,
    "redis://me:s3 cret@there": SPACE,
    " redis://me:s3cret@there": SPACE,
    "redis://me:s3\tcret@there": SPACE,
    "redis://me:s3cret@there/abc": NUMBER,
    "redis://me:s3cret@there/0/1": NUMBER,
    "redis+sentinel://a:1/main/s3cret": NUMBER,
    "redis://me:s3cret@there?foo=1": OPTION,
    "redis://me:7?s3cret=@there": OPTION,
    "redis://me:s3cret@there?db=s3cret": OPTION,
    "redis://me:s3cret@there?socket_timeout=long": OPTION,
    "redis://me:s3cret@there?protocol=9": OPTION,
    "redis://me:s3cret@there?retry=5": OPTION,
    "rediss://me:s3cret@there?ssl_cert_reqs=s3cret": OPTION,
    "unix:///sock?foo=1": OPTION,
}


@pytest.mark.parametrize(("url", "why"), BAD.items())
def test_an_invalid_url_of_a_redis_is_refused_at_once_and_not_shown(url, why):
    with pytest.raises(SourceRefused) as error:
        HashRecords(RedisSource(**FIELDS, url=url), None)
    assert str(error.value) == f"source orders, url: {why}"


SHOWN = {
    "redis://me:s3cret@127.0.0.1:1": "127.0.0.1:1/0",
    "REDIS://me:s3@cret@127.0.0.1:1/3": "127.0.0.1:1/3",
    "redis://me:s3%20cret%2F@127.0.0.1:1/3/": "127.0.0.1:1/3",
    "redis://:s3cret@[::1]:1/2?db=4": "[::1]:1/4",
    "rediss://127.0.0.1:1?password=s3cret&username=me": "127.0.0.1:1/0",
    "unix:///no/such.sock?db=2&password=s3cret": "/no/such.sock, database 2",
    "redis+sentinel://me:s3cret@127.0.0.1:1,127.0.0.1:2/main/1": "127.0.0.1:1,127.0.0.1:2/main/1",
}


@pytest.mark.parametrize(("url", "shown"), SHOWN.items())
async def test_only_the_server_and_the_database_of_a_url_are_shown(url, shown):
    source = RedisSource(**FIELDS, url=url)
    opened, said = open_redis(url, source, Settings())
    await opened.close()
    assert said == shown
    if "sentinel" in url:  # which is asked for long before it is given up
        return
    records = HashRecords(source, None)
    with pytest.raises(RecordsUnavailable) as error:
        await records.count()
    assert str(error.value).startswith(f"source orders, url: {shown} does not answer: ")
    assert "cret" not in str(error.value)
    await records.close()


# -- what can never be found ------------------------------------------------------------------------------------------


async def refused(records):
    """Return what a check says."""
    with pytest.raises(SourceRefused) as error:
        await records.check()
    return str(error.value)


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(("field", "named"), [("status_field", "state"), ("updated_at_field", "updatedAt")])
async def test_fields_that_no_record_has_are_refused(hub, redis, field, named, is_sorted):
    put(redis, "a", score=1 if is_sorted else None)
    put(redis, "b", score=2 if is_sorted else None)
    redis.sadd("orders", "gone") if not is_sorted else redis.zadd("orders", {"gone": 3})
    assert await refused(records_of(hub, **{field: named})) == (
        f"source orders, {field}: none of the 2 hashes looked at has {named!r}."
    )
    redis.hset("order:a", named, "1")
    await records_of(hub, **{field: named}).check()


async def test_an_index_without_records_is_accepted(hub, redis):
    await records_of(hub).check()
    redis.sadd("orders", "gone", "too")
    await records_of(hub).check()


NONE = "which is no Unix time in s or ms and no ISO-8601 text"
TIMES = {
    "yesterday": f"'yesterday', {NONE}",
    "": f"'', {NONE}",
    "1750000000,5": f"'1750000000,5', {NONE}",
    "x" * 100: f"'{'x' * 60}...', {NONE}",
    "1750000000000000000": f"'1750000000000000000', {NONE}",
    "1750000000000000": "'1750000000000000', more than a day ahead; Unix times are read in s or ms",
    "2999-01-01T00:00:00Z": "'2999-01-01T00:00:00Z', more than a day ahead; Unix times are read in s or ms",
    "9999-12-31T23:59:59.999-23:59": "'9999-12-31T23:59:59.999-23:59', more than a day ahead; Unix times are read in",
    "2026-01-01 00:00:00": "'2026-01-01 00:00:00', without an offset from UTC; write one, or say time_zone",
}


@pytest.mark.parametrize("text", TIMES)
async def test_unreadable_times_of_stuck_records_are_refused(hub, redis, text):
    put(redis, "a", updated_at=text)
    put(redis, "b")
    said = await refused(records_of(hub))
    assert said.startswith(f"source orders, updated_at_field: updated_at of order:a is {TIMES[text]}")
    assert await records_of(hub).reset() == Reset(("b",), ())
    redis.hset("order:a", "status", "Done")
    await records_of(hub).check()


async def test_missing_records_and_unusual_times_are_not_refused(hub, redis):
    redis.hset("order:none", "status", "Processing")
    redis.sadd("orders", "none")
    put(redis, "unset", updated_at="0001-01-01T00:00:00+01:00")
    put(redis, "soon", -3600)
    await records_of(hub).check()
    put(redis, "naive", updated_at="2026-01-01 00:00:00")
    await records_of(hub, time_zone="UTC").check()


async def test_scores_in_another_unit_are_refused(hub, redis):
    put(redis, "never", score="+inf")
    put(redis, "a", score=now_s(redis))
    await records_of(hub).check()
    put(redis, "a", score=now_s(redis) * 1e6)
    assert await refused(records_of(hub)) == (
        "source orders, index: the score of order:a is more than a day ahead; it must be a time in s or ms."
    )
