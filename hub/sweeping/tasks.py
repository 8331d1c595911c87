"""TaskSweeperService, which does the timed work for tasks: it queues due tasks, fails those that ran too long, removes
workers that lost their connection, and forgets tasks that ended long ago."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hub.errors import UnknownReply
from hub.jobs.pages import Pages
from hub.jobs.schedules import Schedules
from hub.jobs.workers import Workers
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store
from hub.sweeping.ended import Ended
from hub.sweeping.steps import Sweep, in_turn
from hub.sweeping.workers import BATCH, BITES_MAX, OverdueWorkers

INTERVAL_S = 1.0  # between two passes: so late may a task be queued or a disconnected worker be removed
LINE_S = 20.0  # passes without an event share a log line for this long
LOOKED_AT = 10  # waiting tasks checked per script: some ms, if each waits for 100 others
HUNG_UP_MAX = 1_000  # workers removed per pass
_log = get_logger("hub.sweeping")


@dataclass
class TaskSweep(Sweep):
    """The result of one pass. `scanned` sums all changes; `expired` counts tasks that ran too long, were silent
    or lost a slot."""

    due: int = 0
    fired: int = 0
    hung_up: int = 0
    forgotten: int = 0

    @property
    def eventful(self) -> bool:
        return bool(self.expired or self.hung_up or self.errors)


class TaskSweeperService:
    """The sweeper that does what must happen to tasks and workers at a certain time, without a call."""

    def __init__(self, store: Store, settings: Settings, workers: Workers) -> None:
        self._store = store
        self._workers = workers
        self._keep_us = int(settings.task_retention_s * 1_000_000)
        self._overdue = OverdueWorkers(store)
        self._ended = Ended(store)
        self._let_in = store.script("tasks/let_in")
        self._fail_slotless = store.script("tasks/fail_slotless")
        self._schedules = Schedules(store, settings, Pages(store))
        self._go_on = store.script("tasks/settle")
        self._forget = store.script("tasks/forget")

    async def sweep(self) -> TaskSweep:
        """Make one pass and return its result."""
        started = time.monotonic()
        done = TaskSweep()
        steps = (
            self._fire, self._let_due_in, self._settle, self._fail_overdue, self._fail_without_slots,
            self._remove_hung_up, self._bury,
        )  # fmt: skip
        await in_turn("task", done, *steps, self._count_ended, self._forget_old)
        done.scanned = done.fired + done.due + done.expired + done.hung_up + done.forgotten
        done.elapsed_ms = round((time.monotonic() - started) * 1000, 1)
        return done

    async def _fire(self, done: TaskSweep) -> None:
        done.fired = await self._schedules.fire_due()

    async def _let_due_in(self, done: TaskSweep) -> None:
        for _ in range(BITES_MAX):
            _, some = await self._let_in(limit=BATCH)
            done.due += some
            if some < BATCH:
                break

    async def _settle(self, _: TaskSweep) -> None:
        bites, more = 0, 1
        while more and bites < BITES_MAX:
            _, more = await self._go_on(limit=LOOKED_AT)
            bites += 1

    async def _fail_overdue(self, done: TaskSweep) -> None:
        done.expired = await self._overdue.fail("runtime", 0) + await self._overdue.fail("silent", 0)

    async def _fail_without_slots(self, done: TaskSweep) -> None:
        for _ in range(BITES_MAX):
            match await self._fail_slotless(limit=BATCH):
                case ["ok", failed, more]:
                    done.expired += failed
                    metrics.tasks_overdue.labels("slotless").inc(failed)
                case reply:
                    raise UnknownReply(self._fail_slotless.name, reply)
            if not more:
                break

    async def _bury(self, done: TaskSweep) -> None:
        for worker in await self._store.read("SRANDMEMBER", self._store.keys.dead_workers, BATCH):
            await self._workers.bury(worker)

    async def _remove_hung_up(self, done: TaskSweep) -> None:
        """Remove the workers that lost their last connection and did not come back within the grace."""
        keys = self._store.keys
        clock_ms = await self._store.read("HGET", keys.store, "clock_ms") or 0
        due = await self._store.read("ZRANGE", keys.hung_up, "-inf", clock_ms, "BYSCORE", "LIMIT", 0, HUNG_UP_MAX)
        for worker in due:
            if await self._workers.expire(worker, "hung up", -1) == "ok":
                done.hung_up += 1
                metrics.workers_removed.labels("hung up").inc()
                _log.info("disconnected worker removed", worker=worker, why="its last connection was lost")

    async def _count_ended(self, _: TaskSweep) -> None:
        await self._ended.count()

    async def _forget_old(self, done: TaskSweep) -> None:
        for _ in range(BITES_MAX if self._keep_us else 0):
            match await self._forget(keep_us=self._keep_us, limit=BATCH):
                case ["ok", tasks, _, more]:
                    done.forgotten += tasks
                case reply:
                    raise UnknownReply(self._forget.name, reply)
            if not more:
                break
        metrics.tasks_forgotten.inc(done.forgotten)
