"""What the jobs API speaks of: workers, jobs, tasks, providers, and which moves a task may make. Pure.

Ids are 32 hex digits, times microseconds since 1970 by the clock of the store, payloads and schemas JSON as sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

Status = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]
Outcome = Literal["ok", "gone", "forbidden", "conflict"]  # of a report
STATUSES: tuple[Status, ...] = get_args(Status)
TERMINAL = frozenset(STATUSES[3:])
LOST = "!"  # stands for a result that is no more: no JSON begins so

MOST_RESULT_BYTES = 1_048_576  # what a hub takes unless it is set up otherwise
MOST_LEVELS = 128  # and this always

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some records of a list, newest first, and how many the list has in all."""

    items: list[T]
    total: int


@dataclass(frozen=True)
class WorkerRecord:
    """A worker: when it beat last, and how many jobs it is linked to."""

    id: str
    beat_us: int
    jobs: int = 0
    user: str = ""


class Named:
    """Something with a full name, `room:category:name`."""

    full: str

    @property
    def room(self) -> str:
        return self.full.split(":", 1)[0]

    @property
    def category(self) -> str:
        return self.full.split(":", 2)[1]

    @property
    def name(self) -> str:
        return self.full.split(":", 2)[2]


@dataclass(frozen=True)
class Job(Named):
    """A job with the workers linked to it; `worker` is the one that has just registered it. result_schema: of what its
    tasks come to, empty where nothing was said of that.
    """

    id: str
    full: str
    schema: str
    workers: tuple[str, ...]
    worker: str | None = None
    result_schema: str = ""


@dataclass(frozen=True)
class JobDemand:
    """The tasks of a job that can be claimed, that are put off, that are claimed or run, and its workers. truncated: it
    may have more that are held; run_s: how long its tasks ran of late, None where none has.
    """

    job: str
    pending: int
    put_off: int
    held: int
    workers: int
    truncated: bool
    run_s: float | None


class TaskRecord(NamedTuple):
    """A task. `position` counts from 1 among the pending tasks of its job; `due_us` is set while it is put off; `claim`
    names the last claim of it; it `waits_for` so many tasks to be over; it `stood` for the unique key of a submit that
    is answered with it.
    """

    id: str
    job: str
    room: str
    status: Status
    created_us: int
    payload: str
    user: str
    started_us: int | None = None
    completed_us: int | None = None
    worker: str | None = None
    error: str | None = None
    position: int | None = None
    attempt: int = 1
    max_attempts: int = 1
    priority: int = 0
    due_us: int | None = None
    claim: str = ""
    waits_for: int = 0
    stood: bool = False


@dataclass(frozen=True)
class TaskInFull:
    """A task for who asks for it alone. result: what it came to, JSON, '' for nothing, `LOST` for what is no more.
    after: the tasks it waits for.
    """

    task: TaskRecord
    result: str = ""
    after: tuple[str, ...] = ()
    progress: float | None = None
    message: str = ""
    said_us: int | None = None
    max_silence_ms: int = 0
    log: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Said:
    """What a task says of itself while it runs under a claim, '' for any: None and '' leave things as they are."""

    task: str
    claim: str = ""
    progress: float | None = None
    message: str = ""
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProviderRecord(Named):
    """A provider of data and the worker that answers for it."""

    id: str
    full: str
    schema: str
    content_type: str
    worker: str
    user: str
    created_us: int


@dataclass(frozen=True)
class JobRequest:
    """A job as a worker registers it; without `worker` a new one is made for it. `incarnation`: the process it is.
    max_attempts, backoff_ms: of its tasks that say nothing of that.
    """

    room: str
    category: str
    name: str
    schema: str = "{}"
    worker: str | None = None
    incarnation: str = ""
    max_attempts: int = 1
    backoff_ms: int = 1000
    result_schema: str = ""


@dataclass(frozen=True)
class ProviderRequest(JobRequest):
    """A provider as a worker registers it."""

    content_type: str = "application/json"


@dataclass(frozen=True)
class Options:
    """What a submitter may ask for beyond the plain submit.

    priority: a point is a second in the queue. due_us: not before this time. max_attempts, backoff_ms: a task that
    fails is tried again after a pause that doubles with each attempt, up to an hour; as_the_job: these are as the job
    was registered with. max_silence_ms: how long it may say nothing while it runs, 0 for ever. unique_key: of
    its job in its room there is one task under it at a time, and when that is completed for unique_ms after its submit.
    after: the tasks that must be over before; it fails when one of them is not completed, unless run_on_failure.
    """

    priority: int = 0
    due_us: int = 0
    max_attempts: int = 1
    backoff_ms: int = 1000
    max_silence_ms: int = field(default=0, repr=False)
    as_the_job: bool = field(default=False, repr=False)
    unique_key: str = field(default="", repr=False)
    unique_ms: int = field(default=0, repr=False)
    after: tuple[str, ...] = field(default=(), repr=False)
    run_on_failure: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Result:
    """What a worker says of a task it holds under a claim, '' for any; `pending` gives it back to the queue.

    value: what a completed one came to, JSON, '' for nothing.
    """

    task: str
    status: str
    error: str = ""
    claim: str = ""
    value: str = ""


@dataclass(frozen=True)
class Claim:
    """How a worker claims. start: the tasks are running at once. max_runtime_ms: they fail when they take longer, 0 for
    no limit. request: the same one is answered with the same tasks, or none, for a minute. final: when there is
    nothing, the caller is told so, and it is remembered. incarnation: the process that is the worker.
    """

    most: int = 1
    start: bool = False
    max_runtime_ms: int = 0
    request: str = field(default="")
    final: bool = True
    incarnation: str = ""


class Value(NamedTuple):
    """A returned value: its JSON, '' for None, and the same parsed again, which nothing changes any more."""

    text: str = ""
    document: Any = None


def value_of(returned: Any, most: int = MOST_RESULT_BYTES) -> Value:
    """Return what a handler returned as a value; raises ValueError with the sentence that helps."""
    if callable(dump := getattr(returned, "model_dump", None)):
        returned = dump(mode="json")
    if returned is None:
        return Value()
    try:
        text = json.dumps(returned, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        what = type(returned).__name__
        raise ValueError(
            f"the result, {what}, is not JSON ({error}): return what json.dumps takes, a pydantic model, or None"
        ) from None
    if size > most:
        raise ValueError(
            f"the result has {size} bytes, and {most} are allowed: store it elsewhere and return a reference to it"
        )
    if type(returned) in (str, bool, int, float):
        return Value(text, returned)
    document = json.loads(text)
    if text.count("[") + text.count("{") > MOST_LEVELS and _levels(document) > MOST_LEVELS:
        raise ValueError(f"the result has more than {MOST_LEVELS} levels: return something flatter")
    return Value(text, document)


def _levels(document: Any) -> int:
    """Count how deep lists and objects are nested."""
    deep, level = 0, [document]
    while level := [each for each in level if isinstance(each, dict | list)]:
        deep += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return deep
