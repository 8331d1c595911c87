"""Drain deadlines: when the deadline of a drain has passed, the leases of the node are ended."""

from __future__ import annotations

from typing import Any

from hub.audit import AuditLog
from hub.errors import ForeignKey
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.store.keys import key_part
from hub.store.lenient import read_each
from hub.store.store import Store

BATCH = 64  # leases per script, which takes under 2 ms if it ends all
NODES_MAX = 1_000  # nodes per pass; the next pass has the others
LEASES_MAX = 20_000  # leases ended per pass; the next pass ends the others
SHOWN_MAX = 100  # slots named in an audit entry
_log = get_logger("hub.sweeping")


class DrainDeadlines:
    """The part of a lease sweep that enforces drain deadlines. It nominates nodes; a script checks each again."""

    def __init__(self, store: Store, log: AuditLog) -> None:
        self._store = store
        self._audit_log = log
        self._end_drained = store.script("sweeping/end_drained")

    async def overdue(self) -> int:
        """Return how many leases a pass would end now, because the drain deadline of their node has passed."""
        keys = self._store.keys
        lent = await read_each(self._store, [("HLEN", keys.lent(key_part(node))) for node in await self._due()])
        return sum(filter(None, lent))

    async def enforce(self) -> tuple[int, int]:
        """End the leases of nodes whose deadline has passed; return (leases ended, nodes that could not be read)."""
        ended = errors = 0
        for node_id in await self._due():
            if ended >= LEASES_MAX:
                break
            try:
                ended += await self._end(node_id)
            except ForeignKey as error:
                errors += 1
                _log.warning("key has the wrong type", record=node_id, why=str(error))
        return ended, errors

    async def _due(self) -> list[str]:
        keys = self._store.keys
        clock_ms = int(await self._store.read("HGET", keys.store, "clock_ms") or 0)
        found = await self._store.read(
            "ZRANGE", keys.drain_deadlines, "-inf", clock_ms, "BYSCORE", "LIMIT", 0, NODES_MAX
        )
        return list(found)

    async def _end(self, node_id: str) -> int:
        cursor: Any = "0"
        word, slots = "more", []
        while word == "more":
            reply = await self._end_drained(id=node_id, part=key_part(node_id), cursor=cursor, limit=BATCH)
            if reply[0] == "nothing":  # the drain ended or got more time, or another hub has ended the leases
                break
            word, cursor, ended = reply
            slots += ended
            metrics.leases_ended.labels("drain deadline").inc(len(ended))
        if slots or word == "done":
            _log.info("drain deadline passed", node=node_id, ended=len(slots))
            shown = ",".join(slots[:SHOWN_MAX])
            await self._audit_log.write("node", "node.drainDeadline", actor=node_id, ended=len(slots), slots=shown)
        return len(slots)
