"""Daemon threads for plain functions: a function that hangs blocks neither the event loop nor the program's end."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class Threads:
    """A group of up to `most` threads, each made when it is needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made = 0
        self._busy = 0
        self._work: SimpleQueue[Work | None] = SimpleQueue()

    def run(self, call: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Run `call` in a thread; return a future of what it returns or raises. Cancelling the future stops nothing."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        self._work.put((loop, future, lambda: context.run(call, *arguments)))
        self._busy += 1
        future.add_done_callback(self._ended)
        if self._made < min(self._busy, self._most):
            self._made += 1
            threading.Thread(target=self._run_for_ever, name=f"handler-{self._made}", daemon=True).start()
        return future

    def close(self) -> None:
        """Let each thread end once the calls that were given before are done."""
        for _ in range(self._made):
            self._work.put(None)

    def _ended(self, _: asyncio.Future[Any]) -> None:
        self._busy -= 1

    def _run_for_ever(self) -> None:
        while (work := self._work.get()) is not None:
            loop, future, call = work
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - the error of the future; `sys.exit` ends no thread here
                error = raised if isinstance(raised, Exception) else RuntimeError(f"ended by {raised!r}")
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop is closed: no task waits any more
                return


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
