"""`JobManager`: a program that offers jobs and data to a hub and serves them from threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload
from uuid import UUID

import httpx

from hub.client import forks
from hub.client.backlog import CLOSE_S, backlog_of
from hub.client.exchange import Send, readable
from hub.client.jobs import calls, submitting
from hub.client.jobs.beating import Contact, Heartbeat, StopSignals
from hub.client.jobs.calls import leave
from hub.client.jobs.handlers import ClaimedTask, category_of, job_name
from hub.client.jobs.listening import Listener, WorkerServing
from hub.client.jobs.providers import RegisteredProvider, ServedProviders
from hub.client.jobs.sockets import Message, Socket
from hub.client.jobs.tasks import SubmitOptions, TaskInfo, TermsOptions
from hub.client.jobs.wire import SyncWire, Token
from hub.client.options import spelt_out
from hub.client.signals import handled
from hub.errors import HubError

if TYPE_CHECKING:
    from hub.client.jobs.extension import Extension, Provider

log = logging.getLogger("hub.client")

# Seconds that a running task gets to end when the manager disconnects.
JOIN_S = 10.0
# Seconds until a signal is noticed: a signal handler must not set the event that the main thread waits for.
NOTICE_S = 0.2
Kind = TypeVar("Kind", bound="type[Extension]")


class JobManager(Listener):
    """A worker for extensions, which it registers as jobs: `with JobManager(url, token, execute=run) as manager:`.

    With `execute`, a thread claims tasks and calls `execute(task)` from the first registration on, one after the other:
    a task is completed when the call returns, and failed with the text of the exception when it raises. Without
    `execute` the program calls `claim` or `listen`. Another thread heartbeats every `heartbeat_interval` seconds.

    `url` is where the hub is (default `HUB_URL`), or a `httpx.Client` with a base URL; `token` is a bearer token, or a
    callable that returns it for each request (default `HUB_TOKEN`). `socket` is True for a Socket.IO connection, or a
    `socketio.Client`: with one, new tasks are noticed at once; without one, no provider is asked for data.

    Refusals are raised as `hub.errors`. The calls at start (`create_worker`, `register`, `register_provider`) are tried
    `max_startup_retries` times while no hub answers or the hub is in trouble; a refusal (400, 401, 403, 404, 409, 422)
    is raised at once, for a second try would be refused as well. The worker ends when the hub no longer has it (401,
    403, 404) or no hub has answered for `max_unreachable_seconds`: `wait` returns and `failure` is the error.
    """

    def __init__(
        self,
        url: str | httpx.Client | None = None,
        token: Token = None,
        *,
        socket: Any = None,
        execute: Callable[[ClaimedTask[Any]], Any] | None = None,
        heartbeat_interval: float = 30.0,
        polling_interval: float = 2.0,
        max_unreachable_seconds: float = 120.0,
        max_startup_retries: int = 5,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        contact = Contact(max_unreachable_seconds)
        super().__init__(SyncWire(url, token, transport), StopSignals(contact))
        beats = SyncWire(url, token, transport)
        self._heartbeat = Heartbeat(beats, heartbeat_interval, contact, self._heartbeat_ended, self._held, self._lose)
        self._startup_retries = max_startup_retries
        self._providers = ServedProviders(backlog_of(self._wire))
        self._locks()
        if socket is not None and socket is not False:
            self._socket = Socket(
                socket, self._wire.url, self._wire.token, self._joined, self._signals.wake.set, self._asked
            )
        self._serving: WorkerServing | None = None
        if execute is not None:
            self._serving = WorkerServing(self, execute, self._signals, polling_interval, max_unreachable_seconds)

        forks.note(self)

    def _locks(self) -> None:
        self._registering = threading.RLock()
        self._leaving = threading.RLock()  # a signal handler may call `disconnect` during `disconnect`
        self._begun = False

    def begin_anew(self) -> None:
        """Forget the worker, in a forked child: it belongs to the parent, and the child registers its own."""
        super().begin_anew()
        self._locks()
        self._providers.clear()
        self._registry.clear()
        self._heartbeat.begin_anew()
        for part in (self._socket, self._serving):
            if part is not None:
                part.begin_anew()

    # -- what is registered -------------------------------------------------------------------------------------------

    def __getitem__(self, full_name: str) -> type[Extension]:
        return self._registry[full_name][0]

    def __contains__(self, full_name: object) -> bool:
        return full_name in self._registry

    def __len__(self) -> int:
        return len(self._registry)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._registry))

    def get_run_kwargs(self, full_name: str) -> dict[str, Any]:
        """Return the arguments registered with the class, for its `run`."""
        return self._registry[full_name][1]

    @property
    def handlers(self) -> dict[str, Any]:
        """Return the handler of each provider by full name, for extensions that read from them."""
        return {name: provider.handler for name, provider in list(self._providers.items())}

    @property
    def worker_id(self) -> UUID | None:
        """Return the id of the worker; None before the first registration and after `disconnect`."""
        return UUID(self._worker_id) if self._worker_id else None

    @property
    def failure(self) -> HubError | None:
        """Return the error that ended the worker; None while it lives or after a stop."""
        return self._signals.failure

    # -- registering --------------------------------------------------------------------------------------------------

    def create_worker(self) -> UUID:
        """Create a worker and return its id. Its heartbeats begin when something is registered with it."""
        with self._registering:
            data = self._start(calls.new_worker())
            with readable():
                self._worker_id = str(UUID(data["id"]))
            return UUID(self._worker_id)

    @overload
    def register(
        self, extension: Kind, *, room: str | None = ..., run_kwargs: dict[str, Any] | None = ...,
        **terms: Unpack[TermsOptions],
    ) -> Kind: ...  # fmt: skip

    @overload
    def register(
        self, extension: None = ..., *, room: str | None = ..., run_kwargs: dict[str, Any] | None = ...,
        **terms: Unpack[TermsOptions],
    ) -> Callable[[Kind], Kind]: ...  # fmt: skip

    @spelt_out(TermsOptions)
    def register(
        self, extension: Kind | None = None, *, room: str | None = None, run_kwargs: dict[str, Any] | None = None,
        **terms: Unpack[TermsOptions],
    ) -> Kind | Callable[[Kind], Kind]:  # fmt: skip
        """Register a class as a job of `room` (default `@global`), as a call or as a decorator.

        `run_kwargs` stay in this program and come with each task, such as a model that takes long to load. A task comes
        with the slots that its job `needs`, as `task.slots`; `limits` keep it from running beside too many others.
        """
        said = calls.terms(**terms)

        def registered(kind: Kind) -> Kind:
            self._register(kind, room or "@global", run_kwargs or {}, said)
            return kind

        return registered if extension is None else registered(extension)

    def _register(self, kind: type[Extension], room: str, run_kwargs: dict[str, Any], terms: dict[str, Any]) -> None:
        with self._registering:
            body: dict[str, Any] = {"category": category_of(kind), "name": kind.__name__, "validate": True}
            body |= {"schema": kind.model_json_schema(), **terms}
            full_name = job_name(kind, room)
            before = self._registry.get(full_name)
            # Before the call, because a task of the job may be claimed before the answer comes.
            self._registry[full_name] = kind, run_kwargs
            self._needs_slots = self._needs_slots or "needs" in terms
            try:
                self._take_worker(self._start(calls.job(room, body, self._worker_id)))
            except BaseException:
                if before is None:
                    del self._registry[full_name]
                else:
                    self._registry[full_name] = before
                raise
            self._emit("join_job_room", {"job_name": full_name})
            self._begin()

    def register_provider(self, provider: type[Provider], *, name: str, handler: Any, room: str = "@global") -> UUID:
        """Register a provider, whose reads call `provider.read(handler)`; return its id. Needs a socket."""
        with self._registering:
            body = {"category": provider.category, "name": name, "schema": provider.model_json_schema()}
            data = self._start(calls.provider(room, {**body, "content_type": provider.content_type}, self._worker_id))
            self._take_worker(data)
            full_name = f"{room}:{provider.category}:{name}"
            with readable():
                self._providers[full_name] = RegisteredProvider(str(UUID(data["id"])), provider, handler)
            self._emit("join_provider_room", {"provider_name": full_name})
            self._begin()
            return UUID(self._providers[full_name].id)

    def unregister_provider(self, full_name: str) -> None:
        """Unregister a provider and answer no more of its reads; do nothing when it is not registered here."""
        if (provider := self._providers.pop(full_name, None)) is not None:
            self._providers.drop(full_name, provider, self._wire)
            self._emit("leave_provider_room", {"provider_name": full_name})

    def _start(self, send: Send) -> dict[str, Any]:
        if self._signals.stop.is_set():
            raise RuntimeError("this JobManager has ended; make another")
        return self._wire.run(calls.starting(send, self._startup_retries))

    def _take_worker(self, data: dict[str, Any]) -> None:
        with readable():
            if data.get("worker_id"):
                self._worker_id = str(UUID(data["worker_id"]))

    def _begin(self) -> None:
        if self._begun or self._worker_id is None:
            return
        self._begun = True
        self._heartbeat.beat_for(self._worker_id)
        if self._socket is not None:
            self._socket.start()
        if self._serving is not None:
            self._serving.thread.start()

    # -- submitting ---------------------------------------------------------------------------------------------------

    @spelt_out(SubmitOptions)
    def submit(
        self, extension: Extension, room: str, *, job_room: str = "@global", **options: Unpack[SubmitOptions]
    ) -> str:
        """Submit a task with the parameters of `extension` from `room`; return its id."""
        job = job_name(type(extension), job_room)
        return self._wire.run(submitting.submit(job, extension.model_dump(mode="json"), room, options))

    @spelt_out(SubmitOptions)
    def submit_many(
        self, extensions: Sequence[Extension], room: str, *, job_room: str = "@global", **options: Unpack[SubmitOptions]
    ) -> list[str]:
        """Submit many tasks of one class in few calls; return their ids, in the order of `extensions`."""
        if len({type(extension) for extension in extensions}) > 1:
            raise ValueError("submit_many takes extensions of one class")
        if not extensions:
            return []
        payloads = [extension.model_dump(mode="json") for extension in extensions]
        return self._wire.run(submitting.submit_many(job_name(type(extensions[0]), job_room), payloads, room, options))

    def wait_for(self, task_id: str, timeout: float | None = None) -> TaskInfo:
        """Return the task once it has ended; raises `TimeoutError` after `timeout` seconds (None: never)."""
        return self._wire.run(submitting.wait_for(task_id, timeout))

    # -- living and leaving -------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def wait(self) -> None:
        """Wait until the manager has ended: by `disconnect`, by an error, which `failure` returns, or by a signal.

        In the main thread a signal that would end the process calls `disconnect`; a second signal interrupts that with
        `KeyboardInterrupt`. The former signal handlers are put back.
        """
        signalled = 0

        def on_signal(number: int) -> None:
            nonlocal signalled
            signalled += 1
            if signalled > 1:
                raise KeyboardInterrupt(f"signal {number}, again")

        with handled(on_signal):
            while not signalled and not self._signals.stop.wait(NOTICE_S):
                pass
            if signalled:
                log.info("told to stop by a signal")
                self.disconnect()

    def disconnect(self) -> None:
        """Leave the hub: claim no more, wait up to ten seconds for the running task, and delete the worker.

        Safe to call twice, and from several threads: each call returns when all is done. Does not raise when no hub
        answers.
        """
        self._signals.end()
        with self._leaving:
            serving = self._serving.thread if self._serving is not None else threading.current_thread()
            if serving is not threading.current_thread() and serving.is_alive():
                serving.join(JOIN_S)
            worker_id, self._worker_id = self._worker_id, None
            self._heartbeat.close(JOIN_S)
            if worker_id is not None:
                for event, message in self._joined(worker_id):
                    self._emit(event.replace("join", "leave"), message, worker_id)
                unanswered = [self._unanswered] if self._unanswered is not None else []
                self._wire.run(leave(worker_id, unanswered, self._backlog))
            if self._socket is not None:
                self._socket.close()
            for backlog in (self._backlog, self._providers.backlog):
                if backlog.end_with_client():
                    backlog.close(CLOSE_S)
            self._wire.close()
            self._providers.clear()
            self._registry.clear()

    def _heartbeat_ended(self, _: str, error: HubError) -> None:
        self._heartbeat.stop()
        self._signals.end(error)

    # -- the socket ---------------------------------------------------------------------------------------------------

    def _joined(self, worker_id: str | None = None) -> list[Message]:
        worker = {"worker_id": worker_id or str(self._worker_id)}
        jobs: list[Message] = [("join_job_room", {"job_name": name, **worker}) for name in list(self._registry)]
        return jobs + [("join_provider_room", {"provider_name": name, **worker}) for name in list(self._providers)]

    def _emit(self, event: str, message: dict[str, str], worker_id: str | None = None) -> None:
        if self._socket is not None:
            self._socket.emit(event, {"worker_id": worker_id or str(self._worker_id), **message})

    def _asked(self, request: dict[str, Any]) -> None:
        self._providers.answer(request, self._wire, self._signals.end)
