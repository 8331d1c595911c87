"""Hashes that got stuck, where something does not fit, where Redis is away, and where others are at them as well."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from hub.errors import RecordsUnavailable, SourceRefused
from hub.recovery.hashes import HashRecords
from hub.recovery.models import RedisSource, Reset
from tests.recovery.hashes import COUNTED, FIELDS, now_s, put, records_of
from tests.world import RedisServer, free_port, wait_until

# -- what does not fit ------------------------------------------------------------------------------------------------


async def test_a_missing_index_counts_as_empty(hub):
    records = records_of(hub)
    await records.check()
    assert (await records.count(), await records.look(9), await records.reset()) == (0, [], Reset())


async def test_an_index_of_another_type_is_refused(hub, redis):
    redis.rpush("orders", "a")
    for ask in (records_of(hub).check, records_of(hub).count, records_of(hub).reset):
        with pytest.raises(SourceRefused, match=r"^source orders, index: orders is a list, neither a set nor a sorted"):
            await ask()


@pytest.mark.parametrize("is_sorted", [False, True])
async def test_keys_and_counters_of_another_type_are_refused(hub, redis, is_sorted):
    put(redis, "a", tries="few", score=1 if is_sorted else None)
    with pytest.raises(
        SourceRefused, match=r"^source orders, attempts_field: tries of order:a is 'few', no whole number"
    ):
        await records_of(hub, **COUNTED).check()
    redis.delete("order:a")
    redis.set("order:a", "text")
    with pytest.raises(SourceRefused, match=r"^source orders, key: order:a is a string, no hash"):
        await records_of(hub).check()


async def test_an_index_that_changes_its_type_under_a_walk_is_refused(hub, redis, monkeypatch):
    redis.rpush("orders", "a")

    async def was_a_set():
        return "set"

    records = records_of(hub)
    monkeypatch.setattr(records._members, "_kind", was_a_set)
    with pytest.raises(SourceRefused, match=r"^source orders, index: the hub's own Redis refuses a command: WRONGTYPE"):
        await records.count()


async def test_keys_in_different_slots_of_a_cluster_are_refused(cluster):
    key = "{orders}:1"
    cluster.hset(key, mapping={"status": "Processing", "updated_at": "1749990000"})
    cluster.sadd("{orders}", "1")
    url = f"redis://127.0.0.1:{cluster.connection_pool.connection_kwargs['port']}"
    fits = HashRecords(RedisSource(name="orders", index="{orders}", key="{orders}:{id}", url=url), None)
    assert await fits.reset() == Reset(("1",), ())
    spread = HashRecords(RedisSource(name="orders", index="{orders}", key="order:{id}", url=url), None)
    with pytest.raises(SourceRefused, match=r"source orders, key: .* is a cluster, and index and keys are not in one"):
        await spread.count()
    for records in (fits, spread):
        await records.close()


async def test_a_call_without_the_store_or_an_argument_is_refused(hub):
    with pytest.raises(TypeError):
        HashRecords(RedisSource(**FIELDS), None)
    records = records_of(hub)
    with pytest.raises(TypeError, match="external/find takes"):
        await records._redis.call(records._find, [], [], stuck="x")


async def test_an_unreachable_redis_is_reported_without_its_password(redis, redis_server):
    asks = {
        "redis://me:s3cret@127.0.0.1:1/0": " does not answer: ",
        redis_server.url.replace("//", "//me:s3cret@"): " does not let the hub in: ",
    }
    for url, why in asks.items():
        records = HashRecords(RedisSource(**FIELDS, url=url), None)
        for ask in (records.check, records.count, records.reset):
            with pytest.raises(RecordsUnavailable, match=f"^source orders, url: 127.0.0.1:\\d+/0{why}") as error:
                await ask()
            assert "s3cret" not in str(error.value)
        await records.close()


# -- others at the same time ------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path):
    """A cluster of one."""
    port = free_port()
    options = [
        "--port",
        str(port),
        "--dir",
        str(tmp_path),
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        str(free_port()),
        "--save",
        "",
        "--bind",
        "127.0.0.1",
    ]
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    process = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
    client = Redis.from_url(f"redis://127.0.0.1:{port}", decode_responses=True)

    def serves():
        with contextlib.suppress(RedisError):
            return client.set("probe", "1")
        return False

    wait_until(lambda: answers(client))
    client.execute_command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
    wait_until(serves)
    yield client
    client.close()
    process.kill()
    process.wait()


def answers(client):
    """Return whether the server answers."""
    with contextlib.suppress(RedisError):
        return client.ping()
    return False


@pytest.fixture
def other_server():
    """A Redis that knows nothing of the hub."""
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder), append_fsync="always") as server:
        yield server


async def test_records_in_another_redis_are_reset_there_even_after_its_restart(hub, redis, other_server):
    other = other_server.client()
    put(other, "a", 300)
    records = HashRecords(RedisSource(**FIELDS, url=other_server.url), hub.store)
    assert await records.count() == 1
    other_server.kill()
    with pytest.raises(RecordsUnavailable):
        await records.reset()
    other_server.start()
    assert await records.reset() == Reset(("a",), ())
    await records.close()
    assert (redis.exists("order:a"), other.keys("hub:*")) == (0, [])
    assert await hub.store.read("DBSIZE") > 0, "the hub's own connections are open"


WORKER = """
import asyncio, sys
from hub.recovery.hashes import HashRecords
from hub.recovery.models import RedisSource

async def main(url):
    source = RedisSource(name="orders", index="orders", key="order:{id}", threshold_minutes=1, url=url, batch_size=20,
                         attempts_field="tries", max_attempts=5)
    records = HashRecords(source, None)
    await records.look(1)
    print("ready", flush=True)
    sys.stdin.readline()
    while (done := await records.reset()).count:
        print(*done.reset, flush=True)
    await records.close()

asyncio.run(main(sys.argv[1]))
"""


def test_two_services_at_once_reset_each_record_once(redis, redis_server):
    for number in range(1000):
        put(redis, str(number), 3600 + number)
    services = [
        subprocess.Popen([sys.executable, "-c", WORKER, redis_server.url], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]  # fmt: skip
    assert [service.stdout.readline() for service in services] == ["ready\n"] * 2
    for service in services:
        service.stdin.write("go\n")
        service.stdin.flush()
    told = [service.communicate(timeout=60)[0].split() for service in services]
    assert Counter(told[0] + told[1]) == Counter(str(number) for number in range(1000))
    assert {redis.hget(f"order:{number}", "tries") for number in range(1000)} == {"1"}


async def test_a_worker_that_updates_a_record_in_the_same_moment_keeps_it(hub, redis):
    records = records_of(hub)
    for _ in range(30):
        put(redis, "a", 120)
        found = await records.look(1)
        beat = asyncio.to_thread(redis.hset, "order:a", mapping={"updated_at": f"{now_s(redis):.6f}", "beat": "1"})
        done, _ = await asyncio.gather(records.reset([found[0].id]), beat)
        assert redis.hget("order:a", "status") == ("Pending" if done.count else "Processing")
        redis.delete("order:a")


async def test_a_record_refreshed_between_two_looks_is_left_alone(hub, redis):
    put(redis, "a", 300)
    put(redis, "b", 200)
    records = records_of(hub, batch_size=1)
    assert (await records.reset()).reset == ("a",)
    put(redis, "b", 10)
    assert await records.reset() == Reset()
    assert redis.hget("order:b", "status") == "Processing"


async def test_a_repeated_reset_changes_nothing(hub, redis):
    put(redis, "a", tries="0")
    records = records_of(hub, **COUNTED)
    assert [await records.reset(["a"]), await records.reset(["a"])] == [Reset(("a",), ()), Reset()]
    redis.hset("order:a", "status", "Processing")  # claimed again just now
    assert await records.reset(["a"]) == Reset()
    assert redis.hget("order:a", "tries") == "1"
