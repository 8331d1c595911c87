"""Pools: to publish, withdraw and count the slots of a label, and to find slots that other programs pushed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hub.batched import batched
from hub.capacity.attributes import PoolClass
from hub.capacity.labels import parse_kinds, parse_label
from hub.capacity.matching import Looks
from hub.capacity.models import Offered, PublishedSlot, listed_id, read_item, superseded
from hub.errors import InvalidLabel, InvalidValue, SlotLent, UnknownNode, UnknownReply
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.cancelling import retrieve_error
from hub.store.classing import until_classed
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.scan import pattern
from hub.store.store import Store

SCAN_BATCH = 1000  # keys that one SCAN call looks at
SCAN_CALLS = 10  # calls per discovery, so a store of up to 10,000 keys is searched completely
BATCH = 64  # slots per script, where each slot costs a dozen Redis commands: under 2 ms
WAITING_LABELS_MAX = 400  # labels with waiters that are read for one pool, and as many labels with `*`: under 3 ms

CLASSES_MAX = 1000  # sets of attributes, over all pools of a label, that one script reads
LOOKED_AT = 1000  # slots that are being made fresh and are looked at
NAMED = 10  # slots that are not fresh in time and are named; the others are counted
CONFLICT_MS = 3_600_000  # how long a conflict is reported

_CONFLICT = re.compile(r"([^|]*)\|(\d{1,18})\|(.*)", re.DOTALL)
_log = get_logger("hub.capacity")


class Conflict(NamedTuple):
    """A slot that belongs to `node`, or whose id names `node`, and that the node `other` published too."""

    slot: str
    node: str
    other: str
    at_ms: int  # on the hub clock


class Unfresh(NamedTuple):
    """The slots that their nodes have not made fresh in time: how many, and the first of them with their nodes."""

    number: int = 0
    first: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Pool:
    """The counts of slots of one pool. While the pool is under maintenance they are those from its start."""

    label: str
    published: int
    free: int
    lent: int
    maintenance: bool

    @property
    def held(self) -> int:
        """Return how many slots are neither free nor lent: their node drains or is suspect, or they are in grace."""
        return max(0, self.published - self.free - self.lent)


@dataclass(frozen=True)
class Demand:
    """The slots of a pool and the waiters it could serve: `waiting` of them, under `labels` labels.

    With `truncated` not all labels were read, and there may be more waiters.
    """

    label: str
    free: int
    lent: int
    published: int
    maintenance: bool
    waiting: int
    labels: int
    truncated: bool

    @property
    def held_back(self) -> int:
        """Return how many slots are neither free nor lent: their node drains or is suspect, or they are in grace."""
        return max(0, self.published - self.free - self.lent)


class Pools:
    """The pools of a store and the slots published in them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._classes_max = settings.classes_max
        self._ttl_ms = int(settings.borrow_ttl_s * 1000)
        self._recycle_ms = int(settings.recycle_timeout_s * 1000)
        self._kinds = parse_kinds(settings.label_kinds)
        self._publish = store.script("capacity/publish")
        self._withdraw = store.script("capacity/withdraw")
        self._adopt = store.script("capacity/adopt_items")
        self._restart = store.script("capacity/restart_pool")
        self._mark = store.script("capacity/mark_slots")
        self._describe = store.script("capacity/describe_pools")
        self._autoscale = store.script("capacity/autoscale")
        self._discover = store.script("capacity/discover")
        self._looks = Looks(store)
        self._scan_cursor = "0"
        self._discovery: asyncio.Task[None] | None = None
        self._discovered = 0.0

    async def publish(
        self,
        node_id: str,
        slots: Sequence[PublishedSlot],
        policy: str,
        *,
        says_held: bool = False,
        incarnation: str = "",
        number: str = "",
    ) -> list[Offered]:
        """Publish slots of a node and return an outcome for each, in this order. With `says_held` the node holds those
        of them that have a reason, and no others.

        Its word: `published`, `unchanged`, `lent`, `late` (a later call withdrew the slot), or, because of another
        node: `taken` (the slot is that node's), `reserved` (the slot id names that node), `claimed` (the slot is lent
        by that node and is published here when the lease ends).
        Raises `UnknownNode`, and `Superseded` for a process that is not the node any more.
        """

        async def put(batch: Sequence[PublishedSlot]) -> list[tuple[Any, ...]]:
            facts = [
                text
                for s in batch
                for text in (
                    s.id, s.pool, s.item, s.idle_ms, s.token, *s.asked, *s.fresh, *s.held, s.attributes, s.warm,
                )
            ]  # fmt: skip
            reply = await self._publish(
                id=node_id, part=key_part(node_id), policy=policy, ttl_ms=self._ttl_ms, incarnation=incarnation,
                said_number=number, says=int(says_held), classes_max=self._classes_max, rest=facts,
            )  # fmt: skip
            match reply:
                case ["ok", *rows]:
                    return list(zip(*rows, strict=True))
                case ["unknown"]:
                    raise UnknownNode(f"node {node_id} is not registered; register it first")
                case ["superseded"]:
                    raise superseded(node_id)
            raise UnknownReply(self._publish.name, reply)

        offered: list[Offered] = []
        for batch in batched(slots, BATCH):
            offered += [Offered(*row) for row in await until_classed(node_id, batch, lambda slot: slot.id, put)]
        return offered

    async def unfresh(self) -> Unfresh:
        """Return the slots that their nodes have not made fresh within `HUB_RECYCLE_TIMEOUT_SECONDS`."""
        keys = self._store.keys
        until_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0) - self._recycle_ms
        number, slots = await self._store.read_all(
            [
                ("ZCOUNT", keys.unfresh, "-inf", until_ms),
                ("ZRANGE", keys.unfresh, "-inf", until_ms, "BYSCORE", "LIMIT", 0, NAMED),
            ]
        )
        nodes = await read_each(self._store, [("HGET", keys.slot(slot), "node") for slot in slots])
        return Unfresh(int(number), tuple((slot, node or "") for slot, node in zip(slots, nodes, strict=True)))

    async def refreshing(self) -> set[str]:
        """Return the pools with a slot that its node is making fresh, for less than `HUB_RECYCLE_TIMEOUT_SECONDS`; of
        at most `LOOKED_AT` slots, the latest first."""
        keys = self._store.keys
        since_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0) - self._recycle_ms
        newest = ("ZRANGE", keys.unfresh, "+inf", f"({since_ms}", "BYSCORE", "REV", "LIMIT", 0, LOOKED_AT)
        slots = await self._store.read(*newest)
        return set(await read_each(self._store, [("HGET", keys.slot(slot), "pool") for slot in slots])) - {None}

    async def conflicts(self) -> list[Conflict]:
        """Return the slots that two nodes published within the last hour, the latest first, at most one for each node
        that published a slot of another.
        """
        keys = self._store.keys
        found, clock_ms = await self._store.read_all([("HGETALL", keys.conflicts), ("HGET", keys.store, "clock_ms")])
        fits = (
            Conflict(match[1], match[3], other, int(match[2]))
            for other, text in found.items()
            if (match := _CONFLICT.fullmatch(text)) and int(clock_ms or 0) - int(match[2]) < CONFLICT_MS
        )
        return sorted(fits, key=lambda each: each.at_ms, reverse=True)

    async def withdraw(
        self,
        node_id: str,
        slot: str,
        *,
        only_free: bool = False,
        incarnation: str = "",
        number: str = "",
        reason: str = "",
    ) -> tuple[str, bool]:
        """Withdraw a slot. Return `withdrawn`, `unknown`, or `late` when a later call published it; and whether a lease
        ended.

        Raises `InvalidValue` for another node's slot, `SlotLent` for a lent slot when `only_free` is set, and
        `UnknownNode` or `Superseded` for a process that is not the node.
        """
        reply = await self._withdraw(
            slot=key_part(slot),
            node=node_id,
            part=key_part(node_id),
            only_free=int(only_free),
            incarnation=incarnation,
            said_number=number,
            reason=reason,
        )
        match reply:
            case ["withdrawn", ended]:
                return "withdrawn", bool(ended)
            case ["unknown" | "late" as word]:
                return word, False
            case ["superseded"]:
                raise superseded(node_id)
            case ["unregistered"]:
                raise UnknownNode(f"node {node_id} is not registered by this process; register it first")
            case ["lent"]:
                raise SlotLent(f"slot {slot} is lent; it was left as it is")
            case ["foreign"]:
                raise InvalidValue(f"slot {slot} belongs to another node")
        raise UnknownReply(self._withdraw.name, reply)

    async def adopt(self, label: str, place: str, listed: set[str]) -> int:
        """Read the `free` or the `lent` list of a pool in batches, and make slot records for items of other programs.

        Adds the slot ids found to `listed`. Returns how many slots got a record, plus how many items were dropped from
        the list because they are invalid or second copies.
        """
        name = self._store.keys.available(label) if place == "free" else self._store.keys.inuse(label)
        changed = position = 0
        while items := await self._store.read("LRANGE", name, position, position + BATCH - 1):
            listed.update(listed_id(item) for item in items)
            _, adopted, taken, dropped = await self._adopt(pool=label, place=place, rest=items)
            if adopted:
                _log.info("slots of another program adopted", pool=label, place=place, slots=adopted)
            for why, item in zip(dropped[::2], dropped[1::2], strict=True):
                _log.warning("invalid item dropped", pool=label, why=why, item=item[:200])
            changed += adopted + len(dropped) // 2
            position += BATCH - taken
        return changed

    async def restart(self, label: str) -> tuple[int, int, int]:
        """Put a pool under maintenance and ask the nodes to replace all its slots.

        Return how many slots were marked for that, and how many were free and lent when it began.
        """
        for place in ("free", "lent"):
            await self.adopt(label, place, set())
        reply = await self._restart(pool=label)
        match reply:
            case ["ok", free, lent]:
                slots = await self._store.read("SMEMBERS", self._store.keys.replacing(label))
                marked = 0
                for start in range(0, len(slots), BATCH):
                    _, count = await self._mark(rest=list(slots)[start : start + BATCH])
                    marked += count
                return marked, free, lent
        raise UnknownReply(self._restart.name, reply)

    async def labels(self, offset: int, limit: int, text: str = "") -> tuple[int, list[str]]:
        """Return how many pools have slots and a label that contains `text`, and a page of their labels in order."""
        keys = self._store.keys
        if text:
            every = await self._store.read("ZRANGE", keys.pools, 0, -1)
            fitting = [label for label in every if text.lower() in label.lower()]
            return len(fitting), fitting[offset : offset + limit]
        total, labels = await self._store.read_all(
            [("ZCARD", keys.pools), ("ZRANGE", keys.pools, offset, offset + limit - 1)]
        )
        return int(total), list(labels)

    async def describe(self, labels: Sequence[str]) -> list[Pool]:
        """Return the counts of pools, in this order. This also ends a maintenance that is complete."""
        pools = []
        for start in range(0, len(labels), BATCH):
            batch = labels[start : start + BATCH]
            for label, row in zip(batch, await self._describe(rest=batch), strict=True):
                published, free, lent, active, free_then, lent_then = row
                counts = (free_then + lent_then, free_then, lent_then) if active else (published, free, lent)
                pools.append(Pool(label, *counts, bool(active)))
        return pools

    async def classes(self, label: str) -> list[PoolClass]:
        """Return what the slots are like that may serve a label: an entry for each pool and for each set of attributes
        that slots of the pool have, at most `CLASSES_MAX`, as it was within the last second."""
        return await self._looks.at(label)

    async def are_classes_full(self) -> bool:
        """Return whether slots with attributes unlike those of all others get no class."""
        return int(await self._store.read("SCARD", self._store.keys.classes)) >= self._classes_max

    async def demand(self, label: str, want: str = "", tree: str = "") -> Demand:
        """Return the slots of a pool and the waiters it could serve, from one script; also for a pool without slots.
        With `want` and `tree`, as `Alternative` has them, of a label and only the slots that are so."""
        reply = await self._autoscale(pool=label, limit=WAITING_LABELS_MAX, want=want, tree=tree)
        free, lent, published, maintenance, waiting, labels, truncated = reply
        return Demand(label, free, lent, published, bool(maintenance), waiting, labels, bool(truncated))

    async def versions(self, labels: Sequence[str]) -> list[str | None]:
        """Return for each pool the `browserVersion` of its first free slot, else of its first lent slot, else None."""
        keys = self._store.keys
        lists = (key for label in labels for key in (keys.available(label), keys.inuse(label)))
        heads = await read_each(self._store, [("LINDEX", key, 0) for key in lists])
        said = [read_item(free or lent or "") for free, lent in zip(heads[::2], heads[1::2], strict=True)]
        return [version if isinstance(version := each.get("browserVersion"), str) else None for each in said]

    async def lent(self, label: str, offset: int, limit: int) -> tuple[int, list[str]]:
        """Return how many slots of a pool are lent, and a page of their ids, the one lent first at the top."""
        name = self._store.keys.inuse(label)
        total, items = await self._store.read_all([("LLEN", name), ("LRANGE", name, offset, offset + limit - 1)])
        named = (read_item(item) for item in items)
        return int(total), [str(said.get("browserId") or said.get("slotId") or "") for said in named]

    async def discover(self) -> None:
        """Find pools that exist only because another program pushed slots into Redis. Raises `StoreUnavailable`.

        Callers share a search, but each waits for a search that began after its call. Searches are at least 50 ms apart
        (1 s in a store of more than 10,000 keys), so that many refusals cannot flood Redis.
        """
        running = self._discovery
        if running is not None:
            await asyncio.wait([running])
        if self._discovery is running:
            self._discovery = asyncio.create_task(self._search(), name="discover-pools")
            self._discovery.add_done_callback(retrieve_error)  # a failure is for the callers that wait
        await asyncio.shield(self._discovery)  # type: ignore[arg-type]

    async def _search(self) -> None:
        keys = await self._store.read("DBSIZE")
        gap_s = 0.05 if keys <= SCAN_BATCH * SCAN_CALLS else 1.0
        wait_s = self._discovered + gap_s - time.monotonic()
        if wait_s > 0 and gap_s < 1:
            await asyncio.sleep(wait_s)
        elif wait_s > 0:
            return
        prefix = self._store.keys.available("")
        found: list[str] = []
        for _ in range(SCAN_CALLS):
            self._scan_cursor, names = await self._store.read(
                "SCAN", self._scan_cursor, "MATCH", pattern(prefix), "COUNT", SCAN_BATCH, "TYPE", "list"
            )
            found += [name[len(prefix) :] for name in names]
            if str(self._scan_cursor) == "0":
                break
        labels = [label for label in dict.fromkeys(found) if self.usable(label)]
        cursor = "0"
        for _ in range(SCAN_CALLS):
            _, _, cursor = await self._discover(cursor=cursor, rest=labels)
            labels = []
            if cursor == "0":
                break
        self._discovered = time.monotonic()

    def usable(self, label: str) -> bool:
        """Return whether text found in Redis is a valid label, written exactly as this hub writes it."""
        try:
            return parse_label(label, self._kinds).text == label
        except InvalidLabel:
            return False
