"""The handler of a job, and a task as its handler sees it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, get_type_hints

from hub.client.jobs.tasks import Report, TaskInfo, reason
from hub.client.jobs.threads import Threads
from hub.client.slot import LentSlot
from hub.jobs.models import value_of
from hub.retries import now_s

if TYPE_CHECKING:  # only programs with extensions need pydantic
    from hub.client.jobs.extension import Extension

log = logging.getLogger("hub.client")
E = TypeVar("E", bound="Extension")

RUNTIME_EXCEEDED = "Runtime exceeded"
LONGEST_TEXT_BYTES = 4096  # of a line of a log; the rest is cut off


class Unfit(ValueError):
    """A payload that does not fit the model of its job: no further attempt can do better."""


class Model(Protocol):
    """A class that has the schema of a payload and checks one: a pydantic model, or a class with these two methods."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of the payload."""

    @classmethod
    def model_validate(cls, obj: Any, /) -> Self:
        """Return the payload as an object of this class; raises when it does not fit."""


@dataclass(eq=False, slots=True)
class Task:
    """A claimed task as its handler gets it, with methods that report its progress and add to its log."""

    id: str
    job_name: str
    room_id: str
    payload: dict[str, Any]
    attempt: int = 1
    max_attempts: int = 1
    lost: bool = False
    """True once the task is no longer this worker's: then no work of its handler counts any more."""
    reported: bool = False
    taken_s: float = field(default_factory=now_s)
    claim: str = ""
    slots: tuple[LentSlot, ...] = ()
    """The slots that its job needs, in the order of the needs; they are its own until it is over, or `lost`."""
    tell: Tell | None = None
    """Takes progress and lines of the log; set by the worker that runs the task."""

    @classmethod
    def of(cls, info: TaskInfo) -> Task:
        """Return the task that a claim returned as `info`."""
        return cls(
            info.id, info.job_name, info.room_id, info.payload, info.attempt, info.max_attempts, claim=info.claim,
            slots=info.slots,
        )  # fmt: skip

    def progress(self, share: float | None = None, message: str | None = None) -> None:
        """Report how far the task is, from 0 to 1, and what it does: `task.progress(0.4, "step 3")`. From any thread.

        The latest share and message are sent once a second. They also show that the task is not stuck (`max_silence`).
        """
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"progress is from 0 to 1, not {share!r}")
        self._say(share, message, None)

    def log(self, text: str) -> None:
        """Add lines to the log of the task. The hub keeps the latest 100, up to 4 KiB of each. From any thread."""
        for part in str(text).splitlines():
            if part.strip():
                self._say(None, None, cut(part))

    def _say(self, share: float | None, message: str | None, text: str | None) -> None:
        if self.tell is not None and not self.reported and not self.lost:
            self.tell(self.id, self.claim, share, None if message is None else cut(str(message)), text)


@dataclass(eq=False, slots=True)
class ClaimedTask(Generic[E]):
    """A task that this worker has claimed. `extension` has its parameters; `run_kwargs` come from the registration, and
    `slots` are those that its job needs."""

    task_id: str
    job_name: str
    room_id: str
    extension: E
    run_kwargs: dict[str, Any] = field(default_factory=dict)
    slots: tuple[LentSlot, ...] = ()


def category_of(extension: type[Extension]) -> str:
    """Return the category of an extension as text, also where it is a member of an enum."""
    category = extension.category
    return str(category.value) if isinstance(category, Enum) else category


def job_name(extension: type[Extension], room: str) -> str:
    """Return the full name of the job that an extension becomes in a room."""
    return f"{room}:{category_of(extension)}:{extension.__name__}"


Tell = Callable[[str, str, float | None, str | None, str | None], None]
Say = Callable[[Report], None]
Begin = Callable[[Task], Awaitable[Coroutine[Any, Any, Any]]]  # begins a task in a process


def cut(text: str) -> str:
    """Return the first 4 KiB of a text, which is what a hub keeps, with surrogates escaped, as UTF-8 has none."""
    return text.encode("utf-8", "backslashreplace")[:LONGEST_TEXT_BYTES].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class Handler:
    """A job and the function that runs its tasks."""

    room: str
    category: str
    name: str
    schema: Mapping[str, Any]
    call: Callable[..., Any]
    model: type[Model] | None = None
    max_runtime_s: float | None = None
    takes_task: bool = True
    attempts: int = 1
    backoff_s: float = 1.0
    result: type[Model] | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """Return the full name of the job, `room:category:name`."""
        return f"{self.room}:{self.category}:{self.name}"

    def registration(self) -> dict[str, Any]:
        """Return the body of the request that registers the job."""
        body: dict[str, Any] = {"category": self.category, "name": self.name, "schema": self.schema, "validate": True}
        if self.attempts > 1:
            body |= {"maxAttempts": self.attempts, "backoffSeconds": self.backoff_s}
        if self.result is not None:
            body["resultSchema"] = self.result.model_json_schema()
        return {**body, **self.terms}

    def fitting(self, returned: Any) -> Any:
        """Return the value of the handler as an object of the result model; raises ValueError when it does not fit."""
        if self.result is None or isinstance(returned, self.result):
            return returned
        try:
            return self.result.model_validate(returned)
        except Exception as error:
            name = getattr(self.result, "__name__", "its model")
            raise ValueError(f"the result does not fit {name}: {error}") from error

    def called(self, task: Task) -> Any:
        """Call the function with the payload, as an object of its model if it has one; raises `Unfit` when the payload
        does not fit the model."""
        try:
            payload = task.payload if self.model is None else self.model.model_validate(task.payload)
        except ValueError as error:  # pydantic's `ValidationError` is one
            raise Unfit(reason(error)) from error
        return self.call(payload, task) if self.takes_task else self.call(payload)

    async def run(self, task: Task, threads: Threads, begin: Begin | None, say: Say) -> None:
        """Run a task, and call `say` with a report of its outcome; returns once its handler runs no more.

        Raises only `CancelledError`.
        """
        try:
            if is_async(self.call):
                returned = self.fitting(await self._awaited(self.called(task)))
            elif begin is not None:
                returned = await self._awaited(await begin(task))
            else:
                returned = self.fitting(await self._in_thread(task, threads, say))
            value = value_of(returned)
        except (Exception, SystemExit) as error:  # any error of a handler: the worker lives on
            log.error("task %s of %s failed", task.id, task.job_name, exc_info=error)
            why = f"ended by {error!r}" if isinstance(error, SystemExit) else reason(error)
            say(Report(task.id, "failed", why, retry=not isinstance(error, Unfit)))
        except asyncio.CancelledError:
            running = asyncio.current_task()
            if running is None or running.cancelling():
                raise
            say(Report(task.id, "failed", "the handler was cancelled"))  # by itself, not by the worker
        else:
            say(Report(task.id, "completed", value=value))

    async def _awaited(self, returned: Awaitable[Any]) -> Any:
        limit = asyncio.timeout(self.max_runtime_s)
        try:
            async with limit:
                return await returned
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(RUNTIME_EXCEEDED) from error
            raise

    async def _in_thread(self, task: Task, threads: Threads, say: Say) -> Any:
        running = threads.run(self.called, task)
        if self.max_runtime_s is not None and not (await asyncio.wait([running], timeout=self.max_runtime_s))[0]:
            # A thread cannot be stopped: the task is reported, and its place stays taken until the function returns.
            say(Report(task.id, "failed", RUNTIME_EXCEEDED))
            task.lost = True
        result = await running
        return await result if inspect.isawaitable(result) else result


def is_async(call: Callable[..., Any]) -> bool:
    """Return whether `call` is a coroutine function, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def model_of(function: Callable[..., Any]) -> type[Model] | None:
    """Return the model in the annotation of the first parameter; None where there is none."""
    positional = _positional(function)
    return _model(function, "payload", positional[0].annotation) if positional else None


def result_of(function: Callable[..., Any]) -> type[Model] | None:
    """Return the model in the annotation of the returned value; None where there is none."""
    try:
        annotation = inspect.signature(function).return_annotation
    except (TypeError, ValueError):  # of something built in
        return None
    return _model(function, "result", annotation)


def _model(function: Callable[..., Any], role: str, annotation: Any) -> type[Model] | None:
    if annotation is inspect.Parameter.empty or annotation is None:
        return None
    annotated = SimpleNamespace(__annotations__={role: annotation})
    plain = inspect.unwrap(function)
    names = getattr(plain, "__globals__", None) or getattr(type(plain).__call__, "__globals__", {})
    try:
        hint = get_type_hints(annotated, globalns=names)[role]
    except Exception as error:  # noqa: BLE001 - an annotation may be anything, also a name that does not exist
        log.warning("the %s of %r is taken as it is: its annotation is not known (%s)", role, function, error)
        return None
    is_model = isinstance(hint, type) and all(
        callable(getattr(hint, name, None)) for name in ("model_json_schema", "model_validate")
    )
    return hint if is_model else None


def takes_task(function: Callable[..., Any]) -> bool:
    """Return whether a handler takes payload and task: not when it has one parameter, which is the payload."""
    positional = _positional(function)
    return positional is None or len(positional) != 1 or positional[0].kind is inspect.Parameter.VAR_POSITIONAL


def _positional(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of something built in
        return None
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in parameters if parameter.kind not in by_name]
