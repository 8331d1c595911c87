"""What a hub remembers of its latest grants, for a store that has lost them and nodes that do not know of them yet."""

from __future__ import annotations

import time
from collections import OrderedDict

from hub.capacity.models import Grant, text_of
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.keys import key_part
from hub.store.store import Store

BITE = 50  # grants that are over, per script call: each may have to be ended, which takes 0.1 ms
_log = get_logger("hub.capacity")


class Memory:
    """Grants made and grants over, by slot, of the last third of a node timeout; a store that lost them is told."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        # A node hears of a grant with its next beat, a sixth of its timeout later; until then only we know.
        self._keep_s = max(1.0, settings.node_timeout_s / 3)
        self.grants: OrderedDict[str, tuple[float, Grant]] = OrderedDict()
        self.ends: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._note_ended = store.script("capacity/note_ended")
        self._readopt = store.script("capacity/readopt")
        store.when_replaced(self.recall)

    def lent(self, grant: Grant) -> None:
        """This grant was made: it is to come back should the store lose it."""
        self._store.highest_token = max(self._store.highest_token, grant.token, key=int)
        self.grants.pop(grant.slot, None)
        self.grants[grant.slot] = (time.monotonic(), grant)
        self._forget_old()

    def over(self, slot: str, token: str = "") -> None:
        """The grant of this slot is over; with its token, it is to end as well when it comes back from elsewhere."""
        self.grants.pop(slot, None)
        if token:
            self.ends.pop(slot, None)
            self.ends[slot] = (time.monotonic(), token)
            self._forget_old()

    async def recall(self) -> None:
        """Bring back into a store that lost it what this hub lent so recently that its node may not know of it."""
        self._forget_old(self._store.heard_at)  # nobody was told anything in an outage: it makes nothing older
        ended = [text for slot, (_, token) in self.ends.items() for text in (slot, token)]
        for start in range(0, len(ended), 2 * BITE):
            await self._note_ended(rest=ended[start : start + 2 * BITE])
        adopted = 0
        for granted, grant in list(self.grants.values()):
            left_ms = grant.left_ms - int((time.monotonic() - granted) * 1000)
            if left_ms <= 0:
                continue
            node = text_of(grant.said, "nodeId", grant.item)
            (word,) = await self._readopt(
                slot=grant.slot,
                pool=grant.pool,
                item=grant.item,
                node=node,
                part=key_part(node),
                label=grant.label,
                run=grant.run,
                token=grant.token,
                ttl_ms=left_ms,
            )
            adopted += word == "adopted"
        metrics.grants_readopted.inc(adopted)
        _log.warning("grants recalled", remembered=len(self.grants), adopted=adopted)

    def _forget_old(self, now: float | None = None) -> None:
        horizon = (now or time.monotonic()) - self._keep_s
        for memory in (self.grants, self.ends):
            while memory and next(iter(memory.values()))[0] < horizon:
                memory.popitem(last=False)
