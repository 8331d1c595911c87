"""A copy of a store in a file, and a store made from it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from hub.errors import StartRefused
from hub.store import backup
from hub.store.backup import PART, CopyRefused, hubs_alive, read_copy, write_copy
from hub.store.connection import open_store
from hub.store.keys import Keys
from tests.world import RedisServer, borrow, eventually, publish, settings_for

KEYS = Keys()
OWN = {KEYS.store, KEYS.restoring}


@pytest.fixture
def another(tmp_path: Path):
    """A second server, empty."""
    with RedisServer(tmp_path / "another") as server:
        yield server


@pytest.fixture
async def copied(redis_server, redis, make_api, tmp_path):
    """A file with a store that has a bit of everything, and keys of other programs, large and odd ones."""
    async with make_api() as api:
        await publish(api, "n1", **{"gpu:a100": ["s1", "s2", "s3"]})
        assert (lent := await borrow(api, "gpu:a100")).status_code == 200, lent.text
        assert (await api.put("/v1/joblib/rooms/@global/jobs", json={"category": "selections", "name": "j"})).is_success
    redis.rpush(KEYS.available("large"), *(f'{{"nodeId":"n1","browserId":"l{n}"}}' for n in range(3 * PART)))
    redis.zadd("large:zset", {f"m{n}": n / 7 for n in range(3 * PART)})
    redis.hset("large:hash", mapping={f"f{n}": "x" for n in range(3 * PART)})
    redis.sadd("large:set", *range(3 * PART))
    for n in range(PART + 5):
        redis.xadd("large:stream", {"n": n, "text": "ü"})
    redis.set("odd", b'\xff\x00 \n"')
    redis.set("ends", "x", ex=1000)
    path = tmp_path / "copy"
    await stopped(redis_server)
    async with open_store(settings_for(redis_server.url)) as store:
        await write_copy(store, path)
    return path


async def stopped(server):
    """Wait until no hub is taken to tick there; those in this process never do."""
    async with open_store(settings_for(server.url)) as store:

        async def is_quiet():
            return await hubs_alive(store) == 0

        await eventually(is_quiet)


def everything(server):
    """Return all keys with their dumped values and whether they expire."""
    client = server.client()
    names = sorted(set(client.scan_iter()) - OWN)
    raw = type(client)(port=server.port)
    kinds = {name: client.type(name) for name in names}
    return {name: (kinds[name], held(raw, name, kinds[name]), client.pexpiretime(name)) for name in names}


def held(raw, name, kind):
    """Return the content of a key in an order of its own."""
    match kind:
        case "string":
            return raw.get(name)
        case "list":
            return raw.lrange(name, 0, -1)
        case "set":
            return raw.smembers(name)
        case "hash":
            return raw.hgetall(name)
        case "zset":
            return raw.zrange(name, 0, -1, withscores=True)
        case _:
            return raw.xrange(name)


async def test_a_store_imported_from_a_copy_equals_the_exported_one(copied, redis_server, another):
    async with open_store(settings_for(another.url)) as store:
        await read_copy(store, copied)
    assert everything(another) == everything(redis_server)
    assert len(copied.read_text().splitlines()[3]) < 200 * PART
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600


async def test_a_key_that_expires_during_the_export_is_left_out(redis_server, redis, tmp_path, monkeypatch):
    asked = backup._together

    async def slowly(store, commands):
        answers = await asked(store, commands)
        redis.delete("ends")  # its type is known by now
        return answers

    redis.set("ends", "x", ex=1000)
    redis.set("stays", "x")
    monkeypatch.setattr(backup, "_together", slowly)
    async with open_store(settings_for(redis_server.url)) as store:
        await write_copy(store, tmp_path / "copy")
    lines = map(json.loads, (tmp_path / "copy").read_text().splitlines())
    assert {"ends", "stays"} & {line.get("key") for line in lines} == {"stays"}


async def test_a_copy_can_be_imported_under_another_prefix(copied, redis_server, redis):
    async with open_store(settings_for(redis_server.url, key_prefix="two:")) as store:
        await read_copy(store, copied)
    assert redis.lrange(f"two:{KEYS.available('large')}", 0, -1) == redis.lrange(KEYS.available("large"), 0, -1)


async def test_an_interrupted_import_is_begun_again(copied, redis_server, another):
    async with open_store(settings_for(another.url)) as store:
        await read_copy(store, copied)
        digest = json.loads(copied.read_text().splitlines()[-1])["sha256"]
        with another.client() as client:  # as it was half-way
            client.delete(KEYS.store, KEYS.nodes)
            client.rpush(KEYS.available("large"), "half")
            client.set(KEYS.restoring, digest)
    with pytest.raises(StartRefused, match="being filled from a copy"):
        async with open_store(settings_for(another.url)):
            pass
    async with open_store(settings_for(another.url), opened=False) as store:
        await read_copy(store, copied)
    assert everything(another) == everything(redis_server)


async def test_an_import_into_a_store_with_content_is_refused(copied, redis_server, another):
    with another.client() as client:
        client.sadd(KEYS.nodes, "n9")
    async with open_store(settings_for(another.url)) as store:
        with pytest.raises(CopyRefused, match="not empty: it has nodes"):
            await read_copy(store, copied)
        with another.client() as client:
            assert client.smembers(KEYS.nodes) == {"n9"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text[:-300], "is not whole"),
        (lambda text: text.replace('"n1"', '"n2"', 1), "is not whole"),
        (lambda text: "\n".join(text.splitlines()[:-2]) + "\n", "is not whole"),
        (lambda text: "", "is not whole"),
        (lambda text: "a text\n", "is no copy of a store"),
        (lambda text: text.replace('"version":1', '"version":2', 1), "is a copy of version 2, and this hub reads 1"),
    ],
)
async def test_a_modified_copy_is_refused_before_anything_is_written(copied, another, change, why):
    copied.write_text(change(copied.read_text()))
    async with open_store(settings_for(another.url)) as store:
        with pytest.raises(CopyRefused, match=why):
            await read_copy(store, copied)
    assert everything(another) == {}


async def test_an_export_is_refused_while_a_hub_runs(live_hub, redis_server, tmp_path):
    async with open_store(settings_for(redis_server.url)) as store:

        async def is_seen():
            return await hubs_alive(store) == 1

        await eventually(is_seen)
        with pytest.raises(CopyRefused, match="stop them first"):
            await write_copy(store, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


async def test_an_imported_store_lends_nothing_twice(start_hub, redis_server, another, tmp_path):
    """Slot by slot: lent before the copy, lent after it, and free. The node says what it knows, and tokens rise."""
    first = start_hub()
    node = {"nodeId": "n1", "apps": ["gpu:a100"], "capacity": 3, "policy": "reuse"}
    slots = [{"slotId": f"s{n}", "labelKey": "gpu:a100"} for n in range(3)]
    wanted = {"labelKey": "gpu:a100", "ttlSeconds": 300, "maxWaitSeconds": 0}
    async with first.client("node") as nodes, first.client("runner") as runners:
        assert (await nodes.post("/node/register", json={**node, "slots": slots})).is_success
        early = (await runners.post("/session/borrow", json=wanted)).json()
    first.kill()
    await stopped(redis_server)
    async with open_store(settings_for(redis_server.url)) as store:
        await write_copy(store, tmp_path / "copy")
    second = start_hub()
    async with second.client("runner") as runners:
        late = await lent_soon(runners, wanted)
    second.kill()

    async with open_store(settings_for(another.url)) as store:
        await read_copy(store, tmp_path / "copy")
    third = start_hub(HUB_REDIS_URL=another.url)
    async with third.client("node") as nodes, third.client("runner") as runners:
        lent = {each["browserId"]: each["leaseToken"] for each in (early, late)}

        async def is_known():
            return (await nodes.post("/node/register", json={**node, "slots": slots, "lent": lent})).is_success

        await eventually(is_known)
        last = await lent_soon(runners, wanted)
        assert {each["browserId"] for each in (early, late, last)} == {"s0", "s1", "s2"}
        assert int(last["leaseToken"]) > int(late["leaseToken"]) > int(early["leaseToken"])
        assert (await runners.post("/session/borrow", json=wanted)).status_code == 503
        for each in (early, late):
            body = {"labelKey": "gpu:a100", "browserId": each["browserId"], "leaseToken": each["leaseToken"]}
            assert (await runners.post("/session/return", json=body)).is_success


async def lent_soon(runners, wanted):
    """Return the lease, as soon as there is one."""
    leases = []

    async def is_lent():
        answer = await runners.post("/session/borrow", json=wanted)
        leases.extend([answer.json()] if answer.is_success else [])
        return bool(leases)

    await eventually(is_lent)
    return leases[0]
