"""The part of the doctor's walk that checks tasks, jobs, workers, providers and schedules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from hub.doctor.checks import Subject
from hub.doctor.holdings import KINDS
from hub.store.keys import TABLE
from hub.store.scan import members_of
from hub.store.store import Store

# Indexes each of whose members is checked: it must belong there.
INDEXES = (
    *("worker_tasks", "worker_providers", "dead_workers", "task_parents", "task_children"),
    *("room_tasks", "job_tasks", "job_queue", "heads", "later", "ownerless", "internal_tasks", "runtimes", "silences"),
    *("held_tasks", "finished", "dead", "workers", "worker_beats", "room_workers", "room_jobs", "deleted_jobs"),
    *("room_providers", "hung_up", "blocked", "settling", "schedules", "room_schedules"),
    *("limit_taken", "limit_held", "limit_backlog", "limit_groups", "limited", "limits_due"),
)
SINGLES = ("payload", "task_result", "task_log", "provider_name", "unique")  # keys that must belong to a record
_OF_WORKERS = ("worker", "worker_jobs", "worker_rooms", "worker_tasks", "worker_providers")
_OF_JOBS = ("job", "job_queue", "job_workers", "limit_backlog", "limit_old")

Check = Callable[[str, Iterable[Subject]], Awaitable[Any]]


class JobWalk:
    """The checks of tasks, jobs, workers, providers and schedules; each worker and job is checked once."""

    def __init__(self, store: Store, check: Check) -> None:
        self._store = store
        self._check = check
        self._workers: set[str] = set()
        self._jobs: set[str] = set()

    async def page(self, ids: Mapping[str, Sequence[str]]) -> None:
        """Check the records and indexes of a page of keys, given as kind of key -> ids in the names of those keys."""
        await self._check("tasks", [(task,) for task in ids.get("task", ())])
        await self._check("providers", [(full,) for full in ids.get("provider", ())])
        await self._check("schedules", [(each,) for each in ids.get("schedule", ())])
        await self._check_workers(each for kind in _OF_WORKERS for each in ids.get(kind, ()))
        await self._check_jobs([(full, "") for kind in _OF_JOBS for full in ids.get(kind, ())])
        groups = dict.fromkeys(each for kind in ("limit_taken", "limit_held") for each in ids.get(kind, ()))
        await self._check("groups", [(group,) for group in groups])
        lists = ids.get("job_tasks", ())
        await self._check_jobs([(of, name) for name in lists if (of := name.split(":", 2)[-1]).count(":") > 1])
        for kind in INDEXES:
            for owner in ids.get(kind, ()):
                await self._check_index(kind, owner)
        await self._check("entries", [(kind, "", each) for kind in SINGLES for each in ids.get(kind, ())])
        for worker in ids.get("worker_jobs", ()):
            async for names in members_of(self._store, self._store.keys.worker_jobs(worker), "set"):
                await self._check("links", [(worker, full) for full in names])
        for full in ids.get("job_workers", ()):
            async for workers in members_of(self._store, self._store.keys.job_workers(full), "set"):
                await self._check("links", [(worker, full) for worker in workers])

    async def finish(self) -> None:
        """At the end of the walk, check the task counts of all jobs seen, and the quota counts of users and rooms."""
        await self._check("counts", [(full,) for full in sorted(self._jobs)])
        await self._check("holdings", [(kind,) for kind in KINDS])

    async def _check_workers(self, workers: Iterable[str]) -> None:
        fresh = [worker for worker in dict.fromkeys(workers) if worker not in self._workers]
        self._workers.update(fresh)
        await self._check("workers", [(worker,) for worker in fresh])

    async def _check_jobs(self, jobs: Iterable[tuple[str, str]]) -> None:
        fresh = {full: name for full, name in jobs if full not in self._jobs}
        self._jobs.update(fresh)
        await self._check("jobs", list(fresh.items()))

    async def _check_index(self, kind: str, owner: str) -> None:
        key = getattr(self._store.keys, kind)
        async for members in members_of(self._store, key(owner) if callable(key) else key, TABLE[kind].type):
            await self._check("entries", [(kind, owner, member) for member in members])
            if kind in ("workers", "worker_beats", "dead_workers"):
                await self._check_workers(members)
            elif kind in ("room_jobs", "deleted_jobs"):
                await self._check_jobs((full, "") for full in members)
