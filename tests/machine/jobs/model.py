"""The rules of jobs, workers and tasks, as small as they can be said: nothing here knows how the store keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

ACTIVE = ("claimed", "running")
MOVES = {
    "pending": {"claimed", "cancelled"},
    "claimed": {"running", "failed", "cancelled"},
    "running": {"completed", "failed", "cancelled"},
}
SECOND_US = 1_000_000


@dataclass
class Worker:
    user: str
    beat_ms: int
    jobs: set[str] = field(default_factory=set)


@dataclass
class Job:
    schema: str
    id: str
    user: str  # who registered the schema that it has
    deleted: bool = False
    validates: bool = False  # payloads have to fit the schema


@dataclass
class Task:
    id: str
    job: str
    room: str
    user: str
    at: int
    payload: str
    max: int = 1
    prio: int = 0
    backoff_ms: int = 0
    status: str = "pending"
    worker: str | None = None
    error: str | None = None
    attempt: int = 1
    later: bool = False
    after: set[str] = field(default_factory=set)  # the tasks it waits for
    run: bool = False  # also when one of those is not completed
    started: bool = False
    claimed_ms: int | None = None  # since when a worker has it without having started it
    unstuck: int = 0
    result: str = ""
    log: list[str] = field(default_factory=list)
    unique: str = ""  # its key, and for how many microseconds after its submit
    silence_ms: int = 0  # that it may run without a word
    had: str | None = None  # the user whose worker had it when it was queued again

    @property
    def score(self) -> int:
        return self.at - self.prio * SECOND_US


@dataclass
class Schedule:
    """Return the record, as the store has it: '' for what it has not."""

    user: str
    at: str
    job: str
    cron: str
    every_ms: str
    zone: str
    catch_up: str
    paused: str
    due: str
    attempts: str
    unique: str
    last: str = ""
    task: str = ""
    fired: int = 0
    why: str = ""
    broken: str = ""
    again: str = ""

    @property
    def place(self) -> str:
        """Where it stands among the schedules; '' for last."""
        return "" if self.paused == "1" else self.again or self.due

    @property
    def plan(self) -> str:
        return "\n".join((self.at, self.cron, self.every_ms, self.zone, self.catch_up))

    def is_due(self, far_us: int) -> bool:
        return self.place != "" and int(self.place) < far_us


def is_internal(full: str) -> bool:
    return full.startswith("@internal:")


class Model:
    """Return what there is."""

    def __init__(self, clock_ms: int) -> None:
        self.clock_ms = clock_ms
        self.workers: dict[str, Worker] = {}
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        self.held: dict[str, set[str]] = {}  # worker, also a removed one -> tasks it holds
        self.leaving: dict[str, set[str]] = {}  # removed worker with tasks that are not failed yet -> its jobs
        self.runtimes: dict[str, int] = {}
        self.silences: dict[str, int] = {}
        self.ownerless: dict[str, int] = {}
        self.dead: set[str] = set()
        self.uniques: dict[str, str] = {}  # unique key -> the task that stands for it, also a forgotten one
        self.schedules: dict[str, Schedule] = {}
        self.firings: dict[tuple[str, str, str], str] = {}  # schedule, what its times follow from, a time -> the task
        self.hubs: dict[int, Any] = {}  # what each has looked at

    def workers_of(self, full: str) -> set[str]:
        return {name for name, worker in self.workers.items() if full in worker.jobs}

    def queue(self, full: str) -> list[Task]:
        waiting = [
            t for t in self.tasks.values() if t.job == full and t.status == "pending" and not (t.later or t.after)
        ]
        return sorted(waiting, key=lambda t: (t.score, t.id))

    # -- jobs and workers -----------------------------------------------------------------------------------------

    def register(
        self, full: str, new_job: str, schema: str, worker: str, user: str, new_worker: bool, validate: bool
    ) -> str:  # fmt: skip
        job = self.jobs.get(full)
        if job and not job.deleted and job.schema != schema:
            return "conflict"
        known = self.workers.get(worker)
        if (known is None and not new_worker) or (known is not None and known.user != user):
            return "worker"
        word = "joined" if job and not job.deleted and job.id != new_job else "created"
        if job is None:
            self.jobs[full] = Job(schema, new_job, user)
        elif job.deleted:
            if len(job.schema) != len(schema):
                job.user = user
            job.deleted, job.schema = False, schema
        self.jobs[full].validates = validate and schema != "{}"
        self.workers.setdefault(worker, Worker(user, self.clock_ms)).jobs.add(full)
        return word

    def remove(self, worker: str) -> None:
        self.leaving[worker] = self.workers.pop(worker).jobs

    def end_leaving(self, worker: str) -> None:
        """All its tasks are failed: what it served may be an orphan now."""
        self.held.pop(worker, None)
        for full in self.leaving.pop(worker):
            self.check_orphan(full)

    def check_orphan(self, full: str) -> None:
        waits = any(t.job == full and t.status == "pending" for t in self.tasks.values())
        if full in self.jobs and not is_internal(full) and not waits and not self.workers_of(full):
            self.jobs[full].deleted = True

    # -- schedules ------------------------------------------------------------------------------------------------

    def put(self, name: str, user: str, at: str, due_us: str, wanted: dict[str, str]) -> None:
        old = self.schedules.get(name)
        if old is None:
            self.schedules[name] = Schedule(user=user, at=at, due=due_us, **wanted)
            return
        times = ("cron", "every_ms", "zone", "paused")
        stays = not old.broken and all(getattr(old, each) == wanted[each] for each in times)
        self.schedules[name] = replace(old, due=old.due if stays else due_us, broken="", again="", **wanted)

    def firing(self, name: str, plan: str, at: str, new_id: Callable[[], str]) -> str:
        """Return the task of a time, which has the same id on every hub."""
        key = (name, plan.partition("\n")[0], at)
        return self.firings[key] if key in self.firings else self.firings.setdefault(key, new_id())

    def fire(self, s: Schedule, next_us: str, firings: dict[str, str], at_of: Callable[[str], int]) -> tuple[int, str]:
        """Return how many tasks are made, and why not more."""
        made, why = 0, "" if firings else "missed"
        job = self.jobs.get(s.job)
        name = next(name for name, each in self.schedules.items() if each is s)
        if firings and (job is None or job.deleted):
            firings, why = {}, "no-job"
        key = s.unique.partition(":")[0]
        for id_ in firings:
            if id_ in self.tasks:
                continue
            if key and self.uniques.get(key, "") in self.tasks:
                why = "unique"
                continue
            most = int(s.attempts or 1)
            task = Task(id_, s.job, name.partition(":")[0], s.user, at_of(id_), "{}", most, 0, 3_600_000)
            self.tasks[id_] = task
            if key:
                task.unique, self.uniques[key] = s.unique, id_
            s.task, made = id_, made + 1
        if made:
            s.last = list(firings.values())[-1]
        s.fired, s.due, s.why, s.broken, s.again = s.fired + made, next_us, why, "", ""
        return made, why

    # -- tasks ----------------------------------------------------------------------------------------------------

    def claim(self, worker: str, most: int, *, start: bool, runtime_ms: int) -> list[Task]:
        waiting = [t for full in self.workers[worker].jobs if not is_internal(full) for t in self.queue(full)]
        taken = sorted(waiting, key=lambda t: (t.score, t.id))[:most]
        for task in taken:
            task.status, task.worker, task.started = ("running" if start else "claimed"), worker, start
            task.claimed_ms = None if start else self.clock_ms
            self.held.setdefault(worker, set()).add(task.id)
            if start:
                self.hear(task)
            if runtime_ms:
                self.runtimes[task.id] = self.clock_ms + runtime_ms
        return taken

    def may_move(self, task: Task, status: str, user: str, *, superuser: bool) -> bool:
        owner = self.workers[task.worker].user if task.worker in self.workers else None
        return superuser or owner == user or (status == "cancelled" and task.user == user)

    def move(self, task: Task, status: str, error: str, result: str = "") -> None:
        if status == "claimed":
            task.status, task.later, task.after = status, False, set()
            self.ownerless[task.id] = self.clock_ms
        elif status == "running":
            task.status, task.started = status, True
            self.hear(task)
        elif status == "failed":
            self.fail(task, error)
            self.check_orphan(task.job)
        else:
            self.close(task, status, error, result)
            self.check_orphan(task.job)

    def close(self, task: Task, status: str, error: str, result: str = "") -> None:
        self.let_go(task)
        task.result = result if status == "completed" else ""
        task.status, task.later, task.after, task.error = status, False, set(), error or None
        key, _, window_us = task.unique.partition(":")
        if self.uniques.get(key) == task.id and (status != "completed" or window_us == "0"):
            del self.uniques[key]
        for child in [t for t in self.tasks.values() if task.id in t.after]:
            child.after.discard(task.id)
            if status != "completed" and not child.run:
                self.close(child, "failed", f"{task.id} {status}")
                self.check_orphan(child.job)
        if status == "failed" and task.max > 1:
            self.dead.add(task.id)

    def fail(self, task: Task, error: str) -> None:
        if task.attempt >= task.max:
            self.close(task, "failed", error)
            return
        task.attempt += 1
        self.give_back(task)
        task.later = task.backoff_ms > 0

    def give_back(self, task: Task) -> None:
        holder = self.workers.get(task.worker or "")
        task.had = holder.user if holder else ""
        self.let_go(task)
        task.status, task.worker, task.started, task.claimed_ms = "pending", None, False, None
        self.jobs[task.job].deleted = False

    def hear(self, task: Task) -> None:
        if task.silence_ms:
            self.silences[task.id] = self.clock_ms + task.silence_ms

    def let_go(self, task: Task) -> None:
        if task.worker in self.held:
            self.held[task.worker].discard(task.id)
        self.runtimes.pop(task.id, None)
        self.silences.pop(task.id, None)
        self.ownerless.pop(task.id, None)

    def overdue(self, places: dict[str, int], age_ms: int, limit: int) -> list[Task]:
        late = sorted((since, name) for name, since in places.items() if since < self.clock_ms - age_ms)
        return [self.tasks[name] for _, name in late[:limit]]

    def unstick(self, names: Iterable[str], age_ms: int, most: int, error: str) -> list[int]:
        """Return what each claimed task becomes whose worker has not started it for longer than that."""
        words, jobs = [], set()
        for task in (self.tasks[name] for name in names):
            is_held = task.status == "claimed" and task.worker is not None and task.claimed_ms is not None
            if not is_held or self.clock_ms - (task.claimed_ms or 0) <= age_ms:
                words.append(0)
            elif most and task.unstuck >= most:
                self.close(task, "failed", error)
                jobs.add(task.job)
                words.append(2)
            else:
                task.unstuck += 1
                self.give_back(task)
                words.append(1)
        for full in jobs:
            self.check_orphan(full)
        return words

    def forget(self) -> None:
        for name in [t.id for t in self.tasks.values() if t.status not in (*ACTIVE, "pending")]:
            del self.tasks[name]
            self.dead.discard(name)
        kept = {t.job for t in self.tasks.values()}
        for full in [full for full, job in self.jobs.items() if job.deleted and full not in kept]:
            del self.jobs[full]


def groups(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Group -> members."""
    found: dict[str, set[str]] = {}
    for group, member in pairs:
        found.setdefault(group, set()).add(member)
    return found
