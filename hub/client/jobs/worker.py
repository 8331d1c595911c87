"""`Worker`: runs the tasks of jobs, many at a time, for asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self, TypeVar, Unpack

import httpx

from hub.client.backlog import CLOSE_S, backlog_of
from hub.client.exchange import Send, lasting, passing, readable
from hub.client.guard import call_in, is_set_within
from hub.client.jobs import calls
from hub.client.jobs.beating import Contact, Heartbeat, LostTasks
from hub.client.jobs.buffers import Prefetch
from hub.client.jobs.calls import LONGEST_PAUSE_S, ClaimCall, leave
from hub.client.jobs.handlers import Handler, Model, model_of, result_of, takes_task
from hub.client.jobs.progress import ProgressReporter
from hub.client.jobs.reporter import ClaimReporter
from hub.client.jobs.runner import READY_S, TaskRunner
from hub.client.jobs.sockets import Message, Socket
from hub.client.jobs.tasks import Held, TermsOptions
from hub.client.jobs.wire import SyncWire, Token, Wire
from hub.client.options import spelt_out
from hub.client.signals import handled
from hub.errors import HubError, WorkerNotFound
from hub.retries import pause_s

log = logging.getLogger("hub.client")

Function = TypeVar("Function", bound=Callable[..., Any])
# Seconds that a task may take beyond its time limit before the hub ends it: for the wait for a place and its report.
SLACK_S = 5.0


class Worker:
    """A worker that runs tasks, `concurrency` at a time, until it is stopped: `await Worker(url, token).run()`.

    @worker.job("modifiers", schema=Rotate)
    async def rotate(payload: Rotate, task: Task) -> None: ...

    Tasks are claimed and reported many in one call; `prefetch` tasks are held ready beyond those that run (None: none
    when tasks take long, up to 200 when they are short). A separate thread heartbeats every `heartbeat_interval`
    seconds, also while handlers block. Plain functions run in threads. With `processes`, meant for handlers that
    compute, they run in that many processes, which import the modules of the handlers; `concurrency` then has no
    effect. A process is killed where an async handler would be cancelled; a task fails when its process dies.

    The worker outlives hubs and Redis: a report that could not be sent is sent later, and a call whose answer was lost
    is repeated unchanged, so that no task runs twice or is forgotten. A worker that the hub has given up registers
    again; its tasks are lost to it: `task.lost` is set, and async handlers are cancelled. The same happens, within a
    second, to a task that was cancelled; every `cancel_grace` seconds its handler is cancelled again. Only a refusal
    ends the worker (`Unauthorized`, `Forbidden`, `SchemaConflict`, ...), and is raised. After `stop`, SIGTERM or SIGINT
    it claims no more, gives running tasks `grace` seconds to end, gives back the rest, and leaves the hub.

    `url` defaults to `HUB_URL`, `token` to `HUB_TOKEN`; `room` is where jobs are registered. With `socket=True` the hub
    misses a worker that dies within seconds; it needs `python-socketio[client]`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: Token = None,
        *,
        concurrency: int = 10,
        processes: int = 0,
        prefetch: int | None = None,
        room: str = "@global",
        grace: float = 30.0,
        cancel_grace: float = 5.0,
        heartbeat_interval: float = 30.0,
        polling_interval: float = 2.0,
        socket: Any = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sync_transport: httpx.BaseTransport | None = None,
    ) -> None:
        if concurrency < 1 or processes < 0 or (prefetch is not None and prefetch < 0):
            raise ValueError("concurrency is at least 1, processes and prefetch are at least 0")
        concurrency = processes or concurrency
        self.counts: Counter[str] = Counter()
        """How many tasks were: claimed, completed, failed, given back; lost with the worker, refused in a report."""
        self._room = room
        self._grace_s = grace
        self._ahead = ahead = Prefetch(concurrency, prefetch)
        self._wire = Wire(url, token, transport)
        self._backlog = backlog_of(self._wire)
        self._unanswered: list[ClaimCall] = []
        self._reporter = ClaimReporter(self._wire, ahead, self.counts, polling_interval, self._lost)
        self._progress = ProgressReporter(self._wire, lambda: self._reporter.worker_id, self._lose)
        self._runner = TaskRunner(
            concurrency, ahead, self.counts, self._reporter.say, self._progress, cancel_grace, processes
        )
        self._lost_tasks = LostTasks(
            self._wire, lambda: self._reporter.worker_id, self._runner.runs_longer, self._held, self._lose
        )
        beats = SyncWire(url, token, sync_transport)
        ended, lost = self._on_loop(self._not_beating), self._on_loop(self._lose)
        self._heartbeat = Heartbeat(beats, heartbeat_interval, Contact(None), ended, self._held, lost)
        self._socket: Socket | None = None
        if socket is not None and socket is not False:
            wake = self._on_loop(self._reporter.woken.set)
            self._socket = Socket(socket, beats.url, beats.token, self._joined, wake)
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._claiming: asyncio.Task[None] | None = None
        self._others: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.Lock()
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self._stopping = self._hurried = False

    # -- jobs ---------------------------------------------------------------------------------------------------------

    @spelt_out(TermsOptions)
    def job(
        self,
        category: str,
        name: str | None = None,
        *,
        schema: Mapping[str, Any] | type[Model] | None = None,
        room: str | None = None,
        max_runtime: float | None = None,
        attempts: int = 1,
        backoff: float = 1.0,
        **terms: Unpack[TermsOptions],
    ) -> Callable[[Function], Function]:
        """Register the decorated function for the tasks of a job: `handler(payload, task)` or `handler(payload)`.

        `name` defaults to that of the function. With a model as `schema`, or as the annotation of the payload, the
        handler gets an object of this model. A task fails when its payload does not fit that model, when its result
        does not fit the model of the return annotation, or when it takes longer than `max_runtime` seconds; then an
        async handler is cancelled. A failed task is tried up to `attempts` times in all, unless its submitter sets a
        number: the second time after `backoff` seconds, then each time after twice as long.

        A task comes with the slots that its job `needs`, as `task.slots`; a handler in a process finds them in its
        environment too. `limits` keep tasks from running beside too many others.
        """
        if not 1 <= attempts <= 100 or not 0 <= backoff <= 3600:
            raise ValueError("attempts are from 1 to 100, backoff is from 0 to 3600 seconds")
        said = calls.terms(**terms)

        def registered(function: Function) -> Function:
            if self._loop is not None:
                raise RuntimeError("jobs are registered before the worker runs")
            model = model_of(function) if schema is None else schema if isinstance(schema, type) else None
            known = model.model_json_schema() if model is not None else schema
            handler = Handler(
                room or self._room, str(category), name or function.__name__,
                known or {},  # type: ignore[arg-type]
                function, model, max_runtime, takes_task(function), attempts, backoff,
                result_of(function), said,
            )  # fmt: skip
            self._runner.handlers[handler.full_name] = handler
            return function

        return registered

    @property
    def worker_id(self) -> str | None:
        """Return the id of the worker; None while it is not registered."""
        return self._reporter.worker_id or None

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run tasks until `stop` or a signal; a second signal hurries (see `stop`). Raises what ended the worker."""
        with handled(lambda _: self.stop(hurry=self._stopping), asyncio.get_running_loop()):
            async with self:
                await self.ended()

    async def ended(self) -> None:
        """Wait until the worker was told to stop, or has failed."""
        await self._stop.wait()

    def stop(self, *, hurry: bool = False) -> None:
        """Stop the worker, from any thread; may be called again. With `hurry` running tasks are given back at once."""
        self._stopping = True
        self._hurried = self._hurried or hurry
        call_in(self._loop, self._show_stop)

    def _on_loop(self, function: Callable[..., object]) -> Callable[..., None]:
        """Return a function that, from any thread, has `function` called on the event loop of the worker."""
        return lambda *arguments: call_in(self._loop, function, *arguments)

    def _show_stop(self) -> None:
        if self._stopping:
            self._stop.set()
        if self._hurried:
            self._hurry.set()

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise RuntimeError("a worker runs once; make another")
        self._loop = asyncio.get_running_loop()
        self._show_stop()
        handlers = self._runner.handlers.values()
        limits = [handler.max_runtime_s for handler in handlers]
        if limits and all(limits):
            self._reporter.max_runtime_s = max(limit for limit in limits if limit) + SLACK_S
        if any("needs" in handler.terms for handler in handlers):
            self._ahead.hold_none()
        try:
            await self._runner.start()
            await self._register()
        except BaseException:
            await self._close()
            raise
        if self._reporter.worker_id:
            if self._socket is not None:
                self._socket.start()
                self._join()
            self._claiming = self._spawn(self._reporter.claim_for_ever(self._runner))
            works = (
                self._reporter.report_for_ever(), self._progress.send_for_ever(), self._lost_tasks.hear_for_ever(),
                self._watch(),
            )  # fmt: skip
            self._others |= {self._spawn(work) for work in works}
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        self._stopping = True
        self._stop.set()
        try:
            await self._end(self._claiming)
            await self._runner.close(0.0 if self._failure else self._grace_s, self._hurry)
            await self._end(*self._others)
            if self._reporter.worker_id:
                self._unanswered = await self._reporter.close(self._runner)
        finally:
            await self._end(self._claiming, *self._others)
            await self._close()
        if self._failure is not None and (error is None or isinstance(error, Exception)):
            raise self._failure from error

    async def _end(self, *tasks: asyncio.Task[None] | None) -> None:
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _close(self) -> None:
        try:
            worker_id, self._reporter.worker_id = self._reporter.worker_id, ""
            if worker_id:
                await self._wire.run(leave(worker_id, self._unanswered, self._backlog))
        finally:
            await asyncio.to_thread(self._runner.end)
            if self._socket is not None:
                await asyncio.to_thread(self._socket.close)
            await asyncio.to_thread(self._heartbeat.close, READY_S)
            if self._backlog.end_with_client():
                await asyncio.to_thread(self._backlog.close, CLOSE_S)
            await self._wire.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._others.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def _fail(self, error: Exception) -> None:
        if self._failure is None and not self._stopping:
            log.error("the worker ends: %s", error)
            self._failure = error
        self._stop.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(READY_S / 2)
            self._runner.give_back_old()

    # -- being known to the hub ---------------------------------------------------------------------------------------

    async def _register(self) -> None:
        """Create a worker and register its jobs, repeating for as long as it takes; raises the refusal of the hub."""
        worker_id = None
        left = list(self._runner.handlers.values())
        failures = 0
        while not self._stop.is_set():
            try:
                if worker_id is None:
                    worker_id = await self._id_of(calls.new_worker(), "id")
                while left:
                    job = left[0]
                    offer = calls.job(job.room, job.registration(), worker_id)
                    worker_id = await self._id_of(offer, "worker_id")  # another one for a room of another realm
                    left.pop(0)
                break
            except HubError as error:
                if isinstance(error, WorkerNotFound):
                    worker_id, left = None, list(self._runner.handlers.values())
                elif not passing(error):
                    self._reporter.worker_id = worker_id or ""
                    raise
                if not failures:
                    log.warning("the hub does not take the worker yet: %s", error)
            await is_set_within(min(LONGEST_PAUSE_S, pause_s(failures)), self._stop)
            failures += 1
        self._reporter.worker_id = worker_id or ""
        if worker_id is not None:
            self._heartbeat.beat_for(worker_id)

    async def _id_of(self, send: Send, member: str) -> str:
        answer = await self._wire.run(calls.ask(send, lasting(0.0)))
        with readable():
            return str(answer.data[member])

    async def _lost(self, worker_id: str) -> bool:
        """Register a new worker after the hub has given this one up; return False if another call has done so."""
        async with self._renewing:
            if self._reporter.worker_id != worker_id:
                return False
            log.warning("the hub has given up worker %s: what it held is lost, and it registers again", worker_id)
            self._runner.lose()
            self._reporter.forget()
            if self._stop.is_set():
                self._reporter.worker_id = ""
                return True
            await self._register()
            self._join()
            return True

    async def _renew(self, worker_id: str) -> None:
        if not await self._lost(worker_id):  # the claim has done so, and now claims for the new worker
            return
        if self._claiming is not None and not self._stop.is_set():  # it may still wait for tasks of the former worker
            await self._end(self._claiming)
            self._claiming = self._spawn(self._reporter.claim_for_ever(self._runner))

    def _held(self) -> Held:
        """Return the held tasks, for the heartbeat. Claims are read first, reports last: a task moves in that order."""
        claims = self._reporter.unanswered()
        runner = self._runner.names()
        return Held({**self._reporter.unreported(), **runner}, claims)

    def _lose(self, lost: Mapping[str, str | None]) -> None:
        self._runner.lose_some(lost)

    def _not_beating(self, worker_id: str, error: HubError) -> None:
        if self._stop.is_set() or worker_id != self._reporter.worker_id:
            return
        if isinstance(error, WorkerNotFound):
            self._others.add(self._spawn(self._renew(worker_id)))
        else:
            self._fail(error)

    # -- the socket ---------------------------------------------------------------------------------------------------

    def _joined(self) -> list[Message]:
        worker_id = self._reporter.worker_id
        return [("join_job_room", {"job_name": name, "worker_id": worker_id}) for name in self._runner.handlers]

    def _join(self) -> None:
        if self._socket is not None:
            for event, message in self._joined():
                self._socket.emit(event, message)
