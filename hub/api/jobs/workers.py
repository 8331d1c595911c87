"""Workers: made, heard, removed, and listed."""

from __future__ import annotations

from fastapi import APIRouter, Request

from hub.api import waiting
from hub.api.deps import check_listening, serving
from hub.api.identity import caller, reader
from hub.api.jobs import answers, bodies, walls
from hub.api.jobs.callers import WORKER
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
    ),
)
async def create(request: Request) -> Answer[WorkerShape]:
    """A new worker of the caller's. It must beat from now on, or it is removed."""
    who = await caller(request, WORKER)
    await check_listening(request)
    hub = serving(request).hub
    made = await hub.workers.create(who.user, new_id(hub.settings.realm))
    return Answer(answers.beaten(made.id, made.beat_us), 201)


@router.get("/workers", **operation("listWorkers", CALLER, query=PageQuery))
async def listed(request: Request) -> Answer[WorkerPageShape]:
    """All workers of all users, newest first; not for a token that is bound to rooms."""
    who = await reader(request)
    if who and who.rooms:
        raise Forbidden("This is of all rooms; a token that is bound to some asks for /rooms/{room_id}/workers.")
    asked = bodies.part(request)
    return answers.page(await serving(request).hub.workers.page(asked.limit, asked.offset), asked, answers.worker)


@router.get(
    "/rooms/{room_id}/workers",
    **operation("listWorkersOfRoom", CALLER, query=PageQuery, refusals=(InvalidRoomId,)),
)
async def of_room(request: Request) -> Answer[WorkerPageShape]:
    """The workers of the jobs that are seen from a room, newest first."""
    who = await reader(request)
    asked = bodies.part(request)
    room = request.path_params["room_id"]
    check_room(room)
    walls.look_into(who, room)
    found = await serving(request).hub.workers.page_of_room(room, asked.limit, asked.offset)
    return answers.page(found, asked, answers.worker)


@router.patch(
    "/workers/{worker_id}",
    **operation(
        "sendWorkerHeartbeat",
        CALLER,
        body=WorkerBeatBody,
        optional=True,
        refusals=(WorkerNotFound, Superseded),
    ),
)
async def beat(request: Request) -> Answer[WorkerShape]:
    """Say that a worker is alive. Answered once Redis has it; for its owner alone.

    With the `tasks` it holds, each with its `claim`, what differs from what the hub knows is settled, and those
    that are not its own any more are answered as `lost`.
    """
    who = await caller(request, WORKER)
    worker = bodies.path_id(request, "worker_id")
    hub = serving(request).hub
    await walls.reach_worker(who, hub, worker)
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
    **operation("getTaken", CALLER, p.PREFER, query=TakenQuery, refusals=(WorkerNotFound,)),
)
async def taken(request: Request) -> Answer[TakenShape]:
    """How often a task was taken from a worker, because it was cancelled or silent for too long; for its owner alone.

    With `Prefer: wait=N` as soon as it is not `since` any more: then its next heartbeat, with `tasks`, says which.
    """
    who = await caller(request, WORKER)
    worker = bodies.path_id(request, "worker_id")
    since = bodies.validated(TakenQuery, dict(request.query_params), "query").since
    hub = serving(request).hub
    await walls.reach_worker(who, hub, worker)
    wait_s = min(bodies.wait_preference(request) or 0, hub.settings.long_poll_max_wait_s)

    async def look(seconds: float) -> int:
        return await hub.workers.taken(worker, who.user, since, seconds)

    found = await waiting.wait(request, wait_s, look, lambda count: count != since)
    await caller(request, WORKER)  # his token may have been revoked meanwhile
    return answers.reply({"id": dashed(worker), "taken": found})


@router.delete(
    "/workers/{worker_id}",
    **operation("removeWorker", CALLER, status=204, query=LeaveQuery, refusals=(WorkerNotFound, Superseded)),
)
async def remove(request: Request) -> Answer[None]:
    """Remove a worker. What it has claimed fails, its providers go, and so do jobs that nobody serves any more."""
    who = await caller(request, WORKER)
    worker, hub = bodies.path_id(request, "worker_id"), serving(request).hub
    await walls.reach_worker(who, hub, worker)
    left = bodies.validated(LeaveQuery, dict(request.query_params), "query")
    await check_listening(request)
    await hub.workers.delete(worker, who.user, who.superuser, left.incarnation)
    return answers.nothing()
