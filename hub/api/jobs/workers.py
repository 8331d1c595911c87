"""The endpoints for workers: make a worker, take its heartbeat, remove it, and list workers."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api.callers.admission import admit_again
from hub.api.callers.caller import WORKER
from hub.api.handling import long_polls
from hub.api.handling.context import check_listening
from hub.api.inputs import caller_of, hub_of
from hub.api.jobs import answers, bodies, room_access
from hub.api.operations import CALLER, EVERYTHING, operation
from hub.api.paths import PREFIX
from hub.api.shapes import parameters as p
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import LeaveQuery, PageQuery, TakenQuery, WorkerBeatBody
from hub.api.shapes.jobs import TakenShape, WorkerPageShape, WorkerShape
from hub.errors import Forbidden, InvalidRoomId, Superseded, WorkerNotFound
from hub.jobs.jobs import new_id
from hub.jobs.names import check_room, dashed

router = APIRouter(prefix=PREFIX, tags=["workers"])


@router.post(
    "/workers",
    **operation(
        "createWorker",
        CALLER,
        status=201,
        about=EVERYTHING,
        scopes=(WORKER,),
    ),
)
async def create(request: Request) -> Answer[WorkerShape]:
    """Make a worker for the caller. The worker is removed unless it sends heartbeats from now on."""
    who = caller_of(request)
    await check_listening(request)
    hub = hub_of(request)
    made = await hub.workers.create(who.user, new_id(hub.settings.realm))
    return Answer(answers.beaten(made.id, made.beat_us), 201)


@router.get("/workers", **operation("listWorkers", CALLER, query=PageQuery, anonymous=True))
async def listed(request: Request) -> Answer[WorkerPageShape]:
    """Return all workers of all users, newest first; refused for a token that is bound to rooms."""
    who = caller_of(request)
    if who and who.rooms:
        raise Forbidden("This is of all rooms; a token that is bound to some asks for /rooms/{room_id}/workers.")
    asked = bodies.part(request)
    found = await hub_of(request).workers.page(asked.limit, asked.offset)
    items = [answers.worker(each) for each in found.items]
    return Answer(WorkerPageShape(items=items, total=found.total, limit=asked.limit, offset=asked.offset))


@router.get(
    "/rooms/{room_id}/workers",
    **operation("listWorkersOfRoom", CALLER, query=PageQuery, refusals=(InvalidRoomId,), anonymous=True),
)
async def of_room(request: Request) -> Answer[WorkerPageShape]:
    """Return the workers of the jobs that are seen from a room, newest first."""
    who = caller_of(request)
    asked = bodies.part(request)
    room = request.path_params["room_id"]
    check_room(room)
    room_access.look_into(who, room)
    found = await hub_of(request).workers.page_of_room(room, asked.limit, asked.offset)
    items = [answers.worker(each) for each in found.items]
    return Answer(WorkerPageShape(items=items, total=found.total, limit=asked.limit, offset=asked.offset))


@router.patch(
    "/workers/{worker_id}",
    **operation(
        "sendWorkerHeartbeat",
        CALLER,
        body=WorkerBeatBody,
        optional=True,
        refusals=(WorkerNotFound, Superseded),
        scopes=(WORKER,),
    ),
)
async def beat(request: Request) -> Answer[WorkerShape]:
    """Say that a worker is alive; for its owner alone. Answered once Redis has the heartbeat.

    A worker may list the `tasks` that it holds, each with its `claim`. The hub then settles every difference from what
    it knows, and answers as `lost` the tasks that do not belong to the worker any more.
    """
    who = caller_of(request)
    worker = bodies.path_id(request, "worker_id")
    hub = hub_of(request)
    await room_access.reach_worker(who, hub, worker)
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return Answer(answers.beaten(worker, await hub.workers.beat(worker, who.user)))
    said, _ = await bodies.read(request, WorkerBeatBody)
    await check_listening(request)
    answer = answers.beaten(worker, await hub.workers.beat(worker, who.user))
    if said.tasks is None:
        return Answer(answer)
    held = {task.id.hex: task.claim for task in said.tasks}
    open_claims = [bodies.digest_of(who.user, key) for key in said.claims]
    lost = await hub.workers.compare(worker, who.user, held, open_claims, said.incarnation)
    return Answer({**answer, "lost": [dashed(task) for task in lost]})


@router.get(
    "/workers/{worker_id}/taken",
    **operation("getTaken", CALLER, p.PREFER, query=TakenQuery, refusals=(WorkerNotFound,), scopes=(WORKER,)),
)
async def taken(request: Request) -> Answer[TakenShape]:
    """Return how often a task was taken from a worker, because the task was cancelled or silent for too long; for the
    worker's owner alone.

    With `Prefer: wait=N` the answer comes as soon as the number differs from `since`. The next heartbeat that lists
    `tasks` is then answered with the tasks that are `lost`.
    """
    who = caller_of(request)
    worker = bodies.path_id(request, "worker_id")
    since = bodies.validated(TakenQuery, dict(request.query_params), "query").since
    hub = hub_of(request)
    await room_access.reach_worker(who, hub, worker)
    wait_s = min(bodies.wait_preference(request) or 0, hub.settings.long_poll_max_wait_s)

    async def look(seconds: float) -> int:
        return await hub.workers.taken(worker, who.user, since, seconds)

    found = await long_polls.wait(request, wait_s, look, lambda count: count != since)
    await admit_again(request)  # the caller's token may have been revoked during the wait
    return Answer(TakenShape(id=dashed(worker), taken=found))


@router.delete(
    "/workers/{worker_id}",
    **operation(
        "removeWorker", CALLER, status=204, query=LeaveQuery, refusals=(WorkerNotFound, Superseded), scopes=(WORKER,)
    ),
)
async def remove(request: Request) -> Answer[None]:
    """Remove a worker. The tasks that it has claimed fail, its providers are removed, and so are jobs without another
    worker."""
    who = caller_of(request)
    worker, hub = bodies.path_id(request, "worker_id"), hub_of(request)
    await room_access.reach_worker(who, hub, worker)
    left = bodies.validated(LeaveQuery, dict(request.query_params), "query")
    await check_listening(request)
    await hub.workers.delete(worker, who.user, who.superuser, left.incarnation)
    return answers.nothing()
