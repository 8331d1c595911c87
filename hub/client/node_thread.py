"""The thread of a node: its event loop runs only the heartbeats of that node and the calls that go with them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hub.client import forks
from hub.client.announcing import Announcing
from hub.client.guard import call_in
from hub.errors import HubUnavailable

T = TypeVar("T")


class NodeThread:
    """The thread that keeps a node alive from `start` on. It calls `on_ready` and `on_end`, each at most once.

    It is a daemon thread and so ends with the program: a node whose program has ended must not seem alive.
    """

    def __init__(self, announcing: Announcing, on_ready: Callable[[], None], on_end: Callable[[], None]) -> None:
        self.failure: Exception | None = None
        self.is_ours = True
        self._announcing = announcing
        self._on_ready = on_ready
        self._on_end = on_end
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        forks.note(self)
        self._asked: set[concurrent.futures.Future[Any]] | None = set()  # None: the thread has ended
        self._thread = threading.Thread(target=self._run, name=f"node-{announcing.state.node_id}", daemon=True)

    def begin_anew(self) -> None:
        """Mark the thread as ended in a forked child: the node is the parent's, which goes on with the heartbeats."""
        self.is_ours = False
        self._lock, self._loop, self._asked = threading.Lock(), None, None

    def start(self) -> None:
        """Start the thread; may be called only once."""
        self._thread.start()

    def stop(self) -> None:
        """Make the node leave the hub and the thread end, without waiting. Safe at any time and from any thread."""
        self._stopping = True
        call_in(self._loop, self._announcing.stop)

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread.is_alive():
            self._thread.join()

    @property
    def running(self) -> bool:
        """Return whether the thread runs: the node is being registered or sends heartbeats."""
        return self._loop is not None and self._asked is not None

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]:
        """Call and await `work` in the thread; return a future of its result, cancelled when the thread ends first.

        When the thread does not run, raises the error that ended it, or `HubUnavailable`.
        """

        async def run() -> T:
            return await work()

        with self._lock:
            if self._loop is not None and self._asked is not None:
                done = asyncio.run_coroutine_threadsafe(run(), self._loop)
                self._asked.add(done)
                done.add_done_callback(self._asked.discard)
                return done
        raise self.failure or self.gone()

    def gone(self) -> HubUnavailable:
        """Return the error for calls to a node whose thread does not run."""
        return HubUnavailable(f"the agent of node {self._announcing.state.node_id} does not run")

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except Exception as error:  # noqa: BLE001 - handed to the thread that runs the agent
            self.failure = error
        finally:
            with self._lock:
                left, self._asked = self._asked or set(), None
            for each in list(left):  # submitted too late for the loop to run it
                each.cancel()
            self._on_end()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stopping:
            self._announcing.stop()
        await self._announcing.live(self._on_ready)
