"""Watching leases: one call waits until any of the leases of a holder has ended early."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from hub.capacity.models import EndedLease, reason_of
from hub.store.lenient import read_each
from hub.store.notifications import Subscription
from hub.store.store import Store

BATCH = 200  # leases per script: under 0.5 ms
LOOK_S = 2.0  # how often a waiting call checks whether its caller is still there, and whether the store was replaced

Held = tuple[str, str]  # a slot and the token of its lease


class Watching:
    """The watch over the leases of holders. It changes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._still_held = store.script("capacity/still_held")

    async def over(self, leases: Sequence[Held]) -> tuple[list[EndedLease], bool]:
        """Return those of these leases that have ended, each with `not lent`, `stale token` or `lapsed`, and why.

        The second value is True while a store that was lost has yet to be told of some of the leases; there may be no
        notification when such a lease ends.
        """
        found, unsure = [], False
        for start in range(0, len(leases), BATCH):
            batch = leases[start : start + BATCH]
            words = await self._still_held(rest=[text for lease in batch for text in lease])
            over = [(*lease, word) for lease, word in zip(batch, words, strict=True) if word not in ("ok", "settling")]
            kept = await read_each(self._store, [("GET", self._store.keys.end_reason(slot)) for slot, _, _ in over])
            found += [(*each, reason_of(why, each[1])) for each, why in zip(over, kept, strict=True)]
            unsure = unsure or "settling" in words
        return found, unsure

    async def wait(
        self, leases: Sequence[Held], wait_s: float, ended: Callable[[], Awaitable[bool]]
    ) -> list[EndedLease]:
        """Return those of these leases that have ended, as soon as one has; an empty list after `wait_s` seconds, or
        once `ended()` says that the caller is gone. Raises `StoreUnavailable`.
        """
        until = time.monotonic() + wait_s
        channels = sorted({self._store.keys.revoked_notice(slot) for slot, _ in leases})
        while True:
            async with self._store.notifications.listen(*channels) as subscription:
                found = await self._listen(subscription, leases, until, ended)
                if found is not None:
                    return found

    async def _listen(
        self, subscription: Subscription, leases: Sequence[Held], until: float, ended: Callable[[], Awaitable[bool]]
    ) -> list[EndedLease] | None:
        """Wait as `wait` does on one subscription; return None when its connection was lost."""
        seen, unsure = None, False
        while True:
            if seen != self._store.generation:  # the store was replaced: leases that ended by that had no notification
                seen = self._store.generation
                subscription.notify()
            left_s = until - time.monotonic()
            if await subscription.wait(max(0.0, min(LOOK_S, left_s))) or unsure:
                found, unsure = await self.over(leases)
                if found:
                    return found
            if left_s <= 0 or await ended():
                return []
            if subscription.cut:
                return None
