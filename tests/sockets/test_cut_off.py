"""A connection to Redis that has died without a word, as they do behind a firewall or when a machine is gone."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from hub.api.sockets import events
from hub.store import connection, monitor
from tests.sockets.people import OK, publish
from tests.world import eventually


async def test_events_are_heard_again_after_a_connection_died_silently(serve, listen, redis, wire, monkeypatch):
    monkeypatch.setattr(monitor, "SILENT_S", 1.0)
    process, _ = await serve(redis_url=await wire.start(), redis_timeout_s=3)
    listener = await listen(process, token=None)
    assert await listener.join("lab") == OK
    publish(redis, "first", "room:lab")
    await eventually(lambda: len(listener.told) == 1)
    await wire.die()

    async def heard() -> bool:
        publish(redis, "second", "room:lab")
        await asyncio.sleep(0.1)
        return len(listener.told) > 1

    await eventually(heard)
    assert listener.client.connected


class Silent:
    """A subscription over which nothing comes."""

    def __init__(self) -> None:
        self.pings = 0

    async def ping(self) -> None:
        self.pings += 1


async def test_a_connection_is_read_once_more_before_it_is_cut_after_the_process_stood_still(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: now[0])
    subscription = Silent()
    found = monitor.ConnectionMonitor(subscription)
    now[0] += monitor.SILENT_S + 1
    await found.check()
    now[0] += 60  # it stood still
    await found.check()
    found.note_message()  # the answer was there
    for waited_s in (monitor.SILENT_S - 1, 2, monitor.SILENT_S - 1):
        now[0] += waited_s
        await found.check()
    now[0] += 2
    with pytest.raises(RedisConnectionError):
        await found.check()
    assert subscription.pings == 2


@pytest.mark.parametrize("where", ["server", "memory"])
async def test_a_quiet_connection_is_kept(serve, listen, redis, monkeypatch, where):
    if where == "memory":
        monkeypatch.setattr(connection, "find_server", lambda: None)
    monkeypatch.setattr(events, "IDLE_S", 0.05)
    monkeypatch.setattr(monitor, "SILENT_S", 0.1)
    process, state = await serve(**({"redis_url": None} if where == "memory" else {}))
    listener = await listen(process, token=None)
    assert await listener.join("lab") == OK
    lost = asyncio.Event()
    monkeypatch.setattr(events, "AGAIN_S", 60)
    monkeypatch.setattr(state.sockets._events.channel_of_store._subscribed, "clear", lost.set)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lost.wait(), 1)
