"""The buffers of a worker: reports on their way, and the number of tasks to hold ready."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from hub.client.jobs.calls import MOST_CLAIMED, MOST_RESULTS
from hub.client.jobs.tasks import Report

# Together the reports in a call stay well below what a hub takes as a body; one alone may be longer.
MOST_REPORT_BYTES = 256 * 1024
MOST_READY = 2 * MOST_CLAIMED
# How much a new measurement counts against those before.
WEIGHT = 0.2


class Outbox:
    """The reports on their way, oldest first."""

    def __init__(self) -> None:
        self._reports: deque[Report] = deque()

    def __len__(self) -> int:
        return len(self._reports)

    def add(self, report: Report) -> None:
        """Add a report."""
        self._reports.append(report)

    def reports(self) -> list[Report]:
        """Return the reports. Safe from any thread."""
        return list(self._reports)

    def put_back(self, reports: Iterable[Report]) -> None:
        """Put reports back that were not delivered."""
        self._reports.extendleft(reversed(list(reports)))

    def take(self) -> list[Report]:
        """Take as many reports as fit into a call."""
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
    """The number of tasks to hold ready beyond those that run: as many as end while a claim is on its way.

    For tasks that take long that is none, so that other workers get what this one could not begin; for very short ones
    it is some hundred, so that no place is ever empty. `fixed` says how many instead.
    """

    def __init__(self, concurrency: int, fixed: int | None = None) -> None:
        self._concurrency = concurrency
        self._fixed = fixed
        self._task_s: float | None = None
        self._trip_s: float | None = None

    @property
    def adaptive(self) -> bool:
        """Return whether the number is measured here."""
        return self._fixed is None

    @property
    def ready(self) -> int:
        """Return the number of tasks to hold ready."""
        if self._fixed is not None:
            return self._fixed
        if self._task_s is None or self._trip_s is None:
            return 0
        return int(min(MOST_READY, 2 * self._concurrency * self._trip_s / max(self._task_s, 1e-6)))

    def ran(self, seconds: float) -> None:
        """Take in how long a task ran."""
        self._task_s = seconds if self._task_s is None else (1 - WEIGHT) * self._task_s + WEIGHT * seconds

    def travelled(self, seconds: float) -> None:
        """Take in how long a claim took that got all the tasks it asked for."""
        self._trip_s = seconds if self._trip_s is None else (1 - WEIGHT) * self._trip_s + WEIGHT * seconds

    def forget(self) -> None:
        """Forget how long tasks run, after one that ran longer: hold none ready until it is known again."""
        self._task_s = None
