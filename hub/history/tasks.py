"""The explanations of a task and of a job: why a task waits, which worker has it, how it ended, and what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hub.core import Hub
from hub.errors import TaskNotFound
from hub.history.explained import NextStep, Now, seconds
from hub.history.task_terms import Kept, kept_by
from hub.jobs.chains import Links, links_of
from hub.jobs.models import TaskRecord
from hub.jobs.names import INTERNAL, dashed, time_text

_NAMED = 3  # a sentence names this many of the tasks that a task waits for; the facts name all


@dataclass(frozen=True)
class _Around:
    """The facts around a task from the store's indexes: `_ms` by the hub clock, `_us` by the clock of Redis."""

    clock_ms: int
    now_us: int
    runtime_ms: float | None  # when its time to run is over
    ownerless_ms: float | None  # since when no worker holds it
    internal_ms: float | None  # since when an executor runs it, for a task of an @internal job
    beat_ms: float | None  # when its worker's last heartbeat came
    hung_up_ms: float | None  # when its worker is removed because it lost its connection
    dead: bool
    workers: int  # how many workers serve its job
    waiting: int  # how many tasks are in the queue of its job
    links: Links

    def left_ms(self, since_ms: float | None, timeout_ms: float = 0) -> int | None:
        """Return the ms left until `since_ms + timeout_ms` on the hub clock, at least 0; None for no `since_ms`."""
        return None if since_ms is None else max(0, int(since_ms + timeout_ms - self.clock_ms))


async def task_now(hub: Hub, task: str) -> Now | None:
    """Return the present state of a task and its next steps; None for an unknown or forgotten task."""
    try:
        found = await hub.tasks.get(task)
    except TaskNotFound:
        return None
    around = await _around(hub, found)
    facts = {
        "job": found.job,
        "room": found.room,
        "submittedBy": dashed(found.user),
        "submittedUtc": time_text(found.created_us),
        "startedUtc": _time(found.started_us),
        "endedUtc": _time(found.completed_us),
        "worker": dashed(found.worker) if found.worker else None,
        "error": found.error,
        "attempt": found.attempt if found.max_attempts > 1 else None,
        "maxAttempts": found.max_attempts if found.max_attempts > 1 else None,
        "priority": found.priority or None,
        "queuePosition": found.position,
        "notBeforeUtc": _time(found.due_us),
        "deadLetter": around.dead or None,
        "waitsFor": [link.document() for link in around.links.waits_for],
        "waitedForBy": [link.document() for link in around.links.followers],
        "waitedForByMore": around.links.more or None,
    }
    match found.status:
        case "pending":
            kept = await kept_by(hub, found)
            facts |= kept.facts
            because, steps = _pending(found, around, kept)
        case "claimed" | "running":
            because, steps = _held(hub, found, around)
        case _:
            because, steps = _ended(hub, found, around)
    return Now(found.status, because, facts, tuple(steps))


async def _around(hub: Hub, task: TaskRecord) -> _Around:
    keys = hub.store.keys
    worker = task.worker or ""
    clock_ms, now, runtime, ownerless, internal, beat, hung_up, dead, workers, waiting = await hub.store.read_all(
        [
            ("HGET", keys.store, "clock_ms"),
            ("TIME",),
            ("ZSCORE", keys.runtimes, task.id),
            ("ZSCORE", keys.ownerless, task.id),
            ("ZSCORE", keys.internal_tasks, task.id),
            ("ZSCORE", keys.worker_beats, worker),
            ("ZSCORE", keys.hung_up, worker),
            ("ZSCORE", keys.dead, task.id),
            ("SCARD", keys.job_workers(task.job)),
            ("ZCARD", keys.job_queue(task.job)),
        ]
    )
    now_us = int(now[0]) * 1_000_000 + int(now[1])
    return _Around(
        int(clock_ms or 0), now_us, runtime, ownerless, internal, beat, hung_up, dead is not None, workers, waiting,
        await links_of(hub.store, task.id),
    )  # fmt: skip


def _behind(task: TaskRecord, links: Links) -> tuple[str, list[NextStep]]:
    """Return the sentence that explains why a task waits for other tasks, and what will happen to it next."""
    named = [f"{dashed(link.task)} ({link.status})" for link in links.waits_for[:_NAMED]]
    named += [f"{len(links.waits_for) - _NAMED} more"] if len(links.waits_for) > _NAMED else []
    many = len(links.waits_for) > 1
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if many else named[0]
    because = f"It waits for {f'{len(links.waits_for)} tasks' if many else 'a task'}: {listed}"
    because += f", and is put off until {time_text(task.due_us)}." if task.due_us is not None else "."
    rule = "When all of those are completed, it stands in the queue of its job. "
    rule += "It fails as well when one of them fails for the last time or is cancelled."
    if links.run_on_failure:
        rule = "When all of those are over, whatever came of them, it stands in the queue of its job."
    return because, [NextStep("task.queued", rule)]


def _pending(task: TaskRecord, around: _Around, kept: Kept) -> tuple[str, list[NextStep]]:
    if around.links.waits_for:
        return _behind(task, around.links)
    if task.due_us is not None:
        because = f"It is put off until {time_text(task.due_us)}"
        because += f": attempt {task.attempt - 1} of {task.max_attempts} has failed." if task.attempt > 1 else "."
        left_ms = max(0, task.due_us - around.now_us) / 1000
        return because, [NextStep("task.queued", "When it is due it stands in the queue of its job.", int(left_ms))]
    if kept.step:
        because = "; ".join(kept.why)
        return f"{because[0].upper()}{because[1:]}.", [kept.step]
    place = f"It is number {task.position} of {around.waiting} in the queue of {task.job}"
    if not around.workers:
        rule = "When a worker registers its job. Until then it stays, unless it is cancelled (hub cancel)."
        return f"{place}, which no worker serves.", [NextStep("task.claimed", rule)]
    served = "one worker serves" if around.workers == 1 else f"{around.workers} workers serve"
    rule = "When a worker of its job asks for work: it is given the oldest task of all its jobs."
    if kept.why:
        rule = "When a worker of its job asks for work and the slots are free, or come to it in the line of bundles."
    return "; ".join((f"{place}, which {served}", *kept.why)) + ".", [NextStep("task.claimed", rule)]


def _held(hub: Hub, task: TaskRecord, around: _Around) -> tuple[str, list[NextStep]]:
    settings, end, after = hub.settings, *_after_failure(task)
    began = f"runs it since {_time(task.started_us)}" if task.started_us else "has claimed it and not started yet"
    timeout_ms = settings.worker_timeout_s * 1000
    steps = []
    if around.runtime_ms is not None:
        rule = f"Unless it is over by then: its claim allowed it no longer (maxRuntimeSeconds). {after}"
        steps.append(NextStep(end, rule, around.left_ms(around.runtime_ms)))
    if task.job.startswith(f"{INTERNAL}:"):
        timeout_ms = settings.internal_task_timeout_s * 1000
        because = f"An internal worker {began}."
        rule = f"Unless it is over by then: HUB_INTERNAL_TASK_TIMEOUT_SECONDS ({seconds(timeout_ms)}). {after}"
        steps.append(NextStep(end, rule, around.left_ms(around.internal_ms, timeout_ms)))
    elif task.worker is None:
        because = "It was moved by hand, so no worker holds it."
        rule = f"Unless it is moved on by hand: no worker holds it for HUB_WORKER_TIMEOUT_SECONDS. {after}"
        steps.append(NextStep(end, rule, around.left_ms(around.ownerless_ms, timeout_ms)))
    elif around.beat_ms is None:
        because = f"Worker {dashed(task.worker)} held it and is gone."
        steps.append(NextStep(end, f"The tasks of a removed worker fail. {after}", 0))
    else:
        silent = seconds(around.clock_ms - around.beat_ms)
        because = f"Worker {dashed(task.worker)} {began}; its last heartbeat was {silent} ago on the hub clock."
        if around.hung_up_ms is not None:
            rule = f"Unless its worker connects again: HUB_SIO_DISCONNECT_GRACE_SECONDS after it hung up. {after}"
            steps.append(NextStep(end, rule, around.left_ms(around.hung_up_ms)))
        rule = f"Unless its worker beats: silent for HUB_WORKER_TIMEOUT_SECONDS ({seconds(timeout_ms)}) it is removed "
        rule += f"by a sweep, which comes every {settings.worker_sweep_interval_s:g} s. {after}"
        steps.append(NextStep(end, rule, around.left_ms(around.beat_ms, timeout_ms)))
    return because, steps


def _after_failure(task: TaskRecord) -> tuple[str, str]:
    """Return the event that a failure of the task causes, and the sentence that says what follows."""
    if task.attempt < task.max_attempts:
        return "task.retried", f"It is tried again then, as attempt {task.attempt + 1} of {task.max_attempts}."
    if task.max_attempts > 1:
        return "task.failed", "It has failed then: it was its last attempt, and it becomes a dead letter."
    return "task.failed", "It has failed then."


def _ended(hub: Hub, task: TaskRecord, around: _Around) -> tuple[str, list[NextStep]]:
    ended_us = task.completed_us or 0
    because = f"It ended at {time_text(ended_us)}" + (f": {task.error.rstrip('.')}." if task.error else ".")
    steps = []
    if around.dead:
        because += f" All of its {task.max_attempts} attempts are used up, so it is a dead letter."
        rule = "When somebody asks for it: hub dead retry submits it anew, hub dead drop takes it off the list."
        steps.append(NextStep("task.submitted", rule))
    if keep_us := int(hub.settings.task_retention_s * 1_000_000):
        left_ms = max(0, ended_us + keep_us - around.now_us) // 1000
        steps.append(NextStep("task.forgotten", "It is kept for HUB_TASK_RETENTION_SECONDS after its end.", left_ms))
    return because, steps


async def job_now(hub: Hub, full: str) -> Now | None:
    """Return the present state of a job and its next step; None for an unknown or forgotten job."""
    keys = hub.store.keys
    record, workers, waiting, executors = await hub.store.read_all(
        [
            ("HGETALL", keys.job(full)),
            ("SCARD", keys.job_workers(full)),
            ("ZCARD", keys.job_queue(full)),
            ("SISMEMBER", keys.executors, full),
        ]
    )
    if "at" not in record:
        return None
    facts: dict[str, Any] = {
        "id": dashed(record["id"]),
        "registeredUtc": time_text(int(record["at"])),
        "deletedUtc": _time(int(record["deleted"])) if "deleted" in record else None,
        "workers": workers,
        "waiting": waiting,
        "putOff": int(record.get("later", 0)),
        "tasks": int(record.get("tasks", 0)),
    }
    if "deleted" in record:
        because = f"It was soft-deleted at {facts['deletedUtc']}: no worker served it, and no task waited for it."
        steps = [
            NextStep("job.registered", "When a worker registers it, with whatever schema: it keeps its id and tasks.")
        ]
        if hub.settings.task_retention_s:
            rule = "It is kept for HUB_TASK_RETENTION_SECONDS after that, and until its last task is forgotten."
            steps.append(NextStep("job.forgotten", rule))
        return Now("deleted", because, facts, tuple(steps))
    if full.startswith(f"{INTERNAL}:"):
        executed = "Its tasks are executed by" if executors else "No deployment executes it at the moment, by"
        return Now("active", f"{executed} whoever runs hub internal-worker; it is never soft-deleted.", facts)
    if workers:
        served = "One worker serves it" if workers == 1 else f"{workers} workers serve it"
        because = f"{served}, and {waiting} of its tasks {'waits' if waiting == 1 else 'wait'}."
        rule = "When its last worker is gone and no task waits for it: it is soft-deleted."
    elif kept := waiting + facts["putOff"]:
        because = (
            f"No worker serves it; {'a task that waits keeps' if kept == 1 else f'{kept} tasks that wait keep'} it."
        )
        rule = "When all of them have ended, or are cancelled, and no worker has come: it is soft-deleted."
    else:
        because = "No worker serves it, and none of its tasks waits; some are claimed."
        rule = "With the end of one of those, if no worker has come: it is soft-deleted."
    return Now("active", because, facts, (NextStep("job.orphaned", rule),))


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else time_text(at_us)
