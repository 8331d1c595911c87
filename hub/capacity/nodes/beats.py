"""Heartbeats of nodes in batches: heartbeats that arrive while a script is under way are sent with the next script."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Callable
from typing import Any

from hub.capacity.nodes.models import Beat, DrainCall, LentFor, Orders
from hub.observability import metrics
from hub.store.batches import Batches
from hub.store.keys import key_part
from hub.store.store import Store

BATCH = 128  # heartbeats per script: about 1 ms of Redis

_UNKNOWN = Orders(known=False)
_SUPERSEDED = Orders(known=True, superseded=True)


class Beats(Batches[Beat, Orders]):
    """The heartbeats of nodes. A heartbeat is answered only once it is in Redis."""

    def __init__(self, store: Store, timeout_ms: Callable[[], int]) -> None:
        super().__init__("beats", BATCH)
        self._timeout_ms = timeout_ms
        self._beat = store.script("nodes/beat")
        self._recycled = store.script("nodes/recycled")
        self._known = metrics.heartbeats.labels("true")
        self._unmanaged = metrics.heartbeats.labels("false")

    async def call(self, items: list[Beat]) -> list[Orders]:
        """Store heartbeats and return the orders of each node, in this order. Raises `StoreUnavailable`."""
        facts: list[Any] = []
        recycled = [beat for beat in items if beat.recycled]
        if recycled:
            await gather(*map(self._note_recycled, recycled))
        for beat in items:
            facts += (beat.node_id, key_part(beat.node_id), beat.version, beat.incarnation)
        replies = await self._beat(timeout_ms=self._timeout_ms(), rest=facts)
        orders = [_orders(beat, reply) for beat, reply in zip(items, replies, strict=True)]
        known = sum(order.known for order in orders)
        self._known.inc(known)
        self._unmanaged.inc(len(orders) - known)
        return orders

    async def _note_recycled(self, beat: Beat) -> None:
        named = [text for slot_and_number in beat.recycled.items() for text in slot_and_number]
        await self._recycled(part=key_part(beat.node_id), incarnation=beat.incarnation, rest=named)


def _orders(beat: Beat, reply: Any) -> Orders:
    match reply:
        case 0:
            return _UNKNOWN
        case 1 | 2:
            return Orders(True, reply == 2, beat.version)
        case 3:
            return _SUPERSEDED
        case [version, drain, lent, recycle, offers, call, asked, ended]:
            tokens, ends = (dict(zip(each[::2], each[1::2], strict=True)) for each in (lent, ended))
            told, names, named = DrainCall.read(call), LentFor.read(asked), (*recycle, *ends)
            return Orders(True, bool(drain), int(version), tokens, named, offers, False, told, names, ends)
    raise ValueError(f"nodes/beat answered {reply!r}")
