"""RecordSweeperService, which resets the stuck records of one source in passes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from hub.errors import HubError, RecordsUnavailable, SourceRefused, StoreUnavailable, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.recovery.levels import Levels, RecordSweep
from hub.recovery.models import Reset
from hub.recovery.records import Records
from hub.store.store import Store

if TYPE_CHECKING:
    from hub.recovery.outcomes import Outcomes

STEP_S = 60.0  # time limit of one step, a batch or a query; above the limits of the database itself
TURN_MS = 90_000  # a hub's turn, in which no other hub works on the source; renewed before each step
BATCHES_MAX = 1_000  # per pass; the next pass resets the other records
SHOWN_MAX = 10  # ids in a log line
CLOSE_S = 5.0  # time limit for closing connections when the hub stops
T = TypeVar("T")
_log = get_logger("hub.sweeping")


class _NotOurTurn(Exception):
    """Raised when another hub has the turn: it makes a pass over this source now."""


@runtime_checkable
class Parking(Protocol):
    """Records whose outcomes are parked in the store while their database does not answer."""

    async def write_parked(self, outcomes: Outcomes) -> int:
        """Write some parked outcomes to the database; return how many were written, 0 if none is left to write."""


class RecordSweeperService:
    """The maker of passes over one source; one hub at a time makes a pass. A failure ends only this pass."""

    def __init__(self, store: Store, hub_id: str, records: Records, levels: Levels) -> None:
        self._store = store
        self._hub_id = hub_id
        self.records = records
        self._levels = levels
        self.source = records.source.name
        self._begin = store.script("recovery/begin")
        self._end = store.script("recovery/end")
        for outcome in ("reset", "failed"):  # begin each counter at 0, so that Prometheus sees its first rise
            metrics.zombies_reset.labels(self.source, outcome)
        for result in ("clean", "repaired", "held", "failed"):
            metrics.zombie_passes.labels(self.source, result)
        metrics.zombie_errors.labels(self.source)
        metrics.zombie_outcomes.labels(self.source)

    async def sweep(self) -> RecordSweep | None:
        """Make one pass over the source; return its result, or None if another hub has the turn or Redis is silent."""
        started = time.monotonic()
        pass_id = secrets.token_hex(8)
        done = RecordSweep(self.source)
        try:
            await self._keep_turn(pass_id)
            try:
                await self._clean(pass_id, done)
            finally:
                with suppress(StoreUnavailable):  # the turn ends by itself after `TURN_MS`
                    await self._end(source=self.source, hub_id=self._hub_id, pass_id=pass_id)
        except (_NotOurTurn, StoreUnavailable):
            if not done.eventful:
                return None
        done.elapsed_ms = round((time.monotonic() - started) * 1000, 1)
        metrics.zombie_passes.labels(self.source, done.result).inc()
        return done

    async def close(self) -> None:
        """Close the connections to the database of the source; log an error and go on."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.records.close()
        except Exception as error:  # noqa: BLE001 - the other sources must be closed as well
            metrics.zombie_errors.labels(self.source).inc()
            _log.warning("source connections not closed", source=self.source, why=_sentence(error))

    async def _keep_turn(self, pass_id: str) -> None:
        """Take or renew this hub's turn; raises `_NotOurTurn` when another hub has it."""
        match await self._begin(source=self.source, hub_id=self._hub_id, pass_id=pass_id, ttl_ms=TURN_MS):
            case ["ok"]:
                return
            case ["taken", _]:
                raise _NotOurTurn
            case reply:
                raise UnknownReply(self._begin.name, reply)

    async def _step(self, pass_id: str, step: Callable[[], Awaitable[T]]) -> T:
        """Renew the turn, run one step within `STEP_S`, and return its result."""
        await self._keep_turn(pass_id)
        async with asyncio.timeout(STEP_S):
            return await step()

    async def _clean(self, pass_id: str, done: RecordSweep) -> None:
        found: int | None = None
        try:
            await self._write_parked(pass_id, done)
            found = done.found = await self._step(pass_id, self.records.count)
            if found:
                await self._reset_all(pass_id, done)
        except Exception as error:  # noqa: BLE001 - the next pass and the other sources must come
            self._count_error(error, done)
        try:
            await self._levels.note(pass_id, found, done)
        except Exception as error:  # noqa: BLE001 - the log line of the pass must still be written
            self._count_error(error, done)

    async def _write_parked(self, pass_id: str, done: RecordSweep) -> None:
        """Write the parked outcomes to the database first: their records are done, and only seem stuck."""
        if not isinstance(self.records, Parking):
            return
        from hub.recovery.outcomes import Outcomes  # needs SQLAlchemy, which a hub without SQL sources may lack

        outcomes = Outcomes(self._store.client, self._store.keys, self.source)
        try:
            for _ in range(BATCHES_MAX):
                some = await self._step(pass_id, partial(self.records.write_parked, outcomes))
                done.written += some
                if not some:
                    break
        except (_NotOurTurn, RecordsUnavailable, SourceRefused, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - an unreadable outcome must not keep other records stuck
            self._count_error(error, done)
        finally:
            metrics.zombie_outcomes.labels(self.source).inc(done.written)

    async def _reset_all(self, pass_id: str, done: RecordSweep) -> None:
        oldest = await self._step(pass_id, partial(self.records.look, 1))
        touched: list[str] = []
        try:
            for _ in range(BATCHES_MAX):
                batch = await self._step(pass_id, self.records.reset)
                self._count(batch, done)
                touched += (batch.reset + batch.failed)[: SHOWN_MAX - len(touched)]
                if not batch.count:
                    break
        finally:
            if touched:
                age_s = round(oldest[0].age_s) if oldest else None
                counts = {"reset": done.reset, "failed": done.failed}
                _log.warning("records reset", source=self.source, **counts, ids=",".join(touched), oldest_s=age_s)

    def _count(self, batch: Reset, done: RecordSweep) -> None:
        done.reset += len(batch.reset)
        done.failed += len(batch.failed)
        metrics.zombies_reset.labels(self.source, "reset").inc(len(batch.reset))
        metrics.zombies_reset.labels(self.source, "failed").inc(len(batch.failed))

    def _count_error(self, error: Exception, done: RecordSweep) -> None:
        """Log and count the error that ended the pass; raise it again if the hub lost its turn or the store."""
        if isinstance(error, _NotOurTurn | StoreUnavailable):
            raise error
        done.errors += 1
        metrics.zombie_errors.labels(self.source).inc()
        _log.error("source sweep failed", source=self.source, why=_sentence(error))


def _sentence(error: Exception) -> str:
    """Return an error as one sentence for a log line."""
    if isinstance(error, HubError) and error.detail:
        return error.detail
    if isinstance(error, TimeoutError):
        return f"It did not answer within {STEP_S:g} s."
    return f"{type(error).__name__}: {error}".partition("\n")[0]
