"""The runner of a worker: it runs tasks, holds others until a place is free, and reports their outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING

from hub.client.jobs.buffers import Prefetch
from hub.client.jobs.calls import MOST_CLAIMED
from hub.client.jobs.handlers import Handler, Task, is_async
from hub.client.jobs.progress import TRYING_S, ProgressReporter
from hub.client.jobs.tasks import Report
from hub.client.jobs.threads import Threads
from hub.retries import now_s

if TYPE_CHECKING:
    from hub.client.jobs.processes import Processes

log = logging.getLogger("hub.client")

# Tasks that were held ready for longer than this are given back, so that they do not wait behind a long task.
READY_S = 1.0


@dataclass(eq=False)
class TaskRunner:
    """A runner of up to `concurrency` tasks at once, in `processes` processes if that is not 0."""

    concurrency: int
    prefetch: Prefetch
    counts: Counter[str]
    report: Callable[[Report], None]
    """Called with the report of each task that is over, or given back."""
    progress: ProgressReporter | None = None
    cancel_grace_s: float = 5.0
    processes: InitVar[int] = 0

    def __post_init__(self, processes: int) -> None:
        self.handlers: dict[str, Handler] = {}
        self.changed = asyncio.Event()
        """Set when there is room for more tasks."""
        self._flushing: set[asyncio.Task[None]] = set()
        self._begun: dict[Task, float] = {}
        self._threads = Threads(self.concurrency)
        self._processes = _processes(processes) if processes else None
        self._waiting: deque[Task] = deque()
        self._running: dict[Task, asyncio.Task[None]] = {}
        self._closing = False

    async def start(self) -> None:
        """Start the processes, if there are any; raises ValueError for a handler that they cannot import."""
        if self._processes is not None:
            await self._processes.start(self.handlers)

    def end(self) -> None:
        """End the processes, if there are any."""
        if self._processes is not None:
            self._processes.close()

    @property
    def held(self) -> int:
        """Return the number of tasks that wait or run here."""
        return len(self._waiting) + len(self._running)

    def wanted(self) -> int:
        """Return the number of tasks to claim now: none while enough are ready."""
        ready = self.prefetch.ready
        if self._closing or len(self._waiting) > ready // 2:
            return 0
        return max(0, min(MOST_CLAIMED, self.concurrency + ready - self.held))

    def put(self, tasks: Iterable[Task]) -> None:
        """Run claimed tasks, at once or when a place is free; fail a task for which there is no handler."""
        for task in tasks:
            self.counts["claimed"] += 1
            task.tell = self.progress.say if self.progress else None
            if self._closing:
                self._tell(task, Report(task.id, "pending"))
            elif task.job_name in self.handlers:
                self._waiting.append(task)
            else:
                log.error("task %s is failed: this worker has no handler for %s", task.id, task.job_name)
                self._tell(task, Report(task.id, "failed", f"the worker has no handler for {task.job_name}"))
        self._begin()

    def give_back_old(self) -> None:
        """Give back all waiting tasks when the oldest has waited too long, because tasks take longer than before."""
        if self.prefetch.adaptive and self._waiting and now_s() - self._waiting[0].taken_s > READY_S:
            log.info("%d tasks that were held ready are given back: others take longer", len(self._waiting))
            self.prefetch.forget()
            self._give_back_waiting()

    def names(self) -> dict[str, str]:
        """Return the tasks on which no report was made yet, with their claims. Safe from any thread."""
        return {task.id: task.claim for task in [*list(self._waiting), *list(self._running)] if not task.reported}

    def lose_some(self, lost: Mapping[str, str | None]) -> None:
        """Stop the tasks held here under the claim that `lost` names: they ended, or another worker has them."""
        for task in [task for task in [*self._waiting, *self._running] if lost.get(task.id) == task.claim]:
            if task.reported or task.lost:
                continue
            log.warning("task %s is not this worker's any more", task.id)
            task.lost = True
            if (running := self._running.get(task)) is None:
                self._waiting.remove(task)
                self.counts["lost"] += 1
            elif self._can_stop(task):
                self._cancel(task, running)

    def lose(self) -> None:
        """Stop all tasks and report on none, because the hub no longer has the worker."""
        for task in [*self._waiting, *self._running]:
            task.lost = True
        self.counts["lost"] += len(self._waiting)
        self._waiting.clear()
        for task, running in self._running.items():
            if self._can_stop(task):
                self._cancel(task, running)

    def runs_longer(self, seconds: float) -> bool:
        """Return whether any task has been running for longer than `seconds`."""
        return any(now_s() - begun_s > seconds for begun_s in self._begun.values())

    def _can_stop(self, task: Task) -> bool:
        return self._processes is not None or is_async(self.handlers[task.job_name].call)

    def _cancel(self, task: Task, running: asyncio.Task[None]) -> None:
        """Cancel a handler, and again after each `cancel_grace_s` for as long as it runs."""
        if self._running.get(task) is not running:
            return
        running.cancel()

        def again() -> None:
            if self._running.get(task) is running and not self._closing:
                log.warning("task %s was cancelled, and its handler goes on", task.id)
                self._cancel(task, running)

        asyncio.get_running_loop().call_later(self.cancel_grace_s, again)

    async def close(self, grace_s: float, hurry: asyncio.Event) -> None:
        """Begin no more tasks, wait for running ones for `grace_s` seconds or until `hurry`, and give back the rest."""
        self._closing = True
        self._give_back_waiting()
        until_s = now_s() + grace_s
        hurried = asyncio.create_task(hurry.wait())
        try:
            while self._running and not hurried.done() and (left_s := until_s - now_s()) > 0:
                await asyncio.wait(
                    [*self._running.values(), hurried], timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            hurried.cancel()
            stopped = dict(self._running)
            for running in stopped.values():
                running.cancel()
            if stopped:
                await asyncio.wait(stopped.values(), timeout=READY_S)
            for task in stopped:
                self._tell(task, Report(task.id, "pending"))  # also when a handler ignores the cancellation
                task.lost = True
            if self._flushing:
                await asyncio.wait(self._flushing, timeout=2 * TRYING_S)
            self._threads.close()

    def _give_back_waiting(self) -> None:
        while self._waiting:
            task = self._waiting.popleft()
            self._tell(task, Report(task.id, "pending"))

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self.concurrency:
            task = self._waiting.popleft()
            self._running[task] = asyncio.create_task(self._run(task, self.handlers[task.job_name]))
        self.changed.set()

    async def _run(self, task: Task, handler: Handler) -> None:
        begun_s = self._begun[task] = now_s()
        begin = self._processes.begin if self._processes is not None else None
        try:
            await handler.run(task, self._threads, begin, lambda report: self._tell(task, report))
        except asyncio.CancelledError:  # by `lose`, after which nothing is sent, or by `close`
            self._tell(task, Report(task.id, "pending"))
        finally:
            self.prefetch.ran(now_s() - begun_s)
            del self._running[task], self._begun[task]
            self._begin()

    def _tell(self, task: Task, report: Report) -> None:
        """Report on a task, only once; a lost task is counted and not reported."""
        if task.reported:
            return
        task.reported = True
        self.counts["lost" if task.lost else "given back" if report.status == "pending" else report.status] += 1
        if task.lost:
            return
        report = replace(report, claim=task.claim)
        if self.progress is None or not self.progress.has_news(task.id):
            self.report(report)
            return
        flushing = asyncio.create_task(self._say_after_news(self.progress, report))
        self._flushing.add(flushing)
        flushing.add_done_callback(self._flushing.discard)

    async def _say_after_news(self, progress: ProgressReporter, report: Report) -> None:
        try:
            await progress.flush(report.task)
        finally:
            self.report(report)


def _processes(number: int) -> Processes:
    from hub.client.jobs.processes import Processes  # imported only where processes are used

    return Processes(number)
