"""RecordSweeperService, which resets the stuck records of one source in passes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from hub.errors import HubError, RecordsUnavailable, SourceRefused, StoreUnavailable, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.recovery.levels import Did, Levels
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
        ...


@dataclass
class RecordSweep:
    """The result of one pass: how many records were stuck, reset and failed, and parked outcomes `written`."""

    source: str
    found: int = 0
    reset: int = 0
    failed: int = 0
    written: int = 0
    errors: int = 0
    elapsed_ms: float = 0

    @property
    def scanned(self) -> int:
        return self.found

    @property
    def eventful(self) -> bool:
        return bool(self.reset or self.failed or self.written or self.errors)

    @property
    def did(self) -> Did:
        """Return the numbers of this pass of recovery that reports show."""
        return Did(self.reset, self.failed, self.written, self.errors)

    @property
    def result(self) -> str:
        """Return the result as a label of the metric: `failed`, `repaired`, `held` or `clean`."""
        if self.errors:
            return "failed"
        if self.reset or self.failed or self.written:
            return "repaired"
        return "held" if self.found else "clean"

    def facts(self) -> dict[str, Any]:
        """Return the fields of the log line that sums up the pass."""
        return asdict(self)


class RecordSweeperService:
    """The maker of passes over one source; one hub at a time makes a pass. A failure ends only this pass."""

    def __init__(self, store: Store, hub_id: str, records: Records, levels: Levels) -> None:
        self._store = store
        self._hub_id = hub_id
        self._records = records
        self._levels = levels
        self._source = records.source.name
        self._begin = store.script("recovery/begin")
        self._end = store.script("recovery/end")
        for outcome in ("reset", "failed"):  # begin each counter at 0, so that Prometheus sees its first rise
            metrics.zombies_reset.labels(self._source, outcome)
        for result in ("clean", "repaired", "held", "failed"):
            metrics.zombie_passes.labels(self._source, result)
        metrics.zombie_errors.labels(self._source)
        metrics.zombie_outcomes.labels(self._source)

    @property
    def source(self) -> str:
        """Return the name of the source."""
        return self._source

    @property
    def records(self) -> Records:
        """Return the records that the passes look at."""
        return self._records

    async def sweep(self) -> RecordSweep | None:
        """Make one pass over the source; return its result, or None if another hub has the turn or Redis is silent."""
        started = time.monotonic()
        pass_id = secrets.token_hex(8)
        done = RecordSweep(self._source)
        try:
            await self._keep_turn(pass_id)
            try:
                await self._clean(pass_id, done)
            finally:
                with suppress(StoreUnavailable):  # the turn ends by itself after `TURN_MS`
                    await self._end(source=self._source, hub_id=self._hub_id, pass_id=pass_id)
        except (_NotOurTurn, StoreUnavailable):
            if not done.eventful:
                return None
        done.elapsed_ms = round((time.monotonic() - started) * 1000, 1)
        metrics.zombie_passes.labels(self._source, done.result).inc()
        return done

    async def close(self) -> None:
        """Close the connections to the database of the source; log an error and go on."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._records.close()
        except Exception as error:  # noqa: BLE001 - the other sources must be closed as well
            metrics.zombie_errors.labels(self._source).inc()
            _log.warning("source connections not closed", source=self._source, why=_said(error))

    async def _keep_turn(self, pass_id: str) -> None:
        """Take or renew this hub's turn; raises `_NotOurTurn` when another hub has it."""
        match await self._begin(source=self._source, hub_id=self._hub_id, pass_id=pass_id, ttl_ms=TURN_MS):
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
            found = done.found = await self._step(pass_id, self._records.count)
            if found:
                await self._reset_all(pass_id, done)
        except Exception as error:  # noqa: BLE001 - the next pass and the other sources must come
            self._count_error(error, done)
        try:
            await self._levels.note(self._source, pass_id, found, done.did)
        except Exception as error:  # noqa: BLE001 - the log line of the pass must still be written
            self._count_error(error, done)

    async def _write_parked(self, pass_id: str, done: RecordSweep) -> None:
        """Write the parked outcomes to the database first: their records are done, and only seem stuck."""
        if not isinstance(self._records, Parking):
            return
        from hub.recovery.outcomes import Outcomes  # needs SQLAlchemy, which a hub without SQL sources may lack

        outcomes = Outcomes(self._store.client, self._store.keys, self._source)
        try:
            for _ in range(BATCHES_MAX):
                some = await self._step(pass_id, partial(self._records.write_parked, outcomes))
                done.written += some
                if not some:
                    break
        except (_NotOurTurn, RecordsUnavailable, SourceRefused, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - an unreadable outcome must not keep other records stuck
            self._count_error(error, done)
        finally:
            metrics.zombie_outcomes.labels(self._source).inc(done.written)

    async def _reset_all(self, pass_id: str, done: RecordSweep) -> None:
        oldest = await self._step(pass_id, partial(self._records.look, 1))
        touched: list[str] = []
        try:
            for _ in range(BATCHES_MAX):
                batch = await self._step(pass_id, self._records.reset)
                self._count(batch, done)
                touched += (batch.reset + batch.failed)[: SHOWN_MAX - len(touched)]
                if not batch.count:
                    break
        finally:
            if touched:
                age_s = round(oldest[0].age_s) if oldest else None
                counts = {"reset": done.reset, "failed": done.failed}
                _log.warning("records reset", source=self._source, **counts, ids=",".join(touched), oldest_s=age_s)

    def _count(self, batch: Reset, done: RecordSweep) -> None:
        done.reset += len(batch.reset)
        done.failed += len(batch.failed)
        metrics.zombies_reset.labels(self._source, "reset").inc(len(batch.reset))
        metrics.zombies_reset.labels(self._source, "failed").inc(len(batch.failed))

    def _count_error(self, error: Exception, done: RecordSweep) -> None:
        """Log and count the error that ended the pass; raise it again if the hub lost its turn or the store."""
        if isinstance(error, _NotOurTurn | StoreUnavailable):
            raise error
        done.errors += 1
        metrics.zombie_errors.labels(self._source).inc()
        _log.error("source sweep failed", source=self._source, why=_said(error))


def _said(error: Exception) -> str:
    """Return an error as one sentence for a log line."""
    if isinstance(error, HubError) and error.detail:
        return error.detail
    if isinstance(error, TimeoutError):
        return f"It did not answer within {STEP_S:g} s."
    return f"{type(error).__name__}: {error}".partition("\n")[0]
