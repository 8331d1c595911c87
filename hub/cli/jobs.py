"""`hub job`, `worker`, `provider`, `task`, `submit` and `dead`: calls of the jobs API."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from typer import Option

from hub.cli import completing, output, tables
from hub.cli.answers import Columns, CommandAnswer, Listing, facts, json_of, parts, time_of
from hub.cli.child import interruptible
from hub.cli.command import Group, Work, command
from hub.cli.connection import JobsApi, Row
from hub.cli.inputs import given, read_key, read_moment, read_payload
from hub.cli.options import (
    AS_JSON,
    DEAD_TASK,
    ENDED_TASK,
    FULL_NAME,
    JOB,
    KEY,
    MAX_ATTEMPTS,
    OPEN_TASK,
    PAYLOAD,
    PRIORITY,
    PROVIDER,
    ROOM,
    TASK,
    Input,
    list_limit,
)
from hub.errors import Unavailable
from hub.jobs.models import TERMINAL
from hub.jobs.names import GLOBAL

Status = Literal["pending", "claimed", "running", "completed", "failed", "cancelled"]

WAIT_S = 30  # seconds of one call that waits
PAUSE_S = 1.0  # seconds before the next call, when a hub does not wait or does not answer

dead_app = Group(help="Show dead letters, submit them again, or remove them from the list.")


@command()
async def jobs(
    api: JobsApi,
    job: str | None = JOB.argument("Show only this job, with its schema.", default=None),
    room: str | None = ROOM,
    limit: int = list_limit(1000),
) -> CommandAnswer:
    """Show the jobs that a room can use, newest first. Default: those of @global."""
    if job is None:
        return _JOBS.answer(await _JOBS.ask(api, limit, "rooms", room or GLOBAL, "jobs"))
    answer = await api.get("rooms", room or room_of(job), "jobs", job)
    return CommandAnswer(answer, lambda: _put_job(answer))


@command()
async def workers(api: JobsApi, room: str | None = ROOM, limit: int = list_limit(1000)) -> CommandAnswer:
    """Show the workers, newest first; with --room those of the jobs that the room can use."""
    where = ("workers",) if room is None else ("rooms", room, "workers")
    return _WORKERS.answer(await _WORKERS.ask(api, limit, *where))


@command()
async def providers(api: JobsApi, room: str | None = ROOM, limit: int = list_limit(1000)) -> CommandAnswer:
    """Show the providers that a room can use, newest first. Default: those of @global."""
    return _PROVIDERS.answer(await _PROVIDERS.ask(api, limit, "rooms", room or GLOBAL, "providers"))


@command()
async def provider(
    api: JobsApi, provider: str = PROVIDER.argument("The full name of the provider, ROOM:CATEGORY:NAME.")
) -> CommandAnswer:
    """Show a provider, with its schema."""
    answer = await api.get("rooms", room_of(provider), "providers", provider, "info")
    schema = json_of("schema") if answer.get("schema") else "schema"
    return facts(answer, {**_PROVIDERS.columns, "ID": "id", "SCHEMA": schema})


@command()
async def tasks(
    api: JobsApi,
    task: str | None = TASK.argument("Show only this task, with its result, progress and log.", default=None),
    room: str | None = ROOM,
    job: str | None = JOB.option("Show only tasks of this job.", "--job"),
    status: Status | None = Option(None, help="Show only tasks in this status."),
    limit: int = list_limit(100),
) -> CommandAnswer:
    """Show the tasks of a room, newest first. Default: the room of the job, then @global."""
    if task is not None:
        answer = await api.get("tasks", task)
        return CommandAnswer(answer, lambda: _put_task(answer))
    if job is None:
        where = ["rooms", room or GLOBAL, "tasks"]
    else:
        where = ["rooms", room or room_of(job), "jobs", job, "tasks"]
    return _TASKS.answer(await _TASKS.ask(api, limit, *where, status=status))


@command()
def submit(
    api: JobsApi,
    job: str = FULL_NAME,
    payload: str = PAYLOAD,
    room: str | None = ROOM,
    wait: bool = Option(False, "--wait", help="Wait for the end of the task; exit with 1 unless it was completed."),
    priority: int | None = PRIORITY,
    not_before: str | None = Input("TIME", read_moment).option("Start the task at this time or later, in ISO 8601."),
    max_attempts: int | None = MAX_ATTEMPTS,
    max_silence: float | None = Option(None, min=1, help="Fail the task after this time without a sign of progress."),
    unique_key: str | None = KEY.option("Submit no task while one with this key exists; show that one."),
    unique_for: float | None = Option(
        None, min=0, help="How long after its submit a completed task keeps its unique key."
    ),
    after: list[str] | None = Input("TASK", complete=completing.tasks_open).option(
        "Start after this other task. Repeatable."
    ),
    on_failure: Literal["fail", "run"] | None = Option(
        None, help="Fail the task, or run it, when a task of --after was not completed."
    ),
    key: str | None = Input("KEY", read_key).option("An idempotency key: the same key within 24 h gets the same task."),
    as_json: bool = AS_JSON,
) -> Work:
    """Submit a task to a job and print its id. Default of --room: the room of the job."""
    options = {
        "priority": priority,
        "notBefore": not_before,
        "maxAttempts": max_attempts,
        "maxSilenceSeconds": max_silence,
        "uniqueKey": unique_key,
        "uniqueSeconds": unique_for,
        "after": after or None,
        "onFailure": on_failure,
    }
    body = {"payload": read_payload(payload), **given(options)}
    return _submit(api, ("rooms", room or room_of(job), "tasks", job), body, key, as_json, wait=wait)


@command()
async def cancel(api: JobsApi, task: str = OPEN_TASK) -> CommandAnswer:
    """Cancel a task. A worker of the SDK learns of it within a second, others when they report."""
    headers = {"idempotency-key": secrets.token_hex(16)}
    answer = await api.ask("PATCH", "tasks", task, body={"status": "cancelled"}, headers=headers)
    return CommandAnswer(answer, f"{answer.get('id')} is cancelled.")


@command()
async def retry(api: JobsApi, task: str = ENDED_TASK) -> CommandAnswer:
    """Submit a failed or cancelled task again as a new task, and print its id."""
    return await _retry(api, task)


@dead_app.add("ls")
async def list_dead(api: JobsApi, limit: int = list_limit(100)) -> CommandAnswer:
    """Show the dead letters, newest first."""
    return _DEAD_LETTERS.answer(await _DEAD_LETTERS.ask(api, limit, "dead"))


@dead_app.add("show")
async def show_dead(api: JobsApi, task: str = DEAD_TASK) -> CommandAnswer:
    """Show a dead letter with its payload and its error."""
    return facts(await api.get("dead", task), _DEAD_FACTS)


@dead_app.add("retry")
async def retry_dead(api: JobsApi, task: str = DEAD_TASK) -> CommandAnswer:
    """Submit a dead letter again as a new task, and print its id. The dead letter leaves the list."""
    await api.get("dead", task)  # raises for a task that is no dead letter
    return await _retry(api, task)


@dead_app.add("drop")
async def drop_dead(api: JobsApi, task: str = DEAD_TASK) -> CommandAnswer:
    """Remove a dead letter from the list; its task stays failed."""
    await api.ask("DELETE", "dead", task)
    return CommandAnswer({"id": task, "dropped": True}, f"{task} is no dead letter any more.")


async def _retry(api: JobsApi, task: str) -> CommandAnswer:
    """Submit a task again as one new task, even if the call is repeated, and return its id as the answer."""
    answer = await api.ask("POST", "tasks", task, "retry", headers={"idempotency-key": secrets.token_hex(16)})
    return CommandAnswer(answer, str(answer.get("id")))


def _put_job(job: Row) -> None:
    terms = {name: cell for name, cell in _JOB_TERMS.items() if cell(job)}
    facts(job, {**_JOB_FACTS, **terms}).put(as_json=False)
    if at_limit := job.get("atLimit"):
        limits = [_limit(each) for each in job["limits"]]
        counts = ("running", "queued", "waiting")
        rows = [(limits[each["limit"]], each["value"], *(each[name] for name in counts)) for each in at_limit]
        output.put("")
        heads = tuple(name.upper() for name in counts)
        tables.put_table(("AT LIMIT", "VALUE", *heads), rows, numbers=heads)
    if workers := job.get("workers"):
        output.put("")
        tables.put_table(("WORKER",), [(worker,) for worker in workers])


def _limit(limit: Row) -> str:
    what = f"{limit['running']} running" if limit.get("running") else str(limit.get("rate"))
    return what + (f" by {limit['key']}" if limit.get("key") else "")


def _put_task(task: Row) -> None:
    facts(task, _TASK_FACTS, only_known=True).put(as_json=False)
    for line in task.get("log", ()):
        output.put_line(f"{output.when(line.get('at'))}  {line.get('text')}")


def _progress(task: Row) -> str:
    share = "" if task.get("progress") is None else f"{task['progress']:.0%} "
    return f"{share}{task.get('message') or ''}".strip()


async def _submit(
    api: JobsApi, path: tuple[str, ...], body: Row, key: str | None, as_json: bool, *, wait: bool
) -> CommandAnswer:
    headers = {"idempotency-key": key or secrets.token_hex(16)}  # so that a repeat of the call makes no second task
    task = await api.ask("POST", *path, body=body, headers=headers)
    name = str(task.get("id"))
    if not wait:
        return CommandAnswer(task, name)
    with interruptible(f"Interrupted; task {name} goes on."):
        if not as_json:
            output.put(name)
        task = await _until_ended(api, name)
    if task.get("status") == "completed":
        return CommandAnswer(task, None)
    why = f": {task['error']}" if task.get("error") else ""
    ended = "has failed" if task.get("status") == "failed" else "was cancelled"
    return CommandAnswer(task, None, [f"the task {ended}{why}."], code=1)


async def _until_ended(api: JobsApi, task: str) -> Row:
    """Wait until a task has ended, also while no hub answers, and return it."""
    noted = False
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


def room_of(name: str) -> str:
    """Return the room in the full name of a job or provider."""
    return name.partition(":")[0]


_JOBS = Listing("jobs", {"JOB": "fullName", "WORKERS": lambda job: len(job.get("workers") or ())}, numbers=("WORKERS",))
_JOB_FACTS: Columns = {
    **_JOBS.columns,
    "SCHEMA": lambda job: json_of("schema")(job) if job.get("schema") else None,
    "RESULTS": json_of("resultSchema"),
}
_JOB_TERMS: dict[str, Callable[[Row], str]] = {
    "NEEDS": lambda job: parts({"parts": job.get("needs"), "sameNode": job.get("sameNode")}),
    "LIMITS": lambda job: ", ".join(map(_limit, job.get("limits") or ())),
}
_WORKERS = Listing(
    "workers", {"WORKER": "id", "LAST BEAT": time_of("lastHeartbeat"), "JOBS": "jobCount"}, numbers=("JOBS",)
)
_PROVIDERS = Listing(
    "providers",
    {"PROVIDER": "fullName", "WORKER": "workerId", "MADE": time_of("createdAt")},
    expendable=("MADE",),
)
_TASKS = Listing(
    "tasks",
    {
        "TASK": "id", "STATUS": "status", "JOB": "jobName", "ROOM": "roomId",
        "SUBMITTED": time_of("createdAt"), "STARTED": time_of("startedAt"), "ENDED": time_of("completedAt"),
        "POSITION": "queuePosition", "WORKER": "workerId", "ERROR": "error",
    },
    numbers=("POSITION",),
    expendable=("STARTED", "WORKER", "ENDED", "ROOM", "POSITION"),
)  # fmt: skip
_TASK_FACTS: Columns = {
    "TASK": "id", "STATUS": "status", "JOB": "jobName", "ROOM": "roomId", "POSITION": "queuePosition", "WHY": "why",
    "ATTEMPT": lambda task: f"{task['attempt']} of {task.get('maxAttempts')}" if task.get("attempt") else None,
    "SUBMITTED": time_of("createdAt"), "STARTED": time_of("startedAt"), "ENDED": time_of("completedAt"),
    "WORKER": "workerId", "SLOTS": lambda task: ", ".join(task.get("slots") or ()),
    "PROGRESS": _progress, "SAID AT": time_of("progressAt"), "ERROR": "error",
    "PAYLOAD": lambda task: json.dumps(task.get("payload"), ensure_ascii=False),
    "RESULT": lambda task: "lost" if task.get("resultLost") else json_of("result")(task),
}  # fmt: skip
_DEAD_LETTERS = replace(_TASKS, called="dead letters")
_DEAD_FACTS: Columns = {
    "TASK": "id", "JOB": "jobName", "ROOM": "roomId", "ATTEMPTS": "attempt", "SUBMITTED": time_of("createdAt"),
    "ENDED": time_of("completedAt"), "ERROR": "error", "PAYLOAD": _TASK_FACTS["PAYLOAD"],
}  # fmt: skip
