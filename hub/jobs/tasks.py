"""Tasks: to submit, report, retry, list and wait for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hub.errors import (
    Forbidden,
    InvalidTaskTransition,
    KeyReused,
    Settling,
    TaskNotFound,
    UnknownReply,
)
from hub.jobs.dispatch import Dispatch
from hub.jobs.jobs import Jobs, new_id, no_job
from hub.jobs.models import STATUSES, TERMINAL, Options, Outcome, Page, Result, TaskInFull, TaskRecord
from hub.jobs.names import INTERNAL, dashed
from hub.jobs.pages import Pages
from hub.jobs.quotas import EACH_BYTES, exceeded
from hub.jobs.recent import Recent
from hub.jobs.replies import shown_of, task_of
from hub.jobs.submits import BATCH, after_of, batches, derived, request_of, unique_of, unknown_parents
from hub.jobs.workers import not_yours, unknown
from hub.observability import metrics
from hub.randoms import random_hex
from hub.settings import Settings
from hub.store.store import Store

PLAIN = Options()
KEY_S = 86_400  # most seconds for which an Idempotency-Key of a submit is remembered


async def _unchecked() -> str:
    """Return the digest for payloads that are not checked."""
    return ""


class Tasks:
    """The tasks of a store."""

    def __init__(self, store: Store, settings: Settings, jobs: Jobs, pages: Pages, recent: Recent) -> None:
        # An Idempotency-Key is remembered while the tasks that it made are kept, and for a day at most.
        self._realm = settings.realm
        self._keep_s = max(1, min(KEY_S, int(settings.task_retention_s or KEY_S)))
        self._store = store
        self._jobs = jobs
        self._pages = pages
        self._recent = recent
        self._dispatch = Dispatch(store, self._keep_s, self._recent)
        self._submit = store.script("tasks/submit")
        self._move = store.script("tasks/move")
        self._finish = store.script("tasks/finish")
        self._describe = store.script("tasks/describe")
        self._show = store.script("tasks/show")
        self._again = store.script("tasks/again")
        self._drop_dead = store.script("tasks/drop_dead")

    async def submit(
        self, room: str, full: str, payloads: Sequence[str], user: str, options: Options = PLAIN, key: str = "",
        check: Callable[[], Awaitable[str]] = _unchecked, checked: str = "",
    ) -> list[TaskRecord]:  # fmt: skip
        """Submit a task for each payload and return them in order. With a key, return the tasks that the same request
        made within the last 24 h; with a unique key, the earlier task that has it, if there is one.

        `check` is awaited where the job asks for payloads that fit, unless they were `checked`: the digest of the
        schema that they fit. It returns such a digest, and what it raises is raised. Also raises `JobNotFound`,
        `QuotaExceeded`, `KeyReused` when the key came with another request, and `Malformed` for unknown parents.
        """
        key, ids, fingerprint = request_of(self._realm, key, user, room, full, payloads, options)
        if full.startswith(f"{INTERNAL}:"):  # claimed at once: most options do not apply
            submit_one = partial(self._dispatch.submit, room, full, user=user, key=key, fingerprint=fingerprint)
            first = await submit_one(payloads[0], task=ids[0], later=_bytes_of(payloads[1:]))
            rest = zip(payloads[1:], ids[1:], strict=True)
            others = await asyncio.gather(*(submit_one(payload, task=task, later=-1) for payload, task in rest))
            metrics.tasks_submitted.inc(len(payloads))
            return [first, *others]
        made: list[TaskRecord] = []
        for start, end in batches(payloads):
            pairs = zip(ids[start:end], payloads[start:end], strict=True)
            submit = partial(
                self._submit, full=full, room=room, user=user, priority=options.priority, due_us=options.due_us,
                attempts="" if options.as_the_job else options.max_attempts, backoff_ms=options.backoff_ms,
                silence_ms=options.max_silence_ms, unique=unique_of(room, full, options), after=after_of(options),
                key=key, fingerprint=fingerprint, keep_s=self._keep_s, later=-1 if start else _bytes_of(payloads[end:]),
                checked=checked,
                rest=[text for pair in pairs for text in pair],
            )  # fmt: skip
            reply = await submit(told=0)
            if reply == ["check"]:
                checked = await check()
                reply = await submit(told=0, checked=checked)
            found = self._submitted(reply, full, options.after)
            if [task.id for task in found] == ids[start:end]:
                self._recent.note(partial(submit, told=1), sum(map(len, payloads[start:end])))
            else:  # the earlier task with this unique key: the hub that made that one remembers it
                found = [found[0]._replace(stood=True)]
            made += found
        metrics.tasks_submitted.inc(len(made))
        return made

    def _submitted(self, reply: Any, full: str, after: Sequence[str]) -> list[TaskRecord]:
        match reply:
            case ["ok", *tasks]:
                return [task_of(task) for task in tasks]
            case ["job"]:
                raise no_job(full)
            case ["check"]:
                raise Settling(
                    "The schema of the job changed while the payload was checked; try again.", retry_after_s=1
                )
            case ["reused"]:
                raise KeyReused("This Idempotency-Key came before with another request")
            case ["unknown", *tasks]:
                raise unknown_parents(after, tasks)
            case ["quota", *refusal]:
                raise exceeded(refusal)
        raise UnknownReply(self._submit.name, reply)

    async def move(
        self, task: str, status: str, error: str = "", *,
        user: str = "", superuser: bool = False, request: str = "", claim: str = "", value: str = "",
    ) -> TaskRecord:  # fmt: skip
        """Move a task to a status and return it; raises `TaskNotFound`, `Forbidden` and `InvalidTaskTransition`.

        `value` is the result of a completed task as JSON. With a `claim` the move is also refused when the task was
        claimed again since. A repeat with the same `request` gets the same answer, as long as the task has not moved
        on.
        """
        request = f"{user}:{request}" if request else random_hex(6)
        reply = await self._move(
            id=task, status=status, error=error, user=user, superuser=int(superuser), request=request, claim=claim,
            result=value,
        )  # fmt: skip
        match reply:
            case ["ok", found]:
                metrics.tasks_moved.labels(status).inc()
                moved = task_of(found)
                if status in TERMINAL:
                    report = Result(task, status, error, "" if status == "cancelled" else claim or moved.claim, value)
                    self._recent.reported(report, request, moved.worker or "")
                return moved
            case ["task"]:
                raise no_task(task)
            case ["forbidden"]:
                raise Forbidden(f"Task {dashed(task)} is moved by its worker's owner or a superuser alone")
            case ["terms", _]:
                raise InvalidTaskTransition(
                    f"Task {dashed(task)} needs slots or is kept by a limit of its job: only a worker's claim starts it"
                )
            case ["conflict", was]:
                raise InvalidTaskTransition(f"Task {dashed(task)} is {was}; it cannot become {status}")
        raise UnknownReply(self._move.name, reply)

    async def finish(self, worker: str, user: str, results: Sequence[Result], request: str = "") -> list[Outcome]:
        """Move tasks of a worker as its reports say; return a word per report: ok, gone, forbidden or conflict. Raises
        `WorkerNotFound` and `Forbidden`.

        A repeat with the same `request` gets the same words.
        """
        words: list[Outcome] = []
        request = f"{user}:{request}" if request else random_hex(6)
        for start in range(0, len(results), BATCH):
            part = results[start : start + BATCH]
            batch = [text for each in part for text in each.texts]
            reply = await self._finish(worker=worker, user=user, request=request, rest=batch)
            if reply == ["worker"]:
                raise unknown(worker)
            if reply == ["owner"]:
                raise not_yours(worker)
            words += reply
        for result, word in zip(results, words, strict=True):
            if word == "ok":
                metrics.tasks_moved.labels(result.status).inc()
                if result.status != "running":
                    self._recent.reported(result, request, worker)
        return words

    async def get(self, task: str) -> TaskRecord:
        """Return a task; raises `TaskNotFound`."""
        found = await self._read([task])
        if not found:
            raise no_task(task)
        return found[0]

    async def show(self, task: str) -> TaskInFull:
        """Return a task with its result and progress; raises `TaskNotFound`."""
        match await self._show(id=task):
            case ["ok", found, result, progress, after]:
                return shown_of(found, result, progress, after)
            case ["task"]:
                raise no_task(task)
            case reply:
                raise UnknownReply(self._show.name, reply)

    async def wait(self, task: str, seconds: float) -> TaskInFull:
        """Wait until a task has ended, at most `seconds`, and return it as `show` does; raises `TaskNotFound`."""
        until = time.monotonic() + seconds
        found = await self.show(task)
        if found.task.status in TERMINAL or seconds <= 0:
            return found
        async with self._store.notifications.listen(self._store.keys.task_done(task)) as subscription:
            while True:
                found = await self.show(task)
                if found.task.status in TERMINAL or not await subscription.wait_until(until):
                    return found

    async def page_of_room(self, room: str, status: str | None, limit: int, offset: int) -> Page[TaskRecord]:
        """Return a page of the tasks that were submitted in a room, of one status or of all."""
        keys = [self._store.keys.room_tasks(f"{s}:{room}") for s in _statuses(status)]
        return await self._pages.read(keys, limit, offset, self._read)

    async def page_of_job(self, room: str, full: str, status: str | None, limit: int, offset: int) -> Page[TaskRecord]:
        """Return a page of the tasks of a job that were submitted in a room; raises `JobNotFound`."""
        await self._jobs.get(full)
        keys = [self._store.keys.job_tasks(f"{s}:{room}:{full}") for s in _statuses(status)]
        return await self._pages.read(keys, limit, offset, self._read)

    async def dead_page(self, limit: int, offset: int) -> Page[TaskRecord]:
        """Return a page of the dead letters: tasks that failed for the last time they may."""
        return await self._pages.read([self._store.keys.dead], limit, offset, self._read)

    async def dead(self, task: str) -> TaskRecord:
        """Return a task that is a dead letter; raises `TaskNotFound` for any other."""
        if await self._store.read("ZSCORE", self._store.keys.dead, task) is None:
            raise TaskNotFound(f"Task {dashed(task)} is no dead letter")
        return await self.get(task)

    async def drop_dead(self, task: str) -> None:
        """Take a task off the list of dead letters; it stays failed. Raises `TaskNotFound`."""
        if await self._drop_dead(id=task) == ["task"]:
            raise TaskNotFound(f"Task {dashed(task)} is no dead letter")

    async def retry(self, task: str, user: str, superuser: bool, key: str = "") -> TaskRecord:
        """Submit the payload of a failed or cancelled task again as a new task, and return that. The old task leaves
        the list of dead letters. With a key, a repeat returns the same new task.

        Raises `TaskNotFound`, `Forbidden` for all but its submitter and superusers, `InvalidTaskTransition` for a task
        that is neither failed nor cancelled, `QuotaExceeded`, and `JobNotFound` when its job is not active.
        """
        new = derived(f"{user}\0{key}\0{task}", self._realm) if key else new_id(self._realm)
        again = partial(self._again, id=task, new=new, user=user, superuser=int(superuser))
        match await again(told=0):
            case ["ok", found]:
                self._recent.note(partial(again, told=1))
                return task_of(found)
            case ["task"]:
                raise no_task(task)
            case ["quota", *refusal]:
                raise exceeded(refusal)
            case ["job", full]:
                raise no_job(full)
            case ["forbidden"]:
                raise Forbidden(f"Task {dashed(task)} is tried again by its submitter or a superuser alone")
            case ["conflict", was]:
                raise InvalidTaskTransition(
                    f"Task {dashed(task)} is {was}; only failed and cancelled ones are tried again"
                )
            case reply:
                raise UnknownReply(self._again.name, reply)

    async def several(self, ids: list[str]) -> list[TaskRecord]:
        """Return the tasks with these ids in this order; unknown ones are left out."""
        return [task for start in range(0, len(ids), BATCH) for task in await self._read(ids[start : start + BATCH])]

    async def pending(self, jobs: Sequence[str], limit: int, offset: int) -> Page[TaskRecord]:
        """Return a page of the tasks of these jobs that can be claimed, the task that was submitted last first."""
        return await self._pages.read([self._store.keys.job_queue(full) for full in jobs], limit, offset, self._read)

    async def _read(self, ids: list[str]) -> list[TaskRecord]:
        return [task_of(reply) for reply in await self._describe(rest=ids) if reply]


def _bytes_of(payloads: Sequence[str]) -> int:
    """Return the bytes that tasks with these payloads count for a quota."""
    return sum(len(payload.encode()) + EACH_BYTES for payload in payloads)


def _statuses(status: str | None) -> Sequence[str]:
    return STATUSES if status is None else [status]


def no_task(task: str) -> TaskNotFound:
    """Return the refusal for a task that is unknown or forgotten."""
    return TaskNotFound(f"Task {dashed(task)} is not known")
