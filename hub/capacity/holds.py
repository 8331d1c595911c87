"""Holds of slots that are unwell, by their node or an operator. Those of operators are restored after a loss."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from hub.capacity.models import superseded
from hub.errors import InvalidValue, NotFound, UnknownNode, UnknownReply
from hub.observability.logs import get_logger
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store

KEEP_MS = 600_000  # on the hub clock; a node knows of a call by its next heartbeat, while it is away only the hub does
KEEP = 10_000  # most calls that are remembered
LOOKED_AT = 1000  # nodes and slots of each cause that are looked at
_log = get_logger("hub.capacity")


class UnknownSlot(NotFound):
    """No node has published a slot with this id, or it was withdrawn."""

    code = "unknown-slot"


class Hold(NamedTuple):
    """How a slot stands: its node, whether it is lent, why it is held and by whom; '' as the reason of one that is
    not. `late`: the call that asks was late and changed nothing."""

    node: str = ""
    lent: bool = False
    reason: str = ""
    by: Literal["node", "operator"] = "node"
    late: bool = False


class Holds:
    """The holds of a store. The calls of operators of the last ten minutes are remembered, to restore them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hear = store.script("nodes/hold")
        self._call = store.script("capacity/hold")
        self._made: OrderedDict[str, tuple[int, str, str]] = OrderedDict()
        store.when_replaced(self.recall)

    async def by_node(self, node_id: str, slot: str, reason: str, *, incarnation: str = "", number: str = "") -> Hold:
        """Let a node hold one of its slots, or end that with '' as the reason; return how the slot stands.

        Raises `UnknownSlot`, `InvalidValue` for the slot of another node, and `UnknownNode` or `Superseded` for a
        process that is not the node.
        """
        of, part = key_part(slot), key_part(node_id)
        process = {"incarnation": incarnation, "said_number": number}
        reply = await self._hear(node=node_id, part=part, whole="", rest=(of, reason), **process)
        match reply:
            case ["ok", ["ok" | "late" as word]]:
                return (await self.of([of]))[0]._replace(late=word == "late")
            case ["ok", ["unknown"]]:
                raise _unknown(slot)
            case ["ok", ["foreign"]]:
                raise InvalidValue(f"slot {slot} belongs to another node")
            case ["unknown"]:
                raise UnknownNode(f"node {node_id} is not registered by this process; register it first")
            case ["superseded"]:
                raise superseded(node_id)
        raise UnknownReply(self._hear.name, reply)

    async def by_operator(self, slot: str, reason: str) -> Hold:
        """Let an operator hold a slot, or end that with '' as the reason; return how the slot stands.

        Raises `UnknownSlot`.
        """
        of = key_part(slot)
        word, *number = await self._call(slot=of, reason=reason, number="")
        if word != "ok":
            raise _unknown(slot)
        self._made.pop(of, None)
        self._made[of] = (self._store.clock_ms, reason, number[0])
        while len(self._made) > KEEP:
            self._made.popitem(last=False)
        return (await self.of([of]))[0]

    async def of(self, slots: Sequence[str]) -> list[Hold]:
        """Return how each of these slots stands; an operator's reason is shown where both hold it."""
        keys = self._store.keys
        asked = [("HMGET", keys.slot(slot), "node", "place", "barred", "unwell") for slot in slots]
        rows = await read_each(self._store, asked, ("", "", "", ""))
        return [
            Hold(node or "", place == "lent", barred or unwell or "", "operator" if barred else "node")
            for node, place, barred, unwell in rows
        ]

    async def unwell(self, least_ms: int, first: int) -> tuple[int, list[tuple[str, Hold]]]:
        """Return how many slots are held for at least so long, and the first of them with how they stand."""
        keys = self._store.keys
        until_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0) - least_ms
        number, slots = await self._store.read_all(
            [
                ("ZCOUNT", keys.unwell, "-inf", until_ms),
                ("ZRANGE", keys.unwell, "-inf", until_ms, "BYSCORE", "LIMIT", 0, first),
            ]
        )
        return int(number), list(zip(slots, await self.of(slots), strict=True))

    async def causes(self) -> Mapping[str, Mapping[str, int]]:
        """Return for each pool how many slots are held back for each cause: `unwell`, `draining` (also for a cordon),
        `not fresh`, `in grace`, `suspect` and `bundle` (set aside for one that waits). A slot counts for the first of
        these; at most `LOOKED_AT` for each.
        """
        keys, cause = self._store.keys, dict[str, str]()
        unwell, unfresh, revoked, draining, suspects, reserved = await self._store.read_all(
            [
                *(("ZRANGE", key, 0, LOOKED_AT - 1) for key in (keys.unwell, keys.unfresh, keys.revoked)),
                *(("SRANDMEMBER", key, LOOKED_AT) for key in (keys.draining, keys.suspects, keys.reserved)),
            ]
        )
        indexes = [keys.node_slots(key_part(node)) for node in draining]
        indexes += [keys.aside(key_part(node)) for node in suspects]
        of_nodes = await read_each(self._store, [("SRANDMEMBER", key, LOOKED_AT) for key in indexes], ())
        drained, aside = (
            [slot for slots in some for slot in slots][:LOOKED_AT]
            for some in (of_nodes[: len(draining)], of_nodes[len(draining) :])
        )
        for word, slots in (
            ("unwell", unwell), ("draining", drained), ("not fresh", unfresh), ("in grace", revoked),
            ("suspect", aside), ("bundle", reserved),
        ):  # fmt: skip
            for slot in slots:
                cause.setdefault(slot, word)
        rows = await read_each(self._store, [("HMGET", keys.slot(slot), "pool", "place") for slot in cause], ("", ""))
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for word, (pool, place) in zip(cause.values(), rows, strict=True):
            if place == "held":
                counts[pool][word] += 1
        return counts

    async def recall(self) -> None:
        """Restore in a store that lost data the holds and releases that operators made through this hub within
        `KEEP_MS`; the time of an outage does not count."""
        now_ms = self._store.clock_ms
        for slot, (at_ms, reason, number) in list(self._made.items()):
            if now_ms - at_ms > KEEP_MS:
                del self._made[slot]
                continue
            (word, *_) = await self._call(slot=slot, reason=reason, number=number)
            if word == "ok":
                _log.warning("hold re-reported after Redis lost data", slot=slot, number=number, reason=reason)


def _unknown(slot: str) -> UnknownSlot:
    return UnknownSlot(f"there is no slot {slot}: no node has published it, or it was withdrawn")
