"""Refreshing the records whose handlers run, so that long work is not taken for stuck."""

from __future__ import annotations

import asyncio
import logging

from hub.client.records.claims import Claims, Why
from hub.client.records.counts import say
from hub.client.records.items import Items
from hub.client.records.sessions import Trouble


class Heart:
    """Beats for all handlers that run, in one statement every `interval_s`, sooner after one that failed."""

    def __init__(self, claims: Claims, items: Items, interval_s: float) -> None:
        source = claims.rows.source.name
        self._claims = claims
        self._items = items
        self._interval_s = interval_s
        self._trouble = Trouble(source, "records cannot be refreshed", "records can be refreshed again")
        self._source = source

    async def beat_for_ever(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s / 4 if self._trouble.on else self._interval_s)
            await self.beat()

    async def beat(self) -> None:
        """Refresh them once, and cancel the handlers of those that are somebody else's by now."""
        held = [claim for claim in self._items.running.values() if claim.why is None and claim.left_s > 0]
        if not held:
            return
        try:
            async with asyncio.timeout(self._interval_s):
                lost = await self._claims.refresh(held)
        except Exception as error:  # noqa: BLE001 - said there; a lease that is not refreshed ends
            self._trouble.met(repr(error))
            return
        self._trouble.over()
        for claim in lost:
            say(logging.WARNING, "heartbeat finds the record changed", source=self._source, id=claim.record.id)
            claim.stop(Why.LOST)
