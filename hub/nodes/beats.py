"""Heartbeats, many to a script: beats that arrive while one call is under way go out together in the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hub.nodes.models import Beat, Orders
from hub.observability import metrics
from hub.store.keys import key_part
from hub.store.store import Store

BITE = 128  # beats per script: about 1 ms of Redis

_UNKNOWN = Orders(known=False)
_SUPERSEDED = Orders(known=True, superseded=True)


class Beats:
    """Takes heartbeats; a beat is answered only after Redis has it."""

    def __init__(self, store: Store, timeout_ms: Callable[[], int]) -> None:
        self._timeout_ms = timeout_ms
        self._beat = store.script("nodes/beat")
        self._recycled = store.script("nodes/recycled")
        self._waiting: list[tuple[Beat, asyncio.Future[Orders]]] = []
        self._sender: asyncio.Task[None] | None = None
        self._known = metrics.heartbeats.labels("true")
        self._strangers = metrics.heartbeats.labels("false")

    def take(self, beat: Beat) -> asyncio.Future[Orders]:
        """What the node must do, once Redis has its beat. Fails with `StoreUnavailable`."""
        answer: asyncio.Future[Orders] = asyncio.get_running_loop().create_future()
        self._waiting.append((beat, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name="beats")
        return answer

    async def _send(self) -> None:
        await asyncio.sleep(0)  # beats that can be read now join the first call
        while self._waiting:
            bite, self._waiting = self._waiting[:BITE], self._waiting[BITE:]
            try:
                orders = await self._call([beat for beat, _ in bite])
            except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, every one of them
                for _, answer in bite:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), order in zip(bite, orders, strict=True):
                if not answer.done():
                    answer.set_result(order)

    async def _call(self, beats: list[Beat]) -> list[Orders]:
        facts: list[Any] = []
        recycled = [beat for beat in beats if beat.recycled]
        if recycled:
            await asyncio.gather(*(self._recycled(part=key_part(b.node_id), rest=b.recycled) for b in recycled))
        for beat in beats:
            facts += (beat.node_id, key_part(beat.node_id), beat.version, beat.incarnation)
        replies = await self._beat(timeout_ms=self._timeout_ms(), rest=facts)
        orders = [_orders(beat, reply) for beat, reply in zip(beats, replies, strict=True)]
        known = sum(order.known for order in orders)
        self._known.inc(known)
        self._strangers.inc(len(orders) - known)
        return orders


def _orders(beat: Beat, reply: Any) -> Orders:
    match reply:
        case 0:
            return _UNKNOWN
        case 1 | 2:
            return Orders(True, reply == 2, beat.version)
        case 3:
            return _SUPERSEDED
        case [version, drain, lent, recycle, offers, number, left_ms]:
            tokens = dict(zip(lent[::2], lent[1::2], strict=True))
            return Orders(True, bool(drain), int(version), tokens, tuple(recycle), offers, False, number, left_ms)
    raise ValueError(f"nodes/beat answered {reply!r}")
