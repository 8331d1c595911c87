"""The internal worker, which reads tasks of `@internal` jobs from a Redis stream, executes them and stores the results.

It reads the stream in the same consumer group as taskiq-redis, but without the broker of that library. That broker
delivers the messages of a killed worker only when a new message comes, and stops when the store is emptied.

A message is acknowledged as soon as its task is `running`. A worker that cannot move the task to `running`, because
another worker has or the task is cancelled, drops the message. So a task runs at most once, however often its message
is delivered.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hub.core import Hub
from hub.errors import InvalidTaskTransition, StoreFault, StoreUnavailable, TaskNotFound
from hub.internal.calling import call, place_of, text_of
from hub.internal.registry import Executable
from hub.jobs.dispatch import formatter
from hub.jobs.models import value_of
from hub.jobs.names import dashed, to_id
from hub.observability.logs import get_logger
from hub.retries import pause_s
from hub.store.group import Entry, GroupReader

GROUP = "taskiq"  # the consumer group, named as taskiq-redis names it by default
IDLE_S = 5.0  # a message that is not acknowledged after this long was left by a worker that died
REPORT_S = 5.0  # for storing the last results when the worker stops
STOPPED = "Internal worker stopped"
_log = get_logger("hub.internal")


@dataclass(frozen=True)
class WorkOrder:
    """A message of the stream: the job, the task to execute, its room and its payload."""

    full: str
    task: str
    room: str
    payload: dict[str, Any]

    @staticmethod
    def read(fields: Mapping[str, str]) -> WorkOrder:
        """Return a stream entry as a work order; raises ValueError, KeyError or TypeError if it is none."""
        message = formatter().loads(fields["data"].encode("utf-8", "surrogateescape"))
        arguments = message.kwargs
        return WorkOrder(
            message.task_name, to_id(str(arguments["task_id"])), str(arguments["room_id"]), arguments["payload"]
        )


class InternalWorker:
    """An executor of tasks of the jobs that it knows, at most `concurrency` at once, until `stop` is called."""

    def __init__(self, hub: Hub, jobs: Mapping[str, Executable], concurrency: int, grace_s: float) -> None:
        self._tasks = hub.tasks
        self._result_max = hub.settings.task_result_max_bytes
        self._jobs = jobs
        self._concurrency = concurrency
        self._grace_s = grace_s
        self._queue = GroupReader(hub.store, hub.store.keys.taskiq, GROUP, secrets.token_hex(8), IDLE_S)
        self._running: dict[str, asyncio.Task[None]] = {}  # the tasks that run, by the id of their stream entry
        self._strange: set[str] = set()
        self._taking: asyncio.Task[None] | None = None
        self._stopping = False
        self._hurry = asyncio.Event()
        self._place = asyncio.Event()

    def stop(self) -> None:
        """Take no more tasks and let running ones end; on a second call, interrupt them without waiting."""
        if self._stopping:
            self._hurry.set()
        self._stopping = True
        if self._taking is not None:
            self._taking.cancel()

    async def run(self) -> None:
        """Execute tasks until `stop` is called; tasks that then run longer than the grace fail. Raises `ForeignKey`
        when another program has written something else under the key of the tasks."""
        self._taking = asyncio.create_task(self._take(), name="internal-take")
        if self._stopping:
            self._taking.cancel()
        try:
            await asyncio.wait({self._taking})
            if not self._taking.cancelled():
                self._taking.result()
        finally:
            self._stopping = True
            self._taking.cancel()
            await asyncio.wait({self._taking})
            await self._finish()
            await self._queue.close()
            _log.info("internal worker stopped")

    async def _take(self) -> None:
        """Start tasks from the stream while fewer than `concurrency` run."""
        await self._queue.join()
        _log.info("internal worker started", jobs=len(self._jobs), concurrency=self._concurrency)
        # `_stopping` is checked too: before Python 3.12 a call of redis-py may swallow a cancellation.
        while not self._stopping:
            self._place.clear()
            free = self._concurrency - len(self._running)
            if not free:
                await self._place.wait()
                continue
            found = await self._next(free)
            for entry_id, fields in [] if self._stopping else found:
                if entry_id not in self._running:  # it may be delivered again while the store is slow
                    self._start(entry_id, fields)

    async def _next(self, most: int) -> list[Entry]:
        failures = 0
        while not self._stopping:
            try:
                entries = await self._queue.next(most)
            except (StoreUnavailable, StoreFault) as error:
                if not failures:
                    _log.warning("internal queue unreachable", why=str(error))
                await asyncio.sleep(pause_s(failures))
                failures += 1
                continue
            if failures:
                _log.info("internal queue reachable again")
            return entries
        return []

    def _start(self, entry_id: str, fields: Mapping[str, str]) -> None:
        running = asyncio.create_task(self._handle(entry_id, fields), name=f"internal-{entry_id}")
        self._running[entry_id] = running
        running.add_done_callback(lambda ended: self._done(entry_id, ended))

    def _done(self, entry_id: str, ended: asyncio.Task[None]) -> None:
        del self._running[entry_id]
        self._place.set()
        if ended.cancelled() or ended.exception():
            why = "stopped" if ended.cancelled() else repr(ended.exception())
            _log.error("internal task end not recorded", entry=entry_id, why=why)

    async def _handle(self, entry_id: str, fields: Mapping[str, str]) -> None:
        try:
            order = WorkOrder.read(fields)
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("internal message unreadable", entry=entry_id, why=repr(error))
            await self._if_it_answers(self._queue.acknowledge(entry_id))
            return
        job = self._jobs.get(order.full)
        if job is None:
            self._leave(order)
        elif await self._move(order, "running"):
            await self._execute(order, job, entry_id)
        else:
            await self._if_it_answers(self._queue.acknowledge(entry_id))

    def _leave(self, order: WorkOrder) -> None:
        """Leave the message for a worker that knows the job, as during a release; log each such job once."""
        if order.full not in self._strange:
            self._strange.add(order.full)
            _log.warning("internal job unknown to this worker", job=order.full, task=dashed(order.task))

    async def _execute(self, order: WorkOrder, job: Executable, entry_id: str) -> None:
        """Execute a task that this worker moved to `running`, and store its result or error."""
        facts, value = {"task": dashed(order.task), "job": order.full}, ""
        _log.info("internal task started", room=order.room, **facts)
        began = time.monotonic()
        try:
            await self._if_it_answers(self._queue.acknowledge(entry_id))
            returned = await call(job.execute, order.payload, order.room, dashed(order.task))
        except asyncio.CancelledError:
            status, why = "failed", STOPPED
            _log.warning(
                "internal task failed as the worker stopped", seconds=round(time.monotonic() - began, 3), **facts
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - stored as the error of the task
            status, why = "failed", text_of(error)
            _log.warning("internal task failed", why=why, at=place_of(error), **facts)
        else:
            status, why, value = "completed", "", self._value(returned, order)
            _log.info("internal task completed", seconds=round(time.monotonic() - began, 3), **facts)
        await self._move(order, status, why, value)

    def _value(self, returned: Any, order: WorkOrder) -> str:
        """Return the result of a task as JSON text; "" for a value that cannot be JSON, because older jobs return such
        values."""
        try:
            return value_of(returned, self._result_max).text
        except ValueError as error:
            _log.warning(
                "internal task completed without its result", task=dashed(order.task), job=order.full, why=str(error)
            )
            return ""

    async def _move(self, order: WorkOrder, status: str, error: str = "", value: str = "") -> bool:
        """Move the task to this status, trying until the store answers; return False if its status no longer allows
        that."""
        request = secrets.token_hex(8)  # one id for all tries, so that a repeated move is known as the same
        failures = 0
        while True:
            try:
                await self._tasks.move(order.task, status, error, superuser=True, request=request, value=value)
            except (InvalidTaskTransition, TaskNotFound) as over:
                _log.info("internal task already ended", task=dashed(order.task), job=order.full, why=over.detail)
                return False
            except StoreUnavailable:
                await asyncio.sleep(pause_s(failures))
                failures += 1
            else:
                return True

    async def _finish(self) -> None:
        """Wait for running tasks until the grace is over or `stop` is called again, then interrupt them."""
        running = set(self._running.values())
        if not running:
            return
        _log.info("internal worker stopping", running=len(running), grace_s=self._grace_s)
        hurry = asyncio.ensure_future(self._hurry.wait())
        ended = asyncio.ensure_future(asyncio.wait(running))
        await asyncio.wait({hurry, ended}, timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (hurry, ended):
            waiting.cancel()
        for bound_s in (REPORT_S, 1.0):  # the first cancellation is stored as a failure; the second ends even that
            left = {task for task in running if not task.done()}
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=bound_s)

    @staticmethod
    async def _if_it_answers(call: Awaitable[None]) -> None:
        """Await an acknowledgement, and ignore that Redis does not answer: the message is then delivered and
        acknowledged again."""
        with suppress(StoreUnavailable, StoreFault):
            await call
