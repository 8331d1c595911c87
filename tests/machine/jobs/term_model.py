"""The rules of needs and limits, as small as they can be said: nothing here knows how the store keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ACTIVE = ("claimed", "running")
Limit = Mapping[str, Any]
Group = tuple[int, str]  # the number of a limit, from 1, and a value


@dataclass
class Task:
    id: str
    job: str
    at: int
    values: dict[str, str]
    prio: int = 0
    max: int = 1
    backoff_ms: int = 0
    status: str = "pending"
    attempt: int = 1
    worker: str = ""
    later: bool = False
    parent: str = ""  # the task it waits for
    needs: Counter[str] = field(default_factory=Counter)  # what it got when it was claimed
    claimed_ms: int = 0

    @property
    def place(self) -> int:
        return self.at - 1_000_000 * self.prio


@dataclass
class Job:
    needs: Counter[str]
    limits: tuple[Limit, ...]
    excess: Counter[Group] = field(default_factory=Counter)  # that ran when the limits came
    starts: list[tuple[int, Task]] = field(default_factory=list)


class Model:
    """What there is, and what may be."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        self.workers: dict[str, set[str]] = {}

    def active(self, job: str = "") -> list[Task]:
        return [t for t in self.tasks.values() if t.status in ACTIVE and job in ("", t.job)]

    def groups(self, task: Task) -> list[Group]:
        limits = self.jobs[task.job].limits
        return [(n, task.values.get(limit.get("key", ""), "")) for n, limit in enumerate(limits, 1)]

    def running(self, job: str) -> Counter[Group]:
        return Counter(group for task in self.active(job) for group in self.groups(task))

    def started(self, job: str, now_ms: int) -> Counter[Group]:
        """Return how many tasks have started in each group within the time of its limit, up to now."""
        counted: Counter[Group] = Counter()
        for at_ms, task in self.jobs[job].starts:
            for group in self.groups(task):
                limit = self.jobs[job].limits[group[0] - 1]
                counted[group] += "per_ms" in limit and at_ms + limit["per_ms"] > now_ms
        return counted

    def register(self, job: str, needs: Counter[str], limits: tuple[Limit, ...]) -> None:
        known = self.jobs.get(job)
        if known is None or known.limits != limits:
            self.jobs[job] = Job(needs, limits)
            self.jobs[job].excess = self.running(job)
        else:
            known.needs = needs

    def beyond(self, job: str, now_ms: int) -> Iterator[str]:
        """Name what exceeds a limit."""
        one, counts, starts = self.jobs[job], self.running(job), self.started(job, now_ms)
        for group in counts | starts:
            limit = one.limits[group[0] - 1]
            if "running" in limit:
                one.excess[group] = min(one.excess[group], counts[group])
                if counts[group] > max(limit["running"], one.excess[group]):
                    yield f"{counts[group]} tasks of {group} run under {limit}"
            elif starts[group] > limit["count"]:
                yield f"{starts[group]} tasks of {group} have started under {limit}"

    def is_full(self, job: str, group: Group, queued: Counter[Group], now_ms: int) -> bool:
        """Return whether a group has no room beside those that run or are in the queue."""
        limit = self.jobs[job].limits[group[0] - 1]
        if "running" in limit:
            return self.running(job)[group] + queued[group] >= int(limit["running"])
        return self.started(job, now_ms)[group] + queued[group] >= int(limit["count"])

    # -- what becomes of tasks

    def claim(self, task: Task, worker: str, *, start: bool, now_ms: int) -> None:
        task.status, task.worker, task.claimed_ms = ("running" if start else "claimed"), worker, now_ms
        task.needs = self.jobs[task.job].needs.copy()
        self.jobs[task.job].starts.append((now_ms, task))

    def give_back(self, task: Task) -> None:
        task.status, task.worker, task.needs = "pending", "", Counter()

    def fail(self, task: Task) -> None:
        if task.attempt >= task.max:
            self.end(task, "failed")
            return
        task.attempt += 1
        self.give_back(task)
        task.later = task.backoff_ms > 0

    def end(self, task: Task, status: str) -> None:
        assert task.status in (*ACTIVE, "pending"), f"{task} ends twice"
        task.status, task.needs, task.later, task.parent = status, Counter(), False, ""
        for child in [t for t in self.tasks.values() if t.parent == task.id]:
            child.parent = ""
            if status != "completed":
                self.end(child, "failed")
