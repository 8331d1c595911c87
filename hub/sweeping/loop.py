"""A pass at an interval, on one hub at a time, with one summary line."""

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

AGAIN_S = 5.0  # after a turn in which no pass could be made; an interval may be much longer
LOOK_S = 1.0  # between two looks whether Redis is away, while this hub waits for its turn
DUE = 0.9  # of an interval after the last line: a pass that cannot be made is told
LATELY_S = 30.0  # since the line was due: a hub whose last one is older did not sweep before Redis went away
REST = 0.5  # of an interval at least between two passes, however long the first of them took
QUIET_S = 600.0  # between two lines of a service that finds nothing to do, where only changes are logged
ALWAYS = ("scanned", "expired", "errors", "elapsed_ms")  # the fields of every summary line; others only when not 0
LATE = 2.0  # intervals: after a longer pause this process was stopped, suspended or stalled, and knows too little
# Unlike the monotonic clock of Linux this one goes on while the machine is suspended; elsewhere that one does as well.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_log = get_logger("hub.sweeping")


class Pass(Protocol):
    """The result of a pass; `facts` are those of the summary line."""

    @property
    def scanned(self) -> int: ...
    @property
    def errors(self) -> int: ...
    @property
    def eventful(self) -> bool: ...
    def facts(self) -> dict[str, Any]: ...


class SweepLoop:
    """A loop that runs `sweep` every `interval_s` seconds, from start to start, while this hub leads.

    `leads` waits until it does, where that is not the hub that sweeps everything else. A sweep that answers None could
    make no pass, and is asked again soon. Every pass has its line, also one that found nothing or failed; passes
    without an event share one line per `line_s` seconds. With `only_changes` a pass has its line when it counted
    something besides what it looked at, and otherwise every ten minutes. While Redis is away the hub that swept last
    writes the line of each pass that cannot be made, with `about` in it.
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
        self._untold = 0  # passes since the last line

    async def run(self) -> None:
        """Sweep until cancelled. A pass that fails is logged and counted, and the next one comes as usual.

        A hub that wakes up late skips its turn: what it remembers of the switches and of who sweeps is of another time,
        and the beats that came meanwhile are still waiting to be read.
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
        """Wait until this hub leads."""
        leads = self._leads or self._clock.leads.wait
        turn = asyncio.ensure_future(leads())
        try:
            while not (await asyncio.wait({turn}, timeout=max(LOOK_S, self._due_s())))[0]:
                if self._clock.away_since is not None and self._due_s() > -LATELY_S:
                    self._tell_unmade(0)
        finally:
            await cancel_all([turn])
        turn.result()

    def _due_s(self) -> float:
        """Return the seconds until a line about a missed pass is due; below 0 when it is overdue."""
        return self._due_from + self._due_every_s - time.monotonic()

    async def _pause(self, pause_s: float) -> float:
        """Wait for the next turn; return how long that took."""
        started = time.clock_gettime(_CLOCK)
        # A tenth of jitter keeps the services of a hub from falling into step.
        await asyncio.sleep(pause_s * random.uniform(0.95, 1.05))
        return time.clock_gettime(_CLOCK) - started

    async def once(self) -> bool:
        """Make one pass, with its summary line and its metrics; return False when none could be made now."""
        started = time.monotonic()
        try:
            with tracing.sweep(self._name):
                done = await self._sweep()
                tracing.facts(done.facts() if done is not None else {})
        except StoreUnavailable:
            self._tell_unmade(time.monotonic() - started)
            return False
        except Exception as error:  # noqa: BLE001 - the next pass must come; the line and the counter tell of this one
            metrics.sweep_errors.labels(self._name).inc()
            _log.error("sweep failed", service=self._name, why=repr(error))
            self._tell_failed(time.monotonic() - started)
            return True
        if done is None:
            return False
        metrics.sweeps.labels(self._name).inc()
        metrics.sweep_errors.labels(self._name).inc(done.errors)
        metrics.sweep_scanned.labels(self._name).inc(done.scanned)
        metrics.sweep_seconds.labels(self._name).observe(time.monotonic() - started)
        self._tell(done)
        return True

    def _tell_unmade(self, took_s: float) -> None:
        """Log a pass that Redis did not allow, once per interval however often it is tried again."""
        if self._due_s() <= 0:
            self._tell_failed(took_s, store="away")

    def _tell_failed(self, took_s: float, **why: str) -> None:
        self._last_line = self._due_from = time.monotonic()
        elapsed_ms = round(took_s * 1000, 1)
        _log.info(f"{self._name} sweep", **self._about, scanned=0, expired=0, errors=1, elapsed_ms=elapsed_ms, **why)

    def _tell(self, done: Pass) -> None:
        self._untold += 1
        facts = {name: value for name, value in done.facts().items() if name in ALWAYS or value != 0}
        if self._only_changes:
            self._due_from = time.monotonic()
        if not self._is_worth_a_line(done, facts) and time.monotonic() - self._last_line < self._line_s:
            return
        more = {"passes": self._untold} if self._line_s else {}
        self._last_line = self._due_from = time.monotonic()
        self._untold = 0
        _log.info(f"{self._name} sweep", **facts, **more)

    def _is_worth_a_line(self, done: Pass, facts: Mapping[str, Any]) -> bool:
        if not self._only_changes:
            return done.eventful
        counted = {name: value for name, value in facts.items() if name not in ("scanned", "elapsed_ms")}
        return any(isinstance(value, int) and value != 0 for value in counted.values())
