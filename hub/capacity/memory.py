"""What a hub remembers of its latest work, for a store that has lost it and nodes that do not know of it yet."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from hub.capacity.models import Lease
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.keys import key_part
from hub.store.store import Store

BATCH = 50  # leases that are over, per script call: each may have to be ended, which takes 0.1 ms
_log = get_logger("hub.capacity")

Dated = OrderedDict[str, tuple[int, Any]]  # when it was, on the hub clock in ms; the oldest first


class Memory:
    """Leases made, renewed and over, by slot, and tickets given up, of the last third of a node timeout.

    All of it is dated by the hub clock, which stands still while no hub can hear: an outage makes nothing older, and
    what a hub slept through, or was cut off from, makes everything older that it remembers.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        # A node hears of a lease with its next beat, a sixth of its timeout later; until then only we know.
        self._keep_ms = max(1000, int(settings.node_timeout_s * 1000 / 3))
        self.leases: Dated = OrderedDict()
        self.renewals: Dated = OrderedDict()
        self.ends: Dated = OrderedDict()
        self.given_up: Dated = OrderedDict()
        self._forgot_ms = 0  # when it was looked for what is too old
        self._note_ended = store.script("capacity/note_ended")
        self._note_renewed = store.script("capacity/note_renewed")
        self._readopt = store.script("capacity/readopt")
        self._cancel = store.script("queue/cancel")
        store.when_replaced(self.recall)

    def lent(self, lease: Lease) -> None:
        """Remember that this lease was made: it is to come back should the store lose it."""
        self._store.highest_token = max(self._store.highest_token, lease.token, key=int)
        self._note(self.leases, lease.slot, lease)

    def renewed(self, slot: str, token: str, left_ms: int) -> None:
        """Remember that the holder was told that this lease goes on for so long."""
        self._note(self.renewals, slot, (token, left_ms))

    def over(self, slot: str, token: str, *, grace_ms: int = 0) -> None:
        """The lease of this slot is over, and is to end as well when it comes back from elsewhere.

        With `grace_ms` its holder was not asked: for so long he may believe in it, and the slot is not lent on.
        """
        self.leases.pop(slot, None)
        self.renewals.pop(slot, None)
        if token:
            self._note(self.ends, slot, (token, self._store.clock_ms + grace_ms if grace_ms else 0))

    def cancelled(self, ticket: str) -> None:
        """Remember that this ticket was given up."""
        self._note(self.given_up, ticket, None)

    async def recall(self) -> None:
        """Tell a store that lost it what this hub did so recently that no other hub may know of it."""
        self._forget_old()
        ended = [text for slot, (_, (token, until_ms)) in self.ends.items() for text in (slot, token, str(until_ms))]
        for start in range(0, len(ended), 3 * BATCH):
            await self._note_ended(rest=ended[start : start + 3 * BATCH])
        renewed = [
            text
            for slot, (at_ms, (token, left_ms)) in self.renewals.items()
            for text in (slot, token, str(at_ms + left_ms))
        ]
        for start in range(0, len(renewed), 3 * BATCH):
            await self._note_renewed(rest=renewed[start : start + 3 * BATCH])
        adopted = 0
        for at_ms, lease in list(self.leases.values()):
            adopted += await self._bring_back(lease, lease.left_ms - max(0, self._store.clock_ms - at_ms))
        for ticket in list(self.given_up):
            await self._cancel(ticket=ticket, recalled=1)
        metrics.grants_readopted.inc(adopted)
        _log.warning("leases re-reported after Redis lost data", sent=len(self.leases), missing=adopted)

    async def _bring_back(self, lease: Lease, left_ms: int) -> bool:
        if left_ms <= 0:
            return False
        node = lease.said.get("nodeId") or ""
        (word,) = await self._readopt(
            slot=lease.slot,
            pool=lease.pool,
            item=lease.item,
            node=node,
            part=key_part(node),
            label=lease.label,
            run=lease.run,
            token=lease.token,
            ttl_ms=left_ms,
        )
        return bool(word == "adopted")

    def _note(self, memory: Dated, name: str, what: Any) -> None:
        memory.pop(name, None)
        memory[name] = (self._store.clock_ms, what)
        self._forget_old()

    def _forget_old(self) -> None:
        if self._store.clock_ms == self._forgot_ms:
            return
        self._forgot_ms = self._store.clock_ms
        horizon = self._store.clock_ms - self._keep_ms
        for memory in (self.leases, self.renewals, self.ends, self.given_up):
            while memory and next(iter(memory.values()))[0] < horizon:
                memory.popitem(last=False)
