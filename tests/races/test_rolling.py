"""Both hubs behind the proxy of `deploy/` are replaced one after the other - by hubs of the same version, by later ones
and by hubs of the version before again - and no borrower notices.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from redis import Redis

from hub.client import HubClient, NodeAgent
from hub.errors import HubError
from tests.races.test_outages import doctor_finds
from tests.test_nginx import proxy
from tests.world import PATIENCE_S, HubProcess, eventually, listed

__all__ = ["proxy"]

POOL = "gpu:a100"
TOP = Path(__file__).parents[2]
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
        """Wait until each of them was served again."""
        before = self.served
        await eventually(lambda: self.served >= before + 20)


async def replaced(hub: HubProcess, start_hub: Callable[..., HubProcess], **settings: str) -> HubProcess:
    """Stop a hub as an operator does, and start another one in its place."""
    hub.signal(signal.SIGTERM)
    await asyncio.to_thread(hub.process.wait)
    return await asyncio.to_thread(lambda: start_hub(HUB_PORT=str(hub.port), **settings))


def git(*words: str) -> bytes:
    """Run git on this repository and return its output."""
    return subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, check=True).stdout


@pytest.fixture
def before(tmp_path: Path) -> dict[str, str]:
    """Return the environment that starts a hub of the last commit before `lua/` changed."""
    try:
        changed = git("log", "-1", "--format=%H", "--", "lua").decode().strip()
        archive = git("archive", f"{changed}~1", "hub", "lua")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no history here to take the version before from")
    subprocess.run(["tar", "-x", "-C", str(tmp_path)], input=archive, check=True)
    return {"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}


def library(hub: HubProcess) -> str:
    """Return the version of the functions that a hub has loaded."""
    found = re.search(r" store opened .*library=(\S+)", hub.log())
    assert found, hub.log()
    return found[1]


async def test_no_borrow_fails_while_both_hubs_are_replaced(proxy, start_hub, redis: Redis) -> None:
    async def replace(hubs: list[HubProcess], borrowers: Borrowers) -> None:
        for hub in hubs:
            await replaced(hub, start_hub)
            await borrowers.some_more()

    await under_load(proxy, [start_hub(), start_hub()], redis, replace)


async def test_no_borrow_fails_while_hubs_are_upgraded_and_rolled_back(proxy, start_hub, redis: Redis, before) -> None:
    """Half way and at the end hubs of both versions serve side by side, each with functions of its own."""

    async def there_and_back(hubs: list[HubProcess], borrowers: Borrowers) -> None:
        old = library(hubs[0])
        for settings in ({}, before):
            for number, hub in enumerate(hubs):
                hubs[number] = await replaced(hub, start_hub, **settings)
                await borrowers.some_more()
            assert {library(hub) == old for hub in hubs} == {settings == before}

    await under_load(proxy, [start_hub(**before), start_hub(**before)], redis, there_and_back)


async def under_load(
    proxy: Callable[..., str],
    hubs: list[HubProcess],
    redis: Redis,
    change: Callable[[list[HubProcess], Borrowers], Awaitable[None]],
) -> None:
    """Change the hubs while one lease is held and others come and go: no call fails, and no lease is lost."""
    url = await asyncio.to_thread(lambda: proxy(*(f"127.0.0.1:{hub.port}" for hub in hubs)))
    async with (
        NodeAgent("n1", pools={POOL: 8}, url=url, secret=hubs[0].node_secret, policy="reuse") as agent,
        HubClient(url, hubs[0].runner_secret) as client,
    ):
        borrowers = Borrowers(client)
        async with client.borrow(POOL, wait=PATIENCE_S, ttl=60) as held:
            tasks = [asyncio.create_task(borrowers.borrow()) for _ in range(8)]
            await borrowers.some_more()
            await change(hubs, borrowers)
            borrowers.stop = True
            await asyncio.gather(*tasks)
            assert (await agent.verify(held.id, held.token))["valid"]
        assert len(listed(redis, f"available:{POOL}")) == 8
    assert borrowers.failed == []
    assert await doctor_finds(hubs[0].redis_url, node_timeout_s=60) == []
