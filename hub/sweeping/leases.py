"""LeaseSweeperService, which ends leases whose time is over and takes their slots back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hub.audit import AuditLog
from hub.capacity.leases import Leases
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store
from hub.sweeping.batches import in_batches
from hub.sweeping.drains import DrainDeadlines
from hub.sweeping.reconciler import Reconciler
from hub.sweeping.steps import Sweep

BATCH = 32  # leases per script, which takes under 4 ms if all end and their slots go to waiters
OVERDUE_MAX = 20_000  # overdue leases per pass; the next pass has the others
LIVE_MAX = 5_000  # live leases per pass that are checked for a footprint that another program deleted
LINES_MAX = 100  # ended leases per pass that are logged one by one
_log = get_logger("hub.sweeping")


@dataclass
class LeaseSweep(Sweep):
    """The result of one pass. `scanned`: leases looked at, live ones too. `expired`: leases ended. `drained`: leases
    ended by the deadline of their node's drain. `rewritten`, `adopted`: entries of other programs taken in."""

    rewritten: int = 0
    adopted: int = 0
    drained: int = 0

    @property
    def eventful(self) -> bool:
        return bool(self.expired or self.errors or self.rewritten or self.adopted or self.drained)


class LeaseSweeperService:
    """The sweeper of leases. It nominates overdue leases and a part of the others; a script decides about each."""

    def __init__(self, store: Store, settings: Settings, leases: Leases, audit: Reconciler, log: AuditLog) -> None:
        self._store = store
        self._leases = leases
        self._audit = audit
        self._audit_log = log
        self._drains = DrainDeadlines(store, log)
        self._patience_s = settings.borrow_ttl_sweep_s / 2  # longest wait for reconciling
        self._offset = 0

    async def sweep(self, *, dry_run: bool = False) -> LeaseSweep:
        """Make one pass and return its result. With `dry_run` nothing changes; `expired` counts overdue leases."""
        started = time.monotonic()
        done = LeaseSweep()
        overdue = await self._overdue()
        if dry_run:
            done.scanned = await self._store.read("ZCARD", self._store.keys.deadlines)
            done.expired = len(overdue)
            done.drained = await self._drains.overdue()
        else:
            done.adopted = await self._audit.look(self._patience_s)
            nominated = list(dict.fromkeys([*overdue, *await self._stretch()]))
            words, failed = await in_batches(nominated, BATCH, self._leases.lapse)
            done.scanned = len(nominated)
            done.errors = failed + self._audit.errors
            await self._count(words, done)
            done.drained, failed = await self._drains.enforce()
            done.errors += failed
            metrics.sessions.set(await self._store.read("ZCARD", self._store.keys.deadlines))
        done.elapsed_ms = round((time.monotonic() - started) * 1000, 1)
        return done

    async def _overdue(self) -> list[str]:
        keys = self._store.keys
        clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0)
        return list(
            await self._store.read("ZRANGE", keys.deadlines, "-inf", clock_ms, "BYSCORE", "LIMIT", 0, OVERDUE_MAX)
        )

    async def _stretch(self) -> list[str]:
        page = await self._store.read("ZRANGE", self._store.keys.deadlines, self._offset, self._offset + LIVE_MAX - 1)
        self._offset = self._offset + LIVE_MAX if len(page) == LIVE_MAX else 0
        return list(page)

    async def _count(self, words: Sequence[tuple[str, str]], done: LeaseSweep) -> None:
        for slot, word in words:
            if word == "rewritten":
                done.rewritten += 1
            elif word != "live":
                done.expired += 1
                metrics.leases_ended.labels(word).inc()
                if done.expired <= LINES_MAX:
                    _log.info("lease ended", slot=slot, why=word)
                    await self._audit_log.write("session", "session.autoReturn", browserId=slot, reason=f"lease {word}")
