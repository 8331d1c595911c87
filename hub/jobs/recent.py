"""The latest registrations, submits and reports, remembered by a hub to repeat them in a store that lost them."""

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

KEEP_S = 10.0  # how long calls are remembered: Redis saves its file every second, and a replica is behind by less
MOST = 10_000  # calls that are remembered; repeating them takes about a second
MOST_BYTES = 32 * 1024 * 1024  # bytes of all remembered calls
MOST_RESULT_BYTES = 16 * 1024 * 1024  # bytes of results; beyond that the oldest ends of tasks are kept without result
OTHERS_S = 5.0  # how long a submit is retried until another hub has registered its job again, which takes two seconds
BATCH = 128  # calls that are repeated side by side
_log = get_logger("hub.jobs")
Again = Callable[[], Awaitable[Any]]


class Recent:
    """The calls of the last seconds, each safe to repeat. They are repeated in a store that lost its last seconds.

    They are not repeated in a store that came back empty. Hubs notice that at different times, so one hub could submit
    a task again whose end another hub had reported, and that report is lost. The manual says what becomes of tasks.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._end = store.script("tasks/recall")
        self._calls: deque[tuple[float, int, Again]] = deque()
        self._jobs: set[Again] = set()  # the calls among them that register jobs, which submits need
        self._bytes = 0
        self._ends: deque[dict[str, str]] = deque()  # the arguments of remembered reports that have a result
        self._result_bytes = 0
        store.when_replaced(self.recall)

    def registered(self, again: Again, size: int) -> None:
        """Remember the registration of a job; `recall` repeats these before any submit or report."""
        self._jobs.add(again)
        self.note(again, size)

    def note(self, again: Again, size: int = 0) -> None:
        """Remember a call of `size` bytes. `again()` repeats the call, which changes nothing that was not lost."""
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
        """Remember that a task was moved by a worker's report, or cancelled."""
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
        """Repeat the remembered calls in a store that may have lost them; forget them if the store is empty."""
        if self._store.emptied:
            self._forget()
            return
        since = (self._store.heard_at or time.monotonic()) - KEEP_S  # an outage does not count: nothing was done in it
        calls = [again for at, _, again in self._calls if at >= since]
        recalled = await self._repeat([again for again in calls if again in self._jobs])
        recalled += await self._repeat([again for again in calls if again not in self._jobs])
        if calls:
            _log.warning("tasks re-reported after Redis lost data", sent=len(calls), missing_ends=recalled)

    async def _repeat(self, calls: Sequence[Again]) -> int:
        """Repeat these calls, and return how many ends of tasks the store had lost."""
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
                    _log.error("task not re-reported to Redis", why=str(reply), exc_info=reply)
                elif reply == ["job"]:
                    self._store.later(partial(self._once_more, again, until))
                recalled += reply == ["recalled"]
        return recalled

    async def _once_more(self, again: Again, until: float) -> None:
        """Repeat a submit with each tick, at most until `until`, until another hub has registered its job again."""
        if await again() == ["job"] and time.monotonic() < until:
            self._store.later(partial(self._once_more, again, until))
