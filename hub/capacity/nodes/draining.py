"""Draining nodes, and what of it is brought back after the store was lost: the last call wins, whoever
remembers it."""

from __future__ import annotations

from collections import OrderedDict

from hub.capacity.nodes.models import DrainCall, DrainState
from hub.errors import UnknownNode, UnknownReply
from hub.observability.logs import get_logger
from hub.store.keys import key_part
from hub.store.store import Store

BATCH = 64  # slots per script where each costs a dozen commands: under 2 ms
KEEP_MS = 600_000  # on the hub clock: a node knows of a call within a beat; while it is away only the hub does
KEEP = 10_000
_log = get_logger("hub.capacity.nodes")


class Draining:
    """Makes drains and undrains, and remembers those of the last while for a store that has lost them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._drain = store.script("nodes/drain")
        self._made: OrderedDict[str, tuple[int, DrainCall]] = OrderedDict()
        store.when_replaced(self.recall)

    async def call(self, node_id: str, made: DrainCall) -> DrainState:
        """Make one; raises `UnknownNode`."""
        done = await self._carry_out(node_id, made)
        if done is None:
            raise UnknownNode(f"node {node_id} is not registered")
        state, number = done
        self._made.pop(node_id, None)
        self._made[node_id] = (self._store.clock_ms, made._replace(number=number))
        while len(self._made) > KEEP:
            self._made.popitem(last=False)
        return state

    async def bring_back(self, node_id: str, told: DrainCall | None, kept: DrainCall | None) -> None:
        """Drain a node that has registered as the last call says: the one it was told, or one that waited for it."""
        for call in sorted(filter(None, (told, kept)), key=lambda each: int(each.number)):
            await self._bring_back(node_id, call)

    async def recall(self) -> None:
        """Bring back into a store that lost it what this hub was told of late. Nothing grew older in an outage."""
        now_ms = self._store.clock_ms
        for node_id, (at_ms, call) in list(self._made.items()):
            if now_ms - at_ms > KEEP_MS:
                del self._made[node_id]
                continue
            left_ms = None if call.left_ms is None else max(1, call.left_ms - max(0, now_ms - at_ms))
            await self._bring_back(node_id, call._replace(left_ms=left_ms))

    def forget(self, node_id: str) -> None:
        """The node has left: it does not drain when it is back."""
        self._made.pop(node_id, None)

    async def _bring_back(self, node_id: str, call: DrainCall) -> None:
        if await self._carry_out(node_id, call) is not None:
            _log.warning(
                "drain re-reported after Redis lost data",
                node=node_id,
                drain=call.on,
                number=call.number,
                reason=call.reason,
            )

    async def _carry_out(self, node_id: str, call: DrainCall) -> tuple[DrainState, str] | None:
        """Batch by batch; None when the node is not registered, or a later call is known."""
        cursor, number, all_held, all_lent = "0", call.number, 0, 0
        while True:
            reply = await self._drain(
                id=node_id,
                part=key_part(node_id),
                on=int(call.on),
                deadline_ms="" if call.left_ms is None else call.left_ms,
                cursor=cursor,
                limit=BATCH,
                number=number,
                reason=call.reason,
            )
            match reply:
                case ["ok", cursor, held, lent, left_ms, number]:
                    all_held, all_lent = all_held + held, all_lent + lent
                    if str(cursor) == "0":
                        return DrainState(call.on, all_held, all_lent, None if left_ms < 0 else int(left_ms)), number
                case ["unknown"] | ["kept"]:
                    return None
                case _:
                    raise UnknownReply(self._drain.name, reply)
