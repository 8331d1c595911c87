"""The usage of a store: counts refused borrows, has ended leases added to the figures of days, and reads them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from hub.batched import batched
from hub.errors import StoreUnavailable, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store
from hub.usage.memory import UsageMemory
from hub.usage.models import DAY_S, NAMES_MAX, OTHER, Figures, Kind, Table, add, in_pairs

PERIOD_S = 1.0  # time between two folds
LEASES = 100  # ended leases that one call of the script adds, which takes 1 to 8 ms
CALLS = 100  # of that script in one fold
DAYS = 5  # days that one call reads
SLOTS = 200  # lent slots that one call reads
_log = get_logger("hub.usage")

Refused = tuple[str, str, str]  # label, team and user of a borrow


class UsageDays:
    """The usage of a store by day and kind, and the refusals that this hub has not told the store yet."""

    def __init__(self, store: Store, settings: Settings, hub_id: str) -> None:
        self._store = store
        self._hub_id = hub_id
        self._days = settings.usage_days
        self._fold = store.script("usage/fold")
        self._read = store.script("usage/read")
        self._running = store.script("usage/running")
        self._refused: Counter[Refused] = Counter()
        self._folding = asyncio.Lock()  # a round and a reader would take each other's refusals for told
        self._telling: Counter[Refused] = Counter()  # told under `_number`, and repeated until the store has answered
        self._number = 0
        self.memory = UsageMemory(store, settings)

    def refused(self, label: str, team: str = "", user: str = "") -> None:
        """Count a borrow that is answered without a slot."""
        of = (label, team, user)
        self._refused[of if of in self._refused or len(self._refused) < NAMES_MAX else (OTHER, OTHER, OTHER)] += 1

    async def run(self) -> None:
        """Add what has ended and what was refused to the figures of the days, every second until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            try:
                await self.fold()
                await self.memory.look(self.today())
            except StoreUnavailable:
                continue  # the clock logs the outage; refusals are kept
            except Exception as error:  # noqa: BLE001 - the next fold must come; this one is logged and counted
                metrics.unhandled.inc()
                _log.error("usage not counted", why=repr(error))

    async def fold(self) -> None:
        """Tell the store the borrows refused here, and have it add the leases that have ended; each counts once."""
        async with self._folding:
            await self._fold_all()

    async def _fold_all(self) -> None:
        if not self._telling and self._refused:
            self._telling, self._refused = self._refused, Counter()
            self._number += 1
        rest = [text for of, count in self._telling.items() for text in (*of, count)]
        number = self._number if rest else 0
        for _ in range(CALLS):
            reply = await self._fold(
                limit=LEASES, days=self._days, most=NAMES_MAX, hub=self._hub_id, number=number, rest=rest
            )
            match reply:
                case ["ok", _, left]:
                    self._telling, rest, number = Counter(), [], 0
                    if not left:
                        return
                case ["settling"]:
                    return
                case _:
                    raise UnknownReply(self._fold.name, reply)

    def today(self) -> int:
        """Return the number of this day since 1970, by the clock of Redis, in UTC."""
        return int(self._store.wall_s()) // DAY_S

    async def read(self, kind: Kind, first: int, last: int) -> tuple[Table, dict[int, Figures]]:
        """Return the figures of the days from `first` to `last`, by name and by day; leases that are not over count up
        to now. Days that are not kept have none."""
        await self.fold()
        names, days = Table(), dict[int, Figures]()
        for some in batched(range(max(first, self.today() - self._days + 1), last + 1), DAYS):
            for day, flat in zip(some, await self._read(rest=[f"{day}:{kind}" for day in some]), strict=True):
                self._add(names, days, day, in_pairs(flat).items())
        async for day, table in self._of_running(kind):
            if first <= day <= last:
                self._add(names, days, day, table.items())
        return names, days

    @staticmethod
    def _add(names: Table, days: dict[int, Figures], day: int, rows: Iterable[tuple[str, Figures]]) -> None:
        for name, figures in rows:
            add(names, name, figures)
            days[day] = days.get(day, Figures()).plus(figures)

    async def _of_running(self, kind: Kind) -> Any:
        """Yield the figures of leases that are not over, as pairs of a day and a table."""
        seen: set[str] = set()
        for start in range(0, 2**31, SLOTS):
            page = await self._store.read("ZRANGE", self._store.keys.deadlines, start, start + SLOTS - 1)
            new = [slot for slot in page if slot not in seen]
            seen.update(new)
            for of, *flat in await self._running(kind=kind, days=self._days, rest=new) if new else ():
                yield int(of.partition(":")[0]), in_pairs(flat)
            if len(page) < SLOTS:
                return
