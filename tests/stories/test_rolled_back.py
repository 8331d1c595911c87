"""Redis comes back from an older copy of its file: what nodes still hold is not lent again, and nothing is lost."""

from __future__ import annotations

import shutil

import pytest

from hub.core import Hub
from hub.store.connection import open_store
from hub.store.store import SETTLE_MS
from tests.world import beat, borrow, eventually, give_back, listed, publish, settings_for

LABEL = "a:b"


class Rolling:
    """A server of one's own with a copy of its file, and a hub on it."""

    def __init__(self, server, api):
        self.server, self.api = server, api
        self.hub = api._transport.app.app.state.serving.hub
        self._older = server.folder.parent / "older"

    def keep(self):
        shutil.copytree(self.server.folder, self._older)

    async def roll_back(self):
        self.restart_older()
        await self.notice()

    def restart_older(self):
        self.server.kill()
        shutil.rmtree(self.server.folder)
        shutil.copytree(self._older, self.server.folder)
        self.server.start()

    async def notice(self):
        async def back():
            await self.hub.clock.tick()
            return self.hub.clock.away_since is None

        await eventually(back)
        await self.hub.clock.tick()

    def settle(self):
        self.server.client().hincrby("hub:store", "clock_ms", SETTLE_MS + 1)

    async def lent(self):
        """Borrow without waiting; return the slot, or None when none is free."""
        return (await borrow(self.api, LABEL, maxWaitSeconds=0)).json().get("browserId")


@pytest.fixture
async def world(own_redis, make_api):
    async with make_api(redis_url=own_redis.url, redis_timeout_s=5) as api:
        yield Rolling(own_redis, api)


@pytest.mark.parametrize("beats_first", [True, False])
async def test_a_slot_that_only_its_node_knows_to_be_lent_is_not_lent_again(world, beats_first):
    await publish(world.api, "n1", **{LABEL: ["s1"]})
    world.keep()
    await borrow(world.api, LABEL)
    said = await beat(world.api, "n1")
    world.hub.leases.memory.leases.clear()  # longer ago than hubs remember
    await world.roll_back()
    if beats_first:
        # Today: known, version 0, lent {} - and the node's book takes that for the truth.
        assert (await beat(world.api, "n1", version=said["version"]))["known"] is False
    world.settle()
    assert await world.lent() is None


async def test_no_slot_of_a_node_is_lent_before_it_has_reported(world):
    await publish(world.api, "n1", **{LABEL: ["s1"]})
    world.keep()
    await world.roll_back()
    world.settle()
    assert await world.lent() is None
    await publish(world.api, "n1", **{LABEL: ["s1"]})
    assert await world.lent() == "s1"


async def test_a_restored_lease_that_was_returned_stays_ended_when_its_node_still_names_it(world):
    await publish(world.api, "n1", **{LABEL: ["s1"]})
    world.keep()
    lease = (await borrow(world.api, LABEL)).json()
    known = (await beat(world.api, "n1"))["lent"]
    await world.roll_back()
    world.settle()
    assert world.server.client().hget("session:s1", "leaseToken") == lease["leaseToken"]
    await give_back(world.api, LABEL, "s1", leaseToken=lease["leaseToken"])
    assert await world.lent() is None  # its node may know of a later lease
    body = {"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": "s1"}], "lent": known}
    assert (await world.api.post("/node/register", json=body)).json()["slots"][0]["status"] == "unchanged"
    assert await world.lent() == "s1"


async def test_a_slot_that_was_returned_is_free_although_redis_lost_the_return(world):
    await publish(world.api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(world.api, LABEL)).json()
    known = (await beat(world.api, "n1"))["lent"]
    world.keep()
    await give_back(world.api, LABEL, "s1", leaseToken=lease["leaseToken"])
    await world.roll_back()
    world.settle()
    body = {"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": "s1"}], "lent": known}
    await world.api.post("/node/register", json=body)
    assert await world.lent() == "s1"


async def test_a_slot_published_after_the_copy_comes_back_with_the_next_heartbeat(world):
    await publish(world.api, "n1", **{LABEL: ["s1"]})
    world.keep()
    await publish(world.api, "n1", **{LABEL: ["s1", "s2"]})
    await world.roll_back()
    assert (await beat(world.api, "n1"))["known"] is False or "s2" in listed(
        world.server.client(), f"available:{LABEL}"
    )


async def test_a_second_restart_before_all_have_reported_still_restores_the_lost_lease(world):
    await publish(world.api, "n1", **{LABEL: ["s1"]})
    world.keep()
    lease = (await borrow(world.api, LABEL)).json()
    known = (await beat(world.api, "n1"))["lent"]
    world.restart_older()
    settings = settings_for(world.server.url)
    async with open_store(settings) as store:  # a hub that made no leases opens it
        await Hub(store, settings).clock.tick()
    world.server.kill()
    world.server.start()
    await world.notice()  # the hub that lent: its recall is refused, the token lies below the second loss
    slots = [{"labelKey": LABEL, "slotId": "s1"}]
    body = {"nodeId": "n1", "slots": slots, "lent": known}
    answer = (await world.api.post("/node/register", json=body)).json()
    assert [slot["status"] for slot in answer["slots"]] == ["lent"]
    assert world.server.client().hget("session:s1", "leaseToken") == lease["leaseToken"]
