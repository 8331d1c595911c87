"""Heartbeats of nodes in batches: heartbeats that arrive while a script is under way are sent with the next script."""

from __future__ import annotations

from asyncio import gather
from collections.abc import Callable, Sequence
from typing import Any

from hub.batched import batched
from hub.capacity.nodes.models import Beat, DrainCall, LentFor, Orders
from hub.observability import metrics
from hub.store.batches import Batches
from hub.store.classing import until_classed
from hub.store.keys import key_part
from hub.store.store import Store

BATCH = 128  # heartbeats per script: about 1 ms of Redis

_UNKNOWN = Orders(known=False)
_SUPERSEDED = Orders(known=True, superseded=True)

HELD_AT_ONCE = 64  # texts, two of each slot
DESCRIBED_AT_ONCE = 32  # slots, each of which may leave the list of its pool and enter it again


class Beats(Batches[Beat, Orders]):
    """The heartbeats of nodes. A heartbeat is answered only once it is in Redis."""

    def __init__(self, store: Store, timeout_ms: Callable[[], int], classes_max: int) -> None:
        super().__init__("beats", BATCH)
        self._timeout_ms = timeout_ms
        self._classes_max = classes_max
        self._beat = store.script("nodes/beat")
        self._recycled = store.script("nodes/recycled")
        self._hold = store.script("nodes/hold")
        self._describe_slots = store.script("capacity/describe_slots")
        self._known = metrics.heartbeats.labels("true")
        self._unmanaged = metrics.heartbeats.labels("false")

    async def call(self, items: list[Beat]) -> list[Orders]:
        """Store heartbeats and return the orders of each node, in this order. Raises `StoreUnavailable`."""
        facts: list[Any] = []
        held = [beat for beat in items if beat.held is not None]
        if held:  # before a slot of these is made fresh, which may lend it
            await gather(*map(self._note_held, held))
        described = [beat for beat in items if beat.described]
        notes = dict(zip(map(id, described), await gather(*map(self._describe, described)), strict=True))
        recycled = [beat for beat in items if beat.recycled]
        if recycled:
            await gather(*map(self._note_recycled, recycled))
        for beat in items:
            facts += (beat.node_id, key_part(beat.node_id), beat.version, beat.incarnation)
        replies = await self._beat(timeout_ms=self._timeout_ms(), rest=facts)
        orders = [_orders(beat, reply) for beat, reply in zip(items, replies, strict=True)]
        if notes:
            orders = [each._replace(notes=notes.get(id(beat), {})) for beat, each in zip(items, orders, strict=True)]
        known = sum(order.known for order in orders)
        self._known.inc(known)
        self._unmanaged.inc(len(orders) - known)
        return orders

    async def _note_held(self, beat: Beat) -> None:
        named = [text for slot_and_reason in (beat.held or {}).items() for text in slot_and_reason]
        caller = {
            "node": beat.node_id,
            "part": key_part(beat.node_id),
            "incarnation": beat.incarnation,
            "said_number": beat.number,
        }
        for start in range(0, len(named) - HELD_AT_ONCE, HELD_AT_ONCE):  # each may search the list of a pool
            await self._hold(whole="", rest=named[start : start + HELD_AT_ONCE], **caller)
        await self._hold(whole=1, rest=named, **caller)

    async def _describe(self, beat: Beat) -> dict[str, str]:
        """Note what a beat says of its slots; return those whose attributes do not count, each with the reason."""
        found: dict[str, str] = {}

        async def describe(batch: Sequence[tuple[str, tuple[str, str]]]) -> list[tuple[Any, ...]]:
            reply = await self._describe_slots(
                id=beat.node_id,
                part=key_part(beat.node_id),
                incarnation=beat.incarnation,
                said_number=beat.number,
                classes_max=self._classes_max,
                rest=[text for slot, said in batch for text in (slot, *said)],
            )
            return list(zip(*reply[1:], strict=True)) if reply[0] == "ok" else []

        for batch in batched(list(beat.described.items()), DESCRIBED_AT_ONCE):
            rows = await until_classed(beat.node_id, batch, lambda each: each[0], describe)
            if not rows:  # the answer to the beat says why
                return {}
            found |= {slot: note or word for (slot, _), (word, note) in zip(batch, rows, strict=True)}
        return {slot: said for slot, said in found.items() if said != "set"}

    async def _note_recycled(self, beat: Beat) -> None:
        named = [text for slot_and_number in beat.recycled.items() for text in slot_and_number]
        await self._recycled(node=beat.node_id, part=key_part(beat.node_id), incarnation=beat.incarnation, rest=named)


def _orders(beat: Beat, reply: Any) -> Orders:
    match reply:
        case 0:
            return _UNKNOWN
        case 1 | 2:
            return Orders(True, reply == 2, beat.version)
        case 3:
            return _SUPERSEDED
        case [version, drain, lent, recycle, offers, call, asked, ended, barred]:
            tokens, ends, held = (dict(zip(each[::2], each[1::2], strict=True)) for each in (lent, ended, barred))
            told, names, named = DrainCall.read(call), LentFor.read(asked), (*recycle, *ends)
            return Orders(True, bool(drain), int(version), tokens, named, offers, False, told, names, ends, held)
    raise ValueError(f"nodes/beat answered {reply!r}")
