"""Handlers at the top of a module, so that processes can import them. They wait for files that tests write."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hub.client.jobs import Task


class Square(BaseModel):
    side: int


def await_file(path: str | Path) -> None:
    """Return once the file is there."""
    while not Path(path).exists():
        time.sleep(0.01)


def area(square: Square, task: Task) -> dict[str, int]:
    """Says what it does, and where."""
    task.progress(0.5, f"attempt {task.attempt}")
    task.log(type(square).__name__)
    return {"area": square.side**2, "pid": os.getpid()}


def narrow(payload: dict[str, Any]) -> Square:
    """Says that it returns a square, and returns what it is told."""
    return payload["found"]  # type: ignore[no-any-return]


def meet(payload: dict[str, Any]) -> int:
    """Returns only when as many of it run as there are names."""
    Path(payload["me"]).touch()
    for name in payload["others"]:
        await_file(name)
    return os.getpid()


def die(payload: dict[str, Any], task: Task) -> str:
    """Takes its process with it, as what runs out of memory does, but for its last attempt."""
    if task.attempt < task.max_attempts:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def wrong(payload: dict[str, Any]) -> Any:
    """Raises what it is told."""
    if payload.get("exit"):
        raise SystemExit(3)
    return object() if payload.get("result") else int("seven")


def long(payload: dict[str, Any], task: Task) -> None:
    """Goes on until it is lost; a stubborn one for ever."""
    Path(payload["begun"]).write_text(str(os.getpid()))
    while payload.get("stubborn") or not task.lost:
        time.sleep(0.01)
    Path(payload["lost"]).touch()


def await_go(payload: dict[str, Any], task: Task) -> str:
    """Goes on until it is let go."""
    Path(payload["begun"]).write_text(str(os.getpid()))
    await_file(payload["go"])
    return "done"


def beget(payload: dict[str, Any]) -> None:
    """Begins a program of its own, which would outlive it, and waits for ever."""
    program = subprocess.Popen(["sleep", "3600"])
    Path(payload["begun"]).write_text(f"{os.getpid()} {program.pid}")
    program.wait()
