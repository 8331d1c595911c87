"""The metrics of ended tasks. The hub that sweeps counts newly ended tasks in the background, so no caller waits."""

from __future__ import annotations

from hub.errors import UnknownReply
from hub.observability import metrics
from hub.store.store import Store

COUNTED = 500  # tasks per script, which takes about 1 ms in Redis
COUNTS_MAX = 40  # scripts per pass; the next pass counts the other tasks
_BOUNDS = [int(bound * 1_000_000) for bound in metrics.TASK_BUCKETS]
_TIMES = {"wait": metrics.task_wait, "run": metrics.task_run}


class Ended:
    """The counter of ended tasks. Each is counted once, by the hub that sweeps then, even if it ended earlier."""

    def __init__(self, store: Store) -> None:
        self._count = store.script("tasks/count_ended")

    async def count(self) -> None:
        """Add the tasks that have ended since the last count to this hub's metrics."""
        for _ in range(COUNTS_MAX):
            match await self._count(limit=COUNTED, rest=_BOUNDS):
                case ["ok", more, counts, times]:
                    for job, status, some in zip(counts[::3], counts[1::3], counts[2::3], strict=True):
                        if status == "result lost":
                            metrics.results_lost.labels(metrics.bounded_job(job)).inc(some)
                        else:
                            metrics.tasks_ended.labels(metrics.bounded_job(job), status).inc(some)
                    for job, kind, total_us, *buckets in times:
                        _TIMES[kind].labels(metrics.bounded_job(job)).add(buckets, int(total_us) / 1e6)
                case reply:
                    raise UnknownReply(self._count.name, reply)
            if not more:
                break
