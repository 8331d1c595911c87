"""`NodeAgent`, for asyncio: registers a node and its slots, and sends its heartbeats."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar, Unpack

from hub.client.announcing import Announcing
from hub.client.guard import Guard, call_in
from hub.client.node_thread import NodeThread
from hub.client.options import spelt_out
from hub.client.state import AgentOptions, AgentState
from hub.client.watchdog import Watchdog

T = TypeVar("T")
# The exit code of an agent that ended because another process is its node: one that starts it again must not do so.
NODE_TAKEN = 76


class Announced:
    """The facts about a node that `NodeAgent` and `SyncNodeAgent` both have; no property can be written through."""

    _state: AgentState
    _watchdog: Watchdog
    _announcing: Announcing

    @property
    def node_id(self) -> str:
        """Return the id of the node."""
        return self._state.node_id

    @property
    def slots(self) -> Mapping[str, Mapping[str, Any]]:
        """Return slot id -> slot of all slots of the node, also of those that are being rebuilt."""
        return MappingProxyType(dict(self._state.slots))

    @property
    def lent(self) -> Mapping[str, str]:
        """Return slot id -> fencing token of each lease, as of the last heartbeat; a smaller token is outdated."""
        return MappingProxyType(dict(self._state.lent))

    @property
    def held(self) -> Mapping[str, str]:
        """Return slot id -> reason of the slots that this agent holds."""
        return MappingProxyType(dict(self._state.holds.own))

    @property
    def draining(self) -> bool:
        """Return whether the hub lends no slot of this node at present."""
        return self._state.draining

    @property
    def callback_errors(self) -> int:
        """Return the number of callbacks that have raised; each is also logged."""
        return self._announcing.callback_errors

    def alive_while(self, check: Callable[[], object]) -> None:
        """Send heartbeats only while `check()` is true, so that the hub expires a node whose program hangs or failed.

        `check` is called before each heartbeat, in the thread that sends it, and must return at once; raising counts as
        false. Several checks may be given. When all are true again, the heartbeats go on.
        """
        self._watchdog.alive_while(check)


class NodeAgent(Announced):
    """The agent of a node, with its heartbeats: `async with NodeAgent("n1", pools={"gpu:a100": 4}) as agent:`.

    Arguments: see `AgentOptions`. Entering registers the node, for as long as it takes until a hub answers, and raises
    `Unauthorized` or `BadInput` when the hub refuses. From then on a separate thread sends heartbeats at the pace that
    the hub asks for, also in a busy program. It repeats them with back-off while no hub answers, and registers the
    node again, with its slots and leases, at a hub that has forgotten it. `max_silence` and `alive_while` stop the
    heartbeats of a program that hangs. When the hub refuses the secret, another process has become the node, or another
    machine is it already, the block is cancelled and `Unauthorized`, `Superseded` or `NodeIdInUse` raised. Leaving the
    block unregisters the node, within a few seconds: its slots are withdrawn and their leases end.

    Callbacks are called on the event loop that entered the block.
    """

    @spelt_out(AgentOptions)
    def __init__(self, node_id: str, **options: Unpack[AgentOptions]) -> None:
        self._state = AgentState(node_id, options)
        self._watchdog = Watchdog(options.get("max_silence"), lambda answer: call_in(self._home, answer))
        self._announcing = Announcing(self._state, options, self._watchdog, self._call)
        self._thread = NodeThread(
            self._announcing,
            on_ready=lambda: call_in(self._home, _set, self._ready),
            on_end=lambda: call_in(self._home, _set, self._ended),
        )
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
        if not self._thread.is_ours:  # a forked child: the node is its parent's
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
        """Wait until `stop` was called."""
        await self._stop.wait()

    def stop(self) -> None:
        """Make `run` leave the hub and return; also while it has not reached a hub yet."""
        self._stop.set()
        self._thread.stop()

    async def publish(self, slots: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Publish more slots; return `{"slotId", "label", "status", "reason"?}` for each, along with the former names.

        `status` is published, unchanged, lent or refused. Raises `BadInput` when the hub takes none of the slots, and
        another `HubError` when the call fails now: then the agent keeps the slots and publishes them later.
        """
        return await self._in_thread(lambda: self._announcing.calls.offer(slots))

    async def withdraw(self, slot_id: str, reason: str = "", *, only_free: bool = False) -> bool:
        """Withdraw a slot; return whether that ended a lease of it. Safe to repeat.

        The holder of that lease reads the `reason`, at most 200 characters, in its `LeaseLost`. Raises a `HubError`
        when the call fails now; the agent withdraws the slot later. With `only_free` a slot that is lent stays, and
        `SlotLent` is raised; nothing is done later.
        """
        return await self._in_thread(lambda: self._announcing.calls.withdraw(slot_id, reason, only_free=only_free))

    async def hold(self, slot_id: str, reason: str) -> None:
        """Hold an unwell slot: the hub does not lend it until `release`, also after it has lost its store.

        A lease of the slot goes on; its holder is told the `reason`, one line of at most 200 characters, which
        operators see as well. Held again, the slot gets the new reason. Raises `BadInput` for a slot of another node
        and for another kind of reason, and another `HubError` when the call fails now: then the agent holds the slot
        all the same and tells the hub later. A slot that is withdrawn is held no longer.
        """
        await self._in_thread(lambda: self._announcing.hold(slot_id, reason))

    async def release(self, slot_id: str) -> None:
        """End the hold of a slot that is well again. Safe to repeat.

        A hold by an operator stays. Raises a `HubError` when the call fails now; the agent tells the hub later.
        """
        await self._in_thread(lambda: self._announcing.hold(slot_id, None))

    async def describe(
        self, slot_id: str, *, attributes: Mapping[str, Any] | None = None, warm: Iterable[str] | None = None
    ) -> None:
        """Change the attributes of a slot, or what is warm in it, of which None stays as it is. A lease goes on.

        The next heartbeat tells the hub, at once; registrations repeat it, also after the hub has lost its store.
        Attributes are name -> number, text, bool or list of texts, at most 32. Warm keys are at most 16 words, each 1
        to 64 letters, digits and `_.:/@+-`. Raises `BadInput` for others, and for a slot of another node.
        """
        await self._in_thread(lambda: self._announcing.describe(slot_id, attributes, warm))

    async def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """Return `{"slotId", "valid", "reason"?, "ttlSeconds"?}`: whether the slot is now lent under this token."""
        return await self._in_thread(lambda: self._announcing.verify(slot_id, token))

    def _break_off(self, _: asyncio.Future[None]) -> None:
        if self._thread.failure is not None:
            self._guard.break_off()

    async def _in_thread(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        done = self._thread.submit(work)
        try:
            return await asyncio.wrap_future(done)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # this asyncio task was not cancelled: the agent ended
                raise self._thread.gone() from None
            raise

    # -- called in the thread -------------------------------------------------------------------------------------

    def _has_a_loop(self) -> bool:
        return not self._home.is_closed()

    async def _call(self, callback: Callable[..., Any], news: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_called(callback, news), self._home))


async def _called(callback: Callable[..., Any], news: Any) -> Any:
    result = callback(news)
    return await result if inspect.isawaitable(result) else result


def _set(awaited: asyncio.Future[None]) -> None:
    if not awaited.done():
        awaited.set_result(None)
