"""Nothing late is done: a hub that stood still, or that knows another store, changes nothing until it has ticked."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from hub.capacity.models import BorrowRequest
from hub.store.faults import Late
from tests.races.wires import Wires
from tests.world import answers, borrow, eventually, give_back, listed, picture, publish

pytestmark = pytest.mark.story
LABEL = "a:b"
IMPATIENT = httpx.Timeout(60, read=1.0)  # for reads only: connecting may take long on a busy machine


async def asked_in_vain(hub, method, path, **body):
    """Send a request to a stopped hub, give up waiting, and close the connection."""
    async with hub.client("runner", timeout=httpx.Timeout(60, read=0.3)) as api:
        with pytest.raises(httpx.ReadTimeout):
            await api.request(method, path, **body)


async def stands_still_for(redis, ms):
    """Wait until the hub clock, which other hubs tick, has advanced by so much."""
    begun = int(redis.hget("hub:store", "clock_ms"))
    await eventually(lambda: int(redis.hget("hub:store", "clock_ms")) - begun > ms)


@pytest.fixture
async def two(start_hub, redis):
    """Two hubs, the first of which is stopped for four seconds of the hub clock by `async with two(...)`."""
    return start_hub(HUB_NODE_TIMEOUT="60"), start_hub(HUB_NODE_TIMEOUT="60")


async def test_a_return_delayed_in_a_stopped_hub_ends_no_later_lease(two, redis):
    stopped, awake = two
    async with awake.client("node") as node, awake.client("runner") as api:
        await publish(node, "n1", **{LABEL: ["s1"]})
        await borrow(api, LABEL, run="r1")
        stopped.signal(signal.SIGSTOP)
        try:
            await asked_in_vain(stopped, "POST", "/session/return", json={"labelKey": LABEL, "browserId": "s1"})
            await give_back(api, LABEL, "s1")
            await borrow(api, LABEL, run="r2")
            await stands_still_for(redis, 4000)
        finally:
            stopped.signal(signal.SIGCONT)
        assert await asyncio.to_thread(answers, stopped.port, "/health/ready")
        assert redis.hget("session:s1", "runId") == "r2"
        async with stopped.client("runner") as late:  # and it serves as before
            assert (await give_back(late, LABEL, "s1")).json() == {"returned": "s1"}


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "once"}], ids=["plain", "with a key"])
async def test_a_borrow_delayed_in_a_stopped_hub_lends_nothing(two, redis, headers):
    """Its caller has asked another hub as well, was told that there is nothing, and went on."""
    stopped, awake = two
    asked = {"json": {"labelKey": LABEL, "runId": "r1", "maxWaitSeconds": 0}, "headers": headers}
    stopped.signal(signal.SIGSTOP)
    try:
        await asked_in_vain(stopped, "POST", "/session/borrow", **asked)
        async with awake.client("node") as node, awake.client("runner") as api:
            refused = await api.post("/session/borrow", **asked)
            assert (refused.status_code, refused.json()["code"]) == (503, "no-capacity")
            await publish(node, "n1", **{LABEL: ["s1"]})
        await stands_still_for(redis, 4000)
    finally:
        stopped.signal(signal.SIGCONT)
    assert await asyncio.to_thread(answers, stopped.port, "/health/ready")
    assert "grant.lent" not in [entry["event"] for _, entry in redis.xrange("hub:history")]
    assert listed(redis, f"available:{LABEL}") == ["s1"]


@pytest.fixture
def wires(redis_server):
    """Yield a proxy between a hub and Redis. Cut, it keeps the bytes under way and delivers them once mended."""
    found = Wires([redis_server.port])
    yield found
    found.stop()


async def test_a_call_is_not_carried_out_after_the_time_that_its_caller_waits(start_hub, wires, redis_server, redis):
    """A hub stands still between reading a request and sending it to Redis, for less than three seconds."""
    far = start_hub(HUB_REDIS_URL=f"redis://127.0.0.1:{wires.ports[0]}", HUB_NODE_TIMEOUT="60")
    near = start_hub(HUB_NODE_TIMEOUT="60")
    async with near.client("node") as node, near.client() as operator, far.client() as impatient:
        await publish(node, "n1", **{LABEL: ["s1"]})
        wires.cut.add(redis_server.port)
        with pytest.raises(httpx.ReadTimeout):
            await impatient.post("/admin/nodes/n1/undrain", headers={"Prefer": "wait=1"}, timeout=IMPATIENT)
        far.signal(signal.SIGSTOP)
        try:
            assert (await operator.post("/admin/nodes/n1/drain")).status_code == 200
            await stands_still_for(redis, 1000)  # a busy hub clock is slower than a caller
            wires.cut.clear()
        finally:
            far.signal(signal.SIGCONT)

        async def served():  # what was sent before it is carried out, or refused, before it
            return (await impatient.get("/nodes/n1")).status_code == 200

        await eventually(served)
        assert (await operator.get("/nodes/n1")).json()["draining"] is True


async def test_a_delayed_return_without_a_token_ends_no_later_lease(start_hub, wires, redis_server, redis):
    """An old client: it sends no token, no run and no `Prefer: wait`."""
    far = start_hub(HUB_REDIS_URL=f"redis://127.0.0.1:{wires.ports[0]}", HUB_NODE_TIMEOUT="60")
    near = start_hub(HUB_NODE_TIMEOUT="60")
    back = {"labelKey": LABEL, "browserId": "s1"}
    async with near.client("node") as node, near.client("runner") as api, far.client("runner") as impatient:
        await publish(node, "n1", **{LABEL: ["s1"]})
        await borrow(api, LABEL)
        wires.cut.add(redis_server.port)
        with pytest.raises(httpx.ReadTimeout):
            await impatient.post("/session/return", json=back, timeout=IMPATIENT)
        await stands_still_for(redis, 1000)
        await give_back(api, LABEL, "s1")
        second = (await borrow(api, LABEL)).json()
        wires.cut.clear()

        async def served():
            return (await impatient.get("/sessions/s1")).status_code != 503

        await eventually(served)
        assert redis.hget("session:s1", "leaseToken") == second["leaseToken"]
        assert (await impatient.post("/session/return", json=back)).json() == {"returned": "s1"}  # and one in time does


@pytest.mark.parametrize("fence", [("another", None), (None, -3001)], ids=["of another store", "silent"])
async def test_a_hub_that_does_not_know_the_present_store_changes_nothing(fence, hub, redis):
    await hub.clock.tick()
    generation, moved_ms = fence
    hub.store.fence = (generation or hub.store.generation, hub.store.clock_ms + (moved_ms or 0))
    before = picture(redis, own=True)
    with pytest.raises(Late):
        await hub.leases.borrow(BorrowRequest(LABEL, 900_000, "r", "q", "q", "f", 60))
    assert picture(redis, own=True) == before
