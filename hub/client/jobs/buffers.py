"""The buffers of a worker: the reports that wait to be sent, and the number of tasks to claim ahead."""

from __future__ import annotations

from collections import deque

from hub.client.jobs.calls import MOST_CLAIMED, MOST_RESULTS
from hub.client.jobs.tasks import Report

# The reports in one call have at most so many bytes, well below what a hub takes. A single report may be longer.
MOST_REPORT_BYTES = 256 * 1024
MOST_READY = 2 * MOST_CLAIMED
# The weight of a new measurement in a moving average, from 0 to 1.
WEIGHT = 0.2


class Outbox:
    """The reports that wait to be sent, oldest first."""

    def __init__(self) -> None:
        self._reports: deque[Report] = deque()

    def add(self, report: Report) -> None:
        """Add a report at the end."""
        self._reports.append(report)

    def reports(self) -> list[Report]:
        """Return the reports. Safe from any thread."""
        return list(self._reports)

    def take(self) -> list[Report]:
        """Remove and return the oldest reports, as many as fit into one call."""
        taken: list[Report] = []
        size = 0
        while self._reports and len(taken) < MOST_RESULTS:
            size += self._reports[0].size
            if taken and size > MOST_REPORT_BYTES:
                break
            taken.append(self._reports.popleft())
        return taken

    def clear(self) -> int:
        """Drop all reports; return their number."""
        dropped = len(self._reports)
        self._reports.clear()
        return dropped


class Prefetch:
    """The number of tasks to claim ahead of those that run: as many as end while a claim is on its way.

    It is 0 for tasks that take long, so that other workers get the tasks that this worker could not begin. It is up to
    200 for very short tasks, so that the worker is never idle. `fixed` is a number to use without measuring.
    """

    def __init__(self, concurrency: int, fixed: int | None = None) -> None:
        self._concurrency = concurrency
        self._fixed = fixed
        self._task_s: float | None = None
        self._trip_s: float | None = None

    @property
    def adaptive(self) -> bool:
        """Return whether the number follows from measurements, because `fixed` was not given."""
        return self._fixed is None

    def hold_none(self) -> None:
        """Claim none ahead, unless a number was given: tasks with slots would keep these from others."""
        self._fixed = self._fixed or 0

    @property
    def ready(self) -> int:
        """Return the number of tasks to hold claimed beyond those that run."""
        if self._fixed is not None:
            return self._fixed
        if self._task_s is None or self._trip_s is None:
            return 0
        return int(min(MOST_READY, 2 * self._concurrency * self._trip_s / max(self._task_s, 1e-6)))

    def ran(self, seconds: float) -> None:
        """Record for how many seconds a task ran."""
        self._task_s = seconds if self._task_s is None else (1 - WEIGHT) * self._task_s + WEIGHT * seconds

    def travelled(self, seconds: float) -> None:
        """Record how many seconds a claim took that got all the tasks it asked for."""
        self._trip_s = seconds if self._trip_s is None else (1 - WEIGHT) * self._trip_s + WEIGHT * seconds

    def forget(self) -> None:
        """Drop the measured run time, after a task that ran longer: `ready` is 0 until the next task has ended."""
        self._task_s = None
