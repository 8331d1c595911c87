"""What the SDK raises where a caller waits for the result of a task that has none."""

from __future__ import annotations

from hub.errors import HubError


class TaskEnded(HubError):
    """A task has come to no result; `task` in the facts is its id."""

    code = "task-ended"
    status = 0


class TaskFailed(TaskEnded):
    """Its handler raised, or something ended it; the detail is the `error` of the task."""

    code = "task-failed"


class TaskCancelled(TaskEnded):
    """Somebody cancelled it."""

    code = "task-cancelled"


class ResultLost(TaskEnded):
    """It was completed, and the store has lost what it came to."""

    code = "result-lost"
