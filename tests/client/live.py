"""Clients and agents of a hub in a process of its own."""

from __future__ import annotations

from typing import Any

from hub.client import HubClient, NodeAgent, Unavailable
from hub.errors import NotFound
from tests import world
from tests.world import HubProcess

LABEL = "gpu:a100"


def client_of(live_hub: HubProcess, **options: Any) -> HubClient:
    return HubClient(live_hub.url, live_hub.runner_secret, **options)


def agent_of(live_hub: HubProcess, slots: int = 1, **options: Any) -> NodeAgent:
    pools = {LABEL: slots}
    return NodeAgent("n1", pools=pools, url=live_hub.url, secret=live_hub.node_secret, **options)


async def until_slots(client: HubClient, ids: list[str]) -> None:
    """Until the node is known with exactly these slots."""

    async def listed() -> bool:
        try:
            node = await client.node("n1")
        except (NotFound, Unavailable):
            return False
        return sorted(slot["browserId"] for slot in node["slotList"]) == sorted(ids)

    await world.eventually(listed)
