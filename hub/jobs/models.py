"""What the jobs API speaks of: workers, jobs, tasks, providers, and which moves a task may make. Pure.

Ids are 32 hex digits, times microseconds since 1970 by the clock of the store, payloads and schemas JSON as sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

STATUSES = ("pending", "claimed", "running", "completed", "failed", "cancelled")
TERMINAL = frozenset(STATUSES[3:])

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some records of a list, newest first, and how many the list has in all."""

    items: list[T]
    total: int


@dataclass(frozen=True)
class Worker:
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
    """A job with the workers linked to it; `worker` is the one that has just registered it."""

    id: str
    full: str
    schema: str
    workers: tuple[str, ...]
    worker: str | None = None


@dataclass(frozen=True)
class Task:
    """A task. `position` counts from 1 among the pending tasks of its job; `due_us` is set while it is put off; `claim`
    names the last claim of it.
    """

    id: str
    job: str
    room: str
    status: str
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


@dataclass(frozen=True)
class Provider(Named):
    """A provider of data and the worker that answers for it."""

    id: str
    full: str
    schema: str
    content_type: str
    worker: str
    user: str
    created_us: int


@dataclass(frozen=True)
class JobWish:
    """A job as a worker registers it; without `worker` a new one is made for it. `incarnation`: the process it is."""

    room: str
    category: str
    name: str
    schema: str = "{}"
    worker: str | None = None
    incarnation: str = ""


@dataclass(frozen=True)
class ProviderWish(JobWish):
    """A provider as a worker registers it."""

    content_type: str = "application/json"


@dataclass(frozen=True)
class Options:
    """What a submitter may ask for beyond the plain submit.

    priority: a point is a second in the queue. due_us: not before this time. max_attempts, backoff_ms: a task that
    fails is tried again after a pause that doubles with each attempt, up to an hour.
    """

    priority: int = 0
    due_us: int = 0
    max_attempts: int = 1
    backoff_ms: int = 1000


@dataclass(frozen=True)
class Result:
    """What a worker says of a task it holds under a claim, '' for any; `pending` gives it back to the queue."""

    task: str
    status: str
    error: str = ""
    claim: str = ""


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
