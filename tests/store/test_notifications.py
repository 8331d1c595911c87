"""Notifications: heard once listened for, over one connection, and that one is given back."""

from __future__ import annotations

import asyncio

import pytest

from hub.errors import StoreUnavailable
from hub.store import notifications
from hub.store.connection import open_store
from tests.world import PATIENCE_S, eventually, settings_for


async def connections(redis) -> int:
    return sum(client["name"] == "capacity-hub" for client in redis.client_list())


async def test_a_notification_sent_after_the_start_of_listening_is_heard(hub, redis):
    async with hub.store.notifications.listen("a", "b") as subscription:
        redis.publish("b", "")
        assert await subscription.wait(30)
        assert not await subscription.wait(0.01), "it rings once for one ring"
        redis.publish("a", "")
        assert await subscription.wait(30)


async def test_each_listener_hears_only_its_own_channels(hub, redis):
    async with hub.store.notifications.listen("a") as one, hub.store.notifications.listen("a", "b") as two:
        redis.publish("b", "")
        assert await two.wait(30)
        assert not await one.wait(0.05)
        redis.publish("a", "")
        assert [await one.wait(30), await two.wait(30)] == [True, True]


async def test_notifications_that_a_listener_keeps_are_returned_once_and_in_order(hub, redis):
    async with hub.store.notifications.listen("a", keep=True) as one, hub.store.notifications.listen("a") as two:
        for word in ("1", "2", "3"):
            redis.publish("a", word)
        heard: list[str] = []

        async def all_of_it() -> bool:
            heard.extend(one.texts())
            return len(heard) >= 3

        await eventually(all_of_it)
        assert heard == ["1", "2", "3"]
        assert await two.wait(30)
        assert (one.texts(), two.texts()) == ([], [])


async def test_closing_a_store_does_not_wait_for_its_reader(settings, redis, monkeypatch):
    monkeypatch.setattr(notifications, "IDLE_S", 300.0)
    async with open_store(settings) as store, store.notifications.listen("a") as subscription:
        await asyncio.wait_for(store.close(), PATIENCE_S)
        assert subscription.cut
    await eventually(lambda: redis.pubsub_channels() == [])


async def test_a_channel_without_listeners_is_not_subscribed_to(hub, redis):
    async with hub.store.notifications.listen("a"):
        async with hub.store.notifications.listen("b"):
            assert redis.pubsub_numsub("a", "b") == [("a", 1), ("b", 1)]
        await eventually(lambda: redis.pubsub_numsub("b") == [("b", 0)])
        assert redis.pubsub_numsub("a") == [("a", 1)]


async def test_all_listeners_share_one_connection(hub, redis):
    before = await connections(redis)

    async def come_and_go(number):
        for _ in range(20):
            async with hub.store.notifications.listen(f"c{number}", "all") as subscription:
                await subscription.wait(0.001 * (number % 4))

    async def come_until(number, seconds):
        async with asyncio.timeout(seconds):
            await come_and_go(number)
            await asyncio.sleep(5)

    async def give_up(number):
        with pytest.raises(TimeoutError):
            await come_until(number, 0.002 * number)

    await asyncio.gather(*map(come_and_go, range(30)), *map(give_up, range(30)))
    assert await connections(redis) <= before + 2
    await eventually(lambda: redis.pubsub_channels("c*") + redis.pubsub_channels("all") == [])


async def test_the_death_of_redis_wakes_all_listeners_and_new_ones_are_refused(own_redis):
    async with open_store(settings_for(own_redis.url)) as store:
        async with store.notifications.listen("a") as subscription:
            own_redis.kill()
            assert await subscription.wait(30)
        with pytest.raises(StoreUnavailable):
            async with store.notifications.listen("a"):
                pass
        own_redis.start()
        await store.check()  # as each tick does: it is another server
        async with store.notifications.listen("a") as subscription:
            own_redis.client().publish("a", "")
            assert await subscription.wait(30)
