"""Hubs with tokens in processes of their own, and connections to them that break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from hub.client.jobs import JobsClient, Task, Worker
from tests import world
from tests.world import HubProcess

TOKEN = "operator-of-the-tests"
JOB = "@global:modifiers:Rotate"
ROOM = "room-1"
QUICK = {
    "HUB_WORKER_TIMEOUT_SECONDS": "30",
    "HUB_SWEEPER_INTERVAL_SECONDS": "1",
    "HUB_SIO_DISCONNECT_GRACE_SECONDS": "3",
}


def tokens_file(folder: Path) -> str:
    """A file with one superuser."""
    path = folder / "tokens.toml"
    path.write_text(f'[[tokens]]\ntoken = "{TOKEN}"\nuser = "operator"\nsuperuser = true\n')
    return str(path)


class Rotations:
    """A worker of `JOB` that notes what it runs; `go` decides whether a task may end."""

    def __init__(self, hub: HubProcess, **options: Any) -> None:
        self.runs: list[str] = []
        self.worker = Worker(hub.url, TOKEN, **{"grace": 20.0, **options})
        self.worker.job("modifiers", "Rotate")(self.rotate)

    async def rotate(self, payload: dict[str, Any], task: Task) -> None:
        self.runs.append(task.id)


class LosesAnswers(httpx.AsyncHTTPTransport):
    """The answers to some claims that handed out tasks do not come back."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.left = answers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if self.left and request.url.path.endswith("/tasks/claim"):
            body = await response.aread()
            if b'"task":{' in body:
                self.left -= 1
                raise httpx.ReadError("the connection broke")
        return response


def ran_once_each(worker: Worker, tasks: int) -> bool:
    """Whether so many were claimed, and completed. What is held ready while this machine stands still is rightly given
    back, and claimed once more."""
    back = worker.counts["given back"]
    return worker.counts == Counter({"claimed": tasks + back, "completed": tasks, "given back": back})


async def status(client: JobsClient, task_id: str) -> str:
    return (await client.task(task_id)).status


async def until_registered(worker: Worker) -> None:
    async def so() -> bool:
        return worker.worker_id is not None

    await world.eventually(so)


async def until_status(client: JobsClient, task_id: str, wanted: str) -> None:
    async def so() -> bool:
        return await status(client, task_id) == wanted

    await world.eventually(so)


StartHub = Callable[..., HubProcess]
