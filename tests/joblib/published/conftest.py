"""Managers of the published client that are disconnected with the test, and worker processes that are killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from socketio.exceptions import BadNamespaceError
from zndraw_joblib import JobManager

from tests.joblib.people import Person
from tests.joblib.published.host import Api, connect
from tests.joblib.stage import Stage

TOP = Path(__file__).parents[3]


@pytest.fixture
def manage(http: httpx.Client) -> Iterator[Callable[..., JobManager]]:
    """Make managers: `manage(stage, "bob-t", sockets=True, serve=True, polling_interval=30)`."""
    made: list[tuple[JobManager, Any]] = []

    def manage(
        stage: Stage, token: str = "alice-t", *, sockets: bool = False, serve: bool = False, **options: Any
    ) -> JobManager:
        socket = connect(stage.urls[0], token) if sockets else None
        chosen = {"heartbeat_interval": 0.4, "polling_interval": 0.1, "max_startup_retries": 1, **options}
        if serve:
            chosen.setdefault("execute", lambda task: task.extension.run(None, **task.run_kwargs))
        manager = JobManager(Api(http, stage.urls, token), socket, **chosen)
        made.append((manager, socket))
        return manager

    yield manage
    for manager, socket in made:
        with contextlib.suppress(BadNamespaceError):  # what a disconnected socket says
            manager.disconnect()
        if socket is not None:
            socket.shutdown()


@pytest.fixture
def serve() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a worker process: `serve(stage, room, sockets=True)`; returns when it serves."""
    started: list[subprocess.Popen[str]] = []

    def serve(stage: Stage, room: str, *, sockets: bool = False) -> subprocess.Popen[str]:
        words = [stage.urls[0], "alice-t", room, "with" if sockets else "without"]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.joblib.published.serve", *words], cwd=TOP, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "serving\n"
        return process

    yield serve
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def ended() -> Callable[..., bool]:
    """Whether all these tasks have this status."""

    def ended(person: Person, status: str, *tasks: str) -> bool:
        return all(person.look(task)["status"] == status for task in tasks)

    return ended
