"""The endpoints for dead letters: tasks that failed for the last time they may."""

from __future__ import annotations

from fastapi import APIRouter

from hub.api.callers.caller import SUBMIT
from hub.api.inputs import Caller, Hub
from hub.api.jobs import answers
from hub.api.jobs.inputs import Key, Part, ReachedTask, TaskId
from hub.api.operations import CALLER, operation
from hub.api.paths import PREFIX
from hub.api.shapes.answer import Answer
from hub.api.shapes.jobs import TaskPageShape, TaskShape
from hub.errors import InvalidTaskTransition, JobNotFound, QuotaExceeded, TaskNotFound

router = APIRouter(prefix=PREFIX, tags=["dead letters"])


@router.get("/dead", **operation("listDeadLetters", CALLER, scopes=("admin",), superuser=True))
async def listed(hub: Hub, asked: Part) -> Answer[TaskPageShape]:
    """Return the dead letters, newest first."""
    found = await hub.tasks.dead_page(asked.limit, asked.offset)
    return Answer(answers.page(TaskPageShape, found, asked, answers.task))


@router.get(
    "/dead/{task_id}", **operation("getDeadLetter", CALLER, refusals=(TaskNotFound,), scopes=("admin",), superuser=True)
)
async def look(hub: Hub, task: TaskId) -> Answer[TaskShape]:
    """Return one dead letter."""
    return Answer(answers.task(await hub.tasks.dead(task)))


@router.delete(
    "/dead/{task_id}",
    **operation("dropDeadLetter", CALLER, status=204, refusals=(TaskNotFound,), scopes=("admin",), superuser=True),
)
async def drop(hub: Hub, task: TaskId) -> Answer[None]:
    """Take a task off the list of dead letters; the task stays failed."""
    await hub.tasks.drop_dead(task)
    return answers.nothing()


@router.post(
    "/tasks/{task_id}/retry",
    **operation(
        "retryTask",
        CALLER,
        status=202,
        headers=("Location", "Retry-After"),
        refusals=(TaskNotFound, JobNotFound, InvalidTaskTransition, QuotaExceeded),
        scopes=(SUBMIT,),
    ),
)
async def retry(hub: Hub, caller: Caller, task: ReachedTask, key: Key) -> Answer[TaskShape]:
    """Submit a new task like one that failed or was cancelled; the old task is no dead letter any more. For its
    submitter."""
    return answers.submitted(await hub.tasks.retry(task, caller.user, caller.superuser, key))
