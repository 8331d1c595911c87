"""Deferred work after a long outage: no undo of borrows that were never sent, and the hub goes on ticking."""

from __future__ import annotations

import asyncio

import pytest

from hub.capacity.models import BorrowRequest
from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.store.connection import open_store
from tests.world import eventually, settings_for

LABEL = "a:b"


async def test_borrows_refused_during_an_outage_leave_nothing_to_undo(own_redis):
    settings = settings_for(own_redis.url)
    async with open_store(settings) as store:
        hub = Hub(store, settings)
        await hub.agreed.agree()
        own_redis.kill()
        await hub.clock.tick()
        for number in range(20):
            request = f"q{number}"
            with pytest.raises(StoreUnavailable):
                await hub.leases.borrow(BorrowRequest(LABEL, 900_000, "r", request, request, "f", 60))
        own_redis.start()

        async def back():
            await hub.clock.tick()
            return hub.clock.away_since is None

        await eventually(back)
        with own_redis.client() as redis:
            assert redis.keys("hub:request:*") == []  # an attempt that was taken back is remembered for a minute


async def test_a_hub_goes_on_ticking_while_it_does_what_an_outage_left_undone(hub):
    done, ticked = [], []

    async def owed():
        await hub.store.read("PING")
        done.append(None)

    for _ in range(5000):
        hub.store.later(owed)
    while len(done) < 5000:
        await hub.clock.tick()
        ticked.append(len(done))
    assert len(ticked) >= 5


async def test_deferred_work_is_repeated_until_the_store_accepts_it(hub):
    done = []

    async def owed():
        await asyncio.sleep(0)
        done.append(None)
        if len(done) < 3:
            raise StoreUnavailable("Redis does not answer.")

    hub.store.later(owed)
    for _ in range(5):
        await hub.clock.tick()
    assert len(done) == 3


async def test_an_unforeseen_error_of_deferred_work_is_logged_and_stops_no_other(hub, caplog):
    done = []

    async def fails():
        raise ValueError("oh")

    async def owed():
        done.append(None)

    hub.store.later(fails)
    hub.store.later(owed)
    for _ in range(2):
        await hub.clock.tick()
    assert done == [None]
    assert [record.getMessage() for record in caplog.records if "postponed call failed" in record.getMessage()] != []
