"""Heartbeats of the loop: they write a new time into records whose handlers run, so that these do not look stuck."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from hub.recovery.loop.claims import AT_ONCE, Claims, RecordClaim, Why
from hub.recovery.loop.counts import log_event
from hub.recovery.loop.items import Items
from hub.recovery.loop.sessions import SessionTrouble

OFTEN_S = 0.1  # least time between two heartbeats, however often handlers commit


class ClaimHeartbeat:
    """The heartbeats for the records of all running handlers, every `interval_s`. One comes sooner after a failed
    heartbeat, and after a handler's commit, which may have written the earlier time at which its transaction began."""

    def __init__(self, claims: Claims, items: Items, interval_s: float) -> None:
        source = claims.rows.source.name
        self._claims = claims
        self._items = items
        self._interval_s = interval_s
        self._trouble = SessionTrouble(source, "records cannot be refreshed", "records can be refreshed again")
        self._source = source

    async def beat_for_ever(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            rest_s = self._interval_s / 4 if self._trouble.on else self._interval_s
            least_s = min(OFTEN_S, rest_s / 2)
            await asyncio.sleep(least_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_s - least_s):
                    await self._items.committed.wait()
            self._items.committed.clear()
            await self.beat()

    async def beat(self) -> None:
        """Write a new time into the records of running handlers; cancel handlers whose records others have changed."""
        held = [claim for claim in self._items.claimed.values() if claim.at_work and claim.left_s > 0]
        for first in range(0, len(held), AT_ONCE):
            await self._refresh(held[first : first + AT_ONCE])

    async def _refresh(self, held: list[RecordClaim]) -> None:
        try:
            async with asyncio.timeout(self._interval_s):
                lost = await self._claims.refresh(held)
        except Exception as error:  # noqa: BLE001 - logged by `met`; without a refresh the lease ends
            self._trouble.met(repr(error))
            return
        self._trouble.over()
        for claim in lost:
            if claim.at_work:  # its handler has not ended meanwhile
                log_event(
                    logging.WARNING, "heartbeat finds the record changed", source=self._source, id=claim.record.id
                )
                claim.stop(Why.LOST)
