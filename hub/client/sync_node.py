"""`SyncNodeAgent`: the twin of `NodeAgent` for programs with threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar, Unpack, cast

from hub.client.book import AgentOptions
from hub.client.node import NodeAgent
from hub.errors import HubUnavailable

T = TypeVar("T")


class SyncNodeAgent:
    """A `NodeAgent` with a thread of its own: `with SyncNodeAgent("n1", pools={"gpu:a100": 4}) as agent:`.

    Arguments as for `NodeAgent`; callbacks are called in worker threads and may take their time. A refused secret ends
    the agent: `failure` says so, and `stop` (the end of the `with`) raises it.
    """

    def __init__(self, node_id: str, **options: Unpack[AgentOptions]) -> None:
        for name in ("on_recycle", "on_drain", "on_lent"):
            if (callback := options.get(name)) is not None:
                options[name] = _in_thread(cast(Callable[[Any], Any], callback))
        self._agent = NodeAgent(node_id, **options)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name=f"node-{node_id}", daemon=True)
        self._begun = threading.Event()
        self._ready = threading.Event()
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, timeout: float | None = None) -> None:
        """Register, and return once the hub has the node; good for one use.

        Raises `Unauthorized` or `BadInput` when it refuses, `HubUnavailable` when no hub answered for `timeout` seconds
        (None: waits for ever).
        """
        self._thread.start()
        if not self._ready.wait(timeout):
            self.stop()
            raise HubUnavailable(f"no hub took node {self.node_id} within {timeout} s")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Leave, and return once that is done (a few seconds at most); raises what ended the agent before."""
        if self._thread.is_alive():
            self._begun.wait()
            with suppress(RuntimeError):  # its loop has just ended by itself
                self._loop.call_soon_threadsafe(self._agent.stop)
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def failure(self) -> Exception | None:
        """What ended the agent, or None while it lives."""
        return self._failure

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._agent.node_id

    @property
    def lent(self) -> dict[str, str]:
        """Slot id -> fencing token of what is lent, as of the last beat."""
        return dict(self._agent.lent)

    @property
    def slots(self) -> dict[str, Mapping[str, Any]]:
        """Slot id -> slot, of everything the node offers."""
        return dict(self._agent.slots)

    @property
    def draining(self) -> bool:
        """Whether the hub lends nothing of this node at present."""
        return self._agent.draining

    def publish(self, slots: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """As `NodeAgent.publish`: offer more slots; what became of each."""
        return self._call(self._agent.publish(slots))

    def withdraw(self, slot_id: str) -> bool:
        """As `NodeAgent.withdraw`: take a slot out of what is offered; whether that ended a grant of it."""
        return self._call(self._agent.withdraw(slot_id))

    def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """As `NodeAgent.verify`: whether the slot is lent under this token at this moment."""
        return self._call(self._agent.verify(slot_id, token))

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun.set()
        try:
            async with self._agent as agent:
                self._ready.set()
                await agent.stopped()
        except Exception as error:  # noqa: BLE001 - handed to the thread that asks for it
            self._failure = error
        finally:
            self._ready.set()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            work.close()
            raise self._failure or HubUnavailable(f"the agent of node {self.node_id} does not run")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _in_thread(callback: Callable[[Any], Any]) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    async def call(news: Any) -> Any:
        return await asyncio.to_thread(callback, news)

    return call
