"""What runs the tasks of a job, and one task as its handler sees it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from hub.client.exchange import now_s
from hub.client.jobs.tasks import Report, TaskInfo, reason
from hub.client.jobs.threads import Threads

log = logging.getLogger("hub.client")

RUNTIME_EXCEEDED = "Runtime exceeded"


class Model(Protocol):
    """A class that describes a payload and reads one: a pydantic model, or one that has these two methods."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """The JSON schema of the payload."""

    @classmethod
    def model_validate(cls, obj: Any, /) -> Self:
        """The payload as an object of this class; raises when it does not fit."""


@dataclass(eq=False, slots=True)
class Task:
    """A task as its handler sees it."""

    id: str
    job_name: str
    room_id: str
    payload: dict[str, Any]
    attempt: int = 1
    max_attempts: int = 1
    lost: bool = False
    """Set when the task is no longer this worker's: what a handler still does for it is in vain."""
    reported: bool = False
    taken_s: float = field(default_factory=now_s)
    claim: str = ""

    @classmethod
    def of(cls, info: TaskInfo) -> Task:
        """As the hub has just given it out."""
        return cls(
            info.id, info.job_name, info.room_id, info.payload, info.attempt, info.max_attempts, claim=info.claim
        )


Say = Callable[[Report], None]


@dataclass(frozen=True, slots=True)
class Handler:
    """A job and the function that runs its tasks."""

    room: str
    category: str
    name: str
    schema: Mapping[str, Any]
    call: Callable[[Any, Task], Any]
    model: type[Model] | None = None
    max_runtime_s: float | None = None

    @property
    def full_name(self) -> str:
        """The full name of the job."""
        return f"{self.room}:{self.category}:{self.name}"

    async def run(self, task: Task, threads: Threads, say: Say) -> None:
        """Run a task and say what came of it; returns when nothing of it runs any more. Raises only when cancelled."""
        try:
            payload = task.payload if self.model is None else self.model.model_validate(task.payload)
            if is_async(self.call):
                await self._awaited(payload, task)
            else:
                await self._in_thread(payload, task, threads, say)
        except (Exception, SystemExit) as error:  # whatever a handler raises, the worker lives on
            log.error("task %s of %s failed", task.id, task.job_name, exc_info=error)
            say(Report(task.id, "failed", f"ended by {error!r}" if isinstance(error, SystemExit) else reason(error)))
        except asyncio.CancelledError:
            running = asyncio.current_task()
            if running is None or running.cancelling():
                raise
            say(Report(task.id, "failed", "the handler was cancelled"))  # by itself: not by who runs it
        else:
            say(Report(task.id, "completed"))

    async def _awaited(self, payload: Any, task: Task) -> None:
        limit = asyncio.timeout(self.max_runtime_s)
        try:
            async with limit:
                await self.call(payload, task)
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(RUNTIME_EXCEEDED) from error
            raise

    async def _in_thread(self, payload: Any, task: Task, threads: Threads, say: Say) -> None:
        ended = threads.run(self.call, payload, task)
        if self.max_runtime_s is not None and not (await asyncio.wait([ended], timeout=self.max_runtime_s))[0]:
            # A thread cannot be stopped: the hub is told, and the place is taken until the function returns.
            say(Report(task.id, "failed", RUNTIME_EXCEEDED))
            task.lost = True
        result = await ended
        if inspect.isawaitable(result):
            await result


def is_async(call: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine; objects with an async `__call__` are meant as well."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
