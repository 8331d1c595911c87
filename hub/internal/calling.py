"""Calling what executes a job: coroutine functions on the loop, others in a thread each."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

ERROR_CHARACTERS = 4000  # of an exception's text; a task is kept for days


async def call(execute: Callable[..., Any], *arguments: Any) -> Any:
    """Call what executes a job, and return or raise what it does. Cancelled, it leaves a thread alone with its work."""
    if inspect.iscoroutinefunction(execute) or inspect.iscoroutinefunction(getattr(execute, "__call__", None)):  # noqa: B004
        return await execute(*arguments)
    result = await _in_thread(execute, *arguments)
    if inspect.isawaitable(result):
        return await result
    return result


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a call in a thread of its own: a pool's threads would keep a process alive that has to
    end."""
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
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits for it
            outcome = None, error
        with suppress(RuntimeError):  # the loop was closed: the worker has stopped meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name="internal-job", daemon=True).start()
    result, error = await done
    if error is not None:
        raise error
    return result


def text_of(error: BaseException) -> str:
    """Return the error text of a failed task: the text of the exception, or its name."""
    # Unlike the exception itself this never fails to say something.
    text = str(traceback.TracebackException(type(error), error, None, limit=0)) or type(error).__name__
    return text.encode("utf-8", "backslashreplace").decode()[:ERROR_CHARACTERS]


def place_of(error: BaseException) -> str:
    """Return where the exception was raised, as `file:line`."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "-"
