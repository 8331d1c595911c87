"""The loop that makes the passes of a sweep: at an interval, on one hub at a time, with a log line for each pass."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from hub.errors import StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.observability.tracing import tracing
from hub.store.cancelling import cancel_all
from hub.store.clock import HubClock

AGAIN_S = 5.0  # until the next try when no pass could be made; the interval may be much longer
LOOK_S = 1.0  # how often a hub that does not lead checks whether Redis answers
DUE = 0.9  # share of an interval after the last log line, from which a missed pass is logged
LATELY_S = 30.0  # a hub whose log line is overdue for longer logs no missed pass: it did not sweep lately
REST = 0.5  # least pause between two passes, as a share of the interval
QUIET_S = 600.0  # with `only_changes`: time between two log lines of passes that change nothing
ALWAYS = ("scanned", "expired", "errors", "elapsed_ms")  # the fields of every log line of a pass; others only if not 0
LATE = 2.0  # after a pause of more intervals a pass is skipped: the process was suspended or stalled
# CLOCK_BOOTTIME goes on while the machine is suspended; on Linux the monotonic clock does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_log = get_logger("hub.sweeping")


class Pass(Protocol):
    """The result of a pass; `facts` are the fields of its log line."""

    @property
    def scanned(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def eventful(self) -> bool: ...
    def facts(self) -> dict[str, Any]: ...


class SweepLoop:
    """A loop that calls `sweep` every `interval_s` seconds, from start to start, while this hub is the leader.

    `leads`, if given, waits until this hub is the leader for this sweep alone. `sweep` returns None when it could make
    no pass, and is called again soon. Every pass is logged, also one that found nothing or failed; passes without an
    event share one log line per `line_s` seconds. With `only_changes` a pass is logged when it counted anything besides
    the records it looked at, and otherwise every ten minutes. While Redis does not answer, the hub that swept last logs
    each missed pass, with the fields `about`.
    """

    def __init__(
        self,
        name: str,
        interval_s: float,
        clock: HubClock,
        sweep: Callable[[], Awaitable[Pass | None]],
        line_s: float = 0,
        leads: Callable[[], Awaitable[object]] | None = None,
        about: Mapping[str, str] | None = None,
        only_changes: bool = False,
    ) -> None:
        self._name = name
        self._interval_s = interval_s
        self._clock = clock
        self._sweep = sweep
        self._due_every_s = DUE * max(interval_s, line_s)
        self._line_s = QUIET_S if only_changes else line_s
        self._only_changes = only_changes
        self._leads = leads
        self._about = about or {}
        self._last_line = self._due_from = float("-inf")
        self._unlogged = 0  # passes since the last log line

    async def run(self) -> None:
        """Sweep until cancelled. A failed pass is logged and counted, and the next pass comes as usual.

        A hub that wakes up much too late skips its pass: what it knows of switches and leader is old, and heartbeats
        that came meanwhile are not read yet.
        """
        while True:
            await self._lead()
            started = time.monotonic()
            made = await self.once()
            took_s = time.monotonic() - started if made else 0
            interval_s = self._interval_s if made else min(AGAIN_S, self._interval_s)
            pause_s = max(REST * interval_s, interval_s - took_s)
            while (slept_s := await self._pause(pause_s)) > LATE * interval_s:
                metrics.sweeps_skipped.labels(self._name).inc()
                _log.warning("sweep skipped", service=self._name, slept_s=round(slept_s, 1), interval_s=interval_s)
                await self._clock.anew()
                pause_s = interval_s

    async def _lead(self) -> None:
        """Wait until this hub is the leader; meanwhile log passes that it misses because Redis does not answer."""
        leads = self._leads or self._clock.leads.wait
        turn = asyncio.ensure_future(leads())
        try:
            while not (await asyncio.wait({turn}, timeout=max(LOOK_S, self._due_s())))[0]:
                if self._clock.away_since is not None and self._due_s() > -LATELY_S:
                    self._log_unmade(0)
        finally:
            await cancel_all([turn])
        turn.result()

    def _due_s(self) -> float:
        """Return the seconds until a missed pass is to be logged; below 0 when that is overdue."""
        return self._due_from + self._due_every_s - time.monotonic()

    async def _pause(self, pause_s: float) -> float:
        """Sleep for about `pause_s`; return how long that took, suspension of the machine included."""
        started = time.clock_gettime(_CLOCK)
        # A random tenth of the pause keeps the sweeps of a hub from running all at the same time.
        await asyncio.sleep(pause_s * random.uniform(0.95, 1.05))
        return time.clock_gettime(_CLOCK) - started

    async def once(self) -> bool:
        """Make one pass, log it and count it in the metrics; return False when no pass could be made."""
        started = time.monotonic()
        try:
            with tracing.sweep(self._name):
                done = await self._sweep()
                tracing.facts(done.facts() if done is not None else {})
        except StoreUnavailable:
            self._log_unmade(time.monotonic() - started)
            return False
        except Exception as error:  # noqa: BLE001 - the next pass must come; this one is logged and counted
            metrics.sweep_errors.labels(self._name).inc()
            _log.error("sweep failed", service=self._name, why=repr(error))
            self._log_failed(time.monotonic() - started)
            return True
        if done is None:
            return False
        metrics.sweeps.labels(self._name).inc()
        metrics.sweep_errors.labels(self._name).inc(done.errors)
        metrics.sweep_scanned.labels(self._name).inc(done.scanned)
        metrics.sweep_seconds.labels(self._name).observe(time.monotonic() - started)
        self._log_pass(done)
        return True

    def _log_unmade(self, took_s: float) -> None:
        """Log a pass that was missed because Redis does not answer, once per interval, however often it is tried."""
        if self._due_s() <= 0:
            self._log_failed(took_s, store="away")

    def _log_failed(self, took_s: float, **why: str) -> None:
        self._last_line = self._due_from = time.monotonic()
        elapsed_ms = round(took_s * 1000, 1)
        _log.info(f"{self._name} sweep", **self._about, scanned=0, expired=0, errors=1, elapsed_ms=elapsed_ms, **why)

    def _log_pass(self, done: Pass) -> None:
        self._unlogged += 1
        facts = {name: value for name, value in done.facts().items() if name in ALWAYS or value != 0}
        if self._only_changes:
            self._due_from = time.monotonic()
        if not self._is_worth_a_line(done, facts) and time.monotonic() - self._last_line < self._line_s:
            return
        more = {"passes": self._unlogged} if self._line_s else {}
        self._last_line = self._due_from = time.monotonic()
        self._unlogged = 0
        _log.info(f"{self._name} sweep", **facts, **more)

    def _is_worth_a_line(self, done: Pass, facts: Mapping[str, Any]) -> bool:
        if not self._only_changes:
            return done.eventful
        counted = {name: value for name, value in facts.items() if name not in ("scanned", "elapsed_ms")}
        return any(isinstance(value, int) and value != 0 for value in counted.values())
