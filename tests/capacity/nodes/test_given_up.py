"""Beats that an agent gives up while Redis stands still: nothing is said of each, and the node lives on."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from tests.world import eventually

pytestmark = pytest.mark.story
BEATS = 20


@pytest.mark.slow
async def test_heartbeats_given_up_while_redis_hangs_log_no_traceback(start_hub, own_redis):
    # a real process: at its end it logs exceptions that were never retrieved, which a fork does not
    hub = start_hub(linger_s=1.0, HUB_REDIS_URL=own_redis.url, HUB_NODE_TIMEOUT="600")
    async with hub.client("node") as api:
        (await api.post("/node/register", json={"nodeId": "n1"})).raise_for_status()
    own_redis.freeze()
    try:
        await asyncio.gather(*(give_up(hub, number) for number in range(BEATS)))

        async def noticed():
            async with hub.client() as api:
                return (await api.get("/health/ready")).status_code == 503

        await eventually(noticed, 60)
    finally:
        own_redis.thaw()

    async def heard():
        async with hub.client("node") as api:
            answer = await api.post("/node/heartbeat", json={"nodeId": "n1"})
            return answer.status_code == 200 and answer.json()["known"]

    await eventually(heard, 60)
    hub.signal(signal.SIGTERM)
    hub.process.wait()
    assert "Traceback" not in hub.log()
    assert "never retrieved" not in hub.log()


async def give_up(hub, number):
    """Send a heartbeat in one of three ways and hang up before it is answered."""
    beat = {"nodeId": "n1", "recycled": ["s1"]} if number % 4 == 1 else {"nodeId": "n1"}
    path, body = ("/node/heartbeat", beat) if number % 2 else ("/node/heartbeats", {"beats": [beat]})
    async with hub.client("node", timeout=1) as api:
        with pytest.raises((httpx.TimeoutException, httpx.HTTPStatusError)):
            (await api.post(path, json=body)).raise_for_status()
