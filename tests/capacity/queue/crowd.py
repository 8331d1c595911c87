"""Borrowers that wait in the queue, in this process."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from hub.capacity.models import BorrowRequest, Lease, PublishedSlot, slot_item
from hub.core import Hub
from tests.world import PATIENCE_S, add_node

_numbers = itertools.count()


def wanted(label: str, run: str = "", wait_s: float = 20, *, key: str = "", **more: Any) -> BorrowRequest:
    """A borrow that waits; every call is an attempt of its own, the same `key` the same ticket."""
    number = next(_numbers)
    attempt = f"try-{number}"
    made = BorrowRequest(label, 900_000, run or f"run-{number}", key or attempt, attempt, label, 600, keyed=bool(key))
    return made._replace(wait_ms=int(wait_s * 1000), **more)


class Crowd:
    """Borrowers by name, and what each of them got, in the order in which they were served."""

    def __init__(self, *hubs: Hub) -> None:
        self._hubs = itertools.cycle(hubs)
        self.hub = hubs[0]
        self.tasks: dict[str, asyncio.Task[Lease]] = {}
        self.served: list[str] = []
        self.requests: dict[str, BorrowRequest] = {}

    async def come(self, name: str, label: str, at: Hub | None = None, **more: Any) -> None:
        """Borrow in the background; returns once the borrower stands in the queue or was answered."""
        self.requests[name] = wanted(label, **more)
        hub = at or next(self._hubs)
        self.tasks[name] = asyncio.create_task(self._borrow(hub, name))
        ticket = self.requests[name].request
        while not self.tasks[name].done():
            if await self.hub.store.read("ZSCORE", self.hub.store.keys.queue(label), ticket):
                return
            await asyncio.sleep(0.005)

    async def _borrow(self, hub: Hub, name: str) -> Lease:
        lease = await hub.leases.borrow(self.requests[name])
        self.served.append(name)
        return lease

    async def grant(self, name: str) -> Lease:
        """Return the lease of a borrower; fail if there is none in time."""
        return await asyncio.wait_for(asyncio.shield(self.tasks[name]), PATIENCE_S)

    def waiting(self) -> list[str]:
        """Return the borrowers that were not answered yet."""
        return [name for name, task in self.tasks.items() if not task.done()]

    async def go_home(self) -> None:
        """End every borrow that still waits."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def offer(hub: Hub, label: str, *slots: str, node: str = "n1", policy: str = "reuse") -> None:
    """Register a node and publish slots of one pool."""
    await add_node(hub, node)
    await hub.pools.publish(
        node, [PublishedSlot(slot, label, slot_item(node, slot, "kind", {})) for slot in slots], policy
    )
