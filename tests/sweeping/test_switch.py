"""The run-time value of HUB_SWEEPER_EXPIRE: one for all hubs, shown with who set it and when, until it is cleared."""

from __future__ import annotations

import httpx
import pytest

from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.store.connection import open_store
from tests.world import add_node, age_node, settings_for, sweepers, wait_until


async def swept(hub):
    """(expired, refreshed) of a pass."""
    nodes, _ = sweepers(hub)
    done = await nodes.sweep()
    return done.expired, done.refreshed


def ask(hub, method="GET", **body):
    answer = httpx.request(
        method, f"{hub.url}/admin/sweeper", headers={"x-hub-secret": hub.admin_secret}, json=body or None, timeout=30
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_expiry_switch_outlives_every_hub_until_it_is_cleared(start_hub, redis):
    setting = {"HUB_SWEEPER_EXPIRE": "true", "HUB_NODE_TIMEOUT": "60"}
    first = start_hub(**setting)
    said = ask(first, "PUT", expire=False, by="ann")
    assert (said["expire"], said["source"], said["setting"], said["setBy"]) == (False, "run-time", True, "ann")
    first.kill()
    second = start_hub(**setting)
    assert ask(second) == said
    answer = httpx.post(
        f"{second.url}/node/register", json={"nodeId": "mute"}, headers={"x-hub-secret": second.node_secret}, timeout=30
    )
    assert answer.status_code == 200
    age_node(redis, "mute", 300)
    wait_until(lambda: "node refreshed" in second.log(), why=second.log)
    assert redis.smembers("nodes") == {"mute"}
    cleared = ask(second, "PUT", expire=None)
    assert (cleared["expire"], cleared["source"], cleared["setBy"], cleared["setAtUtc"]) == (
        True,
        "setting",
        None,
        None,
    )
    redis.delete("node_alive:mute")
    wait_until(lambda: "node expired" in second.log(), why=second.log)


async def test_a_hub_with_an_old_view_of_the_switch_expires_no_node(redis_server, redis):
    settings = settings_for(redis_server.url, sweeper_expire=True)
    async with open_store(settings) as store, open_store(settings) as another:
        hub, other = Hub(store, settings), Hub(another, settings)
        await hub.clock.tick()
        await add_node(hub, "n1")
        age_node(redis, "n1", 300)
        await other.clock.switch_expire(False, "ann")
        assert await swept(hub) == (0, 1)
        assert redis.smembers("nodes") == {"n1"}
        redis.delete("node_alive:n1")
        await other.clock.switch_expire(None, "ann")
        assert await swept(hub) == (1, 0)


@pytest.mark.parametrize("wanted", [False, True])
async def test_an_emptied_store_gets_the_expiry_switch_back(redis_server, redis, caplog, wanted):
    settings = settings_for(redis_server.url, sweeper_expire=not wanted)
    async with open_store(settings) as store, open_store(settings) as another:
        hub, other = Hub(store, settings), Hub(another, settings)
        await hub.clock.switch_expire(wanted, "ann")
        await other.clock.tick()
        before = await hub.clock.read_switch()
        redis.flushall()
        await other.clock.tick()  # the store is opened by a hub that has only heard of it
        assert await hub.clock.read_switch() == before
        await hub.clock.tick()
        await hub.clock.tick()
        await add_node(hub, "n1")
        age_node(redis, "n1", 300)
        redis.hincrby("hub:store", "reopened_ms", -60_000)  # the nodes had their time to report
        assert await swept(hub) == ((1, 0) if wanted else (0, 1))
    assert [record.msg["event"] for record in caplog.records].count("expiry switch restored") == 1


async def test_a_store_that_comes_back_older_gets_the_last_setting_of_the_switch(hub, settings, redis):
    await hub.clock.switch_expire(True, "ann")
    older = redis.hgetall("hub:store")
    await hub.clock.switch_expire(False, "bob")
    newer = await hub.clock.read_switch()
    redis.hset("hub:store", mapping={**older, "generation": "1-older"})
    await hub.clock.tick()
    assert await hub.clock.read_switch() == newer
    async with open_store(settings) as store:
        forgetful = Hub(store, settings)
        await forgetful.clock.tick()
        await hub.clock.switch_expire(True, "cid")
        latest = await hub.clock.read_switch()
        redis.hset("hub:store", "generation", "1-younger")
        await forgetful.clock.tick()  # knows only what bob said
        assert await hub.clock.read_switch() == latest


async def test_a_store_that_comes_back_older_gets_a_cleared_switch_cleared_again(hub, redis):
    await hub.clock.switch_expire(False, "ann")
    older = redis.hgetall("hub:store")
    await hub.clock.switch_expire(None, "bob")
    redis.hset("hub:store", mapping={**older, "generation": "1-older"})
    await hub.clock.tick()
    assert await hub.clock.read_switch() == (None, None, None)


async def test_without_an_expiry_switch_nothing_is_restored(hub, redis, caplog):
    await hub.clock.tick()
    redis.flushall()
    await hub.clock.tick()
    assert await hub.clock.read_switch() == (None, None, None)
    assert "expiry switch restored" not in caplog.text


async def test_a_store_lost_again_during_the_restore_of_the_switch_gets_it_again(hub, redis):
    said = []

    async def say():
        said.append(hub.clock.away_since is None)
        if len(said) == 1:
            raise StoreUnavailable("lost again")

    hub.store.when_replaced(say)
    await hub.clock.tick()
    redis.hset("hub:store", "generation", "1-other")
    await hub.clock.tick()
    assert hub.clock.away_since is not None
    await hub.clock.tick()
    assert (len(said), hub.clock.away_since, hub.store.generation) == (2, None, "1-other")
    await hub.clock.tick()
    assert len(said) == 2
