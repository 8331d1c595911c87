"""Registered nodes: to register, drain and remove them, to take their heartbeats, and to list and describe them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from hub.batched import batched
from hub.capacity.nodes import refusals
from hub.capacity.nodes.beats import Beats
from hub.capacity.nodes.draining import Draining
from hub.capacity.nodes.models import (
    NOT_LENDING,
    Departure,
    DrainCall,
    DrainState,
    LentFor,
    Liveness,
    Node,
    Order,
    Place,
    Registered,
    Registration,
)
from hub.errors import NodeIdCollides, Settling, Superseded, UnknownNode, UnknownReply
from hub.observability.logs import get_logger
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store

BATCH = 64  # slots per script, where each slot costs a dozen Redis commands: under 2 ms
UPGRADE_S, UPGRADE_BATCH = 300, 500  # seconds for which nodes are asked to rebuild their slots; nodes per script
LOOK = 1000  # slots per script, where the script only reads whether they are free, lent or held: under 2 ms
SEARCHED = 20_000  # nodes that one call looks through for a text
_log = get_logger("hub.capacity.nodes")


def _superseded(node_id: str) -> Superseded:
    return Superseded(f"another process is node {node_id} by now, or this one has left; it is to stop")


def _unknown(node_id: str) -> UnknownNode:
    return UnknownNode(f"node {node_id} is not registered")


@dataclass(frozen=True)
class Removal:
    """The outcome of removing a node: whether it was known, how many slots went, and which of them had leases, which
    ended.
    """

    known: bool
    slots: int
    ended: tuple[str, ...]


_LIVENESS: dict[str, Liveness] = {"alive": "alive", "ahead": "alive", "fresh": "suspect", "stale": "stale"}


class Nodes:
    """The nodes of a store. Every change is one script; a node with many slots takes several."""

    def __init__(self, store: Store, token_s: float, classes_max: int) -> None:
        self._store = store
        self._token_ms = int(token_s * 1000)
        self.beats = Beats(store, lambda: self.timeout_ms, classes_max)
        self._ask_upgrade = store.script("nodes/ask_upgrade")
        self._register = store.script("nodes/register")
        self._leave = store.script("nodes/leave")
        self._prune = store.script("nodes/prune")
        self._draining = Draining(store)
        self._safe_to_kill = store.script("nodes/safe_to_kill")
        self._describe = store.script("nodes/describe")
        self._find = store.script("nodes/find")
        self._expire = store.script("nodes/expire")

    @property
    def timeout_ms(self) -> int:
        """Return the node timeout that holds for all hubs."""
        return self._store.node_timeout_ms

    async def version(self, node_id: str, since: int, seconds: float) -> int:
        """Wait until the version of the node's orders is not `since` any more, at most `seconds`; return the version.

        Raises `UnknownNode` and `StoreUnavailable`.
        """
        keys, until = self._store.keys, time.monotonic() + seconds
        async with self._store.notifications.listen(keys.orders_notice(key_part(node_id))) as subscription:
            while True:
                known, version = await asyncio.gather(
                    self._store.read("SISMEMBER", keys.nodes, node_id),
                    self._store.read("HGET", keys.orders(key_part(node_id)), "version"),
                )
                if not known:
                    raise _unknown(node_id)
                if int(version or 0) != since or not await subscription.wait_until(until):
                    return int(version or 0)

    async def register(
        self,
        node: Registration,
        pool_labels: Sequence[str],
        audit_new: str,
        audit_old: str,
        audit_max: int,
        drained: DrainCall | None = None,
    ) -> Registered:
        """Register a node, or update its registration; `drained` is the last drain or undrain the node was told of.

        The audit entry `audit_new` or `audit_old` is written, by whether the node is new. Raises `NodeIdCollides` when
        another node's id becomes the same part of a key, `Superseded` when a newer process is the node,
        `NodeIdInUse` when a process on another host is the node and is heard, and `Settling` for a process that
        registers for the first time while those before it may still report what the store has lost.
        """
        part = key_part(node.node_id)
        while True:
            reply = await self._register(
                id=node.node_id, part=part, apps=",".join(node.apps), capacity=max(0, node.capacity),
                labels=orjson.dumps(node.labels).decode(), base_url=node.base_url, timeout_ms=self.timeout_ms,
                audit_new=audit_new, audit_old=audit_old, audit_max=audit_max, incarnation=node.incarnation,
                said_term=node.term, first=int(node.first), host=node.host, token_ms=self._token_ms, rest=pool_labels,
            )  # fmt: skip
            match reply:
                case ["registered" | "updated" as word, version, term, before, kept, lent, asked]:
                    await self._draining.bring_back(node.node_id, drained, DrainCall.read(kept))
                    if before:
                        _log.warning("node process replaced", node=node.node_id, by=node.incarnation, before=before)
                    tokens = dict(zip(lent[::2], lent[1::2], strict=True))
                    return Registered(word == "registered", int(version), term, tokens, LentFor.read(asked))
                case ["in use", host, ago_ms]:
                    raise refusals.in_use(node.node_id, host, ago_ms, self.timeout_ms)
                case ["superseded"]:
                    raise _superseded(node.node_id)
                case ["collides", other]:
                    raise NodeIdCollides(
                        f"node id {node.node_id!r} is stored under the same key as the registered {other!r}; "
                        "use letters, digits, hyphens, underscores and dots"
                    )
                case ["settling", ms]:
                    raise refusals.settling(node.node_id, ms)
                case ["leaving"]:
                    await self.prune(part)
                case _:
                    raise UnknownReply(self._register.name, reply)

    async def leave(self, node_id: str, incarnation: str = "") -> Removal:
        """Remove a node at once: withdraw its slots and end their leases.

        Raises `Superseded`, and changes nothing, when `incarnation` is not the process that is the node now.
        """
        part = key_part(node_id)
        word, dropped, ended, left = await self._leave(id=node_id, part=part, limit=BATCH, incarnation=incarnation)
        if word == "superseded":
            raise _superseded(node_id)
        self._draining.forget(node_id)
        more, also_ended = await self.prune(part) if left else (0, ())
        return Removal(word == "left", dropped + more, (*ended, *also_ended))

    async def prune(self, part: str) -> tuple[int, tuple[str, ...]]:
        """Remove the remaining slots of a node that is not registered any more, in batches.

        Return how many slots were removed, and the ids of those whose leases ended.
        """
        total, all_ended = 0, []
        while True:
            _, dropped, ended, left = await self._prune(part=part, limit=BATCH)
            total += dropped
            all_ended += ended
            if left == 0:
                return total, tuple(all_ended)

    async def drain(self, node_id: str, call: DrainCall) -> DrainState:
        """Hold back a node's free slots, or offer them again; return how far that is. Raises `UnknownNode`.

        A call with a reason cordons the node: its leases go on, and the node is not told to drain. With a deadline, the
        leases that are left end after `left_ms` of the hub clock. A later call replaces or removes the deadline.
        """
        return await self._draining.call(node_id, call)

    async def safe_to_kill(self, node_id: str) -> Departure:
        """Return whether a node can be shut down without ending a lease. Raises `UnknownNode`; and `Settling` for an
        unknown node soon after the store was lost, when the node may not have registered again yet.
        """
        part, cursor, drain = key_part(node_id), "0", ""
        while True:
            reply = await self._safe_to_kill(
                id=node_id, part=part, timeout_ms=self.timeout_ms, cursor=cursor, limit=LOOK
            )
            match reply:
                case ["ok", seen, left_ms, lent, offered, after]:
                    if drain not in ("", seen):  # the node was drained anew after the first batch: begin again
                        cursor, drain = "0", ""
                        continue
                    cursor, drain = after, seen
                    if lent or offered or str(cursor) == "0":
                        return Departure(bool(seen), lent, offered, None if left_ms < 0 else int(left_ms))
                case ["unknown"]:
                    raise _unknown(node_id)
                case ["settling", ms]:
                    raise Settling(
                        f"node {node_id} is not registered, but the store was lost a moment ago and it may come back",
                        retry_after_s=ms / 1000,
                    )
                case _:
                    raise UnknownReply(self._safe_to_kill.name, reply)

    async def expire(self, node_id: str, action: str, keep: bool) -> list[Any]:
        """Check in one script whether a nominated node is still stale, and if so, act on it.

        `action`: `expire` removes the node, `refresh` keeps it alive, `look` changes nothing. With `keep` a node with a
        free slot is kept alive. Returns the reply that `lua/commands/nodes/expire.lua` describes, for all slots.
        """
        part = key_part(node_id)
        reply: list[Any] = await self._expire(
            id=node_id, part=part, timeout_ms=self.timeout_ms, action=action, keep=int(keep), limit=BATCH
        )
        if reply[0] == "expired" and reply[4]:
            more, also_ended = await self.prune(part)
            return ["expired", reply[1], reply[2] + more, [*reply[3], *also_ended], 0]
        return reply

    async def ids(self) -> list[str]:
        """Return the ids of all registered nodes, read in batches so that very many do not stall Redis."""
        found: dict[str, None] = {}
        cursor: Any = "0"
        while True:
            cursor, page = await self._store.read("SSCAN", self._store.keys.nodes, cursor, "COUNT", 1000)
            found.update(dict.fromkeys(page))
            if str(cursor) == "0":
                return list(found)

    async def page(self, cursor: str, limit: int) -> tuple[int, list[str], str | None]:
        """Return (exact number of nodes, ids of a page, cursor of the next page or None for the last).

        Pages are in the order of Redis and may hold a few ids more or less than `limit`.
        """
        keys = self._store.keys
        total, (after, page) = await self._store.read_all(
            [("SCARD", keys.nodes), ("SSCAN", keys.nodes, cursor, "COUNT", limit)]
        )
        return int(total), sorted(page), None if str(after) == "0" else str(after)

    async def find(self, text: str, cursor: str, limit: int) -> tuple[int, list[str], str | None]:
        """Return (number of all nodes, ids of nodes whose id, labels or pools contain `text`, cursor or None).

        The search stops once `limit` ids or a few more are found, or 20,000 nodes were read. A call with the cursor
        continues the search; None means that all nodes were read.
        """
        total = int(await self._store.read("SCARD", self._store.keys.nodes))
        found: dict[str, None] = {}
        looked = 0
        while True:
            cursor, seen, *ids = await self._find(text=text, cursor=cursor, count=max(limit, 200))
            found.update(dict.fromkeys(ids))
            looked += seen
            if str(cursor) == "0" or len(found) >= limit or looked >= SEARCHED:
                return total, sorted(found), None if str(cursor) == "0" else str(cursor)

    async def in_state(self, state: str, offset: int, limit: int, text: str = "") -> tuple[int, list[Node]]:
        """Return (exact number, a page) of the nodes in a `State` whose id, labels or pools contain `text`.

        The cost grows with the number of nodes that are silent for half the timeout, or unmanaged; for `alive`, with
        the number of all nodes.
        """
        keys = self._store.keys
        if state in NOT_LENDING:
            nominated = await self._store.read("SMEMBERS", keys.draining)
        elif state == "alive":
            nominated = await self.ids()
        else:
            clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0)
            silent = await self._store.read("ZRANGE", keys.beats, "-inf", clock_ms - self.timeout_ms // 2, "BYSCORE")
            nominated = [*silent, *await self._unmanaged()]
        found = await self.describe(sorted(nominated))
        fitting = [node for node in found if state in (node.state, node.service) and node.contains(text)]
        return len(fitting), fitting[offset : offset + limit]

    async def _unmanaged(self) -> list[str]:
        """Return the ids of the unmanaged nodes: registered, and no hub has had a heartbeat of them."""
        keys = self._store.keys
        registered, heard = await self._store.read_all([("SCARD", keys.nodes), ("ZCARD", keys.beats)])
        return list(await self._store.read("ZDIFF", 2, keys.nodes, keys.beats)) if registered != heard else []

    async def describe(self, node_ids: Iterable[str]) -> list[Node]:
        """Return the records of these nodes, in this order; nodes that are not registered are left out."""
        ids = list(node_ids)
        found = []
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            facts = [text for node_id in batch for text in (node_id, key_part(node_id))]
            rows = await self._describe(timeout_ms=self.timeout_ms, rest=facts)
            found += [self._node(node_id, row) for node_id, row in zip(batch, rows, strict=True) if row != 0]
        return found

    async def get(self, node_id: str) -> Node:
        """Return a node; raises `UnknownNode`."""
        found = await self.describe([node_id])
        if not found:
            raise _unknown(node_id)
        return found[0]

    async def slots(self, node_id: str) -> list[tuple[str, str, Place]]:
        """Return (slot, pool, `free`, `lent` or `held`) for every slot of a node, in the order of slot ids."""
        keys = self._store.keys
        slots = sorted(await self._store.read("SMEMBERS", keys.node_slots(key_part(node_id))))
        asked = (("HMGET", keys.slot(slot), "pool", "place") for slot in slots)
        rows = await read_each(self._store, asked, ("", ""))
        return [(slot, pool, place) for slot, (pool, place) in zip(slots, rows, strict=True) if place]

    async def orders(self, node: Node, slots: Iterable[str]) -> list[Order]:
        """Return the instructions that a node with these slots was given and has not carried out yet."""
        keys = self._store.keys
        told: list[Order] = []
        if node.service != "lending":
            told.append(Order("cordon" if node.cordon else "drain", node.deadline_left_ms, node.cordon))
        listed = sorted(slots)
        part = key_part(node.id)
        asked, ordered, *marks = await self._store.read_all(
            [
                ("PTTL", keys.node_upgrade(part)), ("HKEYS", keys.orders(part)),
                *(("EXISTS", keys.recycle(slot)) for slot in listed),
            ]
        )  # fmt: skip
        if asked > 0:
            told.append(Order("rebuild", int(asked)))
        used = {field.removeprefix("end:") for field in ordered if field.startswith("end:")}
        if marked := tuple(slot for slot, is_marked in zip(listed, marks, strict=True) if is_marked or slot in used):
            told.append(Order("recycle", slots=marked))
        return told

    async def heard_within(self, seconds: int) -> int:
        """Count the nodes whose last heartbeat is at most `seconds` old on the hub clock.

        If there is no such node but some nodes are unmanaged, count the nodes that are not stale among the first 1,000.
        """
        keys = self._store.keys
        clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0)
        heard, total, registered = await self._store.read_all(
            [
                ("ZCOUNT", keys.beats, clock_ms - seconds * 1000, "+inf"),
                ("ZCARD", keys.beats),
                ("SCARD", keys.nodes),
            ]
        )
        if heard or registered <= total:
            return int(heard)
        _, ids, _ = await self.page("0", 1000)
        return sum(node.state != "stale" for node in await self.describe(ids))

    async def versions(self, node_id: str) -> tuple[str | None, str | None, bool]:
        """Return the Playwright version that a node reports, the one it expects, and whether it reports a mismatch."""
        names = ("PlaywrightVersion", "PlaywrightVersionExpected", "PlaywrightVersionMismatch")
        values = await self._store.read("HMGET", self._store.keys.node(key_part(node_id)), *names)
        return values[0], values[1], values[2] == "1"

    async def lent(self, node_id: str, offset: int, limit: int) -> tuple[int, list[str]]:
        """Return how many slots of a node are lent, and a page of their ids in order."""
        slots = sorted(await self._store.read("HKEYS", self._store.keys.lent(key_part(node_id))))
        return len(slots), slots[offset : offset + limit]

    async def request_upgrade(self, node_id: str) -> list[str]:
        """Ask a node, or all with `all`, to rebuild its slots; the request stands for 300 s. Return the ids asked."""
        targets = await self.ids() if node_id.lower() == "all" else [node_id]
        for batch in batched(targets, UPGRADE_BATCH):
            await self._ask_upgrade(seconds=UPGRADE_S, rest=[key_part(each) for each in batch])
        return targets

    def _node(self, node_id: str, row: list[Any]) -> Node:
        seen, capacity, apps, labels, base_url, word, since_ms, draining, slots, lent, left_ms, kept, cordon, held = row
        since = None if since_ms < 0 else int(since_ms)
        state: Liveness = _LIVENESS[word]
        if kept:
            state = "stale"
        elif state == "alive" and since is not None and since * 2 > self.timeout_ms:
            state = "suspect"
        shown = tuple(app for app in apps.split(",") if app)
        deadline_left = None if left_ms < 0 else int(left_ms)
        return Node(
            node_id, state, bool(draining) and not cordon, seen, since, capacity, shown, labels, base_url, slots, lent,
            deadline_left, cordon, held, bool(kept),
        )  # fmt: skip
