"""A connection to Redis that has died without a word, as they do behind a firewall or when a machine is gone."""

from __future__ import annotations

import asyncio

import pytest

from hub.api.sockets import events
from hub.store import connection, pulse
from tests.sockets.people import OK, publish
from tests.world import eventually


async def test_events_are_heard_again_although_nobody_said_that_the_connection_is_dead(
    serve, listen, redis, wire, monkeypatch
):
    monkeypatch.setattr(pulse, "SILENT_S", 1.0)
    process, _ = await serve(redis_url=await wire.start(), redis_timeout_s=0.5)
    listener = await listen(process, token=None)
    assert await listener.join("lab") == OK
    publish(redis, "first", "room:lab")
    await eventually(lambda: asyncio.sleep(0, len(listener.told) == 1))
    await wire.die()

    async def heard() -> bool:
        publish(redis, "second", "room:lab")
        await asyncio.sleep(0.1)
        return len(listener.told) > 1

    await eventually(heard, 15)
    assert listener.client.connected


@pytest.mark.parametrize("where", ["server", "memory"])
async def test_a_connection_that_is_only_quiet_stays(serve, listen, redis, monkeypatch, where):
    if where == "memory":
        monkeypatch.setattr(connection, "find_server", lambda: None)
    monkeypatch.setattr(events, "IDLE_S", 0.05)
    monkeypatch.setattr(pulse, "SILENT_S", 0.1)
    process, state = await serve(**({"redis_url": None} if where == "memory" else {}))
    listener = await listen(process, token=None)
    assert await listener.join("lab") == OK
    lost = asyncio.Event()
    monkeypatch.setattr(events, "AGAIN_S", 60)
    monkeypatch.setattr(state.sockets._events._subscribed, "clear", lost.set)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lost.wait(), 1)
