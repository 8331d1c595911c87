"""The endpoints for jobs: register a job, look at it, and list jobs."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.caller import WORKER
from hub.api.inputs import caller_of, hub_of
from hub.api.jobs import answers, bodies, room_access
from hub.api.operations import CALLER, Subject, operation
from hub.api.paths import PREFIX
from hub.api.realms.workers import worker_for
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import PageQuery, ServedBody, TasksQuery
from hub.api.shapes.jobs import JobPageShape, JobShape, TaskPageShape
from hub.errors import (
    InvalidCategory,
    InvalidRoomId,
    JobNotFound,
    QuotaExceeded,
    SchemaConflict,
    Superseded,
    WorkerNotFound,
)
from hub.jobs.models import JobRequest
from hub.jobs.names import check_room

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.put(
    "/rooms/{room_id}/jobs",
    **operation(
        "registerJob",
        CALLER,
        status=201,
        also={200: JobShape},
        body=ServedBody,
        refusals=(InvalidRoomId, InvalidCategory, SchemaConflict, QuotaExceeded, WorkerNotFound, Superseded),
        about=Subject("room", "room_id", in_body=True),
        bound="schema",
        room_first=True,
        scopes=(WORKER,),
    ),
)
async def register(request: Request) -> Answer[JobShape]:
    """Offer a job: 201 when it is new or comes back after a time without workers, 200 when it was there with the same
    schema.

    Without `worker_id` a worker is made for the job. A worker of another realm that serves nothing there yet is
    replaced by a new one, too.
    """
    room = request.path_params["room_id"]
    who = caller_of(request)
    room_access.enter(who, room)
    said, body = await bodies.read(request, ServedBody)
    hub = hub_of(request)
    schema = bodies.schema(said, body, hub.settings)
    worker = await worker_for(request, hub, who, said.worker_id)
    wanted = JobRequest(
        room, said.category, said.name, schema, worker, said.incarnation, said.max_attempts, int(said.backoff_s * 1000),
        bodies.result_schema(said, body, hub.settings),
    )  # fmt: skip
    job, created = await hub.jobs.register(wanted, said.schema_, who.user, who.superuser)
    return Answer(answers.job(job), 201 if created else 200)


@router.get(
    "/rooms/{room_id}/jobs", **operation("listJobs", CALLER, query=PageQuery, refusals=(InvalidRoomId,), anonymous=True)
)
async def listed(request: Request) -> Answer[JobPageShape]:
    """Return the jobs that are seen from a room, newest first."""
    who = caller_of(request)
    asked = bodies.part(request)
    room = request.path_params["room_id"]
    check_room(room)
    room_access.look_into(who, room)
    found = await hub_of(request).jobs.page(room, asked.limit, asked.offset)
    items = [answers.job_line(each) for each in found.items]
    return Answer(JobPageShape(items=items, total=found.total, limit=asked.limit, offset=asked.offset))


@router.get(
    "/rooms/{room_id}/jobs/{job_name:full}/tasks",
    **operation("listTasksOfJob", CALLER, query=TasksQuery, refusals=(InvalidRoomId, JobNotFound), anonymous=True),
)
async def tasks(request: Request) -> Answer[TaskPageShape]:
    """Return the tasks of a job that were submitted to a room, newest first."""
    who = caller_of(request)
    asked = bodies.part(request, TasksQuery)
    room = request.path_params["room_id"]
    check_room(room)
    full = request.path_params["job_name"]
    room_access.look_into(who, room, room_access.room_of(full))
    found = await hub_of(request).tasks.page_of_job(room, full, asked.status, asked.limit, asked.offset)
    items = [answers.task(each) for each in found.items]
    return Answer(TaskPageShape(items=items, total=found.total, limit=asked.limit, offset=asked.offset))


@router.get(
    "/rooms/{room_id}/jobs/{job_name:full}",
    **operation("getJob", CALLER, refusals=(InvalidRoomId, JobNotFound), anonymous=True),
)
async def look(request: Request) -> Answer[JobShape]:
    """Return an active job by its full name, room:category:name."""
    who = caller_of(request)
    room, full = request.path_params["room_id"], request.path_params["job_name"]
    check_room(room)
    room_access.look_into(who, room, room_access.room_of(full))
    return Answer(answers.job(await hub_of(request).jobs.get(full)))
