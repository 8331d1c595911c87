"""Dead letters: tasks that failed for the last time they might."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from hub.api.deps import serving
from hub.api.identity import caller
from hub.api.joblib import answers, bodies, shapes, walls
from hub.api.joblib.callers import SUBMIT, operator
from hub.api.joblib.paths import PREFIX
from hub.api.joblib.requests import PageQuery

router = APIRouter(prefix=PREFIX, tags=["dead letters"])


@router.get("/dead", **shapes.described("", {200: shapes.TASKS}, refusals=(403,), query=PageQuery))
async def listed(request: Request) -> Response:
    """The dead letters, newest first."""
    await operator(request)
    asked = bodies.part(request)
    return answers.page(await serving(request).hub.tasks.dead_page(asked.limit, asked.offset), asked, answers.task)


@router.get("/dead/{task_id}", **shapes.described("task_id", {200: shapes.TASK}, refusals=(403,)))
async def look(request: Request) -> Response:
    """One dead letter."""
    await operator(request)
    task = bodies.path_id(request, "task_id")
    return answers.reply(answers.task(await serving(request).hub.tasks.dead(task)))


@router.delete("/dead/{task_id}", **shapes.described("task_id", {204: None}, refusals=(403,)))
async def drop(request: Request) -> Response:
    """Take a task off the list; it stays failed."""
    await operator(request)
    task = bodies.path_id(request, "task_id")
    await serving(request).hub.tasks.drop_dead(task)
    return answers.nothing()


@router.post(
    "/tasks/{task_id}/retry",
    **shapes.described("task_id", {202: shapes.TASK}, refusals=(403, 409), headers=("Idempotency-Key",)),
)
async def retry(request: Request) -> Response:
    """A new task like one that has failed or was cancelled; a dead letter is one no longer. For its submitter."""
    who = await caller(request, SUBMIT)
    task, hub = bodies.path_id(request, "task_id"), serving(request).hub
    await walls.reach_task(who, hub, task)
    key = bodies.request_key(request, who.user)
    return answers.submitted(await hub.tasks.retry(task, who.user, who.superuser, key))
