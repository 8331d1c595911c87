"""`hub dead`: tasks that failed for the last time they might, looked at, submitted anew, or taken off the list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import typer

from hub.cli import output, tables
from hub.cli.job_inputs import DeadTask, Token
from hub.cli.jobs import Row, ask_to_retry, show_tasks
from hub.cli.jobs_api import JobsCaller, caller, jobs_api
from hub.cli.options import AsJson, Limit, Secret, Url
from hub.cli.times import when

app = typer.Typer(help="Look at dead letters, submit them anew, or take them off the list.")


@app.command("ls")
def listed(
    limit: Limit = 100, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None
) -> None:
    """Show the dead letters, newest first."""
    show_tasks(as_json, asyncio.run(_pages(caller(url, secret, token), limit)), "dead letters")


@app.command("show")
def look(task: DeadTask, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None) -> None:
    """Show a dead letter with its payload and what it failed with."""
    found = asyncio.run(_ask(caller(url, secret, token), "GET", task))
    if as_json:
        output.put_json(found)
    else:
        tables.put_facts(_facts(found))


@app.command("retry")
def retry(task: DeadTask, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None) -> None:
    """Submit a dead letter anew, as another task, and print the id of that; it leaves the list."""
    who = caller(url, secret, token)
    answer = asyncio.run(_retry(who, task))
    if as_json:
        output.put_json(answer)
    else:
        output.put(str(answer.get("id")))


@app.command("drop")
def drop(task: DeadTask, as_json: AsJson = False, url: Url = None, secret: Secret = None, token: Token = None) -> None:
    """Take a task off the list; it stays failed."""
    asyncio.run(_ask(caller(url, secret, token), "DELETE", task))
    if as_json:
        output.put_json({"id": task, "dropped": True})
    else:
        output.put(f"{task} is no dead letter any more.")


async def _pages(who: JobsCaller, limit: int) -> tuple[int, list[Row]]:
    async with jobs_api(who) as api:
        return await api.pages(limit, "id", "dead")


async def _ask(who: JobsCaller, method: str, task: str) -> Row:
    async with jobs_api(who) as api:
        return await api.ask(method, "dead", task)


async def _retry(who: JobsCaller, task: str) -> Row:
    await _ask(who, "GET", task)  # any failed task may be tried again; here only what is on the list
    return await ask_to_retry(who, task)


def _facts(task: Row) -> Iterable[tuple[str, Any]]:
    yield "TASK", task.get("id")
    yield "JOB", task.get("jobName")
    yield "ROOM", task.get("roomId")
    yield "ATTEMPTS", task.get("attempt")
    yield "SUBMITTED", when(task.get("createdAt"))
    yield "ENDED", when(task.get("completedAt"))
    yield "ERROR", task.get("error")
    yield "PAYLOAD", json.dumps(task.get("payload"), ensure_ascii=False)
