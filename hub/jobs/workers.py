"""Workers: to make and list them, to take their heartbeats, and to remove them with the tasks they held."""

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

BATCH = 128  # heartbeats, or tasks of a removed worker, per script: about 1 and 4 ms


class Workers:
    """The workers of a store."""

    def __init__(self, store: Store, settings: Settings, pages: Pages) -> None:
        self._patience_ms = int(settings.worker_timeout_s * 500)  # how long a task may be missing in heartbeats
        self._store = store
        self._pages = pages
        self._create = store.script("workers/create")
        self._beats = _Beats(store)
        self._compare = store.script("workers/compare")
        self._remove = store.script("workers/remove")
        self._bury = store.script("workers/bury")
        self._describe = store.script("workers/describe")

    async def create(self, user: str, worker: str) -> WorkerRecord:
        """Register a new worker of this user under the id that the caller chose, and return its record."""
        match await self._create(worker=worker, user=user):
            case ["ok", beat]:
                return WorkerRecord(worker, int(beat), user=user)
            case reply:
                raise UnknownReply(self._create.name, reply)

    def beat(self, worker: str, user: str) -> asyncio.Future[int]:
        """Store a heartbeat of a worker; the future returns its time in microseconds once it is in Redis.

        Heartbeats that come while a script is under way go out together with the next one. Raises `WorkerNotFound`,
        `Forbidden` for another user's worker, and `StoreUnavailable`.
        """
        return self._beats.take((worker, user))

    async def compare(
        self, worker: str, user: str, held: Mapping[str, str], open_claims: Sequence[str], incarnation: str = ""
    ) -> list[str]:
        """Compare the tasks that a worker says it holds (`held`: task -> claim) with those in the store.

        Returns the tasks that are not the worker's any more. A task that only the store knows of goes back to the queue
        after a while, unless it belongs to one of `open_claims`, requests whose answer the worker still awaits. Raises
        `Superseded` for a process that is not the worker any more.
        """
        reply = await self._compare(
            worker=worker, user=user, patience_ms=self._patience_ms, open="\n".join(open_claims),
            incarnation=incarnation, rest=[text for pair in held.items() for text in pair],
        )  # fmt: skip
        match reply:
            case ["ok", *lost]:
                return lost
            case ["superseded"]:
                raise superseded(worker)
            case ["worker"]:
                return []  # removed since its heartbeat; the next one is refused
        raise UnknownReply(self._compare.name, reply)

    async def taken(self, worker: str, user: str, since: int, seconds: float) -> int:
        """Wait until the count of tasks that were taken from a worker (cancelled, or ended for their silence) is not
        `since` any more, at most `seconds`, and return it. Raises `WorkerNotFound` and `Forbidden`.
        """
        until = time.monotonic() + seconds
        async with self._store.notifications.listen(self._store.keys.worker_notice(worker)) as subscription:
            while True:
                owner, taken = await self._store.read("HMGET", self._store.keys.worker(worker), "user", "taken")
                if owner is None:
                    raise unknown(worker)
                if owner != user:
                    raise not_yours(worker)
                if int(taken or 0) != since or not await subscription.wait_until(until):
                    return int(taken or 0)

    async def delete(self, worker: str, user: str, superuser: bool, incarnation: str = "") -> None:
        """Remove a worker and fail the tasks it holds; raises `WorkerNotFound`, `Forbidden`, and `Superseded` for a
        process that is not the worker any more.
        """
        match await self._take_off(worker, user, superuser, "deleted", -1, incarnation):
            case "superseded":
                raise superseded(worker)
            case "worker":
                raise unknown(worker)
            case "forbidden":
                raise not_yours(worker)

    async def expire(self, worker: str, why: str, silent_ms: int) -> str:
        """Remove a worker that has been silent for more than `silent_ms` of the hub clock; -1 removes it in any case.

        Returns `ok`, `worker` (there is no such worker any more) or `alive` (it is not that silent).
        """
        return await self._take_off(worker, "", True, why, silent_ms)

    async def bury(self, worker: str) -> None:
        """Fail the tasks that a removed worker still holds, in batches."""
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
            worker=worker, user=user, superuser=int(superuser), why=why, silent_ms=silent_ms, limit=BATCH,
            request=random_hex(8), incarnation=incarnation,
        )  # fmt: skip
        match reply:
            case ["ok", left]:
                if left:
                    await self.bury(worker)
                return "ok"
            case [("worker" | "forbidden" | "alive" | "superseded") as word]:
                return str(word)
        raise UnknownReply(self._remove.name, reply)

    async def get(self, worker: str) -> WorkerRecord:
        """Return a worker; raises `WorkerNotFound`."""
        found = await self.several([worker])
        if not found:
            raise unknown(worker)
        return found[0]

    async def rooms(self, worker: str) -> list[str]:
        """Return the rooms whose jobs a worker serves; an empty list for an unknown worker."""
        return list(await self._store.read("HKEYS", self._store.keys.worker_rooms(worker)))

    async def serves(self, worker: str) -> bool:
        """Return whether a worker serves any job or provider."""
        keys = self._store.keys
        return bool(await self._store.read("EXISTS", keys.worker_jobs(worker), keys.worker_providers(worker)))

    async def needs(self, worker: str) -> list[str]:
        """Return what tasks of each of the worker's jobs need, as `JobRequest.needs`."""
        keys = self._store.keys
        names = await self._store.read("SMEMBERS", keys.worker_jobs(worker))
        return [text or "" for text in await self._store.read_all(("HGET", keys.job(full), "needs") for full in names)]

    async def page(self, limit: int, offset: int) -> Page[WorkerRecord]:
        """Return a page of the workers of all users."""
        return await self._pages.read([self._store.keys.workers], limit, offset, self.several)

    async def page_of_room(self, room: str, limit: int, offset: int) -> Page[WorkerRecord]:
        """Return a page of the workers that serve jobs which the room sees."""
        own = "@*" if room == "*" else room
        lists = [room] if room in (GLOBAL, INTERNAL) else [own, "*"]
        keys = [self._store.keys.room_workers(name) for name in lists]
        return await self._pages.read(keys, limit, offset, self.several)

    async def several(self, ids: list[str]) -> list[WorkerRecord]:
        """Return the workers with these ids; unknown ones are left out."""
        return [_worker(reply) for reply in await self._describe(rest=ids) if reply]


class _Beats(Batches[tuple[str, str], int]):
    """The heartbeats of workers in batches. An item is (worker, user that sends the heartbeat)."""

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
    """Return the refusal for a worker that is unknown or was removed."""
    return WorkerNotFound(f"Worker {dashed(worker)} is not known; it may have been removed after it fell silent")


def superseded(worker: str) -> Superseded:
    """Return the refusal for a process after another process has become its worker."""
    return Superseded(
        f"Another process is worker {dashed(worker)} by now; this one should end, or register a new worker"
    )


def not_yours(worker: str) -> Forbidden:
    """Return the refusal for a worker of another user."""
    return Forbidden(f"Worker {dashed(worker)} belongs to another user")
