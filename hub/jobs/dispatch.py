"""Submits to `@internal` jobs: such a task is `claimed` at once, and goes to executors as a message in a Redis stream.

The message has the form of taskiq's stream broker (taskiq-redis), so any taskiq worker can run the task.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING

from hub.errors import InternalJobNotConfigured, KeyReused, UnknownReply
from hub.jobs.jobs import no_job
from hub.jobs.models import TaskRecord
from hub.jobs.names import dashed
from hub.jobs.quotas import exceeded
from hub.jobs.recent import Recent
from hub.jobs.replies import task_of
from hub.observability.logs import get_logger
from hub.store.store import Store

if TYPE_CHECKING:
    from taskiq.abc.formatter import TaskiqFormatter

_log = get_logger("hub.jobs")


class Dispatch:
    """The submits to `@internal` jobs of one store."""

    def __init__(self, store: Store, keep_s: int = 86_400, recent: Recent | None = None) -> None:
        self._recent = recent or Recent(store)
        self._keep_s = keep_s
        self._submit = store.script("tasks/submit_internal")

    async def submit(
        self, room: str, full: str, payload: str, user: str, task: str, *,
        key: str = "", fingerprint: str = "", later: int = 0,
    ) -> TaskRecord:  # fmt: skip
        """Submit a task and return it: `claimed`, or `failed` when no message could be made of it. The same id returns
        the same task. `later` is what further calls of the same request will add, -1 in such a call.

        Raises `JobNotFound`, `InternalJobNotConfigured` when no executor runs the job, `QuotaExceeded`, and `KeyReused`
        when the key of the request came with another fingerprint; then nothing was stored.
        """
        message, why_not = _message(room, full, payload, task)
        again = partial(
            self._submit, full=full, room=room, user=user, id=task, payload=payload, message=message, key=key,
            fingerprint=fingerprint, keep_s=self._keep_s, told=0, later=later,
        )  # fmt: skip
        match await again():
            case ["ok", found]:
                self._recent.note(partial(again, told=1), len(payload) + len(message))
                return task_of(found)
            case ["failed", found, why]:
                _log.warning("internal task not dispatched", task=dashed(task), job=full, why=why or why_not)
                return task_of(found)
            case ["job"]:
                raise no_job(full)
            case ["executor"]:
                raise InternalJobNotConfigured(f"No executor runs the @internal job {full}")
            case ["quota", *refusal]:
                raise exceeded(refusal)
            case ["reused"]:
                raise KeyReused("This Idempotency-Key came before with another request")
            case reply:
                raise UnknownReply(self._submit.name, reply)


def _message(room: str, full: str, payload: str, task: str) -> tuple[bytes, str]:
    """Return the message for executors and ''; or an empty message and the reason why none can be made."""
    from taskiq.message import TaskiqMessage

    try:
        arguments = {"task_id": dashed(task), "room_id": room, "payload": json.loads(payload)}
        message = TaskiqMessage(task_id=task, task_name=full, labels={}, labels_types={}, args=[], kwargs=arguments)
        return formatter().dumps(message).message, ""
    except (ValueError, RecursionError) as error:  # nested too deeply, or a number of thousands of digits
        return b"", str(error)


@cache
def formatter() -> TaskiqFormatter:
    """Return taskiq's formatter of messages, made once: importing taskiq takes a third of a second."""
    from taskiq import InMemoryBroker

    return InMemoryBroker().formatter
