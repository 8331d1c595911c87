"""A pass at an interval, on one hub at a time, with one summary line."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from hub.errors import StoreUnavailable
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.clock import HubClock

QUIET_S = 60.0  # a line at least this often, also when nothing happened
LATE = 2.0  # intervals: after a longer pause this process was stopped, suspended or stalled, and knows too little
# Unlike the monotonic clock of Linux this one goes on while the machine is suspended; elsewhere that one does as well.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_log = get_logger("hub.sweeping")


class Pass(Protocol):
    """What a pass found: `scanned`, `expired`, `errors`, and further facts for the summary line."""

    @property
    def eventful(self) -> bool: ...
    def facts(self) -> dict[str, Any]: ...


class SweepLoop:
    """Runs `sweep` every `interval_s` seconds while this hub leads, at once when it begins to."""

    def __init__(self, name: str, interval_s: float, clock: HubClock, sweep: Callable[[], Awaitable[Pass]]) -> None:
        self._name = name
        self._interval_s = interval_s
        self._clock = clock
        self._sweep = sweep
        self._last_line = float("-inf")

    async def run(self) -> None:
        """Sweep until cancelled. A pass that fails is logged and counted, and the next one comes as usual.

        A hub that wakes up late skips its turn: what it remembers of the switches and of who sweeps is of another time,
        and the beats that came meanwhile are still waiting to be read.
        """
        while True:
            await self._clock.leads.wait()
            await self.once()
            while (slept_s := await self._pause()) > LATE * self._interval_s:
                metrics.sweeps_skipped.labels(self._name).inc()
                _log.warning(
                    "sweep skipped", service=self._name, slept_s=round(slept_s, 1), interval_s=self._interval_s
                )

    async def _pause(self) -> float:
        """Wait for the next turn; returns how long it took."""
        started = time.clock_gettime(_CLOCK)
        # A tenth of jitter keeps the services of a hub from falling into step.
        await asyncio.sleep(self._interval_s * random.uniform(0.95, 1.05))
        return time.clock_gettime(_CLOCK) - started

    async def once(self) -> None:
        """One pass with its summary line and its metrics."""
        started = time.monotonic()
        try:
            done = await self._sweep()
        except StoreUnavailable:
            return  # the hub clock says so, once
        except Exception as error:  # noqa: BLE001 - the next pass must come; the line and the counter tell of this one
            metrics.sweep_errors.labels(self._name).inc()
            _log.error("sweep failed", service=self._name, why=repr(error))
            return
        facts = done.facts()
        metrics.sweeps.labels(self._name).inc()
        metrics.sweep_errors.labels(self._name).inc(facts["errors"])
        metrics.sweep_scanned.labels(self._name).inc(facts["scanned"])
        metrics.sweep_seconds.labels(self._name).observe(time.monotonic() - started)
        if done.eventful or time.monotonic() - self._last_line >= QUIET_S:
            self._last_line = time.monotonic()
            _log.info(f"{self._name} sweep", **facts)
