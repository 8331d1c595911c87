"""`hub jobs`, `workers`, `tasks`, `submit`, `cancel` and `retry`: the jobs API on the command line."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

import typer

from hub.cli import completing, output, tables
from hub.cli.child import Signals
from hub.cli.job_inputs import (
    EndedTask,
    FullName,
    OpenTask,
    Room,
    Token,
    read_full_name,
    read_key,
    read_moment,
    read_payload,
    read_uuid,
)
from hub.cli.jobs_api import JobsApi, JobsCaller, caller, jobs_api
from hub.cli.options import AsJson, Limit, Secret, Url
from hub.cli.times import when
from hub.errors import HubError, Unavailable
from hub.jobs.models import TERMINAL
from hub.jobs.names import GLOBAL, parse_full_name

OnFailure = Literal["fail", "run"]
Status = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]
Row = dict[str, Any]
After = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TASK",
        help="It waits until this task is over; repeat it for several.",
        autocompletion=completing.tasks_open,
    ),
]

WAIT_S = 30  # asked for at a time
PAUSE_S = 1.0  # before a hub is asked again that does not let anybody wait, or does not answer

_JOB_COLUMNS = ("JOB", "WORKERS")
_WORKER_COLUMNS = ("WORKER", "LAST BEAT", "JOBS")
_TASK_COLUMNS = ("TASK", "STATUS", "JOB", "ROOM", "SUBMITTED", "STARTED", "ENDED", "POSITION", "WORKER", "ERROR")
_LESS_WANTED = ("STARTED", "WORKER", "ENDED", "ROOM", "POSITION")


def jobs(
    job: Annotated[
        str | None,
        typer.Argument(
            parser=read_full_name,
            metavar="[JOB]",
            help="Only this one, with its schema.",
            autocompletion=completing.jobs,
        ),
    ] = None,
    room: Room = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> None:
    """Show the jobs that are seen from a room, newest first; without --room those of @global."""
    if job is not None:
        _show_job(as_json, asyncio.run(_job(caller(url, secret, token), room or _room_of(job), job)))
        return
    where = ("rooms", room or GLOBAL, "jobs")
    found = asyncio.run(_pages(caller(url, secret, token), limit, "fullName", where))
    show(as_json, "jobs", found, _JOB_COLUMNS, _job_row, numbers=("WORKERS",))


def workers(
    room: Room = None,
    limit: Limit = 1000,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> None:
    """Show all workers, newest first; with --room those of the jobs that are seen from it."""
    where = ("workers",) if room is None else ("rooms", room, "workers")
    found = asyncio.run(_pages(caller(url, secret, token), limit, "id", where))
    show(as_json, "workers", found, _WORKER_COLUMNS, _worker_row, numbers=("JOBS",))


def tasks(
    task: Annotated[
        str | None,
        typer.Argument(
            parser=read_uuid,
            metavar="[TASK]",
            help="Only this one, with its result, progress and log.",
            autocompletion=completing.tasks,
        ),
    ] = None,
    room: Room = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job", parser=read_full_name, metavar="JOB", help="Only of this job.", autocompletion=completing.jobs
        ),
    ] = None,
    status: Annotated[Status | None, typer.Option(help="Only in this status.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> None:
    """Show the tasks submitted to a room, newest first; without --room to that of the job, else to @global."""
    if task is not None:
        show_task(as_json, asyncio.run(_task(caller(url, secret, token), task)))
        return
    if job is None:
        where = ["rooms", room or GLOBAL, "tasks"]
    else:
        where = ["rooms", room or _room_of(job), "jobs", job, "tasks"]
    found = asyncio.run(_pages(caller(url, secret, token), limit, "id", where, status=status))
    show_tasks(as_json, found)


def submit(
    job: FullName,
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="A JSON object; - reads it from stdin.")] = "{}",
    room: Room = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until the task has ended; 1 unless it was completed.")] = False,
    priority: Annotated[
        int | None, typer.Option(min=-100, max=100, help="A point of it counts as a second in the queue.")
    ] = None,
    not_before: Annotated[
        str | None, typer.Option(parser=read_moment, metavar="TIME", help="Not before this time, in ISO 8601.")
    ] = None,
    max_attempts: Annotated[int | None, typer.Option(min=1, max=100, help="Try again when it fails.")] = None,
    max_silence: Annotated[
        float | None, typer.Option(min=1, help="Seconds it may run and say nothing before it fails.")
    ] = None,
    unique_key: Annotated[
        str | None, typer.Option(help="The task that stands for this key is shown instead, where there is one.")
    ] = None,
    unique_for: Annotated[
        float | None, typer.Option(min=0, help="Seconds from its submit for which a completed task stands for its key.")
    ] = None,
    after: After = None,
    on_failure: Annotated[
        OnFailure | None, typer.Option(help="What becomes of it when one of those is not completed.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(parser=read_key, metavar="KEY", help="The same key within 24 h gets the same task.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    secret: Secret = None,
    token: Token = None,
) -> int:
    """Submit a task to a job and print its id; without --room to the room of the job."""
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
    return asyncio.run(_submit(caller(url, secret, token), where, wanted, key, as_json, wait=wait))


def cancel(
    task: OpenTask, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None
) -> None:
    """Cancel a task that has not ended. A worker of the SDK hears of it within a second, others when they report."""
    answer = asyncio.run(_cancel(caller(url, secret, token), task))
    if as_json:
        output.put_json(answer)
    else:
        output.put(f"{answer.get('id')} is cancelled.")


def retry(
    task: EndedTask, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None
) -> None:
    """Submit a task that failed or was cancelled once more, as a new one, and print the id of that."""
    answer = asyncio.run(ask_to_retry(caller(url, secret, token), task))
    if as_json:
        output.put_json(answer)
    else:
        output.put(str(answer.get("id")))


async def _job(who: JobsCaller, room: str, job: str) -> Row:
    async with jobs_api(who) as api:
        return await api.ask("GET", "rooms", room, "jobs", job)


def _show_job(as_json: bool, job: Row) -> None:
    if as_json:
        output.put_json(job)
        return
    workers = job.get("workers") or ()
    schemas = ("SCHEMA", _json(job.get("schema") or None)), ("RESULTS", _json(job.get("resultSchema")))
    tables.put_facts((("JOB", job.get("fullName")), ("WORKERS", len(workers)), *schemas))
    if workers:
        output.put("")
        tables.put_table(("WORKER",), [(worker,) for worker in workers])


async def _task(who: JobsCaller, task: str) -> Row:
    async with jobs_api(who) as api:
        return await api.ask("GET", "tasks", task)


def show_task(as_json: bool, task: Row) -> None:
    """One task, and its log below it."""
    if as_json:
        output.put_json(task)
        return
    tables.put_facts((name, value) for name, value in _task_facts(task) if value is not None)
    for said in task.get("log", ()):
        output.put(output.one_line(f"{when(said.get('at'))}  {said.get('text')}"))


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


def show_tasks(as_json: bool, found: tuple[int, list[Row]], what: str = "tasks") -> None:
    """Tasks, one a line."""
    show(as_json, "tasks", found, _TASK_COLUMNS, _task_row, ("POSITION",), _LESS_WANTED, what)


def show(
    as_json: bool,
    noun: str,
    found: tuple[int, list[Row]],
    columns: Sequence[str],
    row: Callable[[Row], Iterable[Any]],
    numbers: Sequence[str] = (),
    expendable: Sequence[str] = (),
    what: str = "",
) -> None:
    """How many there are and those that were asked for; `what` they are called where it is not `noun`."""
    (total, rows), what = found, what or noun
    if as_json:
        output.put_json({"total": total, noun: rows})
    elif rows:
        tables.put_table(columns, [tuple(row(each)) for each in rows], numbers=numbers, expendable=expendable)
    else:
        output.put(f"No {what}.")
    if total > len(rows) and rows:
        output.note(f"{len(rows)} of {total} {what} shown; --limit shows more.")


async def ask_to_retry(who: JobsCaller, task: str) -> Row:
    """The new task, the same one however often it has to be asked for."""
    async with jobs_api(who) as api:
        headers = {"idempotency-key": secrets.token_hex(16)}
        return await api.ask("POST", "tasks", task, "retry", headers=headers)


async def _pages(who: JobsCaller, limit: int, name: str, where: Sequence[str], **query: Any) -> tuple[int, list[Row]]:
    async with jobs_api(who) as api:
        return await api.pages(limit, name, *where, **query)


async def _submit(
    who: JobsCaller, where: Sequence[str], wanted: Row, key: str | None, as_json: bool, *, wait: bool
) -> int:
    async with jobs_api(who) as api:
        headers = {"idempotency-key": key or secrets.token_hex(16)}  # a repeat after a lost answer makes no second task
        task = await api.ask("POST", *where, body=wanted, headers=headers)
        if wait:
            task = await _until_ended(api, str(task.get("id")), as_json)
        elif not as_json:
            output.put(str(task.get("id")))
    if as_json:
        output.put_json(task)
    if not wait or task.get("status") == "completed":
        return 0
    why = f": {task['error']}" if task.get("error") else ""
    output.note(f"the task {'has failed' if task.get('status') == 'failed' else 'was cancelled'}{why}.")
    return 1


async def _until_ended(api: JobsApi, task: str, as_json: bool) -> Row:
    """The task once it has ended; interrupted, it goes on. Once the id is printed, the user may interrupt."""
    current = asyncio.current_task()
    assert current is not None
    told = False
    with Signals(lambda _: current.cancel()):
        try:
            if not as_json:
                output.put(task)
            while True:
                asked = time.monotonic()
                try:
                    found = await api.ask("GET", "tasks", task, headers={"prefer": f"wait={WAIT_S}"}, wait_s=WAIT_S)
                    if found.get("status") in TERMINAL:
                        return found
                except Unavailable as error:
                    if not told:
                        output.note(f"still waiting: {error.detail or error.code}")
                    told = True
                await asyncio.sleep(max(0.0, PAUSE_S - (time.monotonic() - asked)))
        except asyncio.CancelledError:
            raise HubError(f"Interrupted; task {task} goes on.") from None


async def _cancel(who: JobsCaller, task: str) -> Row:
    async with jobs_api(who) as api:
        headers = {"idempotency-key": secrets.token_hex(16)}
        return await api.ask("PATCH", "tasks", task, body={"status": "cancelled"}, headers=headers)


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
