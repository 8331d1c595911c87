"""The answers of the jobs API: each function turns a record of a worker, job, task, schedule or provider into its
shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import orjson

from hub.api.jobs.bodies import Slice
from hub.api.paths import PREFIX
from hub.api.shapes.answer import Answer
from hub.api.shapes.jobs import (
    AtLimitShape,
    ClaimedTaskShape,
    JobShape,
    LimitShape,
    ListedJobShape,
    ListedWorkerShape,
    LoggedShape,
    ProviderShape,
    ScheduleShape,
    TaskInFullShape,
    TaskShape,
    WorkerShape,
)
from hub.api.shapes.leases import GrantShape, PartShape
from hub.capacity.wishes import BundleWish
from hub.jobs.models import LOST, Job, Page, ProviderRecord, TaskInFull, TaskRecord, WorkerRecord
from hub.jobs.names import dashed, time_text
from hub.jobs.schedules import NO_TASK, Schedule
from hub.jobs.terms import JobTerms

R = TypeVar("R")
S = TypeVar("S")


def page(shape: Callable[..., S], found: Page[R], asked: Slice, shown: Callable[[R], Any]) -> S:
    """Return a page of records, each as `shown` shows it."""
    items = [shown(each) for each in found.items]
    return shape(items=items, total=found.total, limit=asked.limit, offset=asked.offset)


def nothing() -> Answer[None]:
    """Return an answer without a body."""
    return Answer(None, 204)


def beaten(worker: str, at_us: int) -> WorkerShape:
    """Return a worker and the time of its last heartbeat, given in microseconds since 1970."""
    return WorkerShape(id=dashed(worker), last_heartbeat=time_text(at_us))


def worker(found: WorkerRecord) -> ListedWorkerShape:
    """Return a worker as an entry of a list of workers."""
    return ListedWorkerShape(id=dashed(found.id), last_heartbeat=time_text(found.beat_us), job_count=found.jobs)


def job(found: Job, terms: JobTerms) -> JobShape:
    """Return a job with its schemas, its workers and its terms."""
    shown = JobShape(
        id=dashed(found.id),
        room_id=found.room,
        category=found.category,
        name=found.name,
        full_name=found.full,
        schema=orjson.Fragment(found.schema),
        workers=[dashed(each) for each in found.workers],
        worker_id=dashed(found.worker) if found.worker else None,
    )
    if found.result_schema:
        shown["resultSchema"] = orjson.Fragment(found.result_schema)
    if needs := BundleWish.read(terms.needs):
        shown["needs"] = [PartShape(label=part.label, where=part.where, count=part.number) for part in needs.parts]
        shown["sameNode"] = needs.same_node
    if terms.limits:
        shown["limits"] = [cast(LimitShape, each.document()) for each in terms.limits]
        shown["atLimit"] = [
            AtLimitShape(
                limit=each.limit, value=each.value, running=each.running, queued=each.queued, waiting=each.waiting
            )
            for each in terms.at_limit
        ]
    return shown


def job_line(found: Job) -> ListedJobShape:
    """Return a job as an entry of a list of jobs."""
    workers = [dashed(each) for each in found.workers]
    return ListedJobShape(full_name=found.full, category=found.category, name=found.name, workers=workers)


def task(found: TaskRecord) -> TaskShape:
    """Return a task. Members of options that were not asked for are left out."""
    shown = TaskShape(
        id=dashed(found.id),
        job_name=found.job,
        room_id=found.room,
        status=found.status,
        created_at=time_text(found.created_us),
        started_at=_time(found.started_us),
        completed_at=_time(found.completed_us),
        worker_id=dashed(found.worker) if found.worker else None,
        error=found.error,
        payload=orjson.Fragment(found.payload),
        queue_position=found.position,
    )
    if found.max_attempts > 1:
        shown["attempt"], shown["maxAttempts"] = found.attempt, found.max_attempts
    if found.priority:
        shown["priority"] = found.priority
    if found.due_us is not None:
        shown["notBefore"] = time_text(found.due_us)
    if found.waits_for:
        others = "a task is" if found.waits_for == 1 else f"{found.waits_for} tasks are"
        shown["waitsFor"], shown["why"] = found.waits_for, f"waits until {others} over"
    return shown


def claimed(found: TaskRecord, slots: list[GrantShape], *, named: bool) -> ClaimedTaskShape:
    """Return a task for the worker that has claimed it, with its slots. With `named` it has the name of the claim,
    which the worker repeats in its reports."""
    shown = cast(ClaimedTaskShape, task(found))  # its further members are all optional
    if named:
        shown["claim"] = found.claim
    if found.slots:
        shown["slots"] = slots
    return shown


def shown(found: TaskInFull, slots: list[str], why: str) -> TaskInFullShape:
    """Return a task in full, with its slots, why the terms of its job keep it, its result and its progress."""
    document = cast(TaskInFullShape, task(found.task))  # its further members are all optional
    if why:
        document["why"] = why
    if slots:
        document["slots"] = slots
    if found.result == LOST:
        document["resultLost"] = True
    elif found.result:
        document["result"] = orjson.Fragment(found.result)
    if found.after:
        document["after"] = [dashed(parent) for parent in found.after]
    if found.max_silence_ms:
        document["maxSilenceSeconds"] = found.max_silence_ms / 1000
    if found.reported_us is not None:
        document["progress"], document["message"] = found.progress, found.message or None
        document["progress_at"] = time_text(found.reported_us)
        document["log"] = [LoggedShape(at=time_text(at_us), text=text) for at_us, text in found.log]
    return document


def schedule(found: Schedule) -> ScheduleShape:
    """Return a schedule with its times, its options, and the last task that it made."""
    options = found.options
    shown = ScheduleShape(
        name=found.name,
        room=found.room,
        job=found.job,
        payload=orjson.Fragment(found.payload),
        catchUp=found.catch_up,
        paused=found.paused,
        createdAt=time_text(found.created_us),
        nextAt=None if found.paused or found.problem else _time(found.due_us),
        lastAt=_time(found.last_us),
        lastTask=dashed(found.task) if found.task else None,
        fired=found.fired,
        why=NO_TASK.get(found.why, found.why) or None,
        problem=found.problem or None,
    )
    rule = found.rule
    if rule.cron:
        shown["cron"], shown["timeZone"] = rule.cron, rule.zone
    else:
        shown["everySeconds"] = rule.every_ms / 1000
    if options.priority:
        shown["priority"] = options.priority
    if not options.as_the_job:
        shown["maxAttempts"], shown["backoffSeconds"] = options.max_attempts, options.backoff_ms / 1000
    if options.max_silence_ms:
        shown["maxSilenceSeconds"] = options.max_silence_ms / 1000
    return shown


def submitted(found: TaskRecord) -> Answer[TaskShape]:
    """Return the answer to a submit: the task, its path in `Location`, and in `Retry-After` when to look again. The
    status is 202, or 200 for a task that existed already."""
    answer = Answer(task(found), 200 if found.stood else 202)
    answer.headers.update({"location": f"{PREFIX}/tasks/{dashed(found.id)}", "retry-after": "1"})
    return answer


def provider(found: ProviderRecord) -> ProviderShape:
    """Return a provider. Its content type is not shown here, but in its answers."""
    return ProviderShape(
        id=dashed(found.id),
        room_id=found.room,
        category=found.category,
        name=found.name,
        full_name=found.full,
        schema=orjson.Fragment(found.schema),
        worker_id=dashed(found.worker),
        created_at=time_text(found.created_us),
    )


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else time_text(at_us)
