"""Time limits of requests: one timer serves all of them, where `asyncio.timeout` makes a timer for each request."""

from __future__ import annotations

import asyncio
from contextvars import Context
from types import TracebackType


class Deadlines:
    """The requests under way, all with the same time limit, in the order in which they began."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._under_way: dict[Deadline, None] = {}
        self._watched_by: asyncio.AbstractEventLoop | None = None

    def begin(self) -> Deadline:
        """Return a context manager around one request, for the task of asyncio that serves it; it raises `TimeoutError`
        as `asyncio.timeout` does."""
        return Deadline(self)

    def enter(self, request: Deadline, loop: asyncio.AbstractEventLoop) -> float:
        """Note that a request has begun, and return the time by the loop's clock at which it must end."""
        if self._watched_by is not loop:
            self._watched_by, self._under_way = loop, {}  # requests of an earlier loop are not served any more
            loop.call_later(self._seconds, self._look, loop, context=Context())  # belongs to no request
        self._under_way[request] = None
        return loop.time() + self._seconds

    def leave(self, request: Deadline) -> None:
        """Forget a request that has ended, or that has its own timer now."""
        self._under_way.pop(request, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._watched_by is not loop:
            return
        now = loop.time()
        while self._under_way:
            request = next(iter(self._under_way))
            if request.until > now:
                loop.call_at(request.until, self._look, loop, context=Context())
                return
            self.leave(request)
            request.end()
        self._watched_by = None


class Deadline:
    """The time limit of one request, as a context manager."""

    __slots__ = ("_all", "_cancelling", "_is_over", "_loop", "_task", "_timer", "until")

    def __init__(self, of_all: Deadlines) -> None:
        self._all = of_all
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling, self._loop = task, task.cancelling(), task.get_loop()
        self.until = self._all.enter(self, self._loop)
        return self

    def extend(self, seconds: float) -> None:
        """Extend the time limit of the request by `seconds`, with a timer of its own; does nothing when its time is
        over."""
        if not self._is_over:
            self._all.leave(self)
            if self._timer is not None:
                self._timer.cancel()
            self.until += seconds
            self._timer = self._loop.call_at(self.until, self.end)

    def end(self) -> None:
        """Cancel the request, because its time is over."""
        self._is_over = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        else:
            self._all.leave(self)
        was_over, self._is_over = self._is_over, True  # a request that has ended gets no more time
        if was_over and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
