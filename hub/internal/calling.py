"""Calls of the function that executes a job: a coroutine function on the event loop, any other in its own thread."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

ERROR_CHARACTERS = 4000  # the error text of a task is cut to this length, as tasks are kept for days


async def call(execute: Callable[..., Any], *arguments: Any) -> Any:
    """Call `execute` and return its result or raise its error. A cancellation does not end its thread."""
    if inspect.iscoroutinefunction(execute) or inspect.iscoroutinefunction(getattr(execute, "__call__", None)):  # noqa: B004
        return await execute(*arguments)
    result = await _in_thread(execute, *arguments)
    if inspect.isawaitable(result):
        return await result
    return result


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the function in its own thread; return its result or raise its error. The thread is a daemon, for threads
    of a pool would keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(outcome: tuple[Any, BaseException | None]) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = context.run(function, *arguments), None
        except BaseException as error:  # noqa: BLE001 - raised again in the caller
            outcome = None, error
        with suppress(RuntimeError):  # the event loop is closed, because the worker has stopped
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name="internal-job", daemon=True).start()
    result, error = await done
    if error is not None:
        raise error
    return result


def text_of(error: BaseException) -> str:
    """Return the error text of a failed task: the text of the exception, or its class if it has no text."""
    # Unlike `str(error)` this never raises.
    text = str(traceback.TracebackException(type(error), error, None, limit=0)) or type(error).__name__
    return text.encode("utf-8", "backslashreplace").decode()[:ERROR_CHARACTERS]


def place_of(error: BaseException) -> str:
    """Return where the exception was raised, as `file:line`, or `-` without a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "-"
