"""The endpoint for progress: how far running tasks are, and what they log."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import WORKER
from hub.api.handling.context import check_listening
from hub.api.inputs import caller_of, hub_of
from hub.api.jobs import bodies, room_access
from hub.api.operations import CALLER, Subject, operation
from hub.api.paths import PREFIX
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import ProgressBody
from hub.api.shapes.jobs import OutcomeShape, ProgressedShape
from hub.errors import KeyReused, WorkerNotFound
from hub.jobs.models import ReportedProgress
from hub.jobs.names import dashed

router = APIRouter(prefix=PREFIX, tags=["tasks"])


@router.post(
    "/tasks/progress",
    **operation(
        "reportProgress",
        CALLER,
        p.KEY,
        body=ProgressBody,
        refusals=(WorkerNotFound, KeyReused),
        about=Subject("worker", in_body=True),
        bound="reports",
        scopes=(WORKER,),
    ),
)
async def note(request: Request) -> Answer[ProgressedShape]:
    """Note how far tasks are and what they log, for the owner of the worker that runs them.

    Callers that look at a task are shown its progress. Each report also restarts the time for which its task may be
    silent (`maxSilenceSeconds`). Send only what has changed, a few times a second at most. An outcome other than `ok`
    says that the task does not belong to the worker any more. With an `Idempotency-Key` a repeat adds nothing to a log.
    """
    who = caller_of(request)
    body, _ = await bodies.read(request, ProgressBody)
    key, worker = bodies.request_key(request, who.user), body.worker_id.hex
    hub = hub_of(request)
    await room_access.reach_worker(who, hub, worker)
    await check_listening(request)
    reports = [
        ReportedProgress(task.id.hex, task.claim or "", task.progress, task.message or "", tuple(task.log))
        for task in body.tasks
    ]
    words = await hub.progress.note(worker, who.user, reports, key)
    words = await room_access.told(who, hub, [report.task for report in reports], words)
    outcomes = [OutcomeShape(id=dashed(report.task), outcome=word) for report, word in zip(reports, words, strict=True)]
    return Answer(ProgressedShape(tasks=outcomes))
