"""Workers live through what happens to hubs and Redis: every task is run, and what was reported is kept."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.client.jobs import JobsClient, Task
from hub.errors import HubError, Unavailable
from tests import world
from tests.client.jobs.live import (
    JOB,
    QUICK,
    ROOM,
    TOKEN,
    Rotations,
    StartHub,
    ran_once_each,
    tokens_file,
    until_status,
)
from tests.world import HubProcess, RedisServer

pytestmark = pytest.mark.story

STEADY = QUICK
LONG = "@global:modifiers:Long"


class Gate(Rotations):
    """As `Rotations`, with a job whose tasks end when they are let go."""

    def __init__(self, hub: HubProcess, **options: Any) -> None:
        super().__init__(hub, **options)
        self.go = asyncio.Event()
        self.worker.job("modifiers", "Long")(self.long)

    async def long(self, payload: dict[str, Any], task: Task) -> None:
        self.runs.append(task.id)
        await self.go.wait()


async def all_done(client: JobsClient, ids: list[str], within_s: float = 90) -> None:
    for task_id in ids:
        assert (await client.wait_for(task_id, within_s)).ok


async def test_killing_and_restarting_the_hub_loses_no_task(start_hub: StartHub, tmp_path: Path) -> None:
    tokens = tokens_file(tmp_path)
    hub = start_hub(HUB_TOKENS_FILE=tokens, **STEADY)
    gate = Gate(hub, concurrency=20)
    async with gate.worker as worker, JobsClient(hub.url, TOKEN) as client:
        first = worker.worker_id
        held = await client.submit_many(LONG, [{}] * 5, ROOM)
        await until_status(client, held[-1], "running")
        hub.kill()
        gate.go.set()  # these end while nobody can be told
        start_hub(HUB_TOKENS_FILE=tokens, HUB_PORT=str(hub.port), **STEADY)
        more = await client.submit_many(JOB, [{}] * 50, ROOM)
        await all_done(client, held + more)
        assert worker.worker_id == first
    assert sorted(gate.runs) == sorted(held + more)
    assert ran_once_each(worker, 55), worker.counts


async def test_killing_redis_and_restarting_it_from_its_file_loses_no_task(start_hub: StartHub, tmp_path: Path) -> None:
    server = RedisServer(tmp_path, append_fsync="always")
    server.start()
    try:
        hub = start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), HUB_REDIS_URL=server.url, **STEADY)
        gate = Gate(hub, concurrency=20)
        async with gate.worker as worker, JobsClient(hub.url, TOKEN) as client:
            held = await client.submit_many(LONG, [{}] * 5, ROOM)
            await until_status(client, held[-1], "running")
            server.kill()
            gate.go.set()
            with pytest.raises(Unavailable):
                await client.task(held[0])
            server.start()
            more = await client.submit_many(JOB, [{}] * 50, ROOM)
            await all_done(client, held + more)
        assert sorted(gate.runs) == sorted(held + more)
        assert ran_once_each(worker, 55), worker.counts
    finally:
        server.stop()


async def test_workers_go_on_after_redis_was_started_empty(start_hub: StartHub, tmp_path: Path) -> None:
    hub = start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **STEADY)
    gate = Gate(hub)
    async with gate.worker as worker, JobsClient(hub.url, TOKEN) as client:
        (lost,) = await client.submit_many(LONG, [{}], ROOM)
        await until_status(client, lost, "running")
        first = worker.worker_id
        hub.redis.flushall()

        async def back() -> bool:
            return worker.worker_id not in (None, first)

        await world.eventually(back, 40)
        await all_done(client, await client.submit_many(JOB, [{}] * 3, ROOM))
        assert worker.counts == {"claimed": 4, "completed": 3, "lost": 1}


WORKER = """
import asyncio, sys, time
from hub.client.jobs import Worker
options = {"concurrency": 2, "prefetch": 0, "grace": float(sys.argv[3]), "socket": sys.argv[4] == "socket"}
worker = Worker(sys.argv[1], sys.argv[2], **options)
@worker.job("modifiers", "Long")
def long(payload, task):
    time.sleep(payload["seconds"])
asyncio.run(worker.run())
print(dict(sorted(worker.counts.items())))
"""


class WorkerProcess:
    def __init__(self, hub: HubProcess, grace: float, socket: bool = False) -> None:
        arguments = [hub.url, TOKEN, str(grace), "socket" if socket else ""]
        self.process = subprocess.Popen([sys.executable, "-c", WORKER, *arguments], stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdout
        self.process.kill()
        if not self.process.stdout.closed:
            self.process.communicate()

    async def end(self, number: signal.Signals) -> str:
        """Send a signal and wait for the end; what it has printed."""
        self.process.send_signal(number)
        out, _ = await asyncio.to_thread(self.process.communicate)
        return out.strip()


async def until_served(client: JobsClient, job: str, **payload: Any) -> str:
    """Submit a task as soon as a worker has registered the job."""
    made: list[str] = []

    async def so() -> bool:
        try:
            made.append(await client.submit(job, payload, ROOM))
        except HubError:  # nobody has, or the hub is away
            return False
        return True

    await world.eventually(so, 60)
    await until_status(client, made[0], "running")
    return made[0]


async def test_a_stopping_worker_finishes_what_it_can_and_gives_back_the_rest(
    start_hub: StartHub, tmp_path: Path
) -> None:
    hub = start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **STEADY)
    async with JobsClient(hub.url, TOKEN) as client:
        with WorkerProcess(hub, grace=6.0) as worker:
            short = await until_served(client, LONG, seconds=1)
            long = await client.submit(LONG, {"seconds": 600}, ROOM)
            await until_status(client, long, "running")
            assert await worker.end(signal.SIGTERM) == "{'claimed': 2, 'completed': 1, 'given back': 1}"
            assert worker.process.returncode == 0
        assert (await client.task(short)).status == "completed"
        assert (await client.task(long)).status == "pending"
        async with httpx.AsyncClient(base_url=hub.url) as http:
            assert (await http.get("/v1/joblib/workers")).json()["total"] == 0


@pytest.mark.parametrize(("socket", "within_s"), [(False, 60.0), (True, 30.0)])
async def test_the_tasks_of_a_killed_worker_are_run_by_another(
    start_hub: StartHub, tmp_path: Path, socket: bool, within_s: float
) -> None:
    timeout = "600" if socket else "8"
    quick = {**QUICK, "HUB_WORKER_TIMEOUT_SECONDS": timeout}
    hub = start_hub(HUB_TOKENS_FILE=tokens_file(tmp_path), **quick)
    async with JobsClient(hub.url, TOKEN) as client:
        with WorkerProcess(hub, grace=1.0, socket=socket) as worker:
            task_id = await until_served(client, LONG, seconds=600)
            if socket:
                await until_bound(hub)
            worker.process.kill()
            task = await client.wait_for(task_id, within_s)
            assert (task.status, task.error) == ("failed", "Worker disconnected")


async def until_bound(hub: HubProcess) -> None:
    async def so() -> bool:
        return bool(hub.redis.keys("hub:*bound*"))

    await world.eventually(so)
