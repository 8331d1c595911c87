"""What a hub remembers of the latest registrations, submits and reports: for a store without its last seconds."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from hub.errors import StoreUnavailable
from hub.jobs.models import LOST, Result
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.store import Store

KEEP_S = 10.0  # Redis writes its file every second, and a replica is behind by less than that
MOST = 10_000  # calls: said again in about a second
MOST_BYTES = 32 * 1024 * 1024
MOST_RESULT_BYTES = 16 * 1024 * 1024  # of what tasks came to; the oldest ends are said again without
OTHERS_S = 5.0  # for so long a job is waited for that another hub registered; it says so within two seconds
BATCH = 128  # calls said again at a time, in order
_log = get_logger("hub.jobs")
Again = Callable[[], Awaitable[Any]]


class Recent:
    """Calls of the last seconds, each of them safe to repeat; a store that lost its last seconds is told them again.

    One that was emptied is not, nor later on: hubs do not notice it at once, and what one of them says is pending has
    ended by another one that says nothing. What becomes of tasks then stands in the manual.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._end = store.script("tasks/recall")
        self._calls: deque[tuple[float, int, Again]] = deque()
        self._jobs: set[Again] = set()  # those of them that tasks may depend on
        self._bytes = 0
        self._ends: deque[dict[str, str]] = deque()  # those with a result
        self._result_bytes = 0
        store.when_replaced(self.recall)

    def registered(self, again: Again, size: int) -> None:
        """Remember that a job was registered: that is said before anything about tasks."""
        self._jobs.add(again)
        self.note(again, size)

    def note(self, again: Again, size: int = 0) -> None:
        """Remember a call; `again` makes it once more, or finds it made."""
        now = time.monotonic()
        self._calls.append((now, size, again))
        self._bytes += size
        while self._calls[0][0] < now - KEEP_S or len(self._calls) > MOST or self._bytes > MOST_BYTES:
            _, size, forgotten = self._calls.popleft()
            self._bytes -= size
            self._jobs.discard(forgotten)
            if not self._calls:
                break

    def reported(self, result: Result, request: str, worker: str = "") -> None:
        """Remember that a task was moved by a report, or cancelled."""
        end = {"id": result.task, "status": result.status, "error": result.error, "claim": result.claim,
               "request": f"{request}:{result.status}", "worker": worker, "result": result.value}  # fmt: skip

        async def again() -> Any:
            return await self._end(**end)

        self.note(again, len(result.error))
        if not result.value:
            return
        self._ends.append(end)
        self._result_bytes += len(result.value)
        while self._result_bytes > MOST_RESULT_BYTES:
            oldest = self._ends.popleft()
            self._result_bytes -= len(oldest["result"])
            oldest["result"] = LOST

    def _forget(self) -> None:
        self._calls.clear()
        self._jobs.clear()
        self._ends.clear()
        self._bytes = self._result_bytes = 0

    async def recall(self) -> None:
        """Say it all again to a store that may have lost it."""
        if self._store.emptied:
            self._forget()
            return
        since = (self._store.heard_at or time.monotonic()) - KEEP_S  # nothing was done in an outage
        calls = [again for at, _, again in self._calls if at >= since]
        recalled = await self._say([again for again in calls if again in self._jobs])
        recalled += await self._say([again for again in calls if again not in self._jobs])
        if calls:
            _log.warning("tasks re-reported after Redis lost data", sent=len(calls), missing_ends=recalled)

    async def _say(self, calls: Sequence[Again]) -> int:
        """Say these again; how many ends the store had lost."""
        recalled = 0
        until = time.monotonic() + OTHERS_S
        for start in range(0, len(calls), BATCH):
            batch = calls[start : start + BATCH]
            replies = await asyncio.gather(*(again() for again in batch), return_exceptions=True)
            for again, reply in zip(batch, replies, strict=True):
                if isinstance(reply, StoreUnavailable):
                    raise reply
                if isinstance(reply, BaseException):
                    metrics.unhandled.inc()
                    _log.error("task not re-reported", why=str(reply), exc_info=reply)
                elif reply == ["job"]:
                    self._store.later(partial(self._once_more, again, until))
                recalled += reply == ["recalled"]
        return recalled

    async def _once_more(self, again: Again, until: float) -> None:
        """Say it again with every tick until the hub that knows of the job has spoken."""
        if await again() == ["job"] and time.monotonic() < until:
            self._store.later(partial(self._once_more, again, until))
