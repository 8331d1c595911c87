"""`hub jobs`, `workers`, `tasks`, `submit`, `cancel` and `retry`: calls of the jobs API."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from hub.cli import completing, output, tables
from hub.cli.answers import CommandAnswer, Listing, Row
from hub.cli.child import Signals
from hub.cli.command import Work, command
from hub.cli.job_inputs import Room, read_key, read_moment, read_payload
from hub.cli.jobs_api import JobsApi
from hub.cli.options import AsJson, Limit
from hub.cli.times import when
from hub.cli.values import JOB, TASK, EndedTask, FullName, MaxAttempts, OpenTask, Payload, Priority
from hub.errors import HubError, Unavailable
from hub.jobs.models import TERMINAL
from hub.jobs.names import GLOBAL, parse_full_name

Status = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]
After = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TASK",
        help="Start the task after this other task has ended. Repeatable.",
        autocompletion=completing.tasks_open,
    ),
]
MaxSilence = Annotated[
    float | None, typer.Option(min=1, help="Fail the task when it has run for this long without a sign of progress.")
]
UniqueKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="Submit no task while one with this key exists; show that one.")
]
OnFailure = Annotated[
    Literal["fail", "run"] | None,
    typer.Option(help="Fail the task, or run it, when a task of --after was not completed."),
]
Key = Annotated[
    str | None,
    typer.Option(
        parser=read_key, metavar="KEY", help="An idempotency key: the same key within 24 h gets the same task."
    ),
]

WAIT_S = 30  # seconds of one call that waits
PAUSE_S = 1.0  # seconds before the next call, when a hub does not wait or does not answer


@command()
async def jobs(
    api: JobsApi,
    job: Annotated[str | None, JOB.argument("Show only this job, with its schema.")] = None,
    room: Room = None,
    limit: Limit = 1000,
) -> CommandAnswer:
    """Show the jobs that a room can use, newest first. Default: those of @global."""
    if job is None:
        return _JOBS.answer(await api.pages(limit, "fullName", "rooms", room or GLOBAL, "jobs"))
    answer = await api.ask("GET", "rooms", room or _room_of(job), "jobs", job)
    return CommandAnswer(answer, lambda: _put_job(answer))


@command()
async def workers(api: JobsApi, room: Room = None, limit: Limit = 1000) -> CommandAnswer:
    """Show the workers, newest first; with --room those of the jobs that the room can use."""
    where = ("workers",) if room is None else ("rooms", room, "workers")
    return _WORKERS.answer(await api.pages(limit, "id", *where))


@command()
async def tasks(
    api: JobsApi,
    task: Annotated[str | None, TASK.argument("Show only this task, with its result, progress and log.")] = None,
    room: Room = None,
    job: Annotated[str | None, JOB.option("Show only tasks of this job.", "--job")] = None,
    status: Annotated[Status | None, typer.Option(help="Show only tasks in this status.")] = None,
    limit: Limit = 100,
) -> CommandAnswer:
    """Show the tasks of a room, newest first. Default: the room of the job, then @global."""
    if task is not None:
        answer = await api.ask("GET", "tasks", task)
        return CommandAnswer(answer, lambda: _put_task(answer))
    if job is None:
        where = ["rooms", room or GLOBAL, "tasks"]
    else:
        where = ["rooms", room or _room_of(job), "jobs", job, "tasks"]
    return _TASKS.answer(await api.pages(limit, "id", *where, status=status))


@command()
def submit(
    api: JobsApi,
    job: FullName,
    payload: Payload = "{}",
    room: Room = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of the task; exit with 1 unless it was completed.")
    ] = False,
    priority: Priority = None,
    not_before: Annotated[
        str | None,
        typer.Option(parser=read_moment, metavar="TIME", help="Start the task no earlier than this time, in ISO 8601."),
    ] = None,
    max_attempts: MaxAttempts = None,
    max_silence: MaxSilence = None,
    unique_key: UniqueKey = None,
    unique_for: Annotated[
        float | None, typer.Option(min=0, help="Seconds from its submit for which a completed task keeps its key.")
    ] = None,
    after: After = None,
    on_failure: OnFailure = None,
    key: Key = None,
    as_json: AsJson = False,
) -> Work:
    """Submit a task to a job and print its id. Default of --room: the room of the job."""
    wanted: dict[str, Any] = {"payload": read_payload(payload)}
    given = {
        "priority": priority,
        "notBefore": not_before,
        "maxAttempts": max_attempts,
        "maxSilenceSeconds": max_silence,
        "uniqueKey": unique_key,
        "uniqueSeconds": unique_for,
        "after": after or None,
        "onFailure": on_failure,
    }
    wanted |= {name: value for name, value in given.items() if value is not None}
    where = ("rooms", room or _room_of(job), "tasks", job)
    return _submit(api, where, wanted, key, as_json, wait=wait)


@command()
async def cancel(api: JobsApi, task: OpenTask) -> CommandAnswer:
    """Cancel a task. A worker of the SDK learns of it within a second, others when they report."""
    headers = {"idempotency-key": secrets.token_hex(16)}
    answer = await api.ask("PATCH", "tasks", task, body={"status": "cancelled"}, headers=headers)
    return CommandAnswer(answer, f"{answer.get('id')} is cancelled.")


@command()
async def retry(api: JobsApi, task: EndedTask) -> CommandAnswer:
    """Submit a failed or cancelled task again as a new task, and print its id."""
    return await ask_to_retry(api, task)


async def ask_to_retry(api: JobsApi, task: str) -> CommandAnswer:
    """Submit a task again as one new task, even if the call is repeated, and return its id as the answer."""
    answer = await api.ask("POST", "tasks", task, "retry", headers={"idempotency-key": secrets.token_hex(16)})
    return CommandAnswer(answer, str(answer.get("id")))


def _put_job(job: Row) -> None:
    workers = job.get("workers") or ()
    schemas = ("SCHEMA", _json(job.get("schema") or None)), ("RESULTS", _json(job.get("resultSchema")))
    tables.put_facts((("JOB", job.get("fullName")), ("WORKERS", len(workers)), *schemas))
    if workers:
        output.put("")
        tables.put_table(("WORKER",), [(worker,) for worker in workers])


def _put_task(task: Row) -> None:
    tables.put_facts((name, value) for name, value in _task_facts(task) if value is not None)
    for line in task.get("log", ()):
        output.put(output.one_line(f"{when(line.get('at'))}  {line.get('text')}"))


def _task_facts(task: Row) -> Iterable[tuple[str, Any]]:
    yield "TASK", task.get("id")
    yield "STATUS", task.get("status")
    yield "JOB", task.get("jobName")
    yield "ROOM", task.get("roomId")
    yield "POSITION", task.get("queuePosition")
    yield "WHY", task.get("why")
    yield "ATTEMPT", f"{task['attempt']} of {task.get('maxAttempts')}" if task.get("attempt") else None
    for name, member in (("SUBMITTED", "createdAt"), ("STARTED", "startedAt"), ("ENDED", "completedAt")):
        yield name, when(task[member]) if task.get(member) else None
    yield "WORKER", task.get("workerId")
    if task.get("progress") is not None or task.get("message"):
        share = "" if task.get("progress") is None else f"{task['progress']:.0%} "
        yield "PROGRESS", f"{share}{task.get('message') or ''}".strip()
        yield "SAID AT", when(task.get("progressAt"))
    yield "ERROR", task.get("error")
    yield "PAYLOAD", json.dumps(task.get("payload"), ensure_ascii=False)
    yield "RESULT", "lost" if task.get("resultLost") else _json(task.get("result"))


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


async def _submit(
    api: JobsApi, where: Sequence[str], wanted: Row, key: str | None, as_json: bool, *, wait: bool
) -> CommandAnswer:
    headers = {"idempotency-key": key or secrets.token_hex(16)}  # so that a repeat of the call makes no second task
    task = await api.ask("POST", *where, body=wanted, headers=headers)
    if not wait:
        return CommandAnswer(task, str(task.get("id")))
    task = await _until_ended(api, str(task.get("id")), as_json)
    if task.get("status") == "completed":
        return CommandAnswer(task, None)
    why = f": {task['error']}" if task.get("error") else ""
    ended = "has failed" if task.get("status") == "failed" else "was cancelled"
    return CommandAnswer(task, None, [f"the task {ended}{why}."], code=1)


async def _until_ended(api: JobsApi, task: str, as_json: bool) -> Row:
    """Print the id of a task, wait until the task has ended, and return it; an interruption ends only the wait."""
    current = asyncio.current_task()
    assert current is not None
    noted = False
    with Signals(lambda _: current.cancel()):
        try:
            if not as_json:
                output.put(task)
            while True:
                asked = time.monotonic()
                try:
                    answer = await api.ask("GET", "tasks", task, headers={"prefer": f"wait={WAIT_S}"}, wait_s=WAIT_S)
                    if answer.get("status") in TERMINAL:
                        return answer
                except Unavailable as error:
                    if not noted:
                        output.note(f"still waiting: {error.detail or error.code}")
                    noted = True
                await asyncio.sleep(max(0.0, PAUSE_S - (time.monotonic() - asked)))
        except asyncio.CancelledError:
            raise HubError(f"Interrupted; task {task} goes on.") from None


def _room_of(full: str) -> str:
    parts = parse_full_name(full)
    assert parts is not None
    return parts[0]


def _job_row(job: Row) -> Iterable[Any]:
    return job.get("fullName"), len(job.get("workers") or ())


def _worker_row(worker: Row) -> Iterable[Any]:
    return worker.get("id"), when(worker.get("lastHeartbeat")), worker.get("jobCount")


def _task_row(task: Row) -> Iterable[Any]:
    return (
        task.get("id"), task.get("status"), task.get("jobName"), task.get("roomId"),
        *(when(task.get(name)) for name in ("createdAt", "startedAt", "completedAt")),
        task.get("queuePosition"), task.get("workerId"), task.get("error"),
    )  # fmt: skip


_JOBS = Listing("jobs", ("JOB", "WORKERS"), _job_row, numbers=("WORKERS",))
_WORKERS = Listing("workers", ("WORKER", "LAST BEAT", "JOBS"), _worker_row, numbers=("JOBS",))
_TASKS = Listing(
    "tasks",
    ("TASK", "STATUS", "JOB", "ROOM", "SUBMITTED", "STARTED", "ENDED", "POSITION", "WORKER", "ERROR"),
    _task_row,
    numbers=("POSITION",),
    expendable=("STARTED", "WORKER", "ENDED", "ROOM", "POSITION"),
)
DEAD_LETTERS = replace(_TASKS, called="dead letters")
