"""A Redis with `appendfsync everysec` whose machine loses power: its last second is not on the disk."""

from __future__ import annotations

import asyncio

import pytest

from hub.store.store import SETTLE_MS
from tests.world import beat, borrow, eventually, give_back, publish, sweepers, wait_until

LABEL = "gpu:a100"
TTL_MS, RENEWED_MS = 60_000, 600_000


class Power:
    """A server of one's own that loses what it wrote since a moment, and a hub on it."""

    def __init__(self, server, api):
        self.server, self.api = server, api
        self.hub = api._transport.app.app.state.serving.hub
        self.redis = server.client()

    def note(self):
        """Remember what is on the disk by now; a failure loses later writes."""
        wait_until(lambda: not self.redis.info("persistence")["aof_buffer_length"])
        (self._file,) = (self.server.folder / "appendonlydir").glob("*.incr.aof")
        self._length = self._file.stat().st_size

    async def fail(self):
        """The machine is switched off and on, the hub finds the server again, and says what it remembers."""
        wait_until(lambda: not self.redis.info("persistence")["aof_buffer_length"])
        lost = self._file.stat().st_size - self._length
        assert lost > 0
        self.server.kill()
        with self._file.open("r+b") as file:
            file.truncate(self._length)
        self.server.start()
        before = self.hub.store.generation

        async def back():
            await self.hub.clock.tick()
            return self.hub.store.generation != before

        await eventually(back)
        self.pass_by(SETTLE_MS + 1)

    def pass_by(self, ms):
        """Let so much time pass on the hub clock."""
        self.redis.hincrby("hub:store", "clock_ms", ms)

    async def lent(self):
        """Borrow without waiting; return the slot, or the code of the refusal."""
        answer = (await borrow(self.api, LABEL, maxWaitSeconds=0)).json()
        return answer.get("browserId") or answer["code"]

    async def sweep(self):
        _, leases = sweepers(self.hub)
        await leases.sweep()


@pytest.fixture
async def power(own_redis, make_api):
    # Nodes and their time do not matter here: only leases lapse.
    async with make_api(
        redis_url=own_redis.url, redis_timeout_s=5, node_timeout_s=3600, borrow_queue_timeout_s=600
    ) as api:
        yield Power(own_redis, api)


async def test_a_slot_whose_renewal_was_lost_is_not_lent_before_the_renewed_end(power):
    api = power.api
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL, ttlSeconds=TTL_MS / 1000)).json()
    lent = (await beat(api, "n1"))["lent"]
    held = {"browserId": "s1", "leaseToken": lease["leaseToken"]}
    power.note()
    renewed = await api.post("/session/renew", json={**held, "ttlSeconds": RENEWED_MS / 1000})
    assert renewed.json()["ttlSeconds"] == RENEWED_MS / 1000
    await power.fail()
    offer = {"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": "s1"}], "lent": lent}
    assert (await api.post("/node/register", json=offer)).json()["slots"][0]["status"] == "lent"
    power.pass_by(TTL_MS + 1_000)  # past the end that it had before
    await power.sweep()
    assert await power.lent() == "no-capacity"
    assert (await api.get(f"/leases/s1/verify?token={lease['leaseToken']}")).json()["valid"] is True
    power.pass_by(RENEWED_MS - TTL_MS)  # and past the end that its holder was told
    await power.sweep()
    assert await power.lent() == "s1"


@pytest.mark.parametrize("lost", ["that it was given up", "the borrow too"])
async def test_a_cancelled_borrow_does_not_wait_again_after_a_loss_of_the_store(power, lost):
    api = power.api
    await publish(api, "n1", **{LABEL: ["s1"]})
    lease = (await borrow(api, LABEL)).json()
    lent = (await beat(api, "n1"))["lent"]
    power.note()
    asked = {"json": {"labelKey": LABEL, "maxWaitSeconds": 600}, "headers": {"idempotency-key": "k1"}}
    waits = asyncio.create_task(api.post("/session/borrow", **asked))

    async def tickets():
        found = (await api.get("/queue", params={"label": LABEL})).json()["labels"]
        return [ticket["ticket"] for queue in found for ticket in queue["tickets"]]

    await eventually(tickets)
    (ticket,) = await tickets()
    if lost != "the borrow too":
        power.note()
    assert (await api.delete(f"/queue/{ticket}")).json() == {"cancelled": True}
    assert (await waits).json()["code"] == "withdrawn"
    await power.fail()
    assert await tickets() == []
    offer = {"nodeId": "n1", "slots": [{"labelKey": LABEL, "slotId": "s1"}], "lent": lent}
    assert (await api.post("/node/register", json=offer)).status_code == 200
    await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])
    again = await api.post("/session/borrow", **asked)
    assert again.json().get("code") == "withdrawn", again.json()
    assert await power.lent() == "s1"
