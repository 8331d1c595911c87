"""The endpoints for jobs: register a job, look at it, and list jobs."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import WORKER, LabelNotAllowed
from hub.api.inputs import Caller, Hub
from hub.api.jobs import answers, bodies, slots
from hub.api.jobs.inputs import EnteredRoom, Part, PartOfTasks, SeenJob, SeenRoom, SentText
from hub.api.operations import CALLER, Subject, operation
from hub.api.paths import PREFIX
from hub.api.realms.workers import worker_for
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import ServedBody
from hub.api.shapes.jobs import JobPageShape, JobShape, TaskPageShape
from hub.errors import (
    BadWhere,
    InvalidCategory,
    InvalidLabel,
    JobNotFound,
    QuotaExceeded,
    SchemaConflict,
    Superseded,
    WorkerNotFound,
)
from hub.jobs.models import JobRequest
from hub.jobs.names import INTERNAL
from hub.jobs.terms import JobTerms, terms_of

OF_NEEDS = (InvalidLabel, BadWhere, LabelNotAllowed)
router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.put(
    "/rooms/{room_id}/jobs",
    **operation(
        "registerJob",
        CALLER,
        status=201,
        also={200: JobShape},
        refusals=(InvalidCategory, SchemaConflict, QuotaExceeded, WorkerNotFound, Superseded, *OF_NEEDS),
        about=Subject("room", "room_id", in_body=True),
        bound="schema",
        room_first=True,
        scopes=(WORKER,),
    ),
)
async def register(
    request: Request, hub: Hub, caller: Caller, room: EnteredRoom, sent: SentText[ServedBody]
) -> Answer[JobShape]:
    """Offer a job: 201 when it is new or comes back after a time without workers, 200 when it was there with the same
    schema.

    Without `worker_id` a worker is made for the job. A worker of another realm that serves nothing there yet is
    replaced by a new one, too. With `needs` a claim takes slots together with each task: the caller must be one that
    may borrow them, else 403 `forbidden` or `label`. `limits` keep tasks from running beside too many others.
    """
    said, body = sent
    if room == INTERNAL and (said.needs or said.limits):
        what = "needs and limits should be left out for an @internal job, whose tasks no worker claims"
        raise bodies.malformed("unsupported", ["body"], what, None)
    schema = bodies.schema(body, hub.settings)
    worker = await worker_for(request, hub, caller, said.worker_id)
    wanted = JobRequest(
        room, said.category, said.name, schema, worker, said.incarnation, said.max_attempts, int(said.backoff_s * 1000),
        bodies.result_schema(said, body, hub.settings), said.validate_, slots.needs(hub, caller, said),
        slots.limits(said),
    )  # fmt: skip
    job, created = await hub.jobs.register(wanted, said.schema_, caller.user, caller.superuser)
    return Answer(answers.job(job, JobTerms.read(wanted.needs, wanted.limits)), 201 if created else 200)


@router.get("/rooms/{room_id}/jobs", **operation("listJobs", CALLER, anonymous=True))
async def listed(hub: Hub, asked: Part, room: SeenRoom) -> Answer[JobPageShape]:
    """Return the jobs that are seen from a room, newest first."""
    found = await hub.jobs.page(room, asked.limit, asked.offset)
    return Answer(answers.page(JobPageShape, found, asked, answers.job_line))


@router.get(
    "/rooms/{room_id}/jobs/{job_name:full}/tasks",
    **operation("listTasksOfJob", CALLER, refusals=(JobNotFound,), anonymous=True),
)
async def tasks(hub: Hub, asked: PartOfTasks, room: SeenRoom, full: SeenJob) -> Answer[TaskPageShape]:
    """Return the tasks of a job that were submitted to a room, newest first."""
    found = await hub.tasks.page_of_job(room, full, asked.status, asked.limit, asked.offset)
    return Answer(answers.page(TaskPageShape, found, asked, answers.task))


@router.get(
    "/rooms/{room_id}/jobs/{job_name:full}", **operation("getJob", CALLER, refusals=(JobNotFound,), anonymous=True)
)
async def look(hub: Hub, room: SeenRoom, full: SeenJob) -> Answer[JobShape]:
    """Return an active job by its full name, room:category:name, with the tasks that its limits keep."""
    return Answer(answers.job(await hub.jobs.get(full), await terms_of(hub.store, full)))
