"""What the store says of needs and limits, held against the rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from redis import Redis

from hub.store.keys import Keys
from tests.machine.jobs.term_model import ACTIVE, Model, Task


class Look:
    """One look at the store; `wrong` names what breaks a rule."""

    def __init__(self, redis: Redis, model: Model, now_ms: int) -> None:
        self.redis, self.keys, self.model, self.now_ms = redis, Keys(""), model, now_ms
        self.records: dict[str, Any] = {name: redis.hgetall(self.keys.task(name)) for name in model.tasks}
        self.queued = {job: redis.zrange(self.keys.job_queue(job), 0, -1) for job in model.jobs}
        self.held = {job: self._held(job) for job in model.jobs}
        self.leases = [redis.hgetall(self.keys.session(slot)) for slot in redis.zrange(self.keys.deadlines, 0, -1)]
        self.losses = {loss.split("|")[1] for loss in redis.lrange(self.keys.slot_losses, 0, -1)}

    def _held(self, job: str) -> dict[str, list[str]]:
        groups = self.redis.smembers(self.keys.limited(job))
        return {group: self.redis.zrange(self.keys.limit_held(group), 0, -1) for group in groups}

    def wrong(self, *, settled: bool) -> Iterator[str]:
        """Name what is wrong. settled: a hub has just looked at what is due."""
        yield from self._statuses()
        for job in self.model.jobs:
            yield from self._places(job)
            yield from self.model.beyond(job, self.now_ms)
            yield from self._counted(job)
            timed = any("per_ms" in limit for limit in self.model.jobs[job].limits)
            if settled or not (timed or self.redis.exists(self.keys.limit_backlog(job))):
                yield from self._kept_in_vain(job)
        yield from self._slots()

    def _statuses(self) -> Iterator[str]:
        for task in self.model.tasks.values():
            said = self.records[task.id]
            if said.get("status") != task.status:
                yield f"{task} is {said.get('status')}"
            if task.status in ACTIVE and said.get("worker") != task.worker:
                yield f"{task} is with {said.get('worker')}"

    def _places(self, job: str) -> Iterator[str]:
        """Each task that waits is in one place, and those beside the queue count as put off."""
        mine = [t for t in self.model.tasks.values() if t.job == job and t.status == "pending"]
        kept = [task for held in self.held[job].values() for task in held]
        backlog = self.redis.zrange(self.keys.limit_backlog(job), 0, -1)
        places = {
            "queue": self.queued[job], "kept": kept,
            "backlog": backlog, "later": [t.id for t in mine if self.redis.zscore(self.keys.later, t.id) is not None],
            "blocked": [t.id for t in mine if self.redis.zscore(self.keys.blocked, t.id) is not None],
        }  # fmt: skip
        for task in mine:
            found = [name for name, members in places.items() for each in members if each == task.id]
            if task.parent or task.later:
                if found != ["blocked" if task.parent else "later"]:
                    yield f"{task} waits in {found}"
            elif len(found) != 1 or found[0] not in ("queue", "kept", "backlog"):
                yield f"{task} waits in {found}"
        strangers = {*self.queued[job], *kept} - {t.id for t in mine}
        if strangers:
            yield f"{job} queues {strangers}"
        later = int(self.redis.hget(self.keys.job(job), "later") or 0)
        if later != len(mine) - len(self.queued[job]):
            yield f"{job} says that {later} of {len(mine)} are put off, {len(self.queued[job])} are not"
        if any(not held for held in self.held[job].values()):
            yield f"{job} lists groups that keep nothing: {self.held[job]}"

    def _counted(self, job: str) -> Iterator[str]:
        """What runs counts under each limit on that, and what is in the queue under each limit, once."""
        limits = self.model.jobs[job].limits
        names = self.redis.keys(self.keys.limit_taken(f"*\t{job}\t*"))
        taken = Counter(task for name in names for task in self.redis.zrange(name, 0, -1))
        wanted = dict.fromkeys(self.queued[job], len(limits))
        wanted |= {t.id: sum("running" in limit for limit in limits) for t in self.model.active(job)}
        for task in taken.keys() | wanted.keys():
            if taken[task] != wanted.get(task, 0):
                yield f"{self.model.tasks.get(task, task)} counts {taken[task]} times, not {wanted.get(task, 0)}"
        listed = {self.keys.limit_taken(group) for group in self.redis.smembers(self.keys.limit_groups(job))}
        if listed != set(names):
            yield f"{job} lists {listed}, and {names} count"

    def _kept_in_vain(self, job: str) -> Iterator[str]:
        queued = Counter(g for name in self.queued[job] for g in self.model.groups(self.model.tasks[name]))
        for held in self.held[job].values():
            for task in (self.model.tasks[name] for name in held):
                if not any(self.model.is_full(job, group, queued, self.now_ms) for group in self.model.groups(task)):
                    yield f"{task} is kept although its groups have room"

    def _slots(self) -> Iterator[str]:
        of_task: dict[str, list[dict[str, Any]]] = {}
        for lease in self.leases:
            holder = json.loads(lease["holder"])
            if "task" in holder:
                of_task.setdefault(holder["task"], []).append({**lease, **holder})
        for name, leases in of_task.items():
            task = self.model.tasks.get(name)
            if not task or task.status not in ACTIVE:
                yield f"slots {[each['browserId'] for each in leases]} are lent to {task or name}"
            elif {each["bundle"] for each in leases} != {self.records[name].get("slots")}:
                yield f"{task} has {self.records[name].get('slots')}, and leases of {leases}"
        for task in self.model.tasks.values():
            yield from self._slots_of(task, of_task.get(task.id, []))

    def _slots_of(self, task: Task, leases: list[dict[str, Any]]) -> Iterator[str]:
        bundle = self.records[task.id].get("slots")
        if task.status not in ACTIVE and bundle:
            yield f"{task} still has {bundle}"
        has = Counter(each["labelKey"] for each in leases)
        if task.status in ACTIVE and bundle not in self.losses and has != task.needs:
            yield f"{task} has {has} of {task.needs}"
