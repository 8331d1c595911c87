"""`InternalJob`: what a module of `@internal` jobs says of each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class InternalJob:
    """An `@internal` job: the JSON schema of its payload, and what runs a task of it.

    `execute(payload, room_id, task_id)` may be a plain function or a coroutine function. The task is completed when it
    returns and failed, with the text of the exception, when it raises. What it returns is the result of the task, where
    that is JSON and not too large.
    """

    schema: Mapping[str, Any]
    execute: Callable[[dict[str, Any], str, str], Any]
