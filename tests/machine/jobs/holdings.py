"""The holdings of users and rooms, by the rules: bytes of open tasks, schedules and schemas, and how many schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from redis import Redis

from hub.store.keys import Keys
from tests.machine.jobs.model import ACTIVE, Model

KINDS = ("tasks", "schemas", "schedules", "providers")
EACH_BYTES = 512


def kept(redis: Redis) -> dict[str, dict[str, int]]:
    """Return what the store says of each kind."""
    found = {kind: redis.zrange(Keys("").used(kind), 0, -1, withscores=True) for kind in KINDS}
    return {kind: {owner: int(held) for owner, held in rows} for kind, rows in found.items()}


def held(model: Model) -> dict[str, dict[str, int]]:
    """Return what the rules say."""
    counted: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for kind, user, room, amount in _held(model):
        counted[kind].update({f"user:{user}": amount, f"room:{room}": amount})
    return {kind: dict(owners) for kind, owners in counted.items()}


def _held(model: Model) -> Iterator[tuple[str, str, str, int]]:
    for task in model.tasks.values():
        if task.status in (*ACTIVE, "pending"):
            yield "tasks", task.user, task.room, len(task.payload) + EACH_BYTES
    for name, schedule in model.schedules.items():
        room = name.partition(":")[0]
        yield "tasks", schedule.user, room, len("{}") + EACH_BYTES
        yield "schedules", schedule.user, room, 1
    for full, job in model.jobs.items():
        yield "schemas", job.user, full.partition(":")[0], len(job.schema) + EACH_BYTES
