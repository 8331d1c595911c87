"""`NodeAgent`: announces a node and what it lends, and heartbeats for it, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from hub.client.announcing import Announcing
from hub.client.guard import Guard
from hub.client.node_thread import NodeThread
from hub.client.options import spelt_out
from hub.client.state import AgentOptions, AgentState
from hub.client.watchdog import Watchdog

T = TypeVar("T")


class Announced:
    """The facts that both agents tell of their node; each call returns a copy."""

    _state: AgentState
    _announcing: Announcing

    @property
    def node_id(self) -> str:
        """Return the id of the node."""
        return self._state.node_id

    @property
    def slots(self) -> dict[str, Mapping[str, Any]]:
        """Return slot id -> slot, of everything the node offers, also of the slots that are being rebuilt."""
        return dict(self._state.slots)

    @property
    def lent(self) -> dict[str, str]:
        """Return slot id -> fencing token of each lease, of the last beat; a holder with a smaller token is stale."""
        return dict(self._state.lent)

    @property
    def draining(self) -> bool:
        """Return whether the hub lends no slot of this node at present."""
        return self._state.draining

    @property
    def callback_errors(self) -> int:
        """Return the number of callbacks that have raised; each is also logged."""
        return self._announcing.callback_errors


class NodeAgent(Announced):
    """The agent of a node, with its heartbeats: `async with NodeAgent("n1", pools={"gpu:a100": 4}) as agent:`.

    Arguments: see `AgentOptions`. Entering registers the node, for as long as it takes until a hub answers, and raises
    `Unauthorized` or `BadInput` when it refuses. From then on the node is kept alive whatever happens to the hub, and
    whatever the program does: a thread of its own beats at the pace of the hub, repeats with back-off while it is away,
    and tells a hub that has forgotten the node everything again, with what is lent. `max_silence` and `alive_while` end
    that for a program that hangs. Only a refused secret ends it otherwise: the block is cancelled and `Unauthorized`
    raised. Leaving tells the hub, at most a few seconds long: the slots are withdrawn and what is lent of them ends.

    Callbacks are called on the event loop that entered the block.
    """

    @spelt_out(AgentOptions)
    def __init__(self, node_id: str, **options: Unpack[AgentOptions]) -> None:
        self._state = AgentState(node_id, options)
        self._watchdog = Watchdog(options.get("max_silence"), self._soon)
        self._announcing = Announcing(self._state, options, self._watchdog, self._call)
        self._thread = NodeThread(self._announcing, self._say_ready, self._say_ended)
        self._stop = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._home = asyncio.get_running_loop()
        self._ready, self._ended = self._home.create_future(), self._home.create_future()
        self._watchdog.alive_while(self._has_a_loop)
        self._thread.start()
        try:
            await asyncio.wait((self._ready, self._ended), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._thread.stop()
            await asyncio.wait([self._ended])
            raise
        if self._thread.failure is not None:
            raise self._thread.failure
        self._guard = Guard()
        self._ended.add_done_callback(self._break_off)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ours = self._guard.close(error)
        if not self._thread.is_ours:  # the node is that of the parent of this process
            return
        self._thread.stop()
        await asyncio.wait([self._ended])
        if ours and self._thread.failure is not None:
            raise self._thread.failure from error

    async def run(self) -> None:
        """Keep the node announced until `stop()` or cancellation; raises `Unauthorized` for a refused secret."""
        async with self:
            await self.stopped()

    async def stopped(self) -> None:
        """Return once `stop` was called."""
        await self._stop.wait()

    def stop(self) -> None:
        """Let `run` leave and return; also while it is still looking for a hub."""
        self._stop.set()
        self._thread.stop()

    def alive_while(self, check: Callable[[], object]) -> None:
        """Beat only while `check()` is true, so that the hub misses a node whose program hangs or is of no use.

        It is called before each beat, in the thread that beats, and must return at once; one that raises is not true.
        Several may be given. When all are true again the node is back with its next beat.
        """
        self._watchdog.alive_while(check)

    async def publish(self, slots: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Offer more slots; return per slot `{"slotId", "label", "status", "reason"?}`, with the former names beside
        them.

        `status` is published, unchanged, lent or refused. Raises `BadInput` when the hub takes none of them, another
        `HubError` when it could not be told now: then the agent keeps the slots and publishes them as soon as it can.
        """
        return await self._in_thread(self._announcing.publish(slots))

    async def withdraw(self, slot_id: str) -> bool:
        """Take a slot off offer; return whether that ended a lease of it. Safe to repeat.

        Raises a `HubError` when the hub could not be told now: the agent withdraws the slot as soon as it can.
        """
        return await self._in_thread(self._announcing.withdraw(slot_id))

    async def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """Return `{"slotId", "valid", "reason"?, "ttlSeconds"?}`: is the slot lent under this token at this moment."""
        return await self._in_thread(self._announcing.verify(slot_id, token))

    def _break_off(self, _: asyncio.Future[None]) -> None:
        if self._thread.failure is not None:
            self._guard.break_off()

    async def _in_thread(self, work: Coroutine[Any, Any, T]) -> T:
        done = self._thread.submit(work)
        try:
            return await asyncio.wrap_future(done)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # it was not us who were cancelled, but the agent ended
                raise self._thread.gone() from None
            raise

    # -- called in the thread -------------------------------------------------------------------------------------

    def _has_a_loop(self) -> bool:
        return not self._home.is_closed()

    def _soon(self, answer: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed, which `_has_a_loop` says
            self._home.call_soon_threadsafe(answer)

    def _say_ready(self) -> None:
        self._settle(self._ready)

    def _say_ended(self) -> None:
        self._settle(self._ended)

    def _settle(self, awaited: asyncio.Future[None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: no task waits any more
            self._home.call_soon_threadsafe(_set, awaited)

    async def _call(self, callback: Callable[..., Any], news: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_called(callback, news), self._home))


async def _called(callback: Callable[..., Any], news: Any) -> Any:
    result = callback(news)
    return await result if inspect.isawaitable(result) else result


def _set(awaited: asyncio.Future[None]) -> None:
    if not awaited.done():
        awaited.set_result(None)
