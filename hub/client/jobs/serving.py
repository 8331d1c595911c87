"""Serving tasks in a thread, one after the other: claim a task, run it, report its outcome, until told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hub.client.exchange import Left, passing
from hub.client.jobs.beating import Contact, fatal
from hub.client.jobs.calls import LEAVE_S
from hub.client.jobs.claimed import ClaimedTask
from hub.client.jobs.tasks import reason
from hub.errors import HubError
from hub.jobs.models import value_of
from hub.retries import now_s

log = logging.getLogger("hub.client")

# Seconds for which the hub may hold a claim while no task is pending. A stop waits for no longer than that.
LONGEST_WAIT_S = 2.0


# HTTP statuses that refuse a report for its size, shape or content.
REFUSED = frozenset({400, 413, 415, 422})


class Counter(Protocol):
    """The source of tasks and the receiver of results: the calls of a `JobManager`."""

    def take(self, *, start: bool, wait_s: float, left_s: Left) -> tuple[ClaimedTask[Any], bool] | None:
        """Return a task and whether it is running already, None when no task is pending."""

    def put(self, task_id: str, status: str, error: str | None, left_s: Left, result: Any = None) -> None:
        """Report the outcome of a task."""


@dataclass
class StopSignals:
    """The events by which the threads of a worker stop and wake each other. A stop is final."""

    contact: Contact
    stop: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)
    failure: HubError | None = None
    stopped_s: float = 0.0

    def end(self, error: HubError | None = None) -> None:
        """Stop all threads of the worker; `error`, if given, becomes the `failure`."""
        if not self.stop.is_set():
            self.stopped_s = now_s()
            if error is not None:
                self.failure = error
                log.error("the worker ends: %s", error)
        self.stop.set()
        self.wake.set()

    def over(self, error: HubError) -> bool:
        """End the worker when the hub no longer has it, as `error` says, or contact is lost; return whether so."""
        ended = error if fatal(error) else self.contact.lost()
        if ended is not None:
            self.end(ended)
        return ended is not None

    def policy(self, seconds: float) -> Left:
        """Return a function that says how many of `seconds` from now are left; a stop leaves `LEAVE_S` at most."""
        until_s = now_s() + seconds
        return lambda: min(until_s, self.stopped_s + LEAVE_S if self.stop.is_set() else until_s) - now_s()


class WorkerServing:
    """A thread that claims tasks and calls `execute` for each. After a claim without a task it waits for news."""

    def __init__(
        self,
        counter: Counter,
        execute: Callable[[ClaimedTask[Any]], Any],
        signals: StopSignals,
        polling_interval: float,
        report_s: float,
        told: Callable[[], bool],
    ) -> None:
        self._counter = counter
        self._execute = execute
        self._signals = signals
        self._polling_s = polling_interval
        self._report_s = report_s
        self._told = told
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make a new thread, not started yet; also called in a forked child."""
        self.thread = threading.Thread(target=self._serve, name="claims", daemon=True)

    def _serve(self) -> None:
        try:
            self._serve_for_ever()
        except Exception as error:  # noqa: BLE001 - a bug: better no worker than one that only heartbeats
            self._signals.end(HubError(f"serving broke off with {error!r}"))

    def _serve_for_ever(self) -> None:
        signals = self._signals
        while not signals.stop.is_set():
            signals.wake.clear()
            asked_s = now_s()
            wait_s = 0.0 if self._told() else min(self._polling_s, LONGEST_WAIT_S)
            try:
                taken = self._counter.take(start=True, wait_s=wait_s, left_s=lambda: 0.0)
            except HubError as error:
                self._not_claimed(error)
                continue
            signals.contact.heard()
            if taken is None:
                if (rest_s := self._polling_s - (now_s() - asked_s)) > 0:
                    signals.wake.wait(rest_s)
            elif signals.stop.is_set():
                self._say(taken[0], "pending", None)
            else:
                self._run(*taken)

    def _not_claimed(self, error: HubError) -> None:
        if not self._signals.stop.is_set() and not self._signals.over(error):
            log.warning("claim failed: %s", error)
            self._signals.wake.wait(max(self._polling_s, min(error.retry_after_s or 0.0, LEAVE_S)))

    def _run(self, task: ClaimedTask[Any], running: bool) -> None:
        if not running and not self._say(task, "running", None):
            self._say(task, "pending", None)  # else the worker would hold it for ever, and never run it
            return
        try:
            result = self._value(self._execute(task), task)
        except BaseException as error:  # noqa: BLE001 - also `sys.exit`: a dead thread would hold the task for ever
            log.error("task %s of %s failed: %r", task.task_id, task.job_name, error)
            self._say(task, "failed", reason(error))
        else:
            self._say(task, "completed", None, result)

    def _value(self, returned: Any, task: ClaimedTask[Any]) -> Any:
        """Return the result of a task as JSON; None, with a warning in the log, for a value that is not JSON.

        Programs may return such values here; their tasks are completed without a result.
        """
        try:
            return value_of(returned).document
        except ValueError as error:
            log.warning("task %s is completed without its result: %s", task.task_id, error)
            return None

    def _say(self, task: ClaimedTask[Any], status: str, error: str | None, result: Any = None) -> bool:
        try:
            self._counter.put(task.task_id, status, error, self._signals.policy(self._report_s), result)
        except HubError as refused:
            if fatal(refused):
                self._signals.end(refused)
            elif status == "completed" and int(refused.facts.get("status") or refused.status) in REFUSED:
                self._say(task, "failed", reason(refused))
            elif not passing(refused) or status == "running":  # else it is reported in the background
                log.warning("task %s is not %s for the hub: %s", task.task_id, status, refused)
            return False
        self._signals.contact.heard()
        return True
