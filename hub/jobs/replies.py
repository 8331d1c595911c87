"""Replies of scripts about tasks, made into records."""

from __future__ import annotations

from typing import Any

from hub.jobs.models import TaskInFull, TaskRecord


def task_of(reply: Any) -> TaskRecord:
    """Return the task that a reply of `lua/job_queue.lua` describes."""
    (
        task, job, room, status, at, user, started, done, worker, error, attempt, most, priority, due, payload, place,
        claim, waits_for, slots,
    ) = reply  # fmt: skip
    return TaskRecord(
        id=task,
        job=job,
        room=room,
        status=status,
        created_us=int(at),
        payload=payload,
        user=user,
        started_us=int(started) if started else None,
        completed_us=int(done) if done else None,
        worker=worker or None,
        error=error or None,
        position=place or None,
        attempt=int(attempt or 1),
        max_attempts=int(most or 1),
        priority=int(priority or 0),
        due_us=int(due) if due else None,
        claim=claim,
        waits_for=waits_for or 0,
        slots=slots,
    )


def shown_of(task: Any, result: str, progress: list[str], after: list[str]) -> TaskInFull:
    """Return a task with its result, the tasks it waits for (`after`), and its progress from `lua/progress.lua`."""
    share, message, at, silence, *log = progress
    split = (text.partition(" ") for text in log)
    return TaskInFull(
        task_of(task),
        result,
        after=tuple(sorted(after)),
        progress=float(share) if share else None,
        message=message,
        reported_us=int(at) if at else None,
        max_silence_ms=int(silence or 0),
        log=tuple((int(at), text) for at, _, text in split),
    )
