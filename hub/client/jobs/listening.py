"""Claiming tasks and reporting their outcomes, one in each call, from any number of threads."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hub.client.backlog import ONCE, Message, backlog_of
from hub.client.exchange import Left, Send, lasting, passing
from hub.client.jobs import calls
from hub.client.jobs.beating import StopSignals, fatal
from hub.client.jobs.calls import LEAVE_S, TROUBLE_S, ClaimCall
from hub.client.jobs.handlers import ClaimedTask
from hub.client.jobs.sockets import Socket
from hub.client.jobs.tasks import Held, Report, TaskInfo, reason, sayable
from hub.client.jobs.wire import SyncWire
from hub.errors import HubError
from hub.jobs.models import value_of
from hub.retries import now_s

if TYPE_CHECKING:
    from hub.client.jobs.extension import Extension

log = logging.getLogger("hub.client")

# Seconds for which the hub may hold a claim while no task is pending. A stop waits for no longer than that.
LONGEST_WAIT_S = 2.0
# HTTP statuses that refuse a report for its size, shape or content.
REFUSED = frozenset({400, 413, 415, 422})


class Listener:
    """The part of `JobManager` that claims tasks and reports their outcomes."""

    def __init__(self, wire: SyncWire, signals: StopSignals) -> None:
        self._wire = wire
        self._signals = signals
        self._socket: Socket | None = None
        self._registry: dict[str, tuple[type[Extension], dict[str, Any]]] = {}
        self._needs_slots = False
        Listener.begin_anew(self)
        self._backlog = backlog_of(wire)

    def begin_anew(self) -> None:
        """Forget the worker and its tasks; also called in a forked child."""
        self._worker_id: str | None = None
        # One claim at a time: the hub remembers which tasks the latest claim got, in case that claim is repeated.
        self._claiming = threading.Lock()
        self._unanswered: ClaimCall | None = None
        self._claims: dict[str, str] = {}  # task -> the claim it was given out under

    def claim(self, *, wait: float = 0.0) -> ClaimedTask[Any] | None:
        """Claim a task and return it; None when none is pending within `wait` seconds.

        When the payload does not fit the class, or the job is not registered here, the task is failed with the reason,
        and the next one claimed. Raises `ValueError` without a worker.
        """
        taken = self.take(start=False, wait_s=wait, left_s=lasting(TROUBLE_S))
        return taken[0] if taken else None

    def listen(
        self, polling_interval: float = 2.0, stop_event: threading.Event | None = None
    ) -> Iterator[ClaimedTask[Any]]:
        """Yield claimed tasks, one after the other, until `stop_event` is set or the manager ends.

        Goes on trying while no hub answers. Raises the `HubError` that ends the worker.
        """
        signals = self._signals

        def rest(until_s: float) -> None:
            while not stopped() and (left_s := until_s - now_s()) > 0 and not signals.wake.wait(min(0.1, left_s)):
                pass

        def stopped() -> bool:
            return signals.stop.is_set() or (stop_event is not None and stop_event.is_set())

        while not stopped():
            signals.wake.clear()
            until_s = now_s() + polling_interval
            try:
                task = self.claim(wait=self.claim_wait_s(polling_interval))
            except HubError as error:
                if signals.over(error):
                    raise
                log.warning("claim failed: %s", error)
                task = None
            else:
                signals.contact.heard()
            if task is not None:
                yield task
            else:
                rest(until_s)

    def take(self, *, start: bool, wait_s: float, left_s: Left) -> tuple[ClaimedTask[Any], bool] | None:
        """Claim a task; return it and whether it is running, or None. Repeats an unanswered claim unchanged first."""
        if self._worker_id is None:
            raise ValueError("there is no worker yet: register something, or call create_worker()")
        while info := self._claim(ClaimCall(self._worker_id, start=start), left_s, wait_s):
            if (task := self._task_of(info)) is not None:
                return task, info.status == "running"
        return None

    def _claim(self, wanted: ClaimCall, left_s: Left, wait_s: float) -> TaskInfo | None:
        with self._claiming:
            wanted = self._unanswered = self._unanswered or wanted
            try:
                claimed = self._wire.run(calls.claim(wanted, left_s, wait_s))
            except HubError as error:
                if not passing(error):
                    self._unanswered = None
                raise
            for info in claimed.tasks:
                self._claims[info.id] = info.claim
            self._unanswered = None
            return claimed.tasks[0] if claimed.tasks else None

    def _task_of(self, info: TaskInfo) -> ClaimedTask[Any] | None:
        if info.job_name not in self._registry:
            self._unfit(info, f"{info.job_name} is not registered with the worker that got this task")
            return None
        kind, run_kwargs = self._registry[info.job_name]
        try:
            extension = kind.model_validate(info.payload)
            return ClaimedTask(info.id, info.job_name, info.room_id, extension, run_kwargs, info.slots)
        except ValueError as error:  # pydantic's `ValidationError` is one
            self._unfit(info, f"the payload does not fit {info.job_name}: {reason(error)}")
            return None

    def _unfit(self, info: TaskInfo, why: str) -> None:
        log.error("task %s is failed: %s", info.id, why)
        try:
            self.put(info.id, "failed", why, lasting(TROUBLE_S))
        except HubError as error:
            if fatal(error):
                raise
            log.warning("task %s stays claimed: %s", info.id, error)

    def put(self, task_id: str, status: str, error: str | None, left_s: Left, result: Any = None) -> None:
        """Report the status of a task; `pending` gives the task back. Raises the `HubError` of a failed call.

        After a failure that passes, the report of an end is repeated in the background.
        """
        claim = self._claims.get(task_id, "")
        if status != "pending":
            send = calls.move(task_id, status, error, claim, result)
        elif self._worker_id is not None:
            send = ClaimCall(self._worker_id, limit=0, reports=[Report(task_id, status, claim=claim)]).send()
        else:
            return
        try:
            self._wire.run(calls.ask(send, left_s))
        except HubError as refused:
            if not passing(refused):
                self._claims.pop(task_id, None)
            elif status != "running":
                self._owe(task_id, status, send, refused)
            raise
        if status != "running":
            self._claims.pop(task_id, None)

    def _owe(self, task_id: str, status: str, send: Send, error: HubError) -> None:
        """Report the end of a task in the background; until that is done, heartbeats name the task as held."""
        steps = partial(calls.ask, send, lasting(0.0), ONCE.attempt_s)
        action, consequence = f"tell that task {task_id} is {status}", "the hub ends it when it misses the worker"
        message = Message(action, steps, math.inf, consequence, lambda _: self._claims.pop(task_id, None))
        self._backlog.add(message, error)

    def _held(self) -> Held:
        """Return the tasks that heartbeats name: those claimed and not ended, with their claims."""
        claim = self._unanswered
        return Held(dict(list(self._claims.items())), [claim.key] if claim is not None else [])

    def _lose(self, lost: Mapping[str, str | None]) -> None:
        """Forget the claims of tasks that have ended or belong to another worker."""
        for task_id, claim in lost.items():
            if self._claims.get(task_id) == claim:
                self._claims.pop(task_id, None)

    def start(self, task: ClaimedTask[Any]) -> None:
        """Report a claimed task as running."""
        self.put(task.task_id, "running", None, lasting(TROUBLE_S))

    def complete(self, task: ClaimedTask[Any], result: Any = None) -> None:
        """Report a task as completed, with its result; raises ValueError for a result that is no JSON, or too large."""
        self.put(task.task_id, "completed", None, lasting(TROUBLE_S), value_of(result).document)

    def fail(self, task: ClaimedTask[Any], error: str) -> None:
        """Report a claimed or running task as failed, with the reason."""
        self.fail_by_id(task.task_id, error)

    def fail_by_id(self, task_id: str, error: str) -> None:
        """Report the task with this id as failed, with the reason."""
        self.put(task_id, "failed", sayable(error), lasting(TROUBLE_S))

    def cancel(self, task: ClaimedTask[Any]) -> None:
        """Report a claimed or running task as cancelled."""
        self.put(task.task_id, "cancelled", None, lasting(TROUBLE_S))

    def heartbeat(self) -> None:
        """Send one heartbeat now, besides those of the heartbeat thread; raises ValueError without a worker."""
        if self._worker_id is None:
            raise ValueError("there is no worker yet: register something, or call create_worker()")
        self._wire.run(calls.beat(self._worker_id))

    def hears_of_tasks(self) -> bool:
        """Return whether a socket is connected, over which the hub announces new tasks."""
        return self._socket is not None and self._socket.connected

    def claim_wait_s(self, polling_s: float) -> float:
        """Return for how long the hub may hold a claim: not at all where it announces new tasks, unless a job needs
        slots, for which a claim stands in line only while it waits."""
        return 0.0 if self.hears_of_tasks() and not self._needs_slots else min(polling_s, LONGEST_WAIT_S)


@dataclass(eq=False)
class WorkerServing:
    """A thread that claims tasks and calls `execute` for each. After a claim without a task it waits for news."""

    listener: Listener
    execute: Callable[[ClaimedTask[Any]], Any]
    signals: StopSignals
    polling_s: float
    report_s: float
    """The seconds for which the report of an outcome is tried."""

    def __post_init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make a new thread, not started yet; also called in a forked child."""
        self.thread = threading.Thread(target=self._serve, name="claims", daemon=True)

    def _serve(self) -> None:
        try:
            self._serve_for_ever()
        except Exception as error:  # noqa: BLE001 - a bug: better no worker than one that only heartbeats
            self.signals.end(HubError(f"serving broke off with {error!r}"))

    def _serve_for_ever(self) -> None:
        signals = self.signals
        while not signals.stop.is_set():
            signals.wake.clear()
            asked_s = now_s()
            wait_s = self.listener.claim_wait_s(self.polling_s)
            try:
                taken = self.listener.take(start=True, wait_s=wait_s, left_s=lambda: 0.0)
            except HubError as error:
                self._not_claimed(error)
                continue
            signals.contact.heard()
            if taken is None:
                if (rest_s := self.polling_s - (now_s() - asked_s)) > 0:
                    signals.wake.wait(rest_s)
            elif signals.stop.is_set():
                self._report(taken[0], "pending", None)
            else:
                self._run(*taken)

    def _not_claimed(self, error: HubError) -> None:
        if not self.signals.stop.is_set() and not self.signals.over(error):
            log.warning("claim failed: %s", error)
            self.signals.wake.wait(max(self.polling_s, min(error.retry_after_s or 0.0, LEAVE_S)))

    def _run(self, task: ClaimedTask[Any], running: bool) -> None:
        if not running and not self._report(task, "running", None):
            self._report(task, "pending", None)  # else the worker would hold it for ever, and never run it
            return
        try:
            result = self._value(self.execute(task), task)
        except BaseException as error:  # noqa: BLE001 - also `sys.exit`: a dead thread would hold the task for ever
            log.error("task %s of %s failed: %r", task.task_id, task.job_name, error)
            self._report(task, "failed", reason(error))
        else:
            self._report(task, "completed", None, result)

    def _value(self, returned: Any, task: ClaimedTask[Any]) -> Any:
        """Return the result of a task as JSON; None, with a warning in the log, for a value that is not JSON.

        Programs may return such values here; their tasks are completed without a result.
        """
        try:
            return value_of(returned).document
        except ValueError as error:
            log.warning("task %s is completed without its result: %s", task.task_id, error)
            return None

    def _report(self, task: ClaimedTask[Any], status: str, error: str | None, result: Any = None) -> bool:
        try:
            self.listener.put(task.task_id, status, error, self.signals.policy(self.report_s), result)
        except HubError as refused:
            if fatal(refused):
                self.signals.end(refused)
            elif status == "completed" and int(refused.facts.get("status") or refused.status) in REFUSED:
                self._report(task, "failed", reason(refused))
            elif not passing(refused) or status == "running":  # else it is reported in the background
                log.warning("the report that task %s is %s failed: %s", task.task_id, status, refused)
            return False
        self.signals.contact.heard()
        return True
