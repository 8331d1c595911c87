"""The calls of a node about itself and its slots; changes of slots are sent in the order in which they happened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from hub.client import calls
from hub.client.described import MEMBERS
from hub.client.exchange import HubAnswer, RetryPolicy, Send, Steps, exchange, passing, readable
from hub.client.state import AgentState
from hub.client.transport import AsyncTransport
from hub.errors import BadInput, HubError, NotFound, SlotLent, Superseded, TooLarge, UnknownNode

log = logging.getLogger("hub.client")

# Seconds between heartbeats until the hub has said how often it wants them.
FIRST_PACE_S = 5.0
# Leaving must not delay a shutdown for long: a node whose call fails expires later.
LEAVE_POLICY = RetryPolicy(trouble_s=3.0, attempt_s=2.0)
ASKED_POLICY = RetryPolicy(trouble_s=10.0, attempt_s=5.0)
WAIT_S = 25.0  # seconds for which the hub may hold a call: fewer than most proxies allow for a request
# The most slots that one `repair` withdraws, so that the next heartbeat does not wait for long.
WITHDRAWN_AT_ONCE = 100


class NodeCalls:
    """The calls of one node. `state` has the slots and leases that they report."""

    def __init__(self, state: AgentState, http: AsyncTransport) -> None:
        self.state = state
        self.registered = False
        self.looked = True  # False while the slots at the hub are still to be compared with ours
        self.pace_s = FIRST_PACE_S
        self.lock = asyncio.Lock()  # so that changes of slots are sent in the order in which they happened
        self._http = http
        self._number = 0  # of the last call about slots: the hub ignores a late one by its number
        self._compared: tuple[str, int] | None = None  # the hub's sum of our slots, and the call before it
        self._path = calls.path("node", state.node_id)

    @property
    def busy(self) -> bool:
        """Return whether a call about slots is on its way."""
        return self.lock.locked()

    async def register(self) -> None:
        """Register the node with all its slots."""
        async with self.lock:
            await self._register()

    async def beat(self) -> bool:
        """Send a heartbeat and store its answer in `state`; return False when the hub does not know the node.

        Raises `Superseded` when another process has become the node.
        """
        beat = self.state.beat()
        if self.busy:  # the higher number of this call would make a publication late that is on its way
            beat = {name: value for name, value in beat.items() if name not in MEMBERS}
        if beat.keys() & {"held", *MEMBERS}:
            self._number += 1
            beat["number"] = self._number
        before = None if self.busy else self._number
        answer = await self._post("/node/heartbeat", beat)
        self._take_pace(answer)
        if not answer.get("known"):
            log.info("the hub does not know node %s: registering again", self.state.node_id)
            self.registered = False
            return False
        if answer.get("superseded"):
            raise Superseded(f"another process is node {self.state.node_id} by now; this one stops")
        for slot_id, note in (answer.get("notes") or {}).items():
            self._warn(slot_id, note)
        quiet = before == self._number and not self.busy  # no slot changed meanwhile
        with readable():
            self.state.heard(beat, answer, told=quiet)  # else a publication may still come that knew other holds
        if quiet:
            self._look_at_offers()
        return True

    def _look_at_offers(self) -> None:
        look = (self.state.offers, self._number)
        if look != self._compared and self.state.differs():
            log.warning("node %s: the hub does not have the slots that it should; comparing them", self.state.node_id)
            self.looked = False
        self._compared = look

    async def offer(self, slots: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Publish slots for the program; see `NodeAgent.publish`."""
        async with self.lock:
            ids = self.state.enter(slots)
            self.state.unpublished.update(ids)
            try:
                return await self._publish(ids, ASKED_POLICY)
            except (BadInput, TooLarge):
                for slot_id in self.state.unpublished.intersection(ids):
                    self.state.forget(slot_id)
                raise

    async def withdraw(self, slot_id: str, reason: str, *, only_free: bool = False) -> bool:
        """Withdraw a slot for the program; see `NodeAgent.withdraw`."""
        async with self.lock:
            if only_free:
                if slot_id in self.state.lent:  # as a hub that has lost its store may not know yet
                    raise SlotLent(f"the slot {slot_id} is lent")
                await self._withdraw(slot_id, ASKED_POLICY, only_free=True)
                self.state.forget(slot_id)
                return False
            held = self.state.holds.own
            self.state.forget(slot_id)
            self.state.unwithdrawn.add(slot_id)
            if slot_id in held:  # until the hub has withdrawn it: a heartbeat without it would let it be lent
                self.state.holds.put(slot_id, held[slot_id])
            return await self._withdraw(slot_id, ASKED_POLICY, reason=reason)

    async def tell_hold(self, slot_id: str) -> None:
        """Tell the hub at once whether the slot is held now, and why; raises a `HubError` when that fails now.

        A slot that the hub does not have at present is told when it is published.
        """
        async with self.lock:
            reason, path = self.state.holds.own.get(slot_id), f"{self._path}/slots{calls.path(slot_id)}/hold"
            self._number += 1
            caller = {"incarnation": self.state.incarnation, "number": self._number}
            if reason is None:
                send = Send("DELETE", path, query={name: str(value) for name, value in caller.items()})
            else:
                send = Send("POST", path, {"reason": reason, **caller})
            try:
                await self._http.run(exchange(send, ASKED_POLICY))
            except UnknownNode:
                self.registered = False
                await self._register()
            except NotFound as error:
                if error.facts.get("code") != "unknown-slot":  # of a hub that is older than holds
                    raise

    async def reserve(self, slot_id: str) -> None:
        """Withdraw a free slot; raises `SlotLent` when it is lent. The caller holds `lock`."""
        await self._withdraw(slot_id, self.policy(), only_free=True)

    async def verify(self, slot_id: str, token: str) -> dict[str, Any]:
        """Return `{"slotId", "valid", "reason"?, "ttlSeconds"?}`: whether the slot is now lent under this token."""
        return await self._http.run(calls.read(ASKED_POLICY, "leases", slot_id, "verify", token=token))

    async def changed(self, since: int) -> int:
        """Return the version of the orders for the node, as soon as it is not `since`, or `since` after `WAIT_S`."""
        headers = {"Prefer": f"wait={WAIT_S:.0f}"}
        path, query = calls.path("nodes", self.state.node_id, "orders"), {"since": str(since)}
        send = Send("GET", path, query=query, headers=headers, wait_s=WAIT_S)
        answer = await self._http.run(exchange(send, self.policy()))
        with readable():
            return int(answer.data["version"])

    async def leave(self) -> None:
        """Unregister the node, trying for a few seconds."""
        await self._http.run(self.left(LEAVE_POLICY))

    def left(self, policy: RetryPolicy) -> Steps[HubAnswer]:
        """Return the steps of `leave`. Safe to repeat, and harmless when late: they apply to this incarnation only."""
        return exchange(Send("DELETE", self._path, query={"incarnation": self.state.incarnation}), policy)

    async def compare(self) -> None:
        """Withdraw the slots that the hub has and the node has not, and publish those that the hub lacks.

        An earlier process that was killed may have offered slots under this node id that this one does not know, and a
        late call may have undone a later one.
        """
        try:
            answer = await self._http.run(calls.read(self.policy(), "nodes", self.state.node_id))
        except HubError as error:
            log.warning("node %s could not look at what the hub has of it: %s", self.state.node_id, error)
            self.looked = not passing(error)
            return
        self.looked = True
        with readable():
            self.state.compare(str(slot["browserId"]) for slot in answer.get("slotList", ()))
        await self.repair()

    async def repair(self) -> None:
        """Send the hub all changes of slots that it has not taken yet."""
        state = self.state
        async with self.lock:
            for slot_id in sorted(state.unwithdrawn)[:WITHDRAWN_AT_ONCE]:
                await self._withdraw(slot_id, self.policy())
            if state.unpublished:
                try:
                    await self._publish(sorted(state.unpublished), self.policy())
                except (BadInput, TooLarge):
                    await self._publish_each(sorted(state.unpublished))

    def policy(self) -> RetryPolicy:
        """Return a policy of one attempt, short enough that after a heartbeat that hangs there is time for another."""
        return RetryPolicy(trouble_s=0.0, attempt_s=min(10.0, max(1.0, self.pace_s)))

    async def _register(self) -> None:
        held, (body, batches) = self.state.holds.own, self.state.registration()
        answer = await self._tell("/node/register", body)
        self._take_pace(answer)
        self.state.registered(answer)
        self._took(answer)
        for batch in batches:
            self._took(await self._tell(f"{self._path}/slots", batch))
        self.state.holds.told(held)
        self.registered = True

    async def _publish(self, ids: list[str], policy: RetryPolicy) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        for batch in self.state.batches(ids):
            try:
                answer = await self._tell(f"{self._path}/slots", batch, policy)
            except UnknownNode:
                self.registered = False
                await self._register()
                answer = await self._tell(f"{self._path}/slots", batch, policy)
            results += self._took(answer)
        return results

    async def _publish_each(self, ids: list[str]) -> None:
        """Publish slots one by one after the hub has refused them together; forget each that it refuses again."""
        for slot_id in ids:
            try:
                await self._publish([slot_id], self.policy())
            except (BadInput, TooLarge) as refused:
                log.error("node %s: the hub does not take slot %s: %s", self.state.node_id, slot_id, refused)
                self.state.forget(slot_id)

    async def _withdraw(self, slot_id: str, policy: RetryPolicy, *, only_free: bool = False, reason: str = "") -> bool:
        self._number += 1
        query = {"incarnation": self.state.incarnation, "number": str(self._number)}
        query |= {"onlyFree": "1"} if only_free else {}
        query |= {"reason": reason} if reason else {}
        send = Send("DELETE", f"{self._path}/slots{calls.path(slot_id)}", query=query)
        try:
            answer = (await self._http.run(exchange(send, policy))).data
        except UnknownNode:
            answer, self.registered = {}, False
        except BadInput:
            answer = {}  # the hub never could take this slot, so it does not lend it
        self.state.unwithdrawn.discard(slot_id)
        if slot_id not in self.state.slots:
            self.state.holds.drop(slot_id)
        return bool(answer.get("ended"))

    def _took(self, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
        with readable():
            results: list[dict[str, Any]] = list(answer.get("slots", ()))
            self.state.published(results)
            for result in results:
                result |= {"slotId": result["browserId"], "label": result.get("labelKey")}
                if result["status"] == "refused":
                    log.warning("the hub refuses slot %s: %s", result["slotId"], result.get("reason"))
                self._warn(result["slotId"], result.get("note"))
        return results

    def _warn(self, slot_id: str, note: Any) -> None:
        if note == "too-many-classes":
            log.warning(
                "slot %s is lent without regard to its attributes: the hub has slots of too many kinds", slot_id
            )

    async def _tell(self, path: str, body: Mapping[str, Any], policy: RetryPolicy | None = None) -> dict[str, Any]:
        """Send a change of slots with its number, which an attempt that is repeated keeps; return the answer."""
        self._number += 1
        caller = {"incarnation": self.state.incarnation, "number": self._number}
        return await self._post(path, {**body, **caller}, policy)

    async def _post(self, path: str, body: Mapping[str, Any], policy: RetryPolicy | None = None) -> dict[str, Any]:
        answer = await self._http.run(exchange(Send("POST", path, body), policy or self.policy()))
        with readable():
            return dict(answer.data)

    def _take_pace(self, answer: Mapping[str, Any]) -> None:
        next_beat_ms = answer.get("nextBeatMs")
        if isinstance(next_beat_ms, int | float) and next_beat_ms > 0:
            self.pace_s = next_beat_ms / 1000
