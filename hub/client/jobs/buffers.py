"""What a worker has taken and has to tell: the tasks that wait for a place, the reports, and how much to hold ready."""

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
    """Reports on their way, oldest first."""

    def __init__(self) -> None:
        self._reports: deque[Report] = deque()

    def __len__(self) -> int:
        return len(self._reports)

    def add(self, report: Report) -> None:
        """One more."""
        self._reports.append(report)

    def reports(self) -> list[Report]:
        """What is here. From any thread."""
        return list(self._reports)

    def put_back(self, reports: Iterable[Report]) -> None:
        """These were not delivered."""
        self._reports.extendleft(reversed(list(reports)))

    def take(self) -> list[Report]:
        """What fits into a call."""
        taken: list[Report] = []
        size = 0
        while self._reports and len(taken) < MOST_RESULTS:
            size += self._reports[0].size
            if taken and size > MOST_REPORT_BYTES:
                break
            taken.append(self._reports.popleft())
        return taken

    def clear(self) -> int:
        """Drop everything; how many there were."""
        dropped = len(self._reports)
        self._reports.clear()
        return dropped


class Prefetch:
    """How many tasks to hold ready beyond those that run: as many as are finished while a claim is on its way.

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
        """Whether it is found out here."""
        return self._fixed is None

    @property
    def ready(self) -> int:
        """How many to hold ready."""
        if self._fixed is not None:
            return self._fixed
        if self._task_s is None or self._trip_s is None:
            return 0
        return int(min(MOST_READY, 2 * self._concurrency * self._trip_s / max(self._task_s, 1e-6)))

    def ran(self, seconds: float) -> None:
        """A task took so long."""
        self._task_s = seconds if self._task_s is None else (1 - WEIGHT) * self._task_s + WEIGHT * seconds

    def travelled(self, seconds: float) -> None:
        """A claim that found as much as it asked for took so long."""
        self._trip_s = seconds if self._trip_s is None else (1 - WEIGHT) * self._trip_s + WEIGHT * seconds

    def forget(self) -> None:
        """Tasks take longer than it seemed: hold none ready until it is known again."""
        self._task_s = None
