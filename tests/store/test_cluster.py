"""A store in a slot of a Redis Cluster: how it is found, and what a slot that moves does to it."""

from __future__ import annotations

import re
import signal
from urllib.parse import quote

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MovedError

from hub.core import Hub
from hub.errors import StartRefused, StoreUnavailable
from hub.store.cluster import cluster as cluster_of
from hub.store.connection import open_store
from hub.store.keys import Keys
from tests.bench.fleet import wanted
from tests.cluster import RedisCluster
from tests.world import HubProcess, eventually, settings_for

TAG = "{hub}:"
KEYS = Keys(TAG)
LABEL = "gpu:a100"
FREE = KEYS.available(LABEL)


@pytest.fixture
def cluster(tmp_path):
    servers = RedisCluster(tmp_path)
    yield servers
    servers.stop()


@pytest.fixture
async def hub(cluster):
    """A hub that neither ticks nor sweeps by itself, with three slots to lend."""
    with cluster.owner(TAG).client() as client:
        client.sadd(KEYS.nodes, "n1")
        client.set(KEYS.node_alive("n1"), "1", ex=90)
        client.rpush(FREE, *(f'{{"nodeId":"n1","browserId":"s{n}"}}' for n in range(3)))
    async with open_store(settings_for(cluster.url, key_prefix=TAG)) as store:
        yield Hub(store, settings_for(cluster.url))


def borrow(hub: Hub):
    return hub.leases.borrow(wanted(LABEL))


async def test_all_keys_are_in_one_slot_and_its_shard_is_found_from_every_server(cluster, hub):
    assert await borrow(hub)
    for server in cluster.servers:
        with server.client() as client:
            if "slave" not in client.info("replication")["role"]:
                assert bool(client.dbsize()) == (server is cluster.owner(TAG))
        async with open_store(settings_for(f"redis+cluster://127.0.0.1:{server.port}", key_prefix=TAG)) as store:
            assert await store.read("LLEN", FREE) == 2


@pytest.mark.parametrize("name", ["{a}", "{", "}{", "{}x", "a{b}c", "{hub}", "*", "?[^a]", "\\*"])
async def test_an_id_is_never_read_as_a_hash_tag_or_a_pattern(cluster, name):
    """Everything is called so at once, and beside it something that a pattern of that name would find."""
    with HubProcess({"HUB_REDIS_URL": cluster.url, "HUB_KEY_PREFIX": TAG}) as hub:
        room, job = f"/v1/joblib/rooms/{quote(name, safe='')}", quote(f"{name}:modifiers:{name}", safe="")
        async with hub.client("node") as node, hub.client("runner") as runner, hub.client("admin") as admin:
            for at, each in enumerate((name, "xaxbc")):
                slots = [{"labelKey": LABEL, "slotId": f"s{at}{number}", "endpoint": "ws://n"} for number in range(2)]
                (await node.post("/node/register", json={"nodeId": each, "slots": slots})).raise_for_status()
            (await admin.post("/admin/tokens", json={"user": name})).raise_for_status()
            wanted_so = {"labelKey": LABEL, "runId": name}
            lent = (await runner.post("/session/borrow", json=wanted_so, headers={"idempotency-key": name})).json()
            assert [
                each["browserId"] for each in (await runner.get("/sessions", params={"run": name})).json()["sessions"]
            ] == [lent["browserId"]]
            body = {"category": "modifiers", "name": name, "schema": {}}
            worker = (await admin.put(f"{room}/jobs", json=body)).raise_for_status().json()["worker_id"]
            (await admin.post(f"{room}/tasks/{job}", json={"payload": {}})).raise_for_status()
            claim = {"worker_id": worker, "limit": 9}
            tasks = (await admin.post("/v1/joblib/tasks/claim", json=claim)).raise_for_status().json()["tasks"]
            assert [task["room_id"] for task in tasks] == [name]
            (await node.delete(f"/node/{quote(name, safe='')}")).raise_for_status()
            assert (await runner.get(f"/pools/{LABEL}")).json()["total"] == 2
            assert [each["nodeId"] for each in (await admin.get("/nodes?detail=1")).json()["nodes"]] == ["xaxbc"]


async def test_only_the_shard_of_the_slot_notifies_waiters(cluster, hub):
    """A worker that waits for tasks listens to the channel of its job."""
    channel = KEYS.job_notice("@global:test:job")
    async with hub.store.notifications.listen(channel, keep=True) as subscription:
        with cluster.owner(TAG).client() as client:
            assert client.execute_command("PUBSUB SHARDCHANNELS") == [channel]
            client.execute_command("SPUBLISH", channel, "now")
        assert await subscription.wait(30)
        assert subscription.texts() == ["now"]


async def test_a_command_changes_nothing_once_one_of_its_keys_has_moved(cluster, hub):
    """The tick of the hub clock writes into the record of the store, and then who ticks."""
    tick = hub.store.script("store/tick")
    await tick.probe(hub_id="h", leader_ms=2000, limits="reserve=10")
    move = cluster.begin_move(TAG)
    move.carry_key(KEYS.hubs)
    with move.source.client() as client:
        before = client.hgetall(KEYS.store)
        with pytest.raises(StoreUnavailable):
            await tick.probe(hub_id="h", leader_ms=2000, limits="reserve=10")
        assert client.hgetall(KEYS.store) == before


async def test_the_store_is_opened_on_the_new_shard_and_tokens_go_on_rising(cluster, hub):
    before = await borrow(hub)
    move = cluster.begin_move(TAG)
    move.carry()
    move.end()
    with pytest.raises(StoreUnavailable):
        await borrow(hub)

    async def is_served():
        await hub.store.check()
        return hub.store.primary.address == ("127.0.0.1", move.target.port)

    await eventually(is_served)
    with move.target.client() as client:
        client.hdel(KEYS.store, "settle_ms")
    assert int((await borrow(hub)).token) > int(before.token)
    with pytest.raises(MovedError), move.source.client() as client:
        client.llen(FREE)


async def test_only_a_majority_of_the_primaries_decides_which_shard_has_the_slot(cluster, hub):
    owner = cluster.owner(TAG)
    for server in cluster.servers:
        if server is not owner:
            server.signal(signal.SIGSTOP)
    finder = cluster_of(cluster.url, {"socket_timeout": 5, "socket_connect_timeout": 5, "retry": None}, TAG)
    try:
        with pytest.raises(RedisConnectionError, match="1 of 6 servers of the cluster answer"):
            await finder.find()
    finally:
        await finder.close()
        for server in cluster.servers:
            server.signal(signal.SIGCONT)


@pytest.mark.parametrize(
    ("url", "prefix", "why"),
    [
        ("redis://{server}", "{hub}:", "name the cluster: HUB_REDIS_URL=redis+cluster://"),
        ("redis+cluster://{server}", "hub:", "set HUB_KEY_PREFIX to a hash tag such as {hub}:"),
        ("redis+cluster://127.0.0.1:9", "{hub}:", "0 of 1 servers of the cluster answer"),
    ],
)
async def test_an_unsuitable_cluster_is_refused_in_one_sentence(cluster, url, prefix, why):
    named = url.format(server=f"127.0.0.1:{cluster.owner(TAG).port}")
    with pytest.raises(StartRefused, match=re.escape(why)):
        async with open_store(settings_for(named, key_prefix=prefix)):
            pass
