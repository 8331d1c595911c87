"""Repairing tasks, jobs, workers and providers: a script for each, which checks again before it acts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hub.core import Hub
from hub.doctor.checks import Subject, Words
from hub.doctor.counts import Counts
from hub.jobs.jobs import new_id
from hub.settings import Settings
from hub.store.store import Store

BATCH = 64  # tasks of a worker that is gone, per script: about 2 ms


class JobRepairer:
    """Repairs what the checks at the jobs API have found."""

    def __init__(self, store: Store, settings: Settings, hub: Hub) -> None:
        self._hub = hub
        self._realm = settings.realm
        self._counts = Counts(store)
        self._timeout_ms = int(settings.worker_timeout_s * 1000)
        self._scripts = {
            name: store.script(f"doctor/repair_{name}")
            for name in ("job", "worker", "link", "task", "provider", "schedule", "entry", "count")
        }
        # Records come before what points to them, and all of that before it is counted.
        self.ways: dict[str, Callable[[Subject, Words], Awaitable[None]]] = {
            "jobs": self._job,
            "workers": self._worker,
            "links": self._link,
            "tasks": self._task,
            "providers": self._provider,
            "schedules": self._schedule,
            "entries": self._entry,
        }

    async def recount(self, names: Sequence[str]) -> None:
        """Count the tasks of these jobs anew, and keep that where nothing has changed since."""
        for full, found in (await self._counts.count(names)).items():
            if found.words:
                tasks, later = found.counted
                was_tasks, was_later = found.kept
                await self._scripts["count"](
                    full=full, tasks=tasks, later=later, was_tasks=was_tasks, was_later=was_later
                )

    async def _job(self, subject: Subject, _: Words) -> None:
        await self._scripts["job"](full=subject[0], new=new_id(self._realm))

    async def _worker(self, subject: Subject, words: Words) -> None:
        (worker,) = subject
        if "dead" in words and await self._hub.workers.expire(worker, "silent", self._timeout_ms) == "ok":
            return
        _, left = await self._scripts["worker"](worker=worker, limit=BATCH)
        if left:
            await self._hub.workers.bury(worker)

    async def _link(self, subject: Subject, _: Words) -> None:
        worker, full = subject
        await self._scripts["link"](worker=worker, full=full)

    async def _task(self, subject: Subject, _: Words) -> None:
        await self._scripts["task"](id=subject[0])

    async def _schedule(self, subject: Subject, _: Words) -> None:
        await self._scripts["schedule"](schedule=subject[0])

    async def _provider(self, subject: Subject, _: Words) -> None:
        await self._scripts["provider"](full=subject[0])

    async def _entry(self, subject: Subject, _: Words) -> None:
        kind, owner, member = subject
        await self._scripts["entry"](kind=kind, owner=owner, member=member)
