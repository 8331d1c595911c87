"""The data of tasks in the SDK: their state, reports on them, errors for their ends, and options of submitters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from traceback import TracebackException
from typing import Any, Literal, TypedDict

from hub.client.bundle import Part
from hub.client.exchange import readable
from hub.client.slot import LentSlot
from hub.errors import HubError
from hub.jobs.models import TERMINAL, ReturnedValue

# The most characters of the reason for a failure; the rest is cut off.
LONGEST_REASON = 4000
SHORT_REASON = 200  # when the hub found a report with a longer one too large
MOST_HELD = 1000
NOTHING = ReturnedValue()


class Category(StrEnum):
    """The categories of jobs, unless the hub is set up with others."""

    MODIFIER = "modifiers"
    SELECTION = "selections"
    ANALYSIS = "analysis"


@dataclass(frozen=True, slots=True)
class InternalJob:
    """An `@internal` job: the JSON schema of its payload, and the function that runs a task of it.

    `execute(payload, room_id, task_id)` may be a plain function or a coroutine function. The task is completed when the
    function returns, and failed with the text of the exception when it raises. The value that it returns is the result
    of the task, where it is JSON and not too large.
    """

    schema: Mapping[str, Any]
    execute: Callable[[dict[str, Any], str, str], Any]


class TaskEnded(HubError):
    """The error for a task that has ended without a result; its fact `task` is the id of the task."""

    code = "task-ended"
    status = 0


class TaskFailed(TaskEnded):
    """The error for a task that has failed; its detail is the `error` of the task."""

    code = "task-failed"


class TaskCancelled(TaskEnded):
    """The error for a task that was cancelled."""

    code = "task-cancelled"


class ResultLost(TaskEnded):
    """The error for a completed task whose result the store has lost."""

    code = "result-lost"


class TermsOptions(TypedDict, total=False):
    """What a job says about all its tasks; each is optional, and that of the latest registration counts."""

    needs: Sequence[Part]
    """The slots that a claim takes together with each task, in parts as `HubClient.borrow_all` takes them."""
    same_node: bool
    """Whether these are to be on one node."""
    limits: Sequence[Mapping[str, Any]]
    """How many tasks may run at once, or start within a time, for each value that their payloads have at a path
    `key`, or without one in all: `{"key": "customer", "running": 3}`, `{"rate": "100/m"}`."""


class CommonTaskOptions(TypedDict, total=False):
    """The options that programs and schedules have in common when they submit a task; each is optional."""

    priority: int
    """From -100 to 100; a point counts as a second in the queue."""
    max_attempts: int
    """How often the task is tried when it fails; once unless given."""
    backoff: float
    """Seconds before the second attempt; the wait doubles with each further one, up to an hour."""
    max_silence: float
    """A running task that reports nothing (`task.progress`, `task.log`) for this many seconds fails, or is tried again
    while it has attempts left."""
    unique_key: str
    """At most one task of the job in the room has this key: while one does, another submit returns that task, and a
    schedule submits none."""
    unique_for: float
    """A completed task keeps its `unique_key` for this many seconds after its submit; unless given, only until it is
    completed."""


class SubmitOptions(CommonTaskOptions, total=False):
    """The options of a submitter; each is optional."""

    not_before: datetime
    """No worker gets the task before this time, which must have an offset from UTC."""
    after: Sequence[str]
    """The ids of up to 100 tasks; this task waits until they have ended."""
    on_failure: Literal["fail", "run"]
    """What happens to the task when one of the tasks in `after` is not completed: it fails (`fail`, the default), or
    runs nevertheless (`run`)."""
    idempotency_key: str
    """A second submit of the same tasks with the same key within 24 hours returns the tasks of the first."""


class ScheduleOptions(CommonTaskOptions, total=False):
    """The options of a schedule: the times, given by `cron` or by `every`, and the options of its tasks."""

    cron: str
    """Minute, hour, day of month, month and day of week: `30 2 * * mon-fri`."""
    every: float
    """Seconds between two tasks, in place of `cron`."""
    zone: str
    """The time zone of `cron`; UTC unless given."""
    catch_up: Literal["skip", "one", "all"]
    """Which of the times that passed while no hub ran still get a task: none, the latest (the default), or the latest
    100."""


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as the hub describes it at one moment."""

    id: str
    job_name: str
    room_id: str
    status: str
    payload: dict[str, Any]
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    worker_id: str | None = None
    error: str | None = None
    queue_position: int | None = None
    attempt: int = 1
    max_attempts: int = 1
    claim: str = ""
    """The id of the claim under which a worker holds the task; its reports name this claim and count for no other."""
    result: Any = None
    """The result of a completed task, in an answer about this task alone; `JobsClient.result` waits for it."""
    result_lost: bool = False
    """True when the task had a result, and the store has lost it."""
    progress: float | None = None
    """The last share that the task has reported, from 0 to 1, with `message`; in an answer about this task alone."""
    message: str | None = None
    progress_at: datetime | None = None
    log: tuple[str, ...] = ()
    """The latest lines of the log of the task."""
    slots: tuple[LentSlot, ...] = ()
    """The slots that came with the task, for the worker that has claimed it."""
    slot_ids: tuple[str, ...] = ()
    """The ids of the slots that the task has, in the answer to a claim and in one about this task alone."""

    @property
    def finished(self) -> bool:
        """Return whether the task is completed, failed or cancelled: then it never changes again."""
        return self.status in TERMINAL

    @property
    def ok(self) -> bool:
        """Return whether the task is completed."""
        return self.status == "completed"

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> TaskInfo:
        """Return the task that an answer describes; raises `HubError` when the answer is no task."""
        with readable():
            values = {
                name: read(data[member]) for name, (member, read) in _MEMBERS.items() if data.get(member) is not None
            }
            return cls(**{"payload": {}, **values, "result": data.get("result"), "progress": data.get("progress")})


# The member of an answer for each field of a `TaskInfo`, and the function that reads its value.
_MEMBERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{name: (name, str) for name in ("id", "job_name", "room_id", "status", "worker_id", "error", "message", "claim")},
    **{name: (name, datetime.fromisoformat) for name in ("created_at", "started_at", "completed_at", "progress_at")},
    "payload": ("payload", dict),
    "queue_position": ("queue_position", int),
    "attempt": ("attempt", int),
    "max_attempts": ("maxAttempts", int),
    "result_lost": ("resultLost", bool),
    "slots": ("slots", lambda slots: tuple(LentSlot(slot) for slot in slots if isinstance(slot, Mapping))),
    "slot_ids": ("slots", lambda slots: tuple(each if isinstance(each, str) else each["browserId"] for each in slots)),
    "log": ("log", lambda lines: tuple(str(line["text"]) for line in lines)),
}


@dataclass(frozen=True, slots=True)
class Report:
    """A report of a worker on a task it holds under a claim; `pending` gives the task back to the queue."""

    task: str
    status: str
    error: str = ""
    claim: str = ""
    value: ReturnedValue = NOTHING
    retry: bool = True
    """False for a failure that no further attempt can mend."""

    @property
    def size(self) -> int:
        """Return about how many bytes the report has on the wire."""
        return 150 + len(self.error.encode()) + len(self.value.text.encode())

    def body(self) -> dict[str, Any]:
        """Return the report in the form of a request body."""
        body = {"id": self.task, "status": self.status, "error": self.error, "claim": self.claim}
        more = {} if self.value.document is None else {"result": self.value.document}
        return {name: value for name, value in body.items() if value} | more | ({} if self.retry else {"retry": False})

    def shorter(self) -> Report:
        """Return a smaller report: without its result, as a failure that says why, or with its error cut."""
        if not self.value.text:
            return replace(self, error=self.error[:SHORT_REASON])
        why = (
            f"the result has {len(self.value.text.encode())} bytes, which the hub, or a proxy before it, does not take"
        )
        return Report(self.task, "failed", f"{why}: store it elsewhere and return a reference to it", self.claim)


@dataclass(frozen=True, slots=True)
class Held:
    """The tasks of a worker with their claims, and the keys of its claims that are not answered yet."""

    tasks: Mapping[str, str]
    claims: Sequence[str] = ()

    def body(self, incarnation: str) -> dict[str, Any] | None:
        """Return the body of a heartbeat; None when there are too many tasks, or one has no claim (of an old hub)."""
        if len(self.tasks) > MOST_HELD or not all(self.tasks.values()):
            return None
        return {
            "tasks": [{"id": id_, "claim": claim} for id_, claim in self.tasks.items()],
            "claims": list(self.claims),
            "incarnation": incarnation,
        }


def reason(error: BaseException) -> str:
    """Return why a task failed, for its record: the text of the exception, or its name where it has no text."""
    return sayable(text_of(error) or repr(error))


def text_of(error: BaseException) -> str:
    """Return the text of an exception, or a note in its place where making the text fails."""
    return str(TracebackException(type(error), error, None, limit=0))


def sayable(text: str) -> str:
    """Return a text cut to the length that a report takes, with surrogates escaped, which file names may hold."""
    return text[:LONGEST_REASON].encode("utf-8", "backslashreplace").decode()[:LONGEST_REASON]
