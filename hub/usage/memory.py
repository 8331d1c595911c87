"""The figures of usage as this hub read them last, to give them back to a store that lost them."""

from __future__ import annotations

import time
import zlib
from collections import OrderedDict

import orjson

from hub.batched import batched
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store
from hub.usage.models import DAY_S, KINDS

LOOK_S = 30.0  # between two looks at the figures of today: what is counted later is lost with the store
KEEP_BYTES = 8 * 2**20  # of the packed days, the latest first: about a hundred names of each kind for 400 days
ROWS = 500  # names in one call of the script, which takes about 1 ms
_log = get_logger("hub.usage")


class UsageMemory:
    """The figures of the latest days, packed. Those of today and yesterday are read again and again, those of a day
    before once. They are given back after a loss: the two latest days before lending goes on, the others after it."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._days = settings.usage_days
        self._read = store.script("usage/read")
        self._restore = store.script("usage/restore")
        self._packed: OrderedDict[int, bytes] = OrderedDict()  # day -> its figures by kind
        self._owed: list[int] = []  # days that are still to be given back
        self._looked = float("-inf")
        self._reached = -1  # the earliest day that was read
        store.when_replaced(self.recall)

    async def look(self, today: int) -> None:
        """Give back a day that the store lost, or read what is due: today's figures, else those of a day before."""
        if self._owed:
            await self._give_back(self._owed.pop(0))
        elif time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self._reached = min(self._reached, today - 1) if self._reached >= 0 else today - 1
            await self._take(today - 1)
            await self._take(today)
        elif today - self._days < self._reached - 1 and self._bytes() < KEEP_BYTES:
            self._reached -= 1
            await self._take(self._reached)

    async def recall(self) -> None:
        """Give the figures of the two latest days back to a store that lost data; `look` gives back the others."""
        latest = sorted(self._packed, reverse=True)
        self._owed = latest[2:]
        risen = sum([await self._give_back(day) for day in latest[:2]])
        _log.warning("usage re-reported after Redis lost data", days=len(latest), missing=risen)

    def _bytes(self) -> int:
        return sum(map(len, self._packed.values()))

    async def _take(self, day: int) -> None:
        """Remember the figures of a day, and forget the earliest days beyond the bound."""
        found = await self._read(rest=[f"{day}:{kind}" for kind in KINDS])
        if any(found):
            self._packed[day] = zlib.compress(orjson.dumps(found), 1)
        while len(self._packed) > 2 and self._bytes() > KEEP_BYTES:
            del self._packed[min(self._packed)]

    async def _give_back(self, day: int) -> int:
        """Give the figures of a day back; return how many names had lower figures, or none."""
        risen = 0
        for kind, flat in zip(KINDS, orjson.loads(zlib.decompress(self._packed[day])), strict=True):
            for rows in batched(flat, 2 * ROWS):
                until_s = (day + 1 + self._days) * DAY_S
                _, some = await self._restore(day_and_kind=f"{day}:{kind}", until_s=until_s, rest=rows)
                risen += some
        return risen
