"""The SDK: borrow slots with `HubClient`, offer them with `NodeAgent`; `Sync...` are the twins without asyncio.

    async with HubClient() as client, client.borrow("gpu:a100", wait=60) as slot:  # up to a minute in the queue
        await work(slot.endpoint, slot.token)

    async with NodeAgent("n1", pools={"gpu:a100": 4}):
        await serve()

Jobs and tasks have a package of their own, `hub.client.jobs`. Refusals are raised as the classes of `hub.errors`; the
ones met most are here as well.
"""

from hub.client.borrower import HubClient
from hub.client.node import NodeAgent
from hub.client.slot import Slot
from hub.client.state import AgentOptions
from hub.client.sync_borrower import SyncHubClient
from hub.client.sync_node import SyncNodeAgent
from hub.errors import GrantOver, HubError, HubUnavailable, LeaseLost, NoCapacity, Unauthorized, Unavailable

__all__ = [
    "AgentOptions",
    "GrantOver",
    "HubClient",
    "HubError",
    "HubUnavailable",
    "LeaseLost",
    "NoCapacity",
    "NodeAgent",
    "Slot",
    "SyncHubClient",
    "SyncNodeAgent",
    "Unauthorized",
    "Unavailable",
]
