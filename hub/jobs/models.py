"""The records of the jobs API: workers, jobs, tasks, providers, and the options of submits and claims. Pure.

Ids are 32 hex digits, times microseconds since 1970 by the clock of the store, payloads and schemas JSON as sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

Status = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]
Outcome = Literal["ok", "gone", "forbidden", "conflict"]  # what becomes of a worker's report on a task
STATUSES: tuple[Status, ...] = get_args(Status)
TERMINAL = frozenset(STATUSES[3:])
LOST = "!"  # stands for a result that was lost, or found no memory; no JSON text begins with it

MOST_RESULT_BYTES = 1_048_576  # most bytes of a result, unless a setting of the hub says otherwise
MOST_LEVELS = 128  # most levels of nesting in a result; no setting changes this

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list: some records, newest first, and the number of all records of the list."""

    items: list[T]
    total: int


@dataclass(frozen=True)
class WorkerRecord:
    """A worker: the time of its last heartbeat, how many jobs it serves, and its user."""

    id: str
    beat_us: int
    jobs: int = 0
    user: str = ""


class Named:
    """A record with a full name, `room:category:name`."""

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
    """A job and the workers that serve it; `worker` is the one that has just registered it, None otherwise.

    result_schema: the JSON schema of the results of its tasks, '' where none was registered.
    """

    id: str
    full: str
    schema: str
    workers: tuple[str, ...]
    worker: str | None = None
    result_schema: str = ""


@dataclass(frozen=True)
class JobDemand:
    """The counts of a job's tasks (pending: can be claimed; put_off: not before a later time; held: claimed or running)
    and of its workers. truncated: not all were read, and more may be held. run_s: how long its tasks ran lately in
    seconds, None where none has run.
    """

    job: str
    pending: int
    put_off: int
    held: int
    workers: int
    truncated: bool
    run_s: float | None


class TaskRecord(NamedTuple):
    """A task. `position` counts from 1 among the pending tasks of its job; `due_us` is the time before which it cannot
    be claimed, None for no such time; `claim` names its last claim; `waits_for` is the number of tasks that must end
    before it; `stood` is True when a submit with a unique key made no task and is answered with this earlier one;
    `slots` is the bundle of slots that it has while a worker holds it, '' for none.
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
    slots: str = ""


@dataclass(frozen=True)
class TaskInFull:
    """A task with the details that only a request for this one task shows.

    result: the JSON of its result, '' for none, `LOST` for a lost one. after: the tasks it waits for. progress, message
    and log: what it reported, the last time at reported_us. max_silence_ms: how long it may report nothing, 0 for ever.
    """

    task: TaskRecord
    result: str = ""
    after: tuple[str, ...] = ()
    progress: float | None = None
    message: str = ""
    reported_us: int | None = None
    max_silence_ms: int = 0
    log: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class ReportedProgress:
    """A report of a running task. claim: the claim under which it runs, '' for any claim. progress: a share from 0 to
    1, None leaves it as it is. message: '' leaves it as it is. log: texts to add.
    """

    task: str
    claim: str = ""
    progress: float | None = None
    message: str = ""
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProviderRecord(Named):
    """A provider: a named source of data, the worker that answers questions to it, and the user who owns it."""

    id: str
    full: str
    schema: str
    content_type: str
    worker: str
    user: str
    created_us: int


@dataclass(frozen=True)
class JobRequest:
    """A job as a worker registers it. worker: None has a new worker made. incarnation: the process that is the worker.
    max_attempts, backoff_ms: for tasks that are submitted without a choice of their own. validate: refuse a payload
    that does not fit the schema. needs: the slots that each task needs, a `BundleWish.text`, '' for none. limits: on
    its tasks, JSON as `lua/job_limits.lua` has it, '' for none.
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
    validate: bool = False
    needs: str = ""
    limits: str = ""


@dataclass(frozen=True)
class ProviderRequest(JobRequest):
    """A provider as a worker registers it; `content_type` is that of its answers."""

    content_type: str = "application/json"


@dataclass(frozen=True)
class Options:
    """The options of a submit.

    priority: each point puts the task a second further forward in the queue. due_us: the task is not claimed before
    this time. max_attempts, backoff_ms: a task that fails is tried again after a pause that doubles with each attempt,
    up to an hour. as_the_job: those two are as the job was registered with. max_silence_ms: how long the task may
    report nothing while it runs, 0 for ever. unique_key: a submit with this key, to the same job in the same room,
    makes no new task while an earlier task with it is open, or completed and submitted less than unique_ms ago. after:
    the tasks that must end first; the task fails when one of them is not completed, unless run_on_failure is set.
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
    """A worker's report of the status of a task. claim: the claim under which it holds the task, '' for any claim.
    status: `pending` gives the task back to the queue. value: JSON of the result of a completed task, '' for none.
    retry: False for a failure that no further attempt can mend.
    """

    task: str
    status: str
    error: str = ""
    claim: str = ""
    value: str = ""
    retry: bool = True

    @property
    def texts(self) -> tuple[str, str, str, str, str]:
        """Return the report as `tasks/finish` takes it."""
        status = self.status if self.retry or self.status != "failed" else "unfit"
        return self.task, status, self.error, self.claim, self.value


@dataclass(frozen=True)
class Claim:
    """The options of a claim of at most `most` tasks. start: the tasks become `running` at once. max_runtime_ms: a task
    that runs longer fails, 0 for no limit. request: for a minute, the same request id is answered with the same tasks.
    final: an answer without tasks is remembered for the request id too. incarnation: the process that is the worker.
    holder: who holds the slots of the tasks, a `LeaseHolder.text`, '' where the caller may borrow none.
    """

    most: int = 1
    start: bool = False
    max_runtime_ms: int = 0
    request: str = field(default="")
    final: bool = True
    incarnation: str = ""
    holder: str = field(default="", repr=False)


class Lacking(NamedTuple):
    """What a claim lacks: the job that has tasks, the slots that each needs (`BundleWish.text`), and the ticket under
    which the worker waits for them."""

    job: str
    needs: str
    ticket: str


class ReturnedValue(NamedTuple):
    """A value that a handler returned: its JSON, '' for None, and a parsed copy, which the handler cannot change."""

    text: str = ""
    document: Any = None


def value_of(returned: Any, most: int = MOST_RESULT_BYTES) -> ReturnedValue:
    """Return the `ReturnedValue` of what a handler returned; raises ValueError, with a sentence for the author of the
    handler, when it is not JSON, longer than `most` bytes or nested too deeply.
    """
    if callable(dump := getattr(returned, "model_dump", None)):
        returned = dump(mode="json")
    if returned is None:
        return ReturnedValue()
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
        return ReturnedValue(text, returned)
    document = json.loads(text)
    if text.count("[") + text.count("{") > MOST_LEVELS and _levels(document) > MOST_LEVELS:
        raise ValueError(f"the result has more than {MOST_LEVELS} levels: return something flatter")
    return ReturnedValue(text, document)


def _levels(document: Any) -> int:
    """Return how many levels of lists and objects are nested in a document."""
    deep, level = 0, [document]
    while level := [each for each in level if isinstance(each, dict | list)]:
        deep += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return deep
