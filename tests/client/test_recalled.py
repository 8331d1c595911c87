"""A store loses everything, and the node beats before the hub reports its leases: the holder has to wait, and the block
goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redis import Redis

from hub.client import HubClient
from hub.store.store import SETTLE_MS
from tests.client.fake_hub import eventually
from tests.world import beat, borrow, publish

LABEL = "a:b"
pytestmark = pytest.mark.story


class Way(httpx.AsyncBaseTransport):
    """The way to one hub or another; it keeps what was answered."""

    def __init__(self, to: httpx.AsyncClient) -> None:
        self.to = to
        self.heard: set[tuple[str, str]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.to._transport.handle_async_request(request)
        await response.aread()
        self.heard.add((request.url.path, response.json().get("code", "ok")))
        return response


@pytest.mark.parametrize("asks", ["renews", "verifies"])
async def test_a_check_of_a_lease_right_after_a_store_loss_waits_and_the_block_goes_on(
    make_api: Callable[..., Any], redis: Redis, asks: str
) -> None:
    async with make_api() as lender, make_api() as other:
        await publish(lender, "n1", **{LABEL: ["s1"]})
        way = Way(lender)
        async with HubClient("http://hub", transport=way) as client, client.borrow(LABEL, ttl=600) as slot:
            way.to = other
            redis.flushall()
            assert (await beat(other, "n1"))["known"] is False  # it has not heard of the lease
            await publish(other, "n1", **{LABEL: ["s1"]})
            assert redis.keys("session:*") == []
            path = "/session/renew" if asks == "renews" else f"/leases/{slot.id}/verify"
            call: Any = client.renew(slot) if asks == "renews" else client.verify(slot.id, slot.token)
            asked = asyncio.create_task(call)
            await eventually(lambda: (path, "settling") in way.heard)
            assert not slot.lost.is_set()
            await lender._transport.app.app.state.serving.hub.clock.tick()  # the hub that lent says so
            redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
            answer = await asked
            assert asks == "renews" or answer["valid"]
            assert (await borrow(other, LABEL)).json()["code"] == "no-capacity"
            slot.check()
        assert way.heard >= {(path, "settling"), (path, "ok"), ("/session/return", "ok")}
