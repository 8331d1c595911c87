"""Both hubs behind the proxy of `deploy/` are replaced, one after the other, and who borrows notices nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import pytest
from redis import Redis

from hub.client import HubClient, NodeAgent
from hub.errors import HubError
from tests.test_nginx import proxy
from tests.world import PATIENCE_S, HubProcess, eventually, listed

__all__ = ["proxy"]

POOL = "gpu:a100"
pytestmark = [pytest.mark.race, pytest.mark.timeout(600)]


class Borrowers:
    """They borrow and return all the time; what they met is counted."""

    def __init__(self, client: HubClient) -> None:
        self._client = client
        self.served = 0
        self.failed: list[str] = []
        self.stop = False

    async def borrow(self) -> None:
        while not self.stop:
            try:
                async with self._client.borrow(POOL, wait=PATIENCE_S):
                    self.served += 1
                    await asyncio.sleep(0)
            except HubError as error:
                self.failed.append(repr(error))

    async def some_more(self) -> None:
        """Until each of them was served again."""
        before = self.served

        async def served() -> bool:
            return self.served >= before + 20

        await eventually(served)


async def replaced(hub: HubProcess, start_hub: Callable[..., HubProcess]) -> HubProcess:
    """Stop a hub as an operator does, and start another one in its place."""
    hub.signal(signal.SIGTERM)
    await asyncio.to_thread(hub.process.wait)
    return await asyncio.to_thread(lambda: start_hub(HUB_PORT=str(hub.port)))


async def test_no_borrow_fails_while_both_hubs_are_replaced(proxy, start_hub, redis: Redis) -> None:
    hubs = [start_hub(), start_hub()]
    url = await asyncio.to_thread(lambda: proxy(*(f"127.0.0.1:{hub.port}" for hub in hubs)))
    async with (
        NodeAgent("n1", pools={POOL: 8}, url=url, secret=hubs[0].node_secret, policy="reuse"),
        HubClient(url, hubs[0].runner_secret) as client,
    ):
        borrowers = Borrowers(client)
        tasks = [asyncio.create_task(borrowers.borrow()) for _ in range(8)]
        await borrowers.some_more()
        for hub in hubs:
            await replaced(hub, start_hub)
            await borrowers.some_more()
        borrowers.stop = True
        await asyncio.gather(*tasks)
        assert len(listed(redis, f"available:{POOL}")) == 8
    assert borrowers.failed == []
