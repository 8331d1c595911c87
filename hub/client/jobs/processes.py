"""Processes for handlers that compute: each runs one task at a time, and when it dies only that task fails."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from hub.client import forks
from hub.client.jobs.handlers import Handler, Task, Unfit, is_async
from hub.client.jobs.tasks import reason
from hub.client.jobs.threads import Threads
from hub.client.signals import MEANT, named
from hub.client.slot_variables import told_of
from hub.jobs.models import value_of

# Spawned and not forked: a fork would copy locks that threads of the worker hold at that moment.
CONTEXT = multiprocessing.get_context("spawn")


class HandlerFailed(Exception):
    """An error that a handler raised in its process, or the death of that process; the text says which."""


class HandlersUnready(HandlerFailed):
    """The failure of a process that ended before it waited for its first task."""


class Processes:
    """A fixed number of processes that import the modules of the handlers. A process that died is replaced."""

    def __init__(self, number: int) -> None:
        self._children = [_Child() for _ in range(number)]
        self._idle: asyncio.Queue[_Child] = asyncio.Queue()
        self._threads = Threads(number)
        self._handlers: dict[str, Handler] = {}
        forks.note(self)

    def begin_anew(self) -> None:
        """Leave the processes to the parent: a forked child that exits must not end them."""
        atexit.unregister(self.close)
        self._children = []

    async def start(self, handlers: Mapping[str, Handler]) -> None:
        """Start all processes; return once each waits for tasks. Raises ValueError for a handler they cannot import."""
        atexit.register(self.close)
        self._handlers = {name: replace(each, schema={}) for name, each in handlers.items() if not is_async(each.call)}
        for name, handler in self._handlers.items():
            try:
                pickle.dumps(handler)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise ValueError(f"{name} cannot run in a process: write it at the top of a module ({error})") from None
        begun = [self._threads.run(child.start, self._handlers) for child in self._children]
        await asyncio.wait(begun)
        for child, each in zip(self._children, begun, strict=True):
            each.result()
            self._idle.put_nowait(child)

    async def begin(self, task: Task) -> Coroutine[Any, Any, Any]:
        """Wait for an idle process; return a coroutine that runs the task in it and returns the result of the handler.

        Cancelling the coroutine of a lost task sets `task.lost` in the process at first. Cancelling it again, or for
        another reason, kills the process.
        """
        return self._run(await self._idle.get(), task)

    async def _run(self, child: _Child, task: Task) -> Any:
        running = self._threads.run(child.run, task, self._handlers)
        running.add_done_callback(lambda _: self._back(child, running))
        lost = False
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                if lost or not task.lost:
                    child.kill()
                    raise
                child.lose()
                lost = True
        return running.result()

    def close(self) -> None:
        """Kill all processes, and end the threads that wait for them."""
        atexit.unregister(self.close)
        self._threads.close()
        for child in self._children:
            child.close()

    def _back(self, child: _Child, ended: asyncio.Future[Any]) -> None:
        """Make a process available to the next task; a process that died is replaced first."""
        error = ended.exception()  # read here: nothing else reads it after a kill
        if child.runs or isinstance(error, HandlersUnready):
            self._idle.put_nowait(child)
        else:
            begun = self._threads.run(child.start, self._handlers)
            begun.add_done_callback(lambda _: self._back(child, begun))


class _Child:
    """One process and the pipe to it. One thread at a time gives it tasks; any thread may call `lose` and `kill`."""

    def __init__(self) -> None:
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None
        self._lock = threading.Lock()
        self._closed = self._killed = False

    def start(self, handlers: Mapping[str, Handler]) -> None:
        """Start the process, and return once it waits for tasks; raises `HandlersUnready` when it ends before."""
        if self._process is not None:
            self._end()
        with self._lock:
            if self._closed:
                raise HandlersUnready("the worker has ended")
            self._pipe, theirs = CONTEXT.Pipe()
            process = CONTEXT.Process(target=_serve, args=(theirs, dict(handlers)), name="handler")
            process.start()
            self._process, self._killed = process, False
        theirs.close()
        try:
            self._pipe.recv()
        except (EOFError, OSError):
            raise HandlersUnready(f"a process for handlers {self._end()} before its first task") from None

    @property
    def runs(self) -> bool:
        """Return whether the process was started and not killed."""
        return self._process is not None and not self._killed

    def run(self, task: Task, handlers: Mapping[str, Handler]) -> Any:
        """Run a task in the process and return its result as JSON data; raises `HandlerFailed`."""
        if not self.runs:  # an earlier attempt to start it has failed
            self.start(handlers)
        assert self._pipe is not None
        try:
            self._send(replace(task, tell=None))
            while True:
                match self._pipe.recv():
                    case ("progress", share, message, text):
                        if task.tell is not None and not (task.lost or task.reported):
                            task.tell(task.id, task.claim, share, message, text)
                    case ("returned", document):
                        return document
                    case (("raised" | "unfit") as word, why, where):
                        error = Unfit(why) if word == "unfit" else HandlerFailed(why)
                        error.add_note(where)
                        raise error
        except (EOFError, OSError):
            raise HandlerFailed(f"the process of the task {self._end()}") from None

    def lose(self) -> None:
        """Set `lost` of the task in the process."""
        with contextlib.suppress(OSError):  # the process has just ended
            self._send(None)

    def kill(self) -> None:
        """Kill the process at once; `run`, in the thread that waits for it, raises `HandlerFailed`."""
        self._killed = True  # also when its task has just ended
        if self._process is not None:
            _kill(self._process)

    def close(self) -> None:
        """Kill the process, and let no other be started here."""
        with self._lock:
            again, self._closed = self._closed, True
        if not again and (process := self._process) is not None:
            _kill(process)
            process.join()

    def _send(self, message: Task | None) -> None:
        assert self._pipe is not None
        with self._lock:
            self._pipe.send(message)

    def _end(self) -> str:
        """Kill the process and its children; return how it ended, as words for an error."""
        assert self._process is not None
        assert self._pipe is not None
        _kill(self._process)  # the process is gone, but perhaps not its children
        self._process.join()
        code = self._process.exitcode or 0
        self._pipe.close()
        self._process = None
        return f"was ended by {named(-code)}" if code < 0 else f"ended with {code}"


def _kill(process: multiprocessing.process.BaseProcess) -> None:
    """Kill a process and its children. Not to be called after `join`: then another process may have its number."""
    assert process.pid is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # there is no group yet, or all in it have ended
        process.kill()


def _serve(pipe: Connection, handlers: dict[str, Handler]) -> None:
    """Run tasks that come through the pipe, as the main function of the process, until the worker closes the pipe."""
    os.setsid()  # a process group of its own: children of handlers end with it
    for name in MEANT:  # signals to a whole terminal or unit: the worker decides when this process ends
        signal.signal(getattr(signal, name), lambda *_: None)
    inbox: SimpleQueue[Task] = SimpleQueue()
    sending = threading.Lock()

    def send(message: tuple[Any, ...]) -> None:
        with sending:
            pipe.send(message)

    def listen() -> None:
        task: Task | None = None
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = pipe.recv()
                if message is None and task is not None:
                    task.lost = True
                elif message is not None:
                    task = message
                    task.tell = lambda _id, _claim, *news: send(("progress", *news))
                    inbox.put(task)
        os.killpg(0, signal.SIGKILL)  # even while a handler runs: another worker has its task by now

    threading.Thread(target=listen, name="listen", daemon=True).start()
    with contextlib.suppress(OSError):
        send(("ready",))
        while True:
            send(_outcome(inbox.get(), handlers))


def _outcome(task: Task, handlers: Mapping[str, Handler]) -> tuple[Any, ...]:
    try:
        handler = handlers[task.job_name]
        with told_of(task.slots):
            return "returned", value_of(handler.fitting(handler.called(task))).document
    except Exception as error:  # noqa: BLE001 - any error of a handler is told to the worker
        return "unfit" if isinstance(error, Unfit) else "raised", reason(error), traceback.format_exc()
    except BaseException as error:  # noqa: BLE001 - `sys.exit` ends no process here
        return "raised", f"ended by {error!r}", traceback.format_exc()
    finally:
        task.reported = True
        print(end="", flush=True)  # noqa: T201 - flushes what the handler printed, before a kill
