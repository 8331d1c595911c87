"""Read everything the store holds of jobs, and compute what it must hold by the model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from math import inf
from typing import Any

from redis import Redis

from hub.store.keys import Keys
from tests.machine.jobs.holdings import held, kept
from tests.machine.jobs.model import ACTIVE, Model, Schedule, Task, groups

SHARED = ("@global", "@internal")
TASK = ("job", "room", "status", "user", "worker", "error", "attempt", "max", "prio", "claimed", "unstuck")
# key -> how it is read. A family is all keys of that pattern.
SINGLE = {
    "workers": "zset", "worker_beats": "scores", "dead_workers": "set", "deleted_jobs": "zset", "later": "zset",
    "runtimes": "scores", "silences": "scores", "ownerless": "scores", "internal_tasks": "zset", "finished": "zset",
    "dead": "zset", "held_tasks": "zset", "blocked": "zset", "settling": "zset",
}  # fmt: skip
FAMILIES = {
    "worker_jobs": "set", "worker_rooms": "hash", "worker_tasks": "set", "room_workers": "zset", "job_workers": "set",
    "room_jobs": "zset", "job_queue": "list", "room_tasks": "list", "job_tasks": "list", "payload": "text",
    "task_result": "text", "task_log": "log", "unique": "text",
    "task_parents": "set", "room_schedules": "zset",
}  # fmt: skip


def seen(redis: Redis) -> dict[str, Any]:
    """Return what the store holds; families that are empty are left out."""
    keys = Keys("")
    names = sorted(redis.keys("hub:*"))
    found: dict[str, Any] = {name: _read(redis, getattr(keys, name), how) for name, how in SINGLE.items()}
    for family, how in FAMILIES.items():
        head = getattr(keys, family)("")
        found[family] = {name[len(head) :]: _read(redis, name, how) for name in names if name.startswith(head)}
    heads = {
        full: redis.zrange(keys.job_queue(full), 0, 0, withscores=True) for full in redis.zrange(keys.heads, 0, -1)
    }
    found["used"] = kept(redis)
    found["heads"] = {
        full: bool(first) and first[0][1] == redis.zscore(keys.heads, full) for full, first in heads.items()
    }
    found["worker"] = {name[11:]: redis.hget(name, "user") for name in names if name.startswith("hub:worker:")}
    found["task"] = {}
    for name in (name for name in names if name.startswith("hub:task:")):
        record = redis.hmget(name, *TASK, "started", "done", "due")
        if record[5]:  # one says which task it waited for
            record[5] = re.sub(r"^Task ([-0-9a-f]{36}), which it waits for, (?:has|was) (\w+)$", _short, record[5])
        found["task"][name[9:]] = [*record[: len(TASK)], *(value is not None for value in record[len(TASK) :])]
    found["schedules"] = dict(redis.zrange(keys.schedules, 0, -1, withscores=True))
    found["schedule"] = {name[13:]: _schedule(redis, name) for name in names if name.startswith("hub:schedule:")}
    found["job"] = {}
    for name in (name for name in names if name.startswith("hub:job:")):
        schema, deleted, tasks, later, fits = redis.hmget(name, "schema", "deleted", "tasks", "later", "validate")
        found["job"][name[8:]] = [schema, deleted is not None, int(tasks or 0), int(later or 0), fits]
    return found


def _schedule(redis: Redis, key: str) -> Schedule:
    record = redis.hgetall(key)
    said = {"attempts": record["max"], "fired": int(record.pop("fired", 0))}
    return Schedule(**said, **{each.name: record[each.name] for each in fields(Schedule) if each.name in record})


def _short(found: re.Match[str]) -> str:
    return f"{found[1].replace('-', '')} {found[2]}"


def _read(redis: Redis, key: str, how: str) -> Any:
    if how == "zset":
        return set(redis.zrange(key, 0, -1))
    if how == "scores":
        return {member: int(score) for member, score in redis.zrange(key, 0, -1, withscores=True)}
    if how == "list":
        return redis.zrange(key, 0, -1)
    if how == "log":
        return [text.partition(" ")[2] for text in redis.lrange(key, 0, -1)]
    if how == "set":
        return redis.smembers(key)
    if how == "hash":
        return {name: int(value) for name, value in redis.hgetall(key).items()}
    return redis.get(key)


def _jobs_of_workers(model: Model) -> dict[str, Any]:
    return {**{name: worker.jobs for name, worker in model.workers.items()}, **model.leaving}


def said(model: Model) -> dict[str, Any]:
    """Return what it must hold."""
    tasks, jobs, workers = model.tasks, model.jobs, model.workers
    ended = {t.id for t in tasks.values() if t.status not in (*ACTIVE, "pending")}
    found: dict[str, Any] = {
        "workers": set(workers),
        "worker": {name: worker.user for name, worker in workers.items()},
        "worker_beats": {name: worker.beat_ms for name, worker in workers.items()},
        "dead_workers": set(model.leaving),
        "worker_jobs": {n: j for n, j in _jobs_of_workers(model).items() if j},
        "worker_tasks": {name: held for name, held in model.held.items() if held},
        "deleted_jobs": {full for full, job in jobs.items() if job.deleted},
        **_waiting(tasks.values()),
        "runtimes": model.runtimes,
        "silences": model.silences,
        "ownerless": model.ownerless,
        "internal_tasks": set(),
        "finished": ended,
        "dead": model.dead,
        "held_tasks": {t.id for t in tasks.values() if t.status in ACTIVE},
        "room_jobs": groups((full.split(":")[0], full) for full, job in jobs.items() if not job.deleted),
        "job_workers": groups((full, name) for name, worker in workers.items() for full in worker.jobs),
        "payload": {t.id: t.payload for t in tasks.values() if t.payload != "{}"},
        "unique": model.uniques,
        **_scheduled(model),
        "task_log": {t.id: t.log for t in tasks.values() if t.log},
        "task_result": {t.id: t.result for t in tasks.values() if t.result},
    }
    found["worker_rooms"] = {name: _links(worker.jobs) for name, worker in workers.items() if worker.jobs}
    found["room_workers"] = groups(pair for name, w in workers.items() for pair in _lists(name, set(_links(w.jobs))))
    found["job_queue"] = {full: [t.id for t in model.queue(full)] for full in jobs if model.queue(full)}
    found["heads"] = dict.fromkeys(found["job_queue"], True)
    found["task"] = {
        t.id: [t.job, t.room, t.status, t.user, t.worker, t.error, *_options(t), t.started, t.id in ended, t.later]
        for t in tasks.values()
    }
    found["room_tasks"], found["job_tasks"] = {}, {}
    for t in sorted(tasks.values(), key=lambda t: t.at):
        found["room_tasks"].setdefault(f"{t.status}:{t.room}", []).append(t.id)
        found["job_tasks"].setdefault(f"{t.status}:{t.room}:{t.job}", []).append(t.id)
    for full, job in jobs.items():
        mine = [t for t in tasks.values() if t.job == full]
        found.setdefault("job", {})[full] = [
            job.schema,
            job.deleted,
            len(mine),
            sum(bool(t.later or t.after) for t in mine),
            job.schema if job.validates else None,
        ]
    return {"job": {}, "used": held(model), **found}


def _waiting(tasks: Iterable[Task]) -> dict[str, Any]:
    waits = {t.id: t.after for t in tasks if t.after}
    later = {t.id for t in tasks if t.later and not t.after}
    return {"later": later, "blocked": set(waits), "task_parents": waits, "settling": set()}


def _scheduled(model: Model) -> dict[str, Any]:
    return {
        "schedule": model.schedules,
        "schedules": {name: float(s.place or inf) for name, s in model.schedules.items()},
        "room_schedules": groups(tuple(name.split(":")) for name in model.schedules),
    }


def _options(task: Any) -> list[str | None]:
    attempts = [str(task.attempt), str(task.max)] if task.max > 1 else [None, None]
    claimed = None if task.claimed_ms is None else str(task.claimed_ms)
    return [*attempts, str(task.prio) if task.prio else None, claimed, str(task.unstuck) if task.unstuck else None]


def _links(jobs: set[str]) -> dict[str, int]:
    rooms = [full.split(":")[0] for full in jobs]
    return {room: rooms.count(room) for room in rooms}


def _lists(name: str, rooms: set[str]) -> list[tuple[str, str]]:
    """The lists of workers it stands in: none that one room sees holds it twice."""
    shared = rooms & set(SHARED)
    return [(room, name) for room in (shared | {"*"} if shared else rooms)]
