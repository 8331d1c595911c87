"""The endpoints for dead letters: tasks that failed for the last time they may."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import SUBMIT
from hub.api.inputs import caller_of, hub_of
from hub.api.jobs import answers, bodies, room_access
from hub.api.operations import CALLER, operation
from hub.api.paths import PREFIX
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import PageQuery
from hub.api.shapes.jobs import TaskPageShape, TaskShape
from hub.errors import InvalidTaskTransition, JobNotFound, KeyReused, QuotaExceeded, TaskNotFound

router = APIRouter(prefix=PREFIX, tags=["dead letters"])


@router.get("/dead", **operation("listDeadLetters", CALLER, query=PageQuery, scopes=("admin",), superuser=True))
async def listed(request: Request) -> Answer[TaskPageShape]:
    """Return the dead letters, newest first."""
    asked = bodies.part(request)
    found = await hub_of(request).tasks.dead_page(asked.limit, asked.offset)
    items = [answers.task(each) for each in found.items]
    return Answer(TaskPageShape(items=items, total=found.total, limit=asked.limit, offset=asked.offset))


@router.get(
    "/dead/{task_id}", **operation("getDeadLetter", CALLER, refusals=(TaskNotFound,), scopes=("admin",), superuser=True)
)
async def look(request: Request) -> Answer[TaskShape]:
    """Return one dead letter."""
    task = bodies.path_id(request, "task_id")
    return Answer(answers.task(await hub_of(request).tasks.dead(task)))


@router.delete(
    "/dead/{task_id}",
    **operation("dropDeadLetter", CALLER, status=204, refusals=(TaskNotFound,), scopes=("admin",), superuser=True),
)
async def drop(request: Request) -> Answer[None]:
    """Take a task off the list of dead letters; the task stays failed."""
    task = bodies.path_id(request, "task_id")
    await hub_of(request).tasks.drop_dead(task)
    return answers.nothing()


@router.post(
    "/tasks/{task_id}/retry",
    **operation(
        "retryTask",
        CALLER,
        p.KEY,
        status=202,
        headers=("Location", "Retry-After"),
        refusals=(TaskNotFound, JobNotFound, InvalidTaskTransition, QuotaExceeded, KeyReused),
        scopes=(SUBMIT,),
    ),
)
async def retry(request: Request) -> Answer[TaskShape]:
    """Submit a new task like one that failed or was cancelled; the old task is no dead letter any more. For its
    submitter."""
    who = caller_of(request)
    task, hub = bodies.path_id(request, "task_id"), hub_of(request)
    await room_access.reach_task(who, hub, task)
    key = bodies.request_key(request, who.user)
    return answers.submitted(await hub.tasks.retry(task, who.user, who.superuser, key))
