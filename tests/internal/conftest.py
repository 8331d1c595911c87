"""Fixtures: a store with the jobs of the sample, and internal workers on it, in this process or in their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.core import Hub
from hub.internal.registry import load_internal_jobs, register
from hub.internal.worker import InternalWorker
from hub.settings import Settings
from tests.internal.processes import WorkerProcess
from tests.world import RedisServer, settings_for

MODULE = "tests.internal.sample"


@pytest.fixture
def settings(redis_server: RedisServer) -> Settings:
    """Settings that name the sample."""
    return settings_for(redis_server.url, internal_jobs=MODULE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path to which the sample's jobs write."""
    return tmp_path / "said"


@pytest.fixture
async def registered(hub: Hub) -> Hub:
    """A hub whose `@internal` jobs are those of the sample."""
    await register(hub, load_internal_jobs(hub.settings))
    return hub


@pytest.fixture
async def start_worker(registered: Hub) -> AsyncIterator[Callable[..., InternalWorker]]:
    """Start internal workers in this process: `start_worker(concurrency=1)`; they are stopped with the test."""
    running: list[tuple[InternalWorker, asyncio.Task[None]]] = []

    def start(concurrency: int = 4, grace_s: float = 5.0, **jobs: Any) -> InternalWorker:
        known = {
            full: job
            for full, job in load_internal_jobs(registered.settings).items()
            if full in jobs.get("only", [full])
        }
        worker = InternalWorker(registered, known, concurrency, grace_s)
        running.append((worker, asyncio.create_task(worker.run())))
        return worker

    yield start
    for worker, _ in running:
        worker.stop()
        worker.stop()
    await asyncio.gather(*(task for _, task in running))


@pytest.fixture
def worker_process(redis_server: RedisServer) -> Iterator[Callable[..., WorkerProcess]]:
    """Start `hub internal-worker` processes: `worker_process("--grace", "1")`; they are ended with the test."""
    started: list[WorkerProcess] = []

    def start(*options: str, **environment: str) -> WorkerProcess:
        process = WorkerProcess(
            options, {"HUB_REDIS_URL": redis_server.url, "HUB_INTERNAL_JOBS": MODULE, **environment}
        )
        started.append(process)
        process.wait_until_started()
        return process

    yield start
    for process in started:
        process.kill()
