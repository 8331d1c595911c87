"""The hub clock: leases and nodes still have the time that was left before no hub could hear."""

from __future__ import annotations

import time
from unittest.mock import AsyncMock

import pytest
from redis.asyncio.connection import AbstractConnection

from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.store import clock as clock_module
from hub.store.connection import open_store
from hub.store.keys import Keys
from hub.store.library import library
from tests.world import SLACK_S, age_node, beat, borrow, listed, publish, sweepers

LABEL = "a:b"
AGE = """
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'tick_ms', math.floor(time[1] * 1000 + time[2] / 1000) - ARGV[1])
"""


def clock(redis):
    return int(redis.hget("hub:store", "clock_ms"))


def stand_still(redis, seconds):
    """Make the last tick so long ago: until now no hub could hear."""
    redis.hincrby("hub:store", "tick_ms", -int(seconds * 1000))


def tick_after(redis, silence_s):
    """Tick so long after the last tick, on a machine of any speed: nothing comes between the two. Returns by how much
    the clock has moved."""
    before = clock(redis)
    with redis.pipeline(transaction=True) as both:
        both.eval(AGE, 1, "hub:store", int(silence_s * 1000))
        both.execute_command(*library().call("store/tick", Keys(), ("h1", clock_module.OFFICE_MS, "reserve=10")))
        both.execute()
    return clock(redis) - before


@pytest.mark.parametrize(("silence_s", "counts_ms"), [(1.2, 1000), (1.9, 1000), (2.1, 0), (3600, 0)])
async def test_a_gap_between_ticks_moves_the_hub_clock_by_two_ticks_at_most_and_an_outage_not_at_all(
    silence_s, counts_ms, hub, redis
):
    assert tick_after(redis, silence_s) == counts_ms


async def test_the_hub_clock_runs_with_the_time_while_hubs_tick(hub, redis):
    assert tick_after(redis, 0.4) == pytest.approx(400, abs=100)


async def test_a_server_clock_set_back_does_not_set_the_hub_clock_back(hub, redis):
    assert tick_after(redis, -3600) == 0
    assert tick_after(redis, 0.4) > 0


async def test_two_hubs_do_not_make_the_hub_clock_run_twice_as_fast(hub, redis):
    started = time.monotonic()
    await hub.clock.tick()
    before = clock(redis)
    for _ in range(50):
        await hub.clock.tick()
    assert clock(redis) - before <= (time.monotonic() - started) * 1000 + 2


async def test_a_footprint_that_expired_while_the_hub_clock_stood_still_is_restored(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL, ttlSeconds=60)).json()
    stand_still(redis, 3600)
    redis.delete("borrow_ttl:s1")
    redis.hset("hub:slot:s1", "visible_ms", int(time.time() * 1000) - 1)
    _, leases = sweepers(hub)
    done = await leases.sweep()
    assert (done.expired, done.rewritten) == (0, 1)
    assert redis.ttl("borrow_ttl:s1") == pytest.approx(59, abs=1 + SLACK_S)
    assert (
        await api.post("/session/renew", json={"browserId": "s1", "leaseToken": lease["leaseToken"]})
    ).status_code == 200


async def test_a_footprint_that_was_deleted_before_its_time_ends_the_lease(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    redis.delete("borrow_ttl:s1")
    _, leases = sweepers(hub)
    done = await leases.sweep()
    assert (done.expired, done.rewritten) == (1, 0)


async def test_a_rewritten_footprint_that_is_deleted_again_ends_the_lease(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    redis.delete("borrow_ttl:s1")
    redis.hset("hub:slot:s1", "visible_ms", int(time.time() * 1000) - 1)
    _, leases = sweepers(hub)
    assert (await leases.sweep()).rewritten == 1
    redis.delete("borrow_ttl:s1")
    assert (await leases.sweep()).expired == 1


async def test_a_lease_lapses_when_the_clock_has_passed_its_deadline_with_or_without_footprint(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL, ttlSeconds=60)
    redis.hincrby("hub:store", "clock_ms", 61_001)  # it may have been granted up to a second after the last tick
    assert redis.exists("borrow_ttl:s1")
    _, leases = sweepers(hub)
    assert (await leases.sweep()).expired == 1
    assert listed(redis, f"available:{LABEL}") == ["s1"]


async def test_a_node_outlives_an_outage_of_every_hub(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    age_node(redis, "n1", 0)
    stand_still(redis, 7200)
    redis.hset("node:n1", "LastSeen", "2020-01-01T00:00:00.0000000Z")
    nodes, _ = sweepers(hub)
    for _ in range(3):
        await hub.clock.tick()
        assert (await nodes.sweep()).expired == 0
    redis.hincrby("hub:store", "clock_ms", 61_000)
    assert (await nodes.sweep()).expired == 1


async def test_a_node_that_beats_again_has_its_full_timeout(api, hub, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    redis.hincrby("hub:store", "clock_ms", 59_000)
    await beat(api, "n1")
    redis.hincrby("hub:store", "clock_ms", 59_000)
    redis.delete("node_alive:n1")
    redis.hset("node:n1", "LastSeen", "2020-01-01T00:00:00.0000000Z")
    nodes, _ = sweepers(hub)
    assert (await nodes.sweep()).expired == 0


async def test_another_hub_sweeps_when_the_leader_is_silent(hub, settings, redis, monkeypatch):
    monkeypatch.setattr(clock_module, "OFFICE_MS", 60_000)  # this machine may be silent for two seconds by itself
    async with open_store(settings) as store:
        other = Hub(store, settings)
        await hub.clock.tick()
        await other.clock.tick()
        assert (hub.clock.leads.is_set(), other.clock.leads.is_set()) == (True, False)
        redis.hincrby("hub:store", "leader_until_ms", -60_001)
        await other.clock.tick()
        await hub.clock.tick()
        assert (hub.clock.leads.is_set(), other.clock.leads.is_set()) == (False, True)


async def test_a_connection_dropped_while_it_is_opened_does_not_stop_the_hub_clock(hub, monkeypatch):
    """Close the connections as another caller does that notices a failover: redis-py has nothing to write to then."""
    await hub.clock.tick()
    send = AbstractConnection._send_packed_command

    async def dropped(connection, command):
        await connection.disconnect()
        return await send(connection, command)

    await hub.store.drop_connections()
    with monkeypatch.context() as patched:
        patched.setattr(AbstractConnection, "_send_packed_command", dropped)
        with pytest.raises(StoreUnavailable):
            await hub.store.check()
        await hub.clock.tick()
        assert hub.clock.away_since is not None
    await hub.clock.tick()
    assert hub.clock.away_since is None


async def test_the_hub_clock_goes_on_after_a_tick_that_fails(hub, monkeypatch):
    await hub.clock.tick()
    with monkeypatch.context() as patched:
        patched.setattr(hub.store, "check", AsyncMock(side_effect=AttributeError("nobody thought of it")))
        await hub.clock.tick()
        assert hub.clock.away_since is not None
    await hub.clock.tick()
    assert hub.clock.away_since is None
