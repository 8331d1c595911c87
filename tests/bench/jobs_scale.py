"""Redis time of a claim with a million pending tasks, and the Redis memory a pending task takes."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import hiredis
from redis import Redis

from hub.core import Hub
from hub.jobs.models import Claim, JobRequest, TaskRecord
from tests.bench import fleet, machine
from tests.bench.report import Figure, Rounds

MANY, FEW = 1_000_000, 1_000
JOBS, ROOMS = 1_000, 100
ROUNDS, WARM_UP = 15, 2
BATCH = (
    50  # claims of each kind in a round: as many as Redis makes between two collections of what scripts leave behind
)
MEMORY_TASKS, MEMORY_JOBS, MEMORY_ROOMS = 100_000, 100, 20
PAYLOAD = json.dumps({"text": "x" * 189}, separators=(",", ":"))  # 200 bytes
USER = "b" * 32
AT_ONCE = 50  # tasks submitted per call, by the command that POST /rooms/{room}/tasks/{job} runs

KINDS = {  # worker of one job or of all, tasks a claim, claims a round; the many at once are shown, not promised
    "1 of 1 job": (True, 1, BATCH),
    f"1 of {JOBS:,} jobs": (False, 1, BATCH),
    f"{AT_ONCE} of {JOBS:,} jobs": (False, AT_ONCE, 4),
}


@dataclass
class Side:
    """A store with so many pending tasks over the same jobs, and what claims took there, per round."""

    hub: Hub
    redis: Redis
    single: list[str]  # workers, each linked to a job of its own
    versatile: str  # a worker linked to every job
    usec: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def run() -> list[Figure]:
    """Servers without an append-only file, which is no part of the figures."""
    with ExitStack() as stack:
        many, few, memory = (stack.enter_context(machine.redis_server(appendonly="no")) for _ in range(3))
        return [*asyncio.run(_claims(many, few)), asyncio.run(_memory(memory))]


async def _claims(many: Redis, few: Redis) -> list[Figure]:
    """Every kind of claim by itself: what one leaves in the caches of the processor would be part of the next."""
    async with AsyncExitStack() as stack:
        sides = [await stack.enter_async_context(_side(redis, tasks)) for redis, tasks in ((many, MANY), (few, FEW))]
        for name in KINDS:
            for turn in range(WARM_UP + ROUNDS):
                for side in sides:
                    usec = await _claim(side, name)
                    if turn >= WARM_UP:
                        side.usec[name].append(usec)
        return [_figure(sides[0], sides[1], name) for name in KINDS]


@asynccontextmanager
async def _side(redis: Redis, tasks: int) -> AsyncIterator[Side]:
    async with fleet.hub_on(redis) as hub:
        side = Side(hub, redis, [await _worker(hub) for _ in range(BATCH)], await _worker(hub))
        await _link(hub, side.versatile, range(JOBS))
        for number, worker in enumerate(side.single):
            await _link(hub, worker, [number])
        began = time.monotonic()
        await _submit(hub, redis, tasks, JOBS, ROOMS)
        print(f"  {tasks:,} tasks submitted in {time.monotonic() - began:.0f} s", flush=True)
        yield side


def _job(number: int) -> str:
    return f"@global:modifiers:Job{number:04d}"


async def _worker(hub: Hub) -> str:
    worker = secrets.token_hex(16)
    await hub.workers.create(USER, worker)
    return worker


async def _link(hub: Hub, worker: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        _, category, name = _job(number).split(":")
        await hub.jobs.register(JobRequest("@global", category, name, worker=worker), {}, USER, superuser=True)


async def _submit(hub: Hub, redis: Redis, tasks: int, jobs: int, rooms: int) -> None:
    """Submit the same number of tasks to each job, in turn, from every room."""
    command = hub.store.library.commands["tasks/submit"]
    each = min(AT_ONCE, tasks // jobs)
    plain = {
        "user": USER,
        "priority": 0,
        "due_us": 0,
        "attempts": 1,
        "backoff_ms": 1000,
        "silence_ms": 0,
        "unique": "",
        "checked": "",
        "after": "",
        "told": 0,
        "key": "",
        "fingerprint": "",
        "keep_s": 86400,
        "later": 0,
    }

    def packed(number: int) -> bytes:
        named = {**plain, "full": _job(number % jobs), "room": f"room-{number // jobs % rooms:03d}"}
        rest = [text for _ in range(each) for text in (secrets.token_hex(16), PAYLOAD)]
        arguments = command.ordered(rest, named)
        return bytes(hiredis.pack_command(hub.store.library.call(command.name, hub.store.keys, arguments)))

    await asyncio.to_thread(fleet.send_all, redis, (packed(number) for number in range(tasks // each)))


async def _claim(side: Side, name: str) -> float:
    """Claims of a kind; as many tasks wait afterwards as before."""
    taken: list[TaskRecord] = []
    one_job, most, calls = KINDS[name]
    workers = side.single[:calls] if one_job else [side.versatile] * calls

    async def claim(worker: str) -> None:
        taken.extend(await side.hub.claims.claim(worker, USER, Claim(most=most)))

    usec = await fleet.usec_per_script(side.redis, [partial(claim, worker) for worker in workers])
    assert len(taken) == calls * most, f"{len(taken)} tasks were claimed, {most} by each of {calls}"
    await _replace(side.hub, taken)
    return usec


async def _replace(hub: Hub, taken: Sequence[TaskRecord]) -> None:
    await fleet.side_by_side([partial(hub.tasks.move, task.id, "failed", user=USER) for task in taken])
    await fleet.side_by_side([partial(hub.tasks.submit, task.room, task.job, [task.payload], USER) for task in taken])


def _figure(many: Side, few: Side, name: str) -> Figure:
    growth = Rounds.of(many.usec[name], few.usec[name])
    note = f"{median(many.usec[name]):.0f} us against {median(few.usec[name]):.0f} us, {growth.spread}"
    bound = 1.3 if KINDS[name][1] == 1 else None
    return Figure(f"claim {name}: {MANY:,} pending against {FEW:,}", growth.median, at_most=bound, note=note)


async def _memory(redis: Redis) -> Figure:
    async with fleet.hub_on(redis) as hub:
        await _link(hub, await _worker(hub), range(MEMORY_JOBS))
        before = redis.info("memory")["used_memory"]
        await _submit(hub, redis, MEMORY_TASKS, MEMORY_JOBS, MEMORY_ROOMS)
        taken = redis.info("memory")["used_memory"] - before
        note = f"{MEMORY_TASKS:,} tasks of {MEMORY_JOBS} jobs in {MEMORY_ROOMS} rooms"
        pages = [await hub.tasks.page_of_room(f"room-{n:03d}", "pending", 0, 0) for n in range(MEMORY_ROOMS)]
        assert sum(page.total for page in pages) == MEMORY_TASKS
    name = f"Redis memory per pending task, payload {len(PAYLOAD)} bytes"
    return Figure(name, taken / MEMORY_TASKS, at_most=1024, unit=" bytes", note=note)
