"""`SyncWorker`: the twin of `Worker` for programs with threads."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import httpx

from hub.client import forks
from hub.client.jobs.handlers import Model, is_async
from hub.client.jobs.wire import Token
from hub.client.jobs.worker import Worker
from hub.client.signals import ending

Function = TypeVar("Function", bound=Callable[..., Any])


class SyncWorker:
    """A `Worker` for programs without asyncio: `SyncWorker(url, token).run()`, or `with SyncWorker() as worker:`.

    @worker.job("modifiers", schema=Rotate)
    def rotate(payload: Rotate, task: Task) -> None: ...

    The arguments are those of `Worker`. Handlers are plain functions, which run in threads, or in `processes`. A daemon
    thread does everything else.
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
        self._worker = Worker(
            url, token, concurrency=concurrency, processes=processes, prefetch=prefetch, room=room, grace=grace,
            cancel_grace=cancel_grace, heartbeat_interval=heartbeat_interval, polling_interval=polling_interval,
            socket=socket, transport=transport, sync_transport=sync_transport,
        )  # fmt: skip
        self._stopping = False
        self._failure: BaseException | None = None
        self._ready, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._live, name="worker", daemon=True)
        forks.note(self)

    def begin_anew(self) -> None:
        """Mark the worker as ended in a forked child, because it belongs to the parent."""
        self._ready, self._ended = threading.Event(), threading.Event()
        self._ready.set()
        self._ended.set()

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
    ) -> Callable[[Function], Function]:
        """Run the tasks of a job with the decorated function; see `Worker.job`."""
        registered = self._worker.job(
            category, name, schema=schema, room=room, max_runtime=max_runtime, attempts=attempts, backoff=backoff
        )

        def plain(function: Function) -> Function:
            if is_async(function):
                raise ValueError("the handlers of a SyncWorker are plain functions; `Worker` runs async ones")
            return registered(function)

        return plain

    @property
    def worker_id(self) -> str | None:
        """Return the id of the worker; None while it is not registered."""
        return self._worker.worker_id

    @property
    def counts(self) -> Counter[str]:
        """Return how many tasks were claimed, completed, failed, given back, lost, refused; see `Worker.counts`."""
        return self._worker.counts

    def run(self) -> None:
        """Run tasks until `stop` or a signal; a second signal hurries (see `stop`). Raises what ended the worker."""
        with self._signals(), self:
            self.ended()

    def ended(self) -> None:
        """Wait until the worker was told to stop, or has failed."""
        self._ended.wait()

    def stop(self, *, hurry: bool = False) -> None:
        """Stop the worker, from any thread; may be called again. With `hurry` running tasks are given back at once."""
        self._stopping = True
        self._worker.stop(hurry=hurry)
        self._ended.set()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._ready.wait()
        except BaseException:  # Ctrl-C while no hub answers
            self.stop()
            raise
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if not self._thread.is_alive():  # it has ended, or belongs to the parent of this process
            self._ended.set()
        else:
            self.stop()
        self._thread.join()
        if self._failure is not None and (error is None or isinstance(error, Exception)):
            raise self._failure

    def _live(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that runs the worker
            self._failure = error
        finally:
            self._ended.set()
            self._ready.set()

    async def _work(self) -> None:
        async with self._worker:
            self._ready.set()
            await self._worker.ended()
            self._ended.set()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop the worker on signals that would end the process; the former handlers come back at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def told(*_: object) -> None:  # sets no event: this thread may be waiting for it, and hold its lock
            self._stopping, hurry = True, self._stopping
            self._worker.stop(hurry=hurry)

        before = {number: signal.signal(number, told) for number in ending()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)
