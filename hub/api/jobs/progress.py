"""The endpoint for progress: how far running tasks are, and what they log."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import WORKER
from hub.api.handling.context import check_listening
from hub.api.inputs import Caller, Hub
from hub.api.jobs.inputs import Key, Sent
from hub.api.operations import CALLER, Subject, operation
from hub.api.paths import PREFIX
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import ProgressBody
from hub.api.shapes.jobs import OutcomeShape, ProgressedShape
from hub.errors import WorkerNotFound
from hub.jobs.models import ReportedProgress
from hub.jobs.names import dashed

router = APIRouter(prefix=PREFIX, tags=["tasks"])


@router.post(
    "/tasks/progress",
    **operation(
        "reportProgress",
        CALLER,
        refusals=(WorkerNotFound,),
        about=Subject("worker", in_body=True),
        bound="reports",
        scopes=(WORKER,),
    ),
)
async def note(
    request: Request, hub: Hub, caller: Caller, body: Sent[ProgressBody], key: Key
) -> Answer[ProgressedShape]:
    """Note how far tasks are and what they log, for the owner of the worker that runs them.

    Callers that look at a task are shown its progress. Each report also restarts the time for which its task may be
    silent (`maxSilenceSeconds`). Send only what has changed, a few times a second at most. An outcome other than `ok`
    says that the task does not belong to the worker any more. With an `Idempotency-Key` a repeat adds nothing to a log.
    """
    worker = body.worker_id.hex
    await caller.reach_worker(hub, worker)
    await check_listening(request)
    reports = [
        ReportedProgress(task.id.hex, task.claim or "", task.progress, task.message or "", tuple(task.log))
        for task in body.tasks
    ]
    words = await hub.progress.note(worker, caller.user, reports, key)
    words = await caller.outcomes(hub, [report.task for report in reports], words)
    outcomes = [OutcomeShape(id=dashed(report.task), outcome=word) for report, word in zip(reports, words, strict=True)]
    return Answer(ProgressedShape(tasks=outcomes))
