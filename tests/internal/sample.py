"""A module of `@internal` jobs, as a deployment has one: what its tasks do can be seen in the files they name."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from hub.client.jobs import InternalJob

WRITE, LATER, HOLD, FAIL = (f"@internal:modifiers:{name}" for name in ("Write", "Later", "Hold", "Fail"))
SCHEMA = {"type": "object", "properties": {"file": {"type": "string"}}}


def write(payload: dict[str, Any], room_id: str, task_id: str) -> None:
    """Add a line to the file: room, task and what came along."""
    with Path(payload["file"]).open("a") as file:
        file.write(f"{room_id} {task_id} {payload.get('text', '')}\n")


async def later(payload: dict[str, Any], room_id: str, task_id: str) -> None:
    """Say that it runs, and end when the file `until` is there."""
    write(payload, room_id, task_id)
    while not _there(payload):  # noqa: ASYNC110 - a file has no event to wait for
        await asyncio.sleep(0.02)


def hold(payload: dict[str, Any], room_id: str, task_id: str) -> None:
    """Do the same as `later`, on a thread."""
    write(payload, room_id, task_id)
    while not _there(payload):
        time.sleep(0.02)


def _there(payload: dict[str, Any]) -> bool:
    return Path(payload["until"]).exists()


def fail(payload: dict[str, Any], room_id: str, task_id: str) -> None:
    """Fail with the text of the payload."""
    raise ValueError(payload["text"])


internal_jobs = {
    WRITE: InternalJob(SCHEMA, write),
    LATER: InternalJob({}, later),
    HOLD: InternalJob({}, hold),
    FAIL: InternalJob({}, fail),
}
