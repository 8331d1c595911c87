"""The life of a node: it registers, sends heartbeats through outages of the hub, obeys its orders, and leaves."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any

from hub.client.backlog import CLOSE_S, ONCE, Message, backlog_of
from hub.client.credential import Credential
from hub.client.exchange import passing, readable
from hub.client.guard import is_set_within
from hub.client.node_calls import NodeCalls
from hub.client.pod_annotations import PodAnnotations
from hub.client.state import AgentOptions, AgentState
from hub.client.watchdog import Watchdog
from hub.errors import HubError, NodeIdInUse, SlotLent, Superseded, Unauthorized, UnknownNode
from hub.retries import now_s, pause_s

log = logging.getLogger("hub.client")
CALM_S = 0.5
IN_USE_S = 0.2  # at least, between two attempts to register while another machine is the node


class Announcing:
    """The life of a node on an event loop of its own, so that no heartbeat waits for the program.

    `await call(callback, news)` runs a callback of the program where the program wants it run (its event loop, or a
    worker thread) and returns its result.
    """

    def __init__(
        self,
        state: AgentState,
        options: AgentOptions,
        watchdog: Watchdog,
        call: Callable[[Callable[..., Any], Any], Awaitable[Any]],
    ) -> None:
        self.state = state
        self.callback_errors = 0
        self._options = options
        self._watchdog = watchdog
        self._call = call
        self._on_recycle = options.get("on_recycle")
        self._pod = PodAnnotations.own() if options.get("pod") else None
        self._failures = 0
        self._heard_most_s = 0.0  # the longest silence of another machine that the hub told of
        self._in_use_s: float | None = None  # when the hub said first that another machine is the node, on `now_s`
        self._stalled = False
        self._recycling: dict[str, asyncio.Task[None]] = {}
        self._beat_soon = asyncio.Event()
        self._stop = asyncio.Event()
        self._notices: asyncio.Queue[tuple[Callable[..., Any], Any]] = asyncio.Queue()
        self._last_news: dict[str, Any] = {"on_lent": {}, "on_drain": False}

    def stop(self) -> None:
        """Make `live` leave the hub and return; also while it has not reached a hub yet."""
        self._stop.set()

    async def live(self, ready: Callable[[], None]) -> None:
        """Register the node, call `ready`, send heartbeats until `stop`, then leave. Raises what ended it early."""
        self._credential = Credential(self.state.node_id, self._options)
        self._http = http = self._credential.transport()
        self.calls = NodeCalls(self.state, http)
        try:
            failure = await self._until_stopped(self._announce())
            if failure is not None:
                raise failure
            ready()
            beside = [] if self._pod is None else [self._pod.write_for_ever()]
            if self._options.get("on_lent") or self.state.policy == "fresh":  # a slot that is not fresh is not lent
                beside.append(self._watch_orders())
            failure = await self._until_stopped(self._beat_for_ever(), self._notify_for_ever(), *beside)
            if not isinstance(failure, Unauthorized | Superseded | NodeIdInUse):
                await self._leave()
            if failure is not None:
                raise failure
        finally:
            await http.close()

    async def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """Check a fencing token; see `NodeAgent.verify`."""
        answer = await self.calls.verify(slot_id, token)
        if answer.get("valid") and self.state.lent.get(slot_id) != token:
            self._beat_soon.set()  # no heartbeat has brought this lease yet
        return answer

    async def hold(self, slot_id: str, reason: str | None) -> None:
        """Hold a slot, or with None as the reason release it; see `NodeAgent.hold`."""
        if reason is None:
            self.state.holds.drop(slot_id)
        else:
            self.state.hold(slot_id, reason)
        if self.calls.busy:  # other changes are on their way, which may take long: a heartbeat overtakes them
            self._beat_soon.set()
        try:
            await self.calls.tell_hold(slot_id)
        except HubError:
            self._beat_soon.set()
            raise

    async def describe(self, slot_id: str, attributes: Mapping[str, Any] | None, warm: Iterable[str] | None) -> None:
        """Change what a slot has and what is warm in it; see `NodeAgent.describe`."""
        self.state.describe(slot_id, attributes, warm)
        self._beat_soon.set()

    async def _until_stopped(self, *coroutines: Coroutine[Any, Any, Any]) -> BaseException | None:
        """Run coroutines until `stop` or the end of one of them; then cancel the rest. Return the error, if any."""
        tasks = [asyncio.create_task(work) for work in (self._stop.wait(), *coroutines)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        running = [*tasks, *self._recycling.values()]
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        return next((error for task in done if (error := task.exception()) is not None), None)

    async def _leave(self) -> None:
        try:
            await self.calls.leave()
        except HubError as refused:
            action = f"tell that node {self.state.node_id} leaves"
            if not passing(refused):
                log.warning("could not %s (%s); its slots stay until the hub expires it as silent", action, refused)
                return
            backlog = backlog_of(self._http)
            steps = partial(self.calls.left, ONCE)  # of this process only, not of a later one with the same id
            backlog.add(Message(action, steps, math.inf, "its slots stay until the hub expires it as silent"), refused)
            if backlog.end_with_client():
                await asyncio.to_thread(backlog.close, CLOSE_S)

    async def _announce(self) -> None:
        while not self.calls.registered:
            try:
                await self._credential.admit(self._http, self.calls.register)
                await self.calls.compare()
            except HubError as error:
                if not passing(error) and not isinstance(error, UnknownNode | NodeIdInUse):
                    raise
                await asyncio.sleep(self._after_failure(error))
        self._queue_notices()
        self._failures, self._in_use_s = 0, None
        self._beat_soon.set()  # a registration keeps a node alive for 90 s, a heartbeat for less: beat at once

    # -- heartbeats -----------------------------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        wait_s = self.calls.pace_s
        while True:
            await self._wait(wait_s)
            if self._stalls():
                wait_s = self.calls.pace_s / 2
                continue
            try:
                await self._beat()
            except (Unauthorized, Superseded):
                raise
            except HubError as error:
                self.calls.registered = self.calls.registered and not isinstance(error, UnknownNode)
                wait_s = self._after_failure(error)
            else:
                if self._failures:
                    log.info("node %s reaches the hub again", self.state.node_id)
                self._failures, self._in_use_s = 0, None
                # Never later than the hub asked for: a node that is late may be taken for silent.
                wait_s = self.calls.pace_s * random.uniform(0.9, 1.0)

    async def _watch_orders(self) -> None:
        """Send a heartbeat at once when the orders for the node change; after a failed call, ask again later."""
        known = self.state.version
        while True:
            try:
                version = await self.calls.changed(known)
            except HubError:
                await asyncio.sleep(self.calls.pace_s)
                continue
            if version == known:
                await asyncio.sleep(CALM_S)  # a hub that answers at once would be asked without end
                continue
            known = version
            self._beat_soon.set()

    def _stalls(self) -> bool:
        why = self._watchdog.stalled()
        if why and not self._stalled:
            log.error("node %s sends no heartbeats: %s", self.state.node_id, why)
        elif self._stalled and not why:
            log.warning("node %s sends heartbeats again: its program gets on", self.state.node_id)
        self._stalled = why is not None
        return self._stalled

    async def _beat(self) -> None:
        node = self.calls
        if node.registered and await node.beat():
            self._queue_notices()
            if self._on_recycle is None and self.state.acknowledge():
                self._beat_soon.set()
            if not node.busy:  # else another asyncio task is sending changes right now
                if self.state.described:
                    self._beat_soon.set()  # for what had no room in this one
                await node.repair()
            if self._on_recycle is not None and not node.busy:
                await self._reserve(self._on_recycle)
            if not node.looked:
                await node.compare()
            return
        await node.register()
        self._queue_notices()
        await node.repair()

    async def _wait(self, seconds: float) -> None:
        """Wait until the next heartbeat is due, or shortly after a change, so that it carries several changes."""
        due_s = now_s() + seconds
        if not await is_set_within(seconds, self._beat_soon):
            return
        await asyncio.sleep(min(max(0.0, due_s - now_s()), 0.2, self.calls.pace_s / 8))
        self._beat_soon.clear()

    def _after_failure(self, error: HubError) -> float:
        """Return for how long to wait before the next attempt; raises the error where none is worth it."""
        pace_s = self.calls.pace_s
        if isinstance(error, NodeIdInUse):
            return self._until_silent(error)
        if not self._failures:
            log.warning("node %s does not get through to the hub and goes on trying: %s", self.state.node_id, error)
        wait_s = pause_s(self._failures, error.retry_after_s, longest_s=pace_s)
        self._failures += 1
        return min(wait_s, pace_s * random.uniform(0.75, 1.0))

    def _until_silent(self, taken: NodeIdInUse) -> float:
        """Return for how long to wait for the other machine with this node id to be heard or to be silent.

        This machine may have been that one before it was rebooted. Raises the error when the other was heard meanwhile.
        """
        with readable():
            heard_s, silent_in_s = (float(taken.facts[name]) / 1000 for name in ("heardMs", "silentInMs"))
        if self._in_use_s is None:
            self._in_use_s = now_s()
            log.warning("node %s waits until another machine with its id is silent: %s", self.state.node_id, taken)
            self._heard_most_s = heard_s
        elif (
            heard_s < self._heard_most_s or heard_s <= 0
        ):  # not by the time here: the hub clock stands still while Redis is away
            raise taken
        self._heard_most_s = max(self._heard_most_s, heard_s)
        return max(IN_USE_S, silent_in_s / 3)  # until then the other beats several times

    # -- callbacks ------------------------------------------------------------------------------------------------

    async def _reserve(self, callback: Callable[[str], Any]) -> None:
        """Start `callback` for each slot that is to be rebuilt; a slot that may be lent is withdrawn before."""
        state = self.state
        until_s = now_s() + self.calls.pace_s / 2  # the next heartbeat must not wait for long behind this
        async with self.calls.lock:
            for slot_id in sorted(state.to_rebuild() - self._recycling.keys()):
                if now_s() > until_s:
                    self._beat_soon.set()
                    return
                if not (state.rebuilding.get(slot_id) or slot_id in state.ends):  # else it is off offer already
                    asked_before = slot_id in state.rebuilding
                    state.reserving(slot_id)
                    try:
                        await self.calls.reserve(slot_id)
                    except SlotLent:
                        state.still_lent(slot_id, asked_before=asked_before)
                        continue
                    state.reserved(slot_id)
                self._recycling[slot_id] = asyncio.create_task(self._recycle(callback, slot_id))

    async def _recycle(self, callback: Callable[[str], Any], slot_id: str) -> None:
        """Call the callback that rebuilds a slot, and offer the slot that it returns, or the same slot."""
        end = self.state.ends.get(slot_id)
        try:
            try:
                fresh = await self._called(callback, slot_id)
                offered = self.state.made_fresh(slot_id, fresh, end) if end else self.state.rebuilt(slot_id, fresh)
            except Exception as error:  # noqa: BLE001 - the node must live on after any error of its callbacks
                self._callback_failed("on_recycle", error)
                await asyncio.sleep(self.calls.pace_s)  # before the next heartbeat starts the callback again
                return
            if offered:
                self._beat_soon.set()  # a beat says that a slot which was held back is fresh
                await self.calls.repair()
            else:
                log.info(
                    "node %s: slot %s was taken care of by hand while it was made fresh", self.state.node_id, slot_id
                )
        except HubError as error:
            log.warning("node %s could not publish what replaces slot %s yet: %s", self.state.node_id, slot_id, error)
        finally:
            self._recycling.pop(slot_id, None)

    async def _notify_for_ever(self) -> None:
        while True:
            callback, news = await self._notices.get()
            try:
                await self._called(callback, news)
            except Exception as error:  # noqa: BLE001 - the node must live on after any error of its callbacks
                self._callback_failed(getattr(callback, "__name__", "a callback"), error)

    def _queue_notices(self) -> None:
        if self._pod is not None:
            self._pod.lends(len(self.state.lent))
        now = {"on_lent": dict(self.state.lent), "on_drain": self.state.draining}
        for name, news in now.items():
            callback: Callable[..., Any] | None = self._options.get(name)  # type: ignore[assignment]
            if callback is not None and news != self._last_news[name]:
                self._notices.put_nowait((callback, news))
        self._last_news = now

    async def _called(self, callback: Callable[..., Any], news: Any) -> Any:
        try:
            return await self._call(callback, news)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("the callback was cancelled") from None

    def _callback_failed(self, name: str, error: Exception) -> None:
        self.callback_errors += 1
        log.error("node %s: %s raised", self.state.node_id, name, exc_info=error)
