"""`hub internal-worker`: runs the tasks of this deployment's `@internal` jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from hub.cli.child import Signals
from hub.cli.inputs import seconds
from hub.errors import StartRefused
from hub.observability.logs import configure_logs, get_logger
from hub.settings import Settings, load_settings

if TYPE_CHECKING:
    from hub.internal.registry import Executable

_log = get_logger("hub.internal")


def internal_worker(
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Run at most N tasks at once.")] = 4,
    grace: Annotated[
        float,
        typer.Option(
            parser=seconds(least=0), metavar="SECONDS", help="The grace period for running tasks at shutdown."
        ),
    ] = 20.0,
) -> int:
    """Run tasks of the @internal jobs in HUB_INTERNAL_JOBS until SIGTERM or Ctrl-C. A second Ctrl-C ends it at once."""
    settings = load_settings()
    configure_logs(settings)
    for note in settings.notes:
        _log.warning("setting problem", note=note)
    # Imported here: the packages of the store cost half a second.
    from hub.internal.registry import load_internal_jobs
    from hub.store.embedded import find_server

    if not settings.redis_url and not find_server():
        raise StartRefused("HUB_REDIS_URL names no Redis and none is installed: no store is shared with a hub.")
    jobs = load_internal_jobs(settings)
    if not jobs:
        raise StartRefused("HUB_INTERNAL_JOBS names no module with @internal jobs: there is nothing to run.")
    return asyncio.run(_work(settings, jobs, concurrency, grace))


async def _work(settings: Settings, jobs: Mapping[str, Executable], concurrency: int, grace_s: float) -> int:
    from hub.core import Hub
    from hub.internal.worker import InternalWorker
    from hub.store.connection import open_store

    async with open_store(settings) as store:
        worker = InternalWorker(Hub(store, settings), jobs, concurrency, grace_s)
        with Signals(lambda _: worker.stop()):
            await worker.run()
    return 0
