"""`SyncNodeAgent`: the twin of `NodeAgent` for programs with threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Self, TypeVar, Unpack

from hub.client import forks
from hub.client.announcing import Announcing
from hub.client.node import Announced
from hub.client.node_thread import NodeThread
from hub.client.options import spelt_out
from hub.client.state import AgentOptions, AgentState
from hub.client.watchdog import Watchdog
from hub.errors import HubUnavailable

T = TypeVar("T")


class SyncNodeAgent(Announced):
    """A `NodeAgent` for programs without asyncio: `with SyncNodeAgent("n1", pools={"gpu:a100": 4}) as agent:`.

    The arguments are those of `NodeAgent`. Callbacks are called in threads of their own and may block. A refused secret
    ends the agent: then `failure` is that error, and `stop` (also the end of the `with`) raises it.
    """

    @spelt_out(AgentOptions)
    def __init__(self, node_id: str, **options: Unpack[AgentOptions]) -> None:
        self._state = AgentState(node_id, options)
        self._watchdog = Watchdog(options.get("max_silence"))
        self._announcing = Announcing(self._state, options, self._watchdog, _in_worker_thread)
        self._ready, self._ended = threading.Event(), threading.Event()
        self._thread = NodeThread(self._announcing, self._ready.set, self._end)
        forks.note(self)

    def begin_anew(self) -> None:
        """Mark the agent as ended in a forked child, because the node belongs to the parent."""
        self._ready, self._ended = threading.Event(), threading.Event()
        self._end()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, timeout: float | None = None) -> None:
        """Register the node, and return once the hub has it. May be called only once.

        Raises `Unauthorized` or `BadInput` when the hub refuses, and `HubUnavailable` when none answers in `timeout`
        seconds (None: waits for ever).
        """
        self._thread.start()
        if not self._ready.wait(timeout):
            self.stop()
            raise HubUnavailable(f"no hub took node {self.node_id} within {timeout} s")
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Leave the hub, within a few seconds, and return; raises the error that ended the agent before."""
        self._ended.set()
        self._thread.stop()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        """Keep the node announced until `stop()` in another thread, or Ctrl-C; raises what ended the agent."""
        with self:
            self.stopped()

    def stopped(self) -> None:
        """Wait until `stop` was called or an error has ended the agent."""
        self._ended.wait()

    def progress(self) -> None:
        """Tell the agent that the program does not hang; with `max_silence` the program must call this that often."""
        self._watchdog.made()

    @property
    def failure(self) -> Exception | None:
        """Return the error that ended the agent, or None while it lives."""
        return self._thread.failure

    def publish(self, slots: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Publish more slots; return the outcome for each; see `NodeAgent.publish`."""
        return self._call(lambda: self._announcing.calls.offer(slots))

    def withdraw(self, slot_id: str, reason: str = "", *, only_free: bool = False) -> bool:
        """Withdraw a slot; return whether that ended a lease of it; see `NodeAgent.withdraw`."""
        return self._call(lambda: self._announcing.calls.withdraw(slot_id, reason, only_free=only_free))

    def hold(self, slot_id: str, reason: str) -> None:
        """Hold an unwell slot: the hub does not lend it until `release`; see `NodeAgent.hold`."""
        self._call(lambda: self._announcing.hold(slot_id, reason))

    def release(self, slot_id: str) -> None:
        """End the hold of a slot that is well again; see `NodeAgent.release`."""
        self._call(lambda: self._announcing.hold(slot_id, None))

    def describe(
        self, slot_id: str, *, attributes: Mapping[str, Any] | None = None, warm: Iterable[str] | None = None
    ) -> None:
        """Change the attributes of a slot, or what is warm in it; see `NodeAgent.describe`."""
        self._call(lambda: self._announcing.describe(slot_id, attributes, warm))

    def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """Return whether the slot is now lent under this token, as a dict; see `NodeAgent.verify`."""
        return self._call(lambda: self._announcing.verify(slot_id, token))

    def _end(self) -> None:
        self._ended.set()
        self._ready.set()

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        done = self._thread.submit(work)
        try:
            return done.result()
        except concurrent.futures.CancelledError:
            raise self._thread.gone() from None


async def _in_worker_thread(callback: Callable[..., Any], news: Any) -> Any:
    result = await asyncio.to_thread(callback, news)
    return await result if inspect.isawaitable(result) else result
