"""`SyncWorker`: the twin of `Worker` for programs with threads."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Self, TypeVar

from hub.client import forks
from hub.client.jobs.handlers import is_async
from hub.client.jobs.worker import Worker
from hub.client.options import with_parameters_of
from hub.client.signals import handled

Function = TypeVar("Function", bound=Callable[..., Any])


class SyncWorker:
    """A `Worker` for programs without asyncio: `SyncWorker(url, token).run()`, or `with SyncWorker() as worker:`.

    @worker.job("modifiers", schema=Rotate)
    def rotate(payload: Rotate, task: Task) -> None: ...

    The arguments are those of `Worker`. Handlers are plain functions, which run in threads, or in `processes`. A daemon
    thread does everything else.
    """

    @with_parameters_of(Worker.__init__)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._worker = Worker(*arguments, **options)
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

    @with_parameters_of(Worker.job)
    def job(self, *arguments: Any, **options: Any) -> Callable[[Function], Function]:
        """Run the tasks of a job with the decorated function; see `Worker.job`."""
        registered = self._worker.job(*arguments, **options)

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

        def on_signal(_: int) -> None:
            self._stopping, hurry = True, self._stopping
            self._worker.stop(hurry=hurry)

        with handled(on_signal), self:
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
