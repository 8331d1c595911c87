"""`NodeAgent`: announces a node and what it lends, and heartbeats for it, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import Any, Self, Unpack

from hub.client import calls
from hub.client.book import AgentOptions, Book
from hub.client.exchange import Patience, Send, exchange, now_s, passing, pause_s, readable
from hub.client.guard import Guard
from hub.client.transport import AsyncTransport
from hub.errors import BadInput, HubError, SlotLent, TooLarge, Unauthorized, UnknownNode

log = logging.getLogger("hub.client")

# Until the hub has said how often it wants to hear from us.
FIRST_PACE_S = 5.0
# Leaving must not hold up a shutdown; what is left behind expires.
LEAVE_PATIENCE = Patience(trouble_s=3.0, attempt_s=2.0)
ASKED_PATIENCE = Patience(trouble_s=10.0, attempt_s=5.0)
# A beat may not wait for long behind other news.
WITHDRAWN_AT_ONCE = 100


class NodeAgent:
    """Announces a node and heartbeats for it: `async with NodeAgent("n1", pools={"gpu:a100": 4}) as agent:`.

    Arguments: see `AgentOptions`. Entering registers the node, for as long as it takes until a hub answers, and raises
    `Unauthorized` or `BadInput` when it refuses. From then on the node is kept alive whatever happens to the hub: beats
    are paced by it, repeated with back-off while it is away, and a hub that has forgotten the node is told everything
    again, with what is lent. Only a refused secret ends it: the block is cancelled and `Unauthorized` raised. Leaving
    tells the hub, at most a few seconds long: the slots are withdrawn and what is lent of them ends.
    """

    def __init__(self, node_id: str, **options: Unpack[AgentOptions]) -> None:
        self._book = Book(node_id, options)
        self._options = options
        self._on_recycle = options.get("on_recycle")
        self._path = calls.path("node", node_id)
        self._registered = False
        self._looked = True  # for slots of an earlier process; False while it is still owed
        self._pace_s = FIRST_PACE_S
        self._failures = 0
        self._failure: Exception | None = None
        self._recycling: dict[str, asyncio.Task[None]] = {}
        self._lock = asyncio.Lock()  # what the hub is told about slots goes out in the order it happened
        self._soon = asyncio.Event()
        self._stop = asyncio.Event()
        self._notices: asyncio.Queue[tuple[Callable[..., Any], Any]] = asyncio.Queue()
        self._told: dict[str, Any] = {"on_lent": {}, "on_drain": False}
        self.callback_errors = 0
        """How many callbacks have raised; each is also logged."""

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._book.node_id

    @property
    def slots(self) -> Mapping[str, Mapping[str, Any]]:
        """Slot id -> slot, of everything the node offers, also what is being made fresh at this moment."""
        return MappingProxyType(self._book.slots)

    @property
    def lent(self) -> Mapping[str, str]:
        """Slot id -> fencing token of what is lent, as of the last beat; a holder with a smaller token is stale."""
        return MappingProxyType(self._book.lent)

    @property
    def draining(self) -> bool:
        """Whether the hub lends nothing of this node at present."""
        return self._book.draining

    async def __aenter__(self) -> Self:
        options = self._options
        self._http = AsyncTransport(
            options.get("url"), options.get("secret"), "HUB_NODE_SECRET", options.get("transport")
        )
        try:
            await self._announce()
        except BaseException:
            await self._http.close()
            raise
        self._guard = Guard()
        self._tasks = [asyncio.create_task(self._beat_for_ever()), asyncio.create_task(self._tell_for_ever())]
        for task in self._tasks:
            task.add_done_callback(self._task_ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ours = self._guard.close(error)
        running = [*self._tasks, *self._recycling.values()]
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        try:
            if not isinstance(self._failure, Unauthorized):
                await self._http.run(exchange(Send("DELETE", self._path), LEAVE_PATIENCE))
        except HubError as refused:
            log.warning("node %s could not tell the hub that it leaves: %s", self.node_id, refused)
        finally:
            await self._http.close()
        if ours and self._failure is not None:
            raise self._failure from error

    async def run(self) -> None:
        """Be the node until `stop()` or cancellation, then leave; raises `Unauthorized` when the secret is refused."""
        async with self:
            await self.stopped()

    async def stopped(self) -> None:
        """Return once `stop` was called."""
        await self._stop.wait()

    def stop(self) -> None:
        """Let `run` leave and return; also while it is still looking for a hub."""
        self._stop.set()

    async def publish(self, slots: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Offer more slots; per slot `{"browserId", "labelKey", "status", "reason"?}`.

        `status` is published, unchanged, lent or refused. Raises `BadInput` when the hub takes none of them, another
        `HubError` when it could not be told now: then the agent keeps the slots and publishes them as soon as it can.
        """
        async with self._lock:
            ids = self._book.enter(slots)
            self._book.unpublished.update(ids)
            try:
                return await self._publish(ids, ASKED_PATIENCE)
            except (BadInput, TooLarge):
                for slot_id in self._book.unpublished.intersection(ids):
                    self._book.forget(slot_id)
                raise

    async def withdraw(self, slot_id: str) -> bool:
        """Take a slot out of what is offered; whether that ended a grant of it. Safe to repeat.

        Raises a `HubError` when the hub could not be told now: the agent withdraws the slot as soon as it can.
        """
        async with self._lock:
            self._book.forget(slot_id)
            self._book.unwithdrawn.add(slot_id)
            return await self._withdraw(slot_id, ASKED_PATIENCE)

    async def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """`{"slotId", "valid", "reason"?, "ttlSeconds"?}`: whether the slot is lent under this token at this moment."""
        return await self._http.run(calls.verify(slot_id, token, ASKED_PATIENCE))

    # -- telling the hub ------------------------------------------------------------------------------------------

    async def _announce(self) -> None:
        while not self._registered and not self._stop.is_set():
            try:
                async with self._lock:
                    await self._register()
                await self._withdraw_leftovers()
            except HubError as error:
                if not passing(error) and not isinstance(error, UnknownNode):
                    raise
                wait_s = self._after_failure(error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._stop.wait()
        self._failures = 0

    async def _register(self) -> None:
        body, bites = self._book.registration()
        answer = await self._post("/node/register", body)
        self._pace(answer)
        self._book.version = 0  # not the answer's: what the hub knew before is only told to who is behind
        self._took(answer)
        for bite in bites:
            self._took(await self._post(f"{self._path}/slots", bite))
        self._registered = True
        self._tell_changes()

    async def _withdraw_leftovers(self) -> None:
        # A process that was killed may have offered slots under this id that its successor does not have.
        try:
            answer = await self._http.run(calls.one("nodes", self.node_id, self._patience()))
        except HubError as error:
            log.warning("node %s could not look for leftovers of an earlier process: %s", self.node_id, error)
            self._looked = not passing(error)
            return
        self._looked = True
        with readable():
            known = {str(slot["browserId"]) for slot in answer.get("slotList", ())}
        self._book.unwithdrawn |= known - self._book.slots.keys()
        await self._mend()

    async def _publish(self, ids: list[str], patience: Patience) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        for bite in self._book.bites(ids):
            try:
                answer = await self._post(f"{self._path}/slots", bite, patience)
            except UnknownNode:
                self._registered = False
                await self._register()
                answer = await self._post(f"{self._path}/slots", bite, patience)
            results += self._took(answer)
        return results

    async def _withdraw(self, slot_id: str, patience: Patience, *, only_free: bool = False) -> bool:
        query = {"onlyFree": "1"} if only_free else {}
        send = Send("DELETE", f"{self._path}/slots{calls.path(slot_id)}", query=query)
        try:
            answer = (await self._http.run(exchange(send, patience))).data
        except (UnknownNode, BadInput):
            answer = {}  # who does not know the node, or could never have taken the slot, does not lend it
        self._book.unwithdrawn.discard(slot_id)
        return bool(answer.get("ended"))

    async def _mend(self) -> None:
        """Tell the hub what it has not been told yet."""
        book = self._book
        async with self._lock:
            for slot_id in sorted(book.unwithdrawn)[:WITHDRAWN_AT_ONCE]:
                await self._withdraw(slot_id, self._patience())
            if book.unpublished:
                try:
                    await self._publish(sorted(book.unpublished), self._patience())
                except (BadInput, TooLarge):
                    await self._publish_each(sorted(book.unpublished))

    async def _publish_each(self, ids: list[str]) -> None:
        """Publish what was refused together; a slot that the hub never takes is forgotten and holds up no other."""
        for slot_id in ids:
            try:
                await self._publish([slot_id], self._patience())
            except (BadInput, TooLarge) as refused:
                log.error("node %s: the hub does not take slot %s: %s", self.node_id, slot_id, refused)
                self._book.forget(slot_id)

    async def _reserve(self, callback: Callable[[str], Any]) -> None:
        """Take slots that are to be made fresh off offer, so that nobody borrows them meanwhile, and have that done."""
        book = self._book
        until_s = now_s() + self._pace_s / 2  # the next beat must not wait for long behind this
        async with self._lock:
            for slot_id in sorted(book.to_rebuild() - self._recycling.keys()):
                if now_s() > until_s:
                    self._soon.set()
                    return
                if not book.rebuilding.get(slot_id):  # else its callback has failed before
                    asked_before = slot_id in book.rebuilding
                    book.reserving(slot_id)
                    try:
                        await self._withdraw(slot_id, self._patience(), only_free=True)
                    except SlotLent:
                        book.still_lent(slot_id, asked_before=asked_before)
                        continue
                    book.reserved(slot_id)
                self._recycling[slot_id] = asyncio.create_task(self._recycle(callback, slot_id))

    def _took(self, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
        with readable():
            results: list[dict[str, Any]] = list(answer.get("slots", ()))
            self._book.published(results)
            for result in results:
                if result["status"] == "refused":
                    log.warning("the hub refuses slot %s: %s", result["browserId"], result.get("reason"))
        return results

    async def _post(self, path: str, body: Mapping[str, Any], patience: Patience | None = None) -> dict[str, Any]:
        answer = await self._http.run(exchange(Send("POST", path, body), patience or self._patience()))
        with readable():
            return dict(answer.data)

    def _patience(self) -> Patience:
        # One attempt: the loop repeats. A beat that hangs must leave time for others before the node is suspected.
        return Patience(trouble_s=0.0, attempt_s=min(10.0, max(1.0, self._pace_s)))

    # -- heartbeats -----------------------------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        wait_s = self._pace_s
        while True:
            await self._wait(wait_s)
            try:
                await self._beat()
            except Unauthorized as refused:
                self._failure = refused
                return
            except HubError as error:
                self._registered = self._registered and not isinstance(error, UnknownNode)
                wait_s = self._after_failure(error)
            else:
                if self._failures:
                    log.info("node %s reaches the hub again", self.node_id)
                self._failures = 0
                # Never later than asked for: the time to the next beat is what the node lives on.
                wait_s = self._pace_s * random.uniform(0.9, 1.0)

    async def _beat(self) -> None:
        if self._registered:
            beat = self._book.beat()
            answer = await self._post("/node/heartbeat", beat)
            self._pace(answer)
            if answer.get("known"):
                with readable():
                    self._book.heard(beat, answer)
                self._tell_changes()
                if self._on_recycle is None and self._book.acknowledge():
                    self._soon.set()
                if not self._lock.locked():  # else somebody is telling the hub right now, at their own pace
                    await self._mend()
                if self._on_recycle is not None and not self._lock.locked():
                    await self._reserve(self._on_recycle)
                if not self._looked:
                    await self._withdraw_leftovers()
                return
            log.info("the hub does not know node %s: registering again", self.node_id)
            self._registered = False
        async with self._lock:
            await self._register()
        await self._mend()

    async def _wait(self, seconds: float) -> None:
        """Until the next beat is due; sooner when there is something to say, but not so that beats become a storm."""
        due_s = now_s() + seconds
        try:
            async with asyncio.timeout(seconds):
                await self._soon.wait()
        except TimeoutError:
            return
        await asyncio.sleep(min(max(0.0, due_s - now_s()), 0.2, self._pace_s / 8))
        self._soon.clear()

    def _pace(self, answer: Mapping[str, Any]) -> None:
        next_beat_ms = answer.get("nextBeatMs")
        if isinstance(next_beat_ms, int | float) and next_beat_ms > 0:
            self._pace_s = next_beat_ms / 1000

    def _after_failure(self, error: HubError) -> float:
        if not self._failures:
            log.warning("node %s does not get through to the hub and goes on trying: %s", self.node_id, error)
        wait_s = pause_s(self._failures, error.retry_after_s, longest_s=self._pace_s)
        self._failures += 1
        return min(wait_s, self._pace_s * random.uniform(0.75, 1.0))

    # -- callbacks ------------------------------------------------------------------------------------------------

    async def _recycle(self, callback: Callable[[str], Any], slot_id: str) -> None:
        """Have a slot made fresh that is off offer, and offer what came of it."""
        try:
            try:
                offered = self._book.rebuilt(slot_id, await self._call(callback, slot_id))
            except Exception as error:  # noqa: BLE001 - the node must live on, whatever its callbacks do
                self._callback_failed("on_recycle", error)
                await asyncio.sleep(self._pace_s)  # still to be made fresh: tried again
                return
            if offered:
                await self._mend()
            else:
                log.info("node %s: slot %s was taken care of by hand while it was made fresh", self.node_id, slot_id)
        except HubError as error:
            log.warning("node %s could not publish what replaces slot %s yet: %s", self.node_id, slot_id, error)
        finally:
            self._recycling.pop(slot_id, None)

    async def _tell_for_ever(self) -> None:
        while True:
            callback, news = await self._notices.get()
            try:
                await self._call(callback, news)
            except Exception as error:  # noqa: BLE001 - as above
                self._callback_failed(getattr(callback, "__name__", "a callback"), error)

    def _tell_changes(self) -> None:
        now = {"on_lent": dict(self._book.lent), "on_drain": self._book.draining}
        for name, news in now.items():
            callback: Callable[..., Any] | None = self._options.get(name)  # type: ignore[assignment]
            if callback is not None and news != self._told[name]:
                self._notices.put_nowait((callback, news))
        self._told = now

    async def _call(self, callback: Callable[..., Any], news: Any) -> Any:
        result = callback(news)
        return await result if inspect.isawaitable(result) else result

    def _callback_failed(self, name: str, error: Exception) -> None:
        self.callback_errors += 1
        log.error("node %s: %s raised", self.node_id, name, exc_info=error)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is not None and self._failure is None:
            self._failure = error if isinstance(error, Exception) else None
        self._guard.break_off()
