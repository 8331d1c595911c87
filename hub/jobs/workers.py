"""Workers: made, heard, listed, and removed with all they held."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hub.errors import Forbidden, Superseded, UnknownReply, WorkerNotFound
from hub.jobs.models import Page, WorkerRecord
from hub.jobs.names import GLOBAL, INTERNAL, dashed
from hub.jobs.pages import Pages
from hub.randoms import random_hex
from hub.settings import Settings
from hub.store.batches import Batches
from hub.store.store import Store

BATCH = 128  # beats, or tasks of a removed worker, per script: about 1 and 4 ms
RECHECK_S = 5.0  # without a notification for so long, the store is asked all the same


class Workers:
    """Keeps `WorkerRecord`."""

    def __init__(self, store: Store, settings: Settings, pages: Pages) -> None:
        self._patience_ms = int(settings.worker_timeout_s * 500)  # what a beat does not name may be on its way
        self._store = store
        self._pages = pages
        self._create = store.script("workers/create")
        self._beats = _Beats(store)
        self._compare = store.script("workers/compare")
        self._remove = store.script("workers/remove")
        self._bury = store.script("workers/bury")
        self._describe = store.script("workers/describe")

    async def create(self, user: str, worker: str) -> WorkerRecord:
        """Make a worker of the user's, under the id that the caller brings."""
        match await self._create(worker=worker, user=user):
            case ["ok", beat]:
                return WorkerRecord(worker, int(beat), user=user)
            case reply:
                raise UnknownReply(self._create.name, reply)

    def beat(self, worker: str, user: str) -> asyncio.Future[int]:
        """Take a beat; return its time in microseconds, once Redis has it.

        Beats that come while one call is under way go out together in the next. Raises `WorkerNotFound`, `Forbidden`
        for all but its owner, and `StoreUnavailable`.
        """
        return self._beats.take((worker, user))

    async def compare(
        self, worker: str, user: str, held: Mapping[str, str], open_claims: Sequence[str], incarnation: str = ""
    ) -> list[str]:
        """Settle what a worker and the store do not agree on: `held` are its tasks with their claims, `open_claims` its
        requests without an answer yet. Returns the tasks it has lost; raises `Superseded` for a process that is not the
        worker any more.
        """
        reply = await self._compare(
            worker=worker,
            user=user,
            patience_ms=self._patience_ms,
            open="\n".join(open_claims),
            incarnation=incarnation,
            rest=[text for pair in held.items() for text in pair],
        )
        match reply:
            case ["ok", *lost]:
                return lost
            case ["superseded"]:
                raise superseded(worker)
            case ["worker"]:
                return []  # removed since its beat: the next one tells it
        raise UnknownReply(self._compare.name, reply)

    async def taken(self, worker: str, user: str, since: int, seconds: float) -> int:
        """Return how often a task was taken from a worker - cancelled, or ended for its silence - once that is not
        `since` any more, or after so many seconds; raises `WorkerNotFound` and `Forbidden`.
        """
        until = time.monotonic() + seconds
        async with self._store.notifications.listen(self._store.keys.worker_notice(worker)) as subscription:
            while True:
                owner, taken = await self._store.read("HMGET", self._store.keys.worker(worker), "user", "taken")
                if owner is None:
                    raise unknown(worker)
                if owner != user:
                    raise not_yours(worker)
                left_s = until - time.monotonic()
                if int(taken or 0) != since or left_s <= 0:
                    return int(taken or 0)
                await subscription.wait(min(left_s, RECHECK_S))

    async def delete(self, worker: str, user: str, superuser: bool, incarnation: str = "") -> None:
        """Remove it and end what it held; raises `WorkerNotFound`, `Forbidden`, and `Superseded` for a process that is
        not the worker any more.
        """
        match await self._take_off(worker, user, superuser, "deleted", -1, incarnation):
            case "superseded":
                raise superseded(worker)
            case "worker":
                raise unknown(worker)
            case "forbidden":
                raise not_yours(worker)

    async def expire(self, worker: str, why: str, silent_ms: int) -> str:
        """Remove it if it has been silent for longer than that on the hub clock, -1 for in any case.

        Returns `ok`, `worker` (it is gone already) or `alive`.
        """
        return await self._take_off(worker, "", True, why, silent_ms)

    async def bury(self, worker: str) -> None:
        """Fail what a removed worker still holds."""
        left = 1
        while left:
            match await self._bury(worker=worker, limit=BATCH):
                case ["ok", int(left)]:
                    pass
                case reply:
                    raise UnknownReply(self._bury.name, reply)

    async def _take_off(
        self, worker: str, user: str, superuser: bool, why: str, silent_ms: int, incarnation: str = ""
    ) -> str:
        reply = await self._remove(
            worker=worker,
            user=user,
            superuser=int(superuser),
            why=why,
            silent_ms=silent_ms,
            limit=BATCH,
            request=random_hex(8),
            incarnation=incarnation,
        )
        match reply:
            case ["ok", left]:
                if left:
                    await self.bury(worker)
                return "ok"
            case [("worker" | "forbidden" | "alive" | "superseded") as word]:
                return str(word)
        raise UnknownReply(self._remove.name, reply)

    async def get(self, worker: str) -> WorkerRecord:
        """Return the worker; raises `WorkerNotFound`."""
        found = await self.several([worker])
        if not found:
            raise unknown(worker)
        return found[0]

    async def rooms(self, worker: str) -> list[str]:
        """Return the rooms whose jobs it serves; none for an unknown worker."""
        return list(await self._store.read("HKEYS", self._store.keys.worker_rooms(worker)))

    async def serves(self, worker: str) -> bool:
        """Return whether there is a job or a provider that it serves."""
        keys = self._store.keys
        return bool(await self._store.read("EXISTS", keys.worker_jobs(worker), keys.worker_providers(worker)))

    async def page(self, limit: int, offset: int) -> Page[WorkerRecord]:
        """Return all workers of all users."""
        return await self._pages.read([self._store.keys.workers], limit, offset, self.several)

    async def page_of_room(self, room: str, limit: int, offset: int) -> Page[WorkerRecord]:
        """Return the workers of the jobs that are seen from a room."""
        own = "@*" if room == "*" else room
        lists = [room] if room in (GLOBAL, INTERNAL) else [own, "*"]
        keys = [self._store.keys.room_workers(name) for name in lists]
        return await self._pages.read(keys, limit, offset, self.several)

    async def several(self, ids: list[str]) -> list[WorkerRecord]:
        """Return the known workers of these ids."""
        return [_worker(reply) for reply in await self._describe(rest=ids) if reply]


class _Beats(Batches[tuple[str, str], int]):
    """Heartbeats: workers, and the users who say that they are theirs."""

    def __init__(self, store: Store) -> None:
        super().__init__("worker-beats", BATCH)
        self._beat = store.script("workers/beat")

    async def call(self, items: list[tuple[str, str]]) -> list[int | Exception]:
        replies = await self._beat(rest=[text for beat in items for text in beat])
        return [_beaten(worker, reply) for (worker, _), reply in zip(items, replies, strict=True)]


def _beaten(worker: str, reply: Any) -> int | Exception:
    if reply == 0:
        return unknown(worker)
    if reply == 1:
        return not_yours(worker)
    return int(reply)


def _worker(reply: Any) -> WorkerRecord:
    worker, beat, jobs, user = reply
    return WorkerRecord(worker, int(beat), jobs, user)


def unknown(worker: str) -> WorkerNotFound:
    """Return the refusal for a worker that is not registered, or not any more."""
    return WorkerNotFound(f"Worker {dashed(worker)} is not known; it may have been removed after it fell silent")


def superseded(worker: str) -> Superseded:
    """Return the refusal for a process whose worker another one has taken over."""
    return Superseded(
        f"Another process is worker {dashed(worker)} by now; this one should end, or register a new worker"
    )


def not_yours(worker: str) -> Forbidden:
    """Return the refusal for a worker of another user."""
    return Forbidden(f"Worker {dashed(worker)} belongs to another user")
