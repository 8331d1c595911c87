"""The leases that a hub made and ended lately, remembered so that it can tell a store that lost them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from hub.capacity.models import Lease
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.keys import key_part
from hub.store.store import Store

BATCH = 50  # ended or renewed leases per script call: each may have to be ended, which takes 0.1 ms
_log = get_logger("hub.capacity")

Dated = OrderedDict[str, tuple[int, Any]]  # slot or ticket -> (ms on the hub clock when noted, facts); oldest first


class Memory:
    """The leases this hub made, renewed and ended, and the tickets it gave up, in the last third of a node timeout.

    Each entry has a time of the hub clock. That clock stands still while no hub can reach the store, so an outage makes
    no entry older; it runs on while this hub alone is suspended or cut off, so then its entries do grow older.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        # A node hears of a lease with its next heartbeat, within a sixth of its timeout; till then only this hub knows.
        self._keep_ms = max(1000, int(settings.node_timeout_s * 1000 / 3))
        self.leases: Dated = OrderedDict()
        self.renewals: Dated = OrderedDict()
        self.ends: Dated = OrderedDict()  # of leases, and of bundles
        self.given_up: Dated = OrderedDict()
        self._forgot_ms = 0  # when entries that are too old were removed last
        self._note_ended = store.script("capacity/note_ended")
        self._note_renewed = store.script("capacity/note_renewed")
        self._readopt = store.script("capacity/readopt")
        self._cancel = store.script("queue/cancel")
        store.when_replaced(self.recall)

    def lent(self, lease: Lease) -> None:
        """Remember that this lease was made, so that `recall` puts it back if the store loses it."""
        self._store.highest_token = max(self._store.highest_token, lease.token, key=int)
        self._note(self.leases, lease.slot, lease)

    def renewed(self, slot: str, token: str, left_ms: int) -> None:
        """Remember that the holder was told that `left_ms` are left of the lease; `recall` restores that deadline."""
        self._note(self.renewals, slot, (token, left_ms))

    def over(self, slot: str, token: str, *, grace_ms: int = 0, bundle: str = "") -> None:
        """Remember that this lease has ended, so that it is ended again if a node or a hub reports it after a loss.

        `grace_ms` is set when its holder did not end it: for so long the holder may still use the slot, and the slot is
        not lent again. `bundle` is set when the other leases of that bundle end with this one.
        """
        self.leases.pop(slot, None)
        self.renewals.pop(slot, None)
        if token:
            self._note(self.ends, slot, (token, self._store.clock_ms + grace_ms if grace_ms else 0))
        if bundle:
            self._note(self.ends, bundle, ("", 0))

    def cancelled(self, ticket: str) -> None:
        """Remember that this ticket was given up, so that `recall` can cancel the ticket again after a loss."""
        self._note(self.given_up, ticket, None)

    async def recall(self) -> None:
        """Tell a store that lost data which leases this hub lately ended, renewed and made, and which tickets it gave
        up: perhaps no other hub knows. Runs when the store was replaced.
        """
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
            await self._cancel(ticket=ticket, recalled=1, by="operator")
        metrics.grants_readopted.inc(adopted)
        _log.warning("leases re-reported after Redis lost data", sent=len(self.leases), missing=adopted)

    async def _bring_back(self, lease: Lease, left_ms: int) -> bool:
        if left_ms <= 0:
            return False
        node = lease.said.get("nodeId") or ""
        (word,) = await self._readopt(
            slot=lease.slot, pool=lease.pool, item=lease.item, node=node, part=key_part(node), label=lease.label,
            run=lease.run, holder=lease.holder, token=lease.token, ttl_ms=left_ms,
        )  # fmt: skip
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
