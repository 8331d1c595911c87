"""A lease that is recalled for another team, as the SDK tells it: callback, event, and reason of the loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from hub.client import HubClient, LeaseLost
from hub.client.using import Ending
from tests.client.live import LABEL, agent_of, client_of, until_slots
from tests.world import PATIENCE_S, HubProcess, eventually

pytestmark = pytest.mark.story


def admin(hub: HubProcess, method: str, path: str, **body: object) -> httpx.Response:
    secret = {"x-hub-secret": hub.admin_secret}
    answer = httpx.request(method, hub.url + path, json=body, headers=secret, timeout=PATIENCE_S)
    return answer.raise_for_status()


def token_of(hub: HubProcess, team: str) -> str:
    """Return a token with which a user borrows for a team."""
    said = admin(hub, "POST", "/admin/tokens", user=f"u-{team}", team=team, scopes=["borrow"]).json()
    return str(said["token"])


@asynccontextmanager
async def teams_of(hub: HubProcess) -> AsyncIterator[tuple[HubClient, asyncio.Task[None]]]:
    """Yield the client of a team, and the task of another with a guarantee that then waits for the only slot."""
    admin(hub, "PUT", "/admin/teams/ml", label="gpu:*", guarantee=1)
    web, ml = (HubClient(hub.url, token_of(hub, team)) for team in ("web", "ml"))
    async with agent_of(hub), client_of(hub) as looker, web, ml:
        await until_slots(looker, ["n1-gpu.a100-1"])

        async def want() -> None:
            async def lent() -> bool:
                return bool((await looker.pool(LABEL))["borrowed"])

            await eventually(lent)
            async with ml.borrow(LABEL, wait=PATIENCE_S):
                pass

        waiter = asyncio.create_task(want())
        yield web, waiter
        waiter.cancel()
        await asyncio.wait([waiter])


async def test_the_holder_of_a_recalled_lease_hears_of_it_and_loses_it(live_hub: HubProcess) -> None:
    heard: list[Ending | None] = []
    async with teams_of(live_hub) as (web, waiter):
        with pytest.raises(LeaseLost, match="it was recalled for a team below its guarantee"):
            async with web.borrow(LABEL, ttl=8, on_ending=heard.append):
                await asyncio.Event().wait()
        assert [end.reason for end in heard if end] == ["recall"]
        await waiter


async def test_the_holder_keeps_its_lease_when_nobody_lacks_it_any_more(live_hub: HubProcess) -> None:
    heard: list[Ending | None] = []
    async with teams_of(live_hub) as (web, waiter), web.borrow(LABEL, ttl=600, on_ending=heard.append) as slot:
        await eventually(lambda: len(heard) == 1)
        assert slot.ending.is_set()
        waiter.cancel()
        await eventually(lambda: len(heard) == 2)
        assert heard[1] is None
        assert not slot.ending.is_set()
