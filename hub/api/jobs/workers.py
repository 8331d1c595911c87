"""The endpoints for workers: make a worker, take its heartbeat, remove it, and list workers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from hub import core
from hub.api.callers.admission import admit_again
from hub.api.callers.caller import WORKER
from hub.api.handling import long_polls
from hub.api.handling.context import check_listening
from hub.api.inputs import Caller, Hub, hub_of_all_rooms
from hub.api.jobs import answers, bodies
from hub.api.jobs.inputs import Asked, Part, ReachedWorker, SeenRoom, Wait, WorkerId
from hub.api.operations import CALLER, EVERYTHING, operation, takes
from hub.api.paths import PREFIX
from hub.api.shapes.answer import Answer
from hub.api.shapes.job_bodies import LeaveQuery, TakenQuery, WorkerBeatBody
from hub.api.shapes.jobs import TakenShape, WorkerPageShape, WorkerShape
from hub.errors import Superseded, WorkerNotFound
from hub.jobs.jobs import new_id
from hub.jobs.names import dashed

router = APIRouter(prefix=PREFIX, tags=["workers"])


@router.post("/workers", **operation("createWorker", CALLER, status=201, about=EVERYTHING, scopes=(WORKER,)))
async def create(request: Request, hub: Hub, caller: Caller) -> Answer[WorkerShape]:
    """Make a worker for the caller. The worker is removed unless it sends heartbeats from now on."""
    await check_listening(request)
    made = await hub.workers.create(caller.user, new_id(hub.settings.realm))
    return Answer(answers.beaten(made.id, made.beat_us), 201)


_BOUND = "This is of all rooms; a token that is bound to some asks for /rooms/{room_id}/workers."
HubOfAllRooms = Annotated[core.Hub, Depends(hub_of_all_rooms(_BOUND))]


@router.get("/workers", **operation("listWorkers", CALLER, anonymous=True))
async def listed(hub: HubOfAllRooms, asked: Part) -> Answer[WorkerPageShape]:
    """Return all workers of all users, newest first; refused for a token that is bound to rooms."""
    found = await hub.workers.page(asked.limit, asked.offset)
    return Answer(answers.page(WorkerPageShape, found, asked, answers.worker))


@router.get("/rooms/{room_id}/workers", **operation("listWorkersOfRoom", CALLER, anonymous=True))
async def of_room(hub: Hub, asked: Part, room: SeenRoom) -> Answer[WorkerPageShape]:
    """Return the workers of the jobs that are seen from a room, newest first."""
    found = await hub.workers.page_of_room(room, asked.limit, asked.offset)
    return Answer(answers.page(WorkerPageShape, found, asked, answers.worker))


@takes(body=WorkerBeatBody, optional=True)
async def _beat(request: Request) -> WorkerBeatBody | None:
    """Return the body of a heartbeat, None for a heartbeat without one; raises `Malformed`."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return None
    return (await bodies.read(request, WorkerBeatBody))[0]


BeatOfWorker = Annotated[WorkerBeatBody | None, Depends(_beat)]


@router.patch(
    "/workers/{worker_id}",
    **operation("sendWorkerHeartbeat", CALLER, refusals=(WorkerNotFound, Superseded), scopes=(WORKER,)),
)
async def beat(
    request: Request, hub: Hub, caller: Caller, worker: ReachedWorker, said: BeatOfWorker
) -> Answer[WorkerShape]:
    """Say that a worker is alive; for its owner alone. Answered once Redis has the heartbeat.

    A worker may list the `tasks` that it holds, each with its `claim`. The hub then settles every difference from what
    it knows, and answers as `lost` the tasks that do not belong to the worker any more.
    """
    if said is not None:
        await check_listening(request)
    answer = answers.beaten(worker, await hub.workers.beat(worker, caller.user))
    if said is None or said.tasks is None:
        return Answer(answer)
    held = {task.id.hex: task.claim for task in said.tasks}
    open_claims = [bodies.digest_of(caller.user, key) for key in said.claims]
    lost = await hub.workers.compare(worker, caller.user, held, open_claims, said.incarnation)
    return Answer({**answer, "lost": [dashed(task) for task in lost]})


@router.get("/workers/{worker_id}/taken", **operation("getTaken", CALLER, refusals=(WorkerNotFound,), scopes=(WORKER,)))
async def taken(
    request: Request, hub: Hub, caller: Caller, worker: WorkerId, query: Asked[TakenQuery], wait: Wait
) -> Answer[TakenShape]:
    """Return how often a task was taken from a worker, because the task was cancelled or silent for too long; for the
    worker's owner alone.

    With `Prefer: wait=N` the answer comes as soon as the number differs from `since`. The next heartbeat that lists
    `tasks` is then answered with the tasks that are `lost`.
    """
    await caller.reach_worker(hub, worker)
    wait_s = min(wait or 0, hub.settings.long_poll_max_wait_s)

    async def look(seconds: float) -> int:
        return await hub.workers.taken(worker, caller.user, query.since, seconds)

    found = await long_polls.wait(request, wait_s, look, lambda count: count != query.since)
    await admit_again(request)  # the caller's token may have been revoked during the wait
    return Answer(TakenShape(id=dashed(worker), taken=found))


@router.delete(
    "/workers/{worker_id}",
    **operation("removeWorker", CALLER, status=204, refusals=(WorkerNotFound, Superseded), scopes=(WORKER,)),
)
async def remove(
    request: Request, hub: Hub, caller: Caller, worker: ReachedWorker, query: Asked[LeaveQuery]
) -> Answer[None]:
    """Remove a worker. The tasks that it has claimed fail, its providers are removed, and so are jobs without another
    worker."""
    await check_listening(request)
    await hub.workers.delete(worker, caller.user, caller.superuser, query.incarnation)
    return answers.nothing()
