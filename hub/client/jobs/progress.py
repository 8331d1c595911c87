"""Progress of running tasks: gathered from any thread, sent once a second, and before the end of a task."""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hub.client.exchange import Send, lasting, passing, readable
from hub.client.guard import call_in
from hub.client.jobs.calls import ask, place
from hub.client.jobs.wire import Wire
from hub.errors import HubError, WorkerNotFound

log = logging.getLogger("hub.client")

INTERVAL_S = 1.0  # between two calls; the end of a task adds one, so that there are at most two a second
TRYING_S = 5.0  # seconds for which a call is repeated; the report of an end waits no longer for it
KEPT = 100  # lines of a log
MOST_BYTES = 256 * 1024
MOST_AT_ONCE = 100


@dataclass(slots=True)
class UnsentProgress:
    """The progress of a task that is still to be sent to the hub."""

    claim: str
    progress: float | None = None
    message: str | None = None
    log: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))

    def body(self, task_id: str) -> dict[str, Any]:
        """Return the report in the form of a request body."""
        body = {"claim": self.claim, "progress": self.progress, "message": self.message, "log": list(self.log)}
        return {"id": task_id, **{name: value for name, value in body.items() if value not in (None, "", [])}}

    def put_back(self, older: UnsentProgress) -> None:
        """Merge in an older report that could not be sent: newer values win, and the older log lines come first."""
        if older.claim == self.claim:
            self.progress = older.progress if self.progress is None else self.progress
            self.message = older.message if self.message is None else self.message
            self.log = deque([*older.log, *self.log], maxlen=KEPT)


@dataclass(eq=False)
class ProgressReporter:
    """The sender of progress for the tasks of one worker."""

    wire: Wire
    worker_id: Callable[[], str]
    on_lost: Callable[[Mapping[str, str | None]], object]
    """Called with the tasks that the worker no longer holds, as task id -> claim."""

    def __post_init__(self) -> None:
        self._news: dict[str, UnsentProgress] = {}
        self._lock = threading.Lock()
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._away: set[str] = set()  # ids of tasks whose progress is being sent
        self._sending = asyncio.Lock()
        self._deaf = False  # set when the hub is too old to take progress

    def say(self, task_id: str, claim: str, progress: float | None, message: str | None, text: str | None) -> None:
        """Add to the progress of a task, to be sent within a second. Safe from any thread."""
        with self._lock:
            news = self._news.get(task_id)
            if news is None or news.claim != claim:
                news = self._news[task_id] = UnsentProgress(claim)
            news.progress = news.progress if progress is None else progress
            news.message = news.message if message is None else message
            if text is not None:
                news.log.append(text)
        call_in(self._loop, self._woken.set)

    async def send_for_ever(self) -> None:
        """Send the gathered progress once a second, for ever."""
        self._loop = asyncio.get_running_loop()
        while True:
            with self._lock:
                waiting = bool(self._news)
            if not waiting:
                await self._woken.wait()
            self._woken.clear()
            async with self._sending:
                await self._send(self._take())
            await asyncio.sleep(INTERVAL_S)

    def has_news(self, task_id: str) -> bool:
        """Return whether a task has progress that no hub has taken yet."""
        with self._lock:
            return task_id in self._news or task_id in self._away

    async def flush(self, task_id: str) -> None:
        """Send the gathered progress of a task, before its end is reported; give up after some seconds."""
        async with self._sending:
            with self._lock:
                news = self._news.pop(task_id, None)
            if news is not None:
                await self._send({task_id: news})
        with self._lock:
            self._news.pop(task_id, None)

    def _take(self) -> dict[str, UnsentProgress]:
        with self._lock:
            taken: dict[str, UnsentProgress] = {}
            size = 0
            for task_id, news in list(self._news.items()):
                size += sum(len(text.encode()) for text in news.log)
                if taken and (size > MOST_BYTES or len(taken) == MOST_AT_ONCE):
                    break
                taken[task_id] = self._news.pop(task_id)
            return taken

    async def _send(self, news: Mapping[str, UnsentProgress]) -> None:
        """Send reports, repeating the call for some seconds; keep those that no hub has taken for the next call."""
        if not news or self._deaf:
            return
        body = {"worker_id": self.worker_id(), "tasks": [each.body(task_id) for task_id, each in news.items()]}
        send = Send("POST", place("tasks", "progress"), body, headers={"Idempotency-Key": uuid.uuid4().hex})
        self._away = set(news)
        try:
            answer = await self.wire.run(ask(send, lasting(TRYING_S)))
            with readable():
                outcomes = {str(each["id"]): str(each["outcome"]) for each in answer.data["tasks"]}
        except HubError as error:
            self._not_sent(news, error)
        else:
            lost = {task_id: each.claim for task_id, each in news.items() if outcomes.get(task_id, "ok") != "ok"}
            if lost:
                self.on_lost(lost)
        finally:
            self._away = set()

    def _not_sent(self, news: Mapping[str, UnsentProgress], error: HubError) -> None:
        if passing(error):
            with self._lock:
                for task_id, older in news.items():
                    self._news.setdefault(task_id, UnsentProgress(older.claim)).put_back(older)
        elif error.code in ("not-found", "method-not-allowed"):
            self._deaf = True
            log.warning("this hub takes no progress of tasks, so this worker sends none from now on: %s", error)
        elif not isinstance(error, WorkerNotFound):
            log.warning("the hub refused the progress of %d tasks: %s", len(news), error)
