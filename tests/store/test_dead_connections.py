"""A subscription whose connection has died without a word is noticed, and made anew."""

from __future__ import annotations

import pytest

from hub.errors import StoreUnavailable
from hub.store import monitor, notifications
from hub.store.connection import open_store
from tests.world import eventually, settings_for


@pytest.fixture
async def store(wire, redis, monkeypatch):
    """A store behind a wire, which is suspicious after a second of silence."""
    monkeypatch.setattr(monitor, "SILENT_S", 1.0)
    async with open_store(settings_for(await wire.start())) as found:
        yield found


async def test_a_waiter_learns_that_its_connection_died_and_the_next_one_gets_a_live_one(store, wire, redis):
    async with store.notifications.listen("a") as subscription:
        await wire.die()
        assert await subscription.wait(30), "nobody was told that the connection is dead"

    async def heard():
        try:
            async with store.notifications.listen("b") as subscription:
                redis.publish("b", "")
                return await subscription.wait(1)
        except StoreUnavailable:
            return False

    await eventually(heard)


async def test_a_quiet_connection_of_waiters_is_kept(store, redis, monkeypatch):
    monkeypatch.setattr(monitor, "SILENT_S", 3.0)  # a Redis that stands still for so long is not taken for dead
    async with store.notifications.listen("a") as subscription:
        assert not await subscription.wait(8)
        redis.publish("a", "")
        assert await subscription.wait(30)


async def test_notifications_report_a_cut_when_their_connection_dies(store, wire, redis):
    async with store.notifications.listen("channel", keep=True) as subscription:
        redis.publish("channel", "first")
        assert await subscription.wait(30)
        assert subscription.texts() == ["first"]
        await wire.die()
        assert await subscription.wait(30)
        assert (subscription.texts(), subscription.cut) == ([], True)


async def test_notifications_go_on_after_a_long_silence_of_the_channel(store, redis, monkeypatch):
    monkeypatch.setattr(monitor, "SILENT_S", 3.0)
    monkeypatch.setattr(notifications, "IDLE_S", 0.05)
    async with store.notifications.listen("channel", keep=True) as subscription:
        assert not await subscription.wait(8)
        redis.publish("channel", "late")
        assert await subscription.wait(30)
        assert (subscription.texts(), subscription.cut) == (["late"], False)
