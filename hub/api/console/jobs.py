"""The console's lists of jobs and tasks in all rooms."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from hub.api.handling.context import in_ms
from hub.api.inputs import Page as PageAsked
from hub.api.inputs import Query, hub_of_all_rooms
from hub.api.jobs import answers
from hub.api.operations import CALLER, unlisted
from hub.api.shapes import reading as bodies
from hub.api.shapes.answer import Answer
from hub.api.shapes.neutral import renamed
from hub.core import Hub
from hub.errors import InvalidValue
from hub.jobs.chains import links_of
from hub.jobs.models import Job, Page, TaskRecord
from hub.jobs.names import dashed, to_id
from hub.jobs.terms import terms_of
from hub.store.lenient import read_each
from hub.wire import time_at

router = APIRouter()
_WORKERS: Final = 1000  # workers whose jobs one command reads
_JOBS: Final = 1000
_LOOKED: Final = 2000  # finished tasks that a search reads at most
OPEN: Final = ("claimed", "running")
STATUSES: Final = ("pending", *OPEN, "completed", "failed", "cancelled", "dead", "later", "blocked")


_BOUND: Final = "This is of all rooms, and the token shown is bound to some."
HubOfAllRooms = Annotated[Hub, Depends(hub_of_all_rooms(_BOUND))]


@router.get("/console/jobs", **unlisted(page=True, who=CALLER, anonymous=True, shared=True))
async def jobs(hub: HubOfAllRooms) -> Response:
    """Return every job with a worker or a waiting task, and its counts."""
    names = await _names(hub)
    lengths, counts, heads = await _counts(hub, names)
    now_s, rows = hub.store.wall_s(), []
    for name, pending, workers, head in zip(names, lengths, counts, heads, strict=True):
        age = max(0.0, now_s - float(head) / 1e6) if head is not None else None
        rows.append({"job": name, "pending": pending, "workers": workers, "oldestSeconds": age})
    return Answer({"jobs": rows, "total": len(rows), "now": in_ms(hub, 0)})


@router.get("/console/jobs/{full:path}", **unlisted(page=True, who=CALLER, anonymous=True))
async def job(hub: HubOfAllRooms, full: str) -> Response:
    """Return a job in full."""
    found: Job = await hub.jobs.get(full)
    lengths, _, _ = await _counts(hub, [full])
    shown = renamed(answers.job(found, await terms_of(hub.store, full)))
    return Answer({**shown, "schema": found.schema, "pending": lengths[0], "now": in_ms(hub, 0)})


@router.get("/console/workers", **unlisted(page=True, who=CALLER, anonymous=True, shared=True))
async def workers(request: Request, hub: HubOfAllRooms, page: PageAsked) -> Response:
    """Return a page of workers: their tasks, jobs, and silence on the hub clock; with `silent=1` those silent for too
    long."""
    keys, timeout_s = hub.store.keys, hub.settings.worker_timeout_s
    offset, limit = page
    clock = int(await hub.store.read("HGET", keys.store, "clock_ms") or 0)
    if bodies.switch(request, "silent"):
        late = ("-inf", f"({clock - timeout_s * 1000}")
        found = Page(
            await hub.workers.several(
                await hub.store.read("ZRANGE", keys.worker_beats, *late, "BYSCORE", "LIMIT", offset, limit)
            ),
            await hub.store.read("ZCOUNT", keys.worker_beats, *late),
        )
    else:
        found = await hub.workers.page(limit, offset)
    ids = [each.id for each in found.items]
    beats = await hub.store.read("ZMSCORE", keys.worker_beats, *ids) if ids else []
    held = await read_each(hub.store, (("SCARD", keys.worker_tasks(each)) for each in ids), 0)
    served = await read_each(hub.store, (("SMEMBERS", keys.worker_jobs(each)) for each in ids), ())
    rows = [
        {
            "id": dashed(worker.id), "tasks": tasks, "jobs": sorted(names),
            "lastSeen": time_at(worker.beat_us / 1e6),
            "sinceBeatMs": max(0, clock - int(float(beat))) if beat is not None else None,
        }
        for worker, beat, tasks, names in zip(found.items, beats, held, served, strict=True)
    ]  # fmt: skip
    return Answer({"workers": rows, "total": found.total, "timeoutSeconds": timeout_s, "now": in_ms(hub, 0)})


@router.get("/console/tasks", **unlisted(page=True, who=CALLER, anonymous=True, shared=True))
async def tasks(hub: HubOfAllRooms, query: Query, page: PageAsked) -> Response:
    """Return tasks of a status in all rooms, newest first; `q` is an id, or a part of job, room, error or payload.

    Of finished tasks the latest 2,000 are searched.
    """
    status, wanted = query.get("status", "pending"), query.get("q", "").strip()
    offset, limit = page
    if status not in STATUSES:
        raise InvalidValue(f"status must be one of {', '.join(STATUSES)}", member="status")
    found, complete = await _found(hub, status, _Wish(wanted, query.get("job", "")), limit, offset)
    scores = await hub.store.read("ZMSCORE", hub.store.keys.dead, *(t.id for t in found.items)) if found.items else []
    asked = (("HMGET", hub.store.keys.task(t.id), "progress", "message") for t in found.items if t.status == "running")
    told = iter(await read_each(hub.store, asked, (None, None)))
    rows = []
    for task, score in zip(found.items, scores, strict=True):
        share, message = next(told) if task.status == "running" else (None, None)
        progress = {"progress": float(share) if share else None, "message": message or None}
        rows.append({**renamed(answers.task(task)), **progress, "dead": score is not None})
    return Answer({"tasks": rows, "total": found.total, "complete": complete, "now": in_ms(hub, 0)})


@router.get("/console/tasks/{task_id:uuid}/links", **unlisted(page=True, who=CALLER, anonymous=True))
async def links(hub: HubOfAllRooms, task_id: UUID) -> Response:
    """Return the tasks that a task waits for, and those that wait for it."""
    found = await links_of(hub.store, task_id.hex)
    waits_for, followers = ([link.document() for link in some] for some in (found.waits_for, found.followers))
    return Answer({"waitsFor": waits_for, "waitedForBy": followers, "more": found.more, "now": in_ms(hub, 0)})


@router.get("/console/schedules", **unlisted(page=True, who=CALLER, anonymous=True, shared=True))
async def schedules(hub: HubOfAllRooms, query: Query, page: PageAsked) -> Response:
    """Return the schedules of all rooms, the next one due first, with the status of the last task each has made; `q` is
    a part of room and name."""
    offset, limit = page
    found = await hub.schedules.soonest(query.get("q", "").strip(), limit, offset)
    states = await read_each(
        hub.store, [("HGET", hub.store.keys.task(each.task or ""), "status") for each in found.items]
    )
    rows = [
        {
            **answers.schedule(each),
            "payload": None,
            "lastStatus": state,
        }  # the payload may be long; a single schedule shows it
        for each, state in zip(found.items, states, strict=True)
    ]
    return Answer({"schedules": rows, "total": found.total, "now": in_ms(hub, 0)})


class _Wish(NamedTuple):
    """A search for tasks: a part of the task's text, and the full name of its job."""

    text: str
    job: str

    def fits(self, task: TaskRecord) -> bool:
        """Return whether a task fits the search."""
        said = f"{dashed(task.id)} {task.job} {task.room} {task.error or ''} {task.payload}".lower()
        return (not self.job or task.job == self.job) and self.text.lower() in said


async def _found(hub: Hub, status: str, wanted: _Wish, limit: int, offset: int) -> tuple[Page[TaskRecord], bool]:
    """Return a page of the tasks that fit, and whether all tasks were searched."""
    tasks = hub.tasks
    one = _task_id(wanted.text)
    if one:
        found = await tasks.several([one])
        return Page(found, len(found)), True
    plain = not (wanted.text or wanted.job)
    if status == "dead" and plain:
        return await tasks.dead_page(limit, offset), True
    if status == "pending" and (plain or not wanted.text):
        jobs = [wanted.job] if wanted.job else await _waiting(hub)
        return await tasks.pending(jobs, limit, offset), True
    ids, complete = await _nominated(hub, status, wanted)
    fitting = [
        task for task in await tasks.several(ids)
        if (status in ("dead", "later", "blocked") or task.status == status) and wanted.fits(task)
    ]  # fmt: skip
    if status in ("pending", "blocked"):  # read in another order
        fitting.sort(key=lambda task: -task.created_us)
    return Page(fitting[offset : offset + limit], len(fitting)), complete


async def _nominated(hub: Hub, status: str, wanted: _Wish) -> tuple[list[str], bool]:
    """Return ids of tasks that may have a status, and whether these are all."""
    keys, store = hub.store.keys, hub.store
    if status == "pending":
        page = await hub.tasks.pending([wanted.job] if wanted.job else await _waiting(hub), _LOOKED, 0)
        return [task.id for task in page.items], page.total <= _LOOKED
    lists = {"dead": keys.dead, "later": keys.later, "blocked": keys.blocked, **dict.fromkeys(OPEN, keys.held_tasks)}
    key = lists.get(status, keys.finished)
    total, ids = await store.read_all([("ZCARD", key), ("ZREVRANGE", key, 0, _LOOKED - 1)])
    return list(ids), total <= _LOOKED


def _task_id(text: str) -> str | None:
    try:
        return to_id(text)
    except ValueError:
        return None


async def _waiting(hub: Hub) -> list[str]:
    return list(await hub.store.read("ZRANGE", hub.store.keys.heads, 0, _JOBS - 1))


async def _names(hub: Hub) -> list[str]:
    """Return the names of the jobs that have a worker or a waiting task."""
    keys, store, offset = hub.store.keys, hub.store, 0
    names = {*await _waiting(hub), *await store.read("SMEMBERS", keys.executors)}
    while workers := await store.read("ZRANGE", keys.workers, offset, offset + _WORKERS - 1):
        of_all = [keys.worker_jobs(each) for each in workers]
        (found,) = await read_each(store, [("SUNION", *of_all)])
        if found is None:  # another program uses one of these keys
            found = chain.from_iterable(await read_each(store, (("SMEMBERS", key) for key in of_all), ()))
        names.update(found)
        offset += _WORKERS
    return sorted(names)[:_JOBS]


async def _counts(hub: Hub, names: list[str]) -> tuple[list[int], list[int], list[Any]]:
    """Return three lists by job: tasks that can be claimed, workers, and the first task's time in µs (None: no
    task)."""
    keys, store = hub.store.keys, hub.store
    lengths = await read_each(store, (("ZCARD", keys.job_queue(full)) for full in names), 0)
    workers = await read_each(store, (("SCARD", keys.job_workers(full)) for full in names), 0)
    heads = await store.read("ZMSCORE", keys.heads, *names) if names else []
    return lengths, workers, heads
