"""Drains and undrains of nodes, and how they are restored after the store was lost.

Hub and node both remember the last call. Calls are numbered, and the one with the highest number holds.
"""

from __future__ import annotations

from collections import OrderedDict

from hub.capacity.nodes.models import DrainCall, DrainState
from hub.errors import UnknownNode, UnknownReply
from hub.observability.logs import get_logger
from hub.store.keys import key_part
from hub.store.store import Store

BATCH = 64  # slots per script, where each slot costs a dozen Redis commands: under 2 ms
KEEP_MS = 600_000  # on the hub clock; a node knows of a call by its next heartbeat, while it is away only the hub does
KEEP = 10_000  # most calls that are remembered
_log = get_logger("hub.capacity.nodes")


class Draining:
    """Drains and undrains. Those of the last ten minutes are remembered, to restore them in a store that lost them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._drain = store.script("nodes/drain")
        self._made: OrderedDict[str, tuple[int, DrainCall]] = OrderedDict()
        store.when_replaced(self.recall)

    async def call(self, node_id: str, made: DrainCall) -> DrainState:
        """Drain or undrain a node as `made` says; return how far that is. Raises `UnknownNode`."""
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
        """Restore the last drain or undrain of a node that has registered again.

        `told` is the last call that the node was told of, `kept` one that the store kept while the node was unknown;
        the later of the two holds.
        """
        for call in sorted(filter(None, (told, kept)), key=lambda each: int(each.number)):
            await self._bring_back(node_id, call)

    async def recall(self) -> None:
        """Restore in a store that lost data the drains and undrains that this hub made within `KEEP_MS`.

        Their age is counted on the hub clock, so the time of an outage does not count.
        """
        now_ms = self._store.clock_ms
        for node_id, (at_ms, call) in list(self._made.items()):
            if now_ms - at_ms > KEEP_MS:
                del self._made[node_id]
                continue
            left_ms = None if call.left_ms is None else max(1, call.left_ms - max(0, now_ms - at_ms))
            await self._bring_back(node_id, call._replace(left_ms=left_ms))

    def forget(self, node_id: str) -> None:
        """Forget the drain of a node that has left, so that it is lent from when it registers again."""
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
        """Run the script `drain` batch by batch over the slots of a node.

        Return the state and the number of the call; None when the node is not registered or a later call is known.
        """
        cursor, number, all_held, all_lent = "0", call.number, 0, 0
        while True:
            reply = await self._drain(
                id=node_id, part=key_part(node_id), on=int(call.on),
                deadline_ms="" if call.left_ms is None else call.left_ms, cursor=cursor, limit=BATCH, number=number,
                reason=call.reason,
            )  # fmt: skip
            match reply:
                case ["ok", cursor, held, lent, left_ms, number]:
                    all_held, all_lent = all_held + held, all_lent + lent
                    if str(cursor) == "0":
                        return DrainState(call.on, all_held, all_lent, None if left_ms < 0 else int(left_ms)), number
                case ["unknown"] | ["kept"]:
                    return None
                case _:
                    raise UnknownReply(self._drain.name, reply)
