"""The `@internal` jobs of a deployment: their loading from the module of `HUB_INTERNAL_JOBS`, and registration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hub.core import Hub
from hub.errors import StartRefused
from hub.jobs.dispatch import formatter
from hub.jobs.names import INTERNAL, parse_full_name
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.settings.modules import import_named

NAME = "internal_jobs"  # the name of the mapping in the module, unless the setting gives another
_log = get_logger("hub.internal")

Execute = Callable[[dict[str, Any], str, str], Any]


@dataclass(frozen=True)
class Executable:
    """An `@internal` job: its full name, its schema, the schema as JSON, and the function that executes its tasks."""

    full: str
    schema: Mapping[str, Any]
    text: str
    execute: Execute


def load_internal_jobs(settings: Settings) -> dict[str, Executable]:
    """Return the jobs of the module by full name, {} if no module is set; raises `StartRefused` for a faulty module."""
    if not settings.internal_jobs:
        return {}
    where = f"HUB_INTERNAL_JOBS={settings.internal_jobs}"
    found = _mapping(settings, where)
    return {full: _executable(full, job, settings.allowed_categories, where) for full, job in found.items()}


async def register(hub: Hub, jobs: Mapping[str, Executable]) -> None:
    """Register the jobs over any earlier schemas, and mark only these as executable. Safe to repeat."""
    for job in jobs.values():
        await hub.jobs.ensure_internal(job.full, job.schema, job.text)
    await hub.store.script("internal/keep_executors")(rest=list(jobs))
    _log.info("internal jobs registered", jobs=len(jobs))


async def offer(hub: Hub, jobs: Mapping[str, Executable]) -> None:
    """Register the jobs now, and again each time the store has been replaced by another one."""
    if jobs:
        formatter()  # its slow imports happen now, and not in the first submit
        await register(hub, jobs)
        hub.store.when_replaced(partial(register, hub, jobs))


def _mapping(settings: Settings, where: str) -> Mapping[Any, Any]:
    found = import_named("internal_jobs", NAME, where, settings)
    if not isinstance(found, Mapping):
        name = settings.internal_jobs.partition(":")[2] or NAME
        raise StartRefused(f"{where}: `{name}` is no mapping from full names to jobs.")
    return found


def _executable(full: Any, job: Any, categories: tuple[str, ...], where: str) -> Executable:
    parts = parse_full_name(full) if isinstance(full, str) else None
    if parts is None or parts[0] != INTERNAL or not parts[2]:
        raise StartRefused(f"{where}: {full!r} is no full name such as {INTERNAL}:{(*categories, 'category')[0]}:Name.")
    if not {parts[1], "*"} & set(categories):
        raise StartRefused(
            f"{where}: the category of {full} is none of {', '.join(categories)}, which HUB_ALLOWED_CATEGORIES allows."
        )
    schema, execute = getattr(job, "schema", None), getattr(job, "execute", None)
    if not callable(execute):
        raise StartRefused(f"{where}: {full} has no `execute` that could be called.")
    if not isinstance(schema, Mapping):
        raise StartRefused(f"{where}: the schema of {full} is no JSON object.")
    try:
        text = json.dumps(dict(schema), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise StartRefused(f"{where}: the schema of {full} cannot be written as JSON: {error}.") from None
    return Executable(full, dict(schema), text, execute)
