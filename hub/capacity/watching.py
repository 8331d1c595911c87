"""Waiting for leases to end before their time: one call for all the leases of a client."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from hub.capacity.models import EndedLease
from hub.store.notifications import Subscription
from hub.store.store import Store

BATCH = 200  # leases per script: under 0.5 ms
LOOK_S = 2.0  # how often a call that waits sees whether its caller is there, and whether the store is another one

Held = tuple[str, str]  # a slot and the token of its lease


class Watching:
    """Tells holders that their leases are over. Changes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._still_held = store.script("capacity/still_held")

    async def over(self, leases: Sequence[Held]) -> tuple[list[EndedLease], bool]:
        """Of these leases those that are over, each with why: `not lent`, `stale token` or `lapsed`.

        And whether a store that was lost has yet to be told of others: of their end there may be no notification.
        """
        found, unsure = [], False
        for start in range(0, len(leases), BATCH):
            batch = leases[start : start + BATCH]
            words = await self._still_held(rest=[text for lease in batch for text in lease])
            found += [
                (*lease, word) for lease, word in zip(batch, words, strict=True) if word not in ("ok", "settling")
            ]
            unsure = unsure or "settling" in words
        return found, unsure

    async def wait(
        self, leases: Sequence[Held], wait_s: float, ended: Callable[[], Awaitable[bool]]
    ) -> list[EndedLease]:
        """Those that are over, as soon as there is one; none after `wait_s`, or when `ended` says that nobody listens.

        Raises `StoreUnavailable`.
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
        """As `wait`; None when the subscription hears nothing any more."""
        seen, unsure = None, False
        while True:
            if seen != self._store.generation:  # it was lost: nobody was notified of what has ended by that
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
