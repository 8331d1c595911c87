"""`hub dead`: shows dead letters, submits one again, or removes one from the list."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import typer

from hub.cli.answers import CommandAnswer, Row, facts
from hub.cli.command import command
from hub.cli.jobs import DEAD_LETTERS, ask_to_retry
from hub.cli.jobs_api import JobsApi
from hub.cli.options import Limit
from hub.cli.times import when
from hub.cli.values import DeadTask

app = typer.Typer(help="Show dead letters, submit them again, or remove them from the list.")


@app.command("ls")
@command()
async def listed(jobs: JobsApi, limit: Limit = 100) -> CommandAnswer:
    """Show the dead letters, newest first."""
    return DEAD_LETTERS.answer(await jobs.pages(limit, "id", "dead"))


@app.command("show")
@command()
async def look(jobs: JobsApi, task: DeadTask) -> CommandAnswer:
    """Show a dead letter with its payload and its error."""
    letter = await jobs.ask("GET", "dead", task)
    return facts(letter, _facts(letter))


@app.command("retry")
@command()
async def retry(jobs: JobsApi, task: DeadTask) -> CommandAnswer:
    """Submit a dead letter again as a new task, and print its id. The dead letter leaves the list."""
    await jobs.ask("GET", "dead", task)  # raises for a task that is no dead letter
    return await ask_to_retry(jobs, task)


@app.command("drop")
@command()
async def drop(jobs: JobsApi, task: DeadTask) -> CommandAnswer:
    """Remove a dead letter from the list; its task stays failed."""
    await jobs.ask("DELETE", "dead", task)
    return CommandAnswer({"id": task, "dropped": True}, f"{task} is no dead letter any more.")


def _facts(task: Row) -> Iterable[tuple[str, Any]]:
    yield "TASK", task.get("id")
    yield "JOB", task.get("jobName")
    yield "ROOM", task.get("roomId")
    yield "ATTEMPTS", task.get("attempt")
    yield "SUBMITTED", when(task.get("createdAt"))
    yield "ENDED", when(task.get("completedAt"))
    yield "ERROR", task.get("error")
    yield "PAYLOAD", json.dumps(task.get("payload"), ensure_ascii=False)
