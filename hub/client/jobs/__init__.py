"""The SDK for jobs: offer jobs with `Worker` or `JobManager`, submit tasks with `JobsClient`.

The classes `SyncWorker` and `SyncJobsClient` are for programs without asyncio.

    worker = Worker()

    @worker.job("modifiers", schema=Rotate)
    async def rotate(payload: Rotate, task: Task) -> None: ...

    asyncio.run(worker.run())

`JobManager` serves classes that derive from `Extension` from threads, and answers reads of `Provider` classes.
`Extension` and `Provider` need pydantic; nothing else here needs more than httpx.
"""

from typing import TYPE_CHECKING, Any

from hub.client.jobs.handlers import ClaimedTask, Task
from hub.client.jobs.manager import JobManager
from hub.client.jobs.submitting import JobsClient, SyncJobsClient
from hub.client.jobs.sync_worker import SyncWorker
from hub.client.jobs.tasks import (
    Category,
    InternalJob,
    ResultLost,
    ScheduleOptions,
    SubmitOptions,
    TaskCancelled,
    TaskEnded,
    TaskFailed,
    TaskInfo,
)
from hub.client.jobs.worker import Worker

if TYPE_CHECKING:
    from hub.client.jobs.extension import Extension, Provider

__all__ = [
    "Category",
    "ClaimedTask",
    "Extension",
    "InternalJob",
    "JobManager",
    "JobsClient",
    "Provider",
    "ResultLost",
    "ScheduleOptions",
    "SubmitOptions",
    "SyncJobsClient",
    "SyncWorker",
    "Task",
    "TaskCancelled",
    "TaskEnded",
    "TaskFailed",
    "TaskInfo",
    "Worker",
]


def __getattr__(name: str) -> Any:
    """Import `Extension` or `Provider` when a program first uses it, because both need pydantic."""
    if name not in ("Extension", "Provider"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hub.client.jobs import extension
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("pydantic"):
            raise
        raise ModuleNotFoundError(f"{name} needs pydantic; run: pip install pydantic", name=error.name) from None
    return getattr(extension, name)
