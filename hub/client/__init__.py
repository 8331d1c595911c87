"""The SDK: borrow slots with `HubClient`, publish slots with `NodeAgent`.

`SyncHubClient` and `SyncNodeAgent` are for programs without asyncio.

    async with HubClient() as client, client.borrow("gpu:a100", wait=60) as slot:  # up to a minute in the queue
        await work(slot.address, slot.token)

    async with NodeAgent("n1", pools={"gpu:a100": 4}):
        await serve()

The package `hub.client.jobs` is for jobs and tasks. Refusals are raised as the classes of `hub.errors`; those that
programs meet most often can be imported from here as well.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hub.errors import HubError, HubUnavailable, LeaseLost, LeaseOver, NoCapacity, Unauthorized, Unavailable

if TYPE_CHECKING:
    from hub.client.borrower import Bundle, HubClient
    from hub.client.node import NodeAgent
    from hub.client.slot import Slot
    from hub.client.state import AgentOptions
    from hub.client.sync_borrower import SyncBundle, SyncHubClient
    from hub.client.sync_node import SyncNodeAgent

__all__ = [
    "AgentOptions",
    "Bundle",
    "HubClient",
    "HubError",
    "HubUnavailable",
    "LeaseLost",
    "LeaseOver",
    "NoCapacity",
    "NodeAgent",
    "Slot",
    "SyncBundle",
    "SyncHubClient",
    "SyncNodeAgent",
    "Unauthorized",
    "Unavailable",
]

_HOMES = {
    "AgentOptions": "state",
    "Bundle": "borrower",
    "HubClient": "borrower",
    "NodeAgent": "node",
    "Slot": "slot",
    "SyncBundle": "sync_borrower",
    "SyncHubClient": "sync_borrower",
    "SyncNodeAgent": "sync_node",
}


def __getattr__(name: str) -> Any:
    """Import the module of a name when the name is first used, so that a program loads only what it uses."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
