"""The shapes of answers to workers, submitters and readers of the jobs API."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc
from hub.api.shapes.leases import GrantShape, PartShape
from hub.jobs.models import Outcome, Status

Count = Annotated[int, doc("How many there are in all.", 42, ge=0)]
Limit = Annotated[int, doc("How many were asked for.", 50, ge=0)]
Offset = Annotated[int, doc("From which on.", 0, ge=0)]
Workers = Annotated[list[w.Uuid], doc("The workers that serve it.", [w.WORKER])]


class WorkerShape(TypedDict):
    """A worker that is alive."""

    id: w.WorkerId
    last_heartbeat: w.Moment
    lost: NotRequired[Annotated[list[w.Uuid], doc("Of the tasks it named those that are not its own any more.", [])]]


class ListedWorkerShape(TypedDict):
    """A worker, as a list of workers shows it."""

    id: w.WorkerId
    last_heartbeat: w.Moment
    job_count: Annotated[int, doc("How many jobs it serves.", 2, ge=0)]


class WorkerPageShape(TypedDict):
    """A page of workers."""

    items: Annotated[list[ListedWorkerShape], doc("The workers, newest first.", [])]
    total: Count
    limit: Limit
    offset: Offset


class TakenShape(TypedDict):
    """The number of tasks that were taken from a worker."""

    id: w.WorkerId
    taken: Annotated[int, doc("How often.", 1, ge=0)]


class LimitShape(TypedDict):
    """A limit on the tasks of a job."""

    key: NotRequired[
        Annotated[str, doc("The path into the payload; left out where it is for the job as a whole.", "customer")]
    ]
    running: NotRequired[Annotated[int, doc("How many may run at once, where it says so.", 3, ge=1)]]
    rate: NotRequired[Annotated[str, doc("How many may start within a time, where it says so.", "100/m")]]


class AtLimitShape(TypedDict):
    """Tasks that a limit keeps from running."""

    limit: Annotated[int, doc("The limit: its number in `limits`, from 0.", 0, ge=0)]
    value: Annotated[str, doc("What their payloads have at its key; empty for nothing, and without a key.", "acme")]
    running: Annotated[int, doc("How many run, or have started within the time of a rate.", 3, ge=0)]
    queued: Annotated[int, doc("How many more it has let into the queue, where they wait for a worker.", 0, ge=0)]
    waiting: Annotated[int, doc("How many it keeps.", 12, ge=0)]


class JobShape(TypedDict):
    """A job in full."""

    id: w.Uuid
    room_id: w.Room
    category: w.Category
    name: w.Name
    full_name: w.FullName
    schema: w.Schema
    workers: Workers
    worker_id: Annotated[str | None, doc("The worker that registered it.", w.WORKER)]
    resultSchema: NotRequired[
        Annotated[
            w.Object, doc("The JSON Schema of what its tasks come to, where a worker said it.", {"type": "object"})
        ]
    ]
    needs: NotRequired[Annotated[list[PartShape], doc("The slots that each of its tasks needs, where it does.", [])]]
    sameNode: NotRequired[Annotated[bool, doc("Whether these are to be on one node.", False)]]
    limits: NotRequired[Annotated[list[LimitShape], doc("The limits on its tasks, where it has any.", [])]]
    atLimit: NotRequired[
        Annotated[list[AtLimitShape], doc("Where those keep tasks: 100 of them at most, the longest first.", [])]
    ]


class ListedJobShape(TypedDict):
    """A job, as a list of jobs shows it."""

    full_name: w.FullName
    category: w.Category
    name: w.Name
    workers: Workers


class JobDemandShape(TypedDict):
    """The number of tasks of a job that there are to work on."""

    job: w.FullName
    pending: Annotated[int, doc("How many of its tasks can be claimed.", 7, ge=0)]
    putOff: Annotated[int, doc("How many of its tasks are not due yet.", 1, ge=0)]
    held: Annotated[int, doc("How many of its tasks are claimed or run.", 4, ge=0)]
    workers: Annotated[int, doc("How many workers serve it; executors of `@internal` jobs are none.", 1, ge=0)]
    runSeconds: Annotated[
        float | None, doc("How long its tasks ran that ended of late, a moving mean; null until one has.", 2.5, ge=0)
    ]
    desired: Annotated[int, doc("How many tasks there should be room for.", 11, ge=0)]
    truncated: Annotated[
        bool, doc("Its workers hold so much that `held` and `desired` are the least there may be.", False)
    ]


class JobPageShape(TypedDict):
    """A page of jobs."""

    items: Annotated[list[ListedJobShape], doc("The jobs, newest first.", [])]
    total: Count
    limit: Limit
    offset: Offset


class TaskShape(TypedDict):
    """A task."""

    id: w.TaskId
    job_name: Annotated[str, doc("The full name of its job.", w.JOB)]
    room_id: w.Room
    status: Annotated[Status, doc("How far it is.", "pending")]
    created_at: w.Moment
    started_at: Annotated[
        str | None, doc("When it began to run.", "2026-01-02T03:04:06.000000Z", json_schema_extra=w.DATE_TIME)
    ]
    completed_at: Annotated[
        str | None, doc("When it ended.", "2026-01-02T03:04:09.000000Z", json_schema_extra=w.DATE_TIME)
    ]
    worker_id: Annotated[str | None, doc("The worker that holds it.", w.WORKER)]
    error: Annotated[str | None, doc("Why it failed.", "the scene is empty")]
    payload: w.Payload
    queue_position: Annotated[int | None, doc("Its place in the queue of its job, from 1; null once it is claimed.", 1)]
    attempt: NotRequired[Annotated[int, doc("Which attempt this is, where it may have several.", 1)]]
    maxAttempts: NotRequired[Annotated[int, doc("How many it may have.", 3)]]
    priority: NotRequired[Annotated[int, doc("From -100 to 100; left out when it is 0.", 10)]]
    notBefore: NotRequired[
        Annotated[
            str, doc("Before that it is not claimed.", "2026-01-02T03:04:05.678901Z", json_schema_extra=w.DATE_TIME)
        ]
    ]
    waitsFor: NotRequired[Annotated[int, doc("How many tasks it waits for, where it does.", 2, ge=1)]]
    why: NotRequired[Annotated[str, doc("Why it cannot be claimed, where it waits.", "waits until 2 tasks are over")]]


class ClaimedTaskShape(TaskShape):
    """A task, as the worker that has claimed it is answered."""

    claim: NotRequired[Annotated[str, doc("The name of this claim, which reports repeat.", "1790000000000000")]]
    slots: NotRequired[
        Annotated[
            list[GrantShape],
            doc("Its slots in the order of the needs of its job; their leases end with the task.", []),
        ]
    ]
    traceparent: NotRequired[
        Annotated[
            str,
            doc(
                "The trace it belongs to, where traces are kept.",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            ),
        ]
    ]


class LoggedShape(TypedDict):
    """A line in the log of a task."""

    at: w.Moment
    text: Annotated[str, doc("The line.", "12 of 40 images")]


class TaskInFullShape(TaskShape):
    """A task with its result, its progress and its log."""

    result: NotRequired[
        Annotated[Any, doc("What it came to, any JSON; left out when that is nothing.", {"images": 40})]
    ]
    slots: NotRequired[Annotated[list[str], doc("The slots that it has while a worker holds it.", [w.SLOT])]]
    after: NotRequired[Annotated[list[w.Uuid], doc("The tasks it waits for, where it does.", [w.TASK])]]
    resultLost: NotRequired[Annotated[bool, doc("The result is lost: Redis lost or could not hold it.", True)]]
    maxSilenceSeconds: NotRequired[Annotated[float, doc("How long it may say nothing while it runs.", 60.0)]]
    progress: NotRequired[Annotated[float | None, doc("How far it is, from 0 to 1.", 0.4, ge=0, le=1)]]
    message: NotRequired[Annotated[str | None, doc("What it says of itself.", "step 3")]]
    progress_at: NotRequired[w.Moment]
    log: NotRequired[Annotated[list[LoggedShape], doc("The latest 100 lines it logged.", [])]]


class TaskPageShape(TypedDict):
    """A page of tasks."""

    items: Annotated[list[TaskShape], doc("The tasks, newest first.", [])]
    total: Count
    limit: Limit
    offset: Offset


class ScheduleShape(TypedDict):
    """A schedule."""

    name: Annotated[str, doc("Its name in its room.", "nightly")]
    room: w.Room
    job: w.FullName
    payload: w.Payload
    cron: NotRequired[Annotated[str, doc("When it is due, where it has a cron expression.", "30 2 * * mon-fri")]]
    timeZone: NotRequired[Annotated[str, doc("In which that counts.", "Europe/Berlin")]]
    everySeconds: NotRequired[Annotated[float, doc("How often it is due, where it has none.", 60.0)]]
    catchUp: Annotated[Literal["skip", "one", "all"], doc("What becomes of times that were missed.", "one")]
    paused: Annotated[bool, doc("Whether it makes no tasks.", False)]
    createdAt: w.Moment
    nextAt: Annotated[
        str | None, doc("When it is due next; null for never, paused, or put aside.", "2026-01-03T01:30:00.000000Z")
    ]
    lastAt: Annotated[str | None, doc("When it was due that made its last task.", "2026-01-02T01:30:00.000000Z")]
    lastTask: Annotated[str | None, doc("That task.", w.TASK)]
    fired: Annotated[int, doc("How many tasks it has made.", 3, ge=0)]
    why: Annotated[str | None, doc("Why its last time made no task, where it made none.", "its time was missed")]
    problem: Annotated[
        str | None,
        doc("Why it is put aside: it makes no task until it can be read again, or is replaced.", "no zone US/Eastern"),
    ]
    priority: NotRequired[Annotated[int, doc("Of its tasks; left out when it is 0.", 10)]]
    maxAttempts: NotRequired[Annotated[int, doc("How often a task is tried, where it says so.", 3)]]
    backoffSeconds: NotRequired[Annotated[float, doc("Before the next attempt, where it says so.", 5.0)]]
    maxSilenceSeconds: NotRequired[Annotated[float, doc("How long a task may say nothing while it runs.", 60.0)]]


class SchedulePageShape(TypedDict):
    """A page of schedules."""

    items: Annotated[list[ScheduleShape], doc("The schedules, newest first.", [])]
    total: Count
    limit: Limit
    offset: Offset


class TaskIdsShape(TypedDict):
    """The ids of the tasks that a submit with `payloads` has made."""

    ids: Annotated[list[w.Uuid], doc("One for each payload, in order.", [w.TASK])]


class OutcomeShape(TypedDict):
    """The outcome of a worker's report on a task."""

    id: w.TaskId
    outcome: Annotated[
        Literal[Outcome, "too-large"],
        doc(
            "Anything but `ok`: it changed nothing, as the task is not the worker's; `too-large`: the task failed.",
            "ok",
        ),
    ]


class ClaimedShape(TypedDict):
    """The tasks that a worker has claimed."""

    task: Annotated[ClaimedTaskShape | None, doc("The first of them; null when there is none.", None)]
    tasks: NotRequired[Annotated[list[ClaimedTaskShape], doc("All of them, where a `limit` was given.", [])]]
    results: NotRequired[Annotated[list[OutcomeShape], doc("What has become of the reports, in order.", [])]]


class ProgressedShape(TypedDict):
    """The outcomes of the reports of progress."""

    tasks: Annotated[list[OutcomeShape], doc("One for each, in order.", [])]


class ProviderShape(TypedDict):
    """A provider: a source of data that a worker answers reads for."""

    id: Annotated[str, doc("The id of the provider.", w.TASK, json_schema_extra={"format": "uuid"})]
    room_id: w.Room
    category: w.Category
    name: w.Name
    full_name: w.FullName
    schema: w.Schema
    worker_id: w.WorkerId
    created_at: w.Moment


class ProviderPageShape(TypedDict):
    """A page of providers."""

    items: Annotated[list[ProviderShape], doc("The providers, newest first.", [])]
    total: Count
    limit: Limit
    offset: Offset
