"""Claims: how workers get the tasks of their jobs, with the slots that these need."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from hub.errors import Forbidden, NotSent, Settling, StoreUnavailable, UnknownReply, WorkerNotFound
from hub.jobs.models import Claim, Lacking, Result, TaskRecord
from hub.jobs.replies import task_of
from hub.jobs.tasks import Tasks
from hub.jobs.workers import not_yours, superseded, unknown
from hub.observability import metrics
from hub.randoms import random_hex
from hub.settings import Settings
from hub.store.store import Store

ONE = Claim()
SETTLES_S = 5.0  # most seconds that a claim waits, after a loss, for hubs to report ended tasks; they take two at most
LOOK_S = 0.25  # how often such a claim asks again, because it can go on as soon as all hubs have reported
PAUSE_S = 1.0  # before it asks for slots again that it could not wait for
SLOTS_S = 30  # for so long a lease of a task outlasts the time after which a silent worker is removed


class WaitsForSlots(Protocol):
    """What waits for the slots of tasks: `hub.capacity.task_slots.TaskSlots`."""

    async def wait(self, needs: str, ticket: str, holder: str, ttl_ms: int, wait_s: float) -> str:
        """Wait for slots and return their bundle, '' for none."""

    async def give_back(self, bundle: str) -> None:
        """Give slots back that no task has."""

    async def remember(self, bundle: str) -> bool:
        """Remember slots that were lent, so that a store which has lost that is told; return whether there are any."""


class TaskClaims:
    """The claims of tasks at one hub."""

    def __init__(self, store: Store, settings: Settings, tasks: Tasks, slots: WaitsForSlots) -> None:
        self._store = store
        self._tasks = tasks
        self._slots_ms = int((settings.worker_timeout_s + SLOTS_S) * 1000)
        self._slots = slots
        self._served, self._empty = (metrics.claims.labels(outcome) for outcome in ("tasks", "none"))
        self._claim = store.script("tasks/claim")

    async def claim(
        self, worker: str, user: str, wanted: Claim = ONE, gone: Callable[[], Awaitable[bool]] | None = None
    ) -> list[TaskRecord]:
        """Claim the first tasks in the queues of the worker's jobs and return them, each with the slots that its job
        needs; an empty list when there are none. Raises `WorkerNotFound`, `Forbidden` and `Superseded`.

        After a loss of the store this waits until hubs have reported the tasks that ended, and raises `Settling` if
        that takes too long. It then claims nothing when `gone()` says that the caller is gone.
        """
        found, _ = await self._claim_once(worker, user, wanted, gone)
        return found

    async def _claim_once(
        self, worker: str, user: str, wanted: Claim, gone: Callable[[], Awaitable[bool]] | None, job: str = "",
        bundle: str = "",
    ) -> tuple[list[TaskRecord], Lacking | None]:  # fmt: skip
        """Claim as `claim` does, a task of a job for a bundle of slots, if one is given; also return what is lacking
        where there are tasks but no slots for them."""
        until = time.monotonic() + SETTLES_S
        while (found := await self._claimed(worker, user, wanted, job, bundle)) is None:
            if time.monotonic() > until:
                raise Settling("The store was lost, and hubs have yet to say which tasks have ended.", retry_after_s=1)
            await asyncio.sleep(LOOK_S)
            if gone and await gone():
                return [], None
        return found

    async def _claimed(
        self, worker: str, user: str, wanted: Claim, job: str, bundle: str
    ) -> tuple[list[TaskRecord], Lacking | None] | None:
        """Claim as `_claim_once` does; return None while hubs have yet to report which tasks have ended."""
        request = wanted.request or random_hex(8)
        try:
            reply: Any = ["again"]
            while reply == ["again"]:
                reply = await self._claim(
                    worker=worker, user=user, most=wanted.most, start=int(wanted.start),
                    runtime_ms=wanted.max_runtime_ms, request=request, keyed=int(bool(wanted.request)),
                    final=int(wanted.final), incarnation=wanted.incarnation, holder=wanted.holder,
                    slots_ms=self._slots_ms, bundle=bundle, job=job,
                )  # fmt: skip
            found = [task_of(task) for task in reply[1:]] if reply[0] == "ok" else []
            # A task whose slots are lost already is not shown: the worker is gone, or its attempt is lost.
            shown = [each for each in found if not each.slots or await self._slots.remember(each.slots)]
        except (StoreUnavailable, asyncio.CancelledError) as error:
            if not (isinstance(error, NotSent) or wanted.request):  # the caller cannot ask again for its tasks
                self._store.later(partial(self._give_back, worker, user, request))
            raise
        match reply:
            case ["ok", *tasks]:
                metrics.tasks_claimed.inc(len(tasks))
                (self._served if tasks else self._empty).inc()
                return shown, None
            case ["lacking", *what]:
                self._empty.inc()
                return [], Lacking(*what)
            case ["settling", _]:
                return None
            case ["worker"]:
                raise unknown(worker)
            case ["forbidden"]:
                raise not_yours(worker)
            case ["superseded"]:
                raise superseded(worker)
        raise UnknownReply(self._claim.name, reply)

    async def _give_back(self, worker: str, user: str, request: str) -> None:
        """Queue the tasks of a claim again whose answer was lost: its worker does not know that it holds them."""
        keys = self._store.keys
        held = list(await self._store.read("SMEMBERS", keys.worker_tasks(worker)))
        found = await self._store.read_all(("HMGET", keys.task(task), "last", "claim") for task in held)
        lost = [
            Result(task, "pending", claim=claim or "")
            for task, (by, claim) in zip(held, found, strict=True)
            if by == request
        ]
        if lost:
            with suppress(WorkerNotFound, Forbidden):  # the worker was removed meanwhile
                await self._tasks.finish(worker, user, lost)

    async def claim_or_wait(
        self, worker: str, user: str, wanted: Claim, wait_s: float, gone: Callable[[], Awaitable[bool]] | None = None
    ) -> list[TaskRecord]:
        """Claim as `claim` does, but wait for at most `wait_s` seconds for a task, or for the slots that it needs,
        where there is none; claim nothing once `gone()` says that the caller is gone. An empty answer is not remembered
        for the request id, so that the caller can ask again with the same id.
        """
        wanted = replace(wanted, final=False)
        until = time.monotonic() + wait_s
        found, lacking = await self._claim_once(worker, user, wanted, gone)
        waits: dict[Lacking, asyncio.Future[str]] = {}
        try:
            while not found:
                left_s = until - time.monotonic()
                if left_s <= 0 or (gone and await gone()):
                    return []
                names = await self._store.read("SMEMBERS", self._store.keys.worker_jobs(worker))
                async with self._store.notifications.listen(
                    *(self._store.keys.job_notice(full) for full in names)
                ) as subscription:
                    found, lacking = await self._claim_once(worker, user, wanted, gone)
                    if found:
                        return found
                    if lacking and lacking not in waits:
                        waits[lacking] = asyncio.ensure_future(
                            self._slots.wait(lacking.needs, lacking.ticket, wanted.holder, self._slots_ms, left_s)
                        )
                    heard = asyncio.ensure_future(subscription.wait_until(until))
                    over = await _first(heard, waits)
                if over is None:
                    found, lacking = await self._claim_once(worker, user, wanted, gone)
                else:
                    bundle = waits[over].result()
                    found, lacking = await self._claim_once(worker, user, wanted, gone, over.job, bundle)
                    del waits[over]
        finally:
            await self._end(waits.values())
        return found

    async def _end(self, waits: Iterable[asyncio.Future[str]]) -> None:
        """End waits for slots, and give back what came when the claim was over."""
        for wait in waits:
            if wait.done() and not wait.cancelled() and wait.exception() is None and (bundle := wait.result()):
                try:
                    await self._slots.give_back(bundle)
                except (StoreUnavailable, asyncio.CancelledError):
                    self._store.later(partial(self._slots.give_back, bundle))
            wait.cancel()


async def _first(heard: asyncio.Future[Any], waits: dict[Lacking, asyncio.Future[str]]) -> Lacking | None:
    """Wait until a notice is heard, or one of the waits for slots is over; return that. After one that was in vain, as
    when the line is full, this pauses."""
    both: list[asyncio.Future[Any]] = [heard, *waits.values()]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        over = next((each for each, wait in waits.items() if wait.done()), None)
        if over is not None and not waits[over].exception() and not waits[over].result():
            await asyncio.wait([heard], timeout=PAUSE_S)
    finally:
        heard.cancel()
    return over
