"""The SDK for jobs: offer them with `Worker` or `JobManager`, submit tasks with `JobsClient`; `Sync...` has no asyncio.

    worker = Worker()

    @worker.job("modifiers", schema=Rotate)
    async def rotate(payload: Rotate, task: Task) -> None: ...

    asyncio.run(worker.run())

`JobManager` serves classes that derive from `Extension` from threads, and answers reads for `Provider` classes.
"""

from hub.client.jobs.extension import Category, ClaimedTask, Extension, Provider
from hub.client.jobs.handlers import Task
from hub.client.jobs.internal import InternalJob
from hub.client.jobs.manager import JobManager
from hub.client.jobs.submitting import JobsClient, SyncJobsClient
from hub.client.jobs.tasks import SubmitOptions, TaskInfo
from hub.client.jobs.worker import Worker

__all__ = [
    "Category",
    "ClaimedTask",
    "Extension",
    "InternalJob",
    "JobManager",
    "JobsClient",
    "Provider",
    "SubmitOptions",
    "SyncJobsClient",
    "Task",
    "TaskInfo",
    "Worker",
]
