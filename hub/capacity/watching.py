"""Watching leases: one call waits until any of the leases of a holder has ended early, or its slot is unwell."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from hub.capacity.holds import Hold, Holds
from hub.capacity.lease_use import LeaseUse, Limits
from hub.capacity.models import EndedLease, reason_of
from hub.store.lenient import read_each
from hub.store.notifications import Subscription
from hub.store.store import Store

BATCH = 200  # leases per script: under 0.5 ms
LOOK_S = 2.0  # how often a waiting call checks whether its caller is still there, and whether the store was replaced

Held = tuple[str, str]  # a slot and the token of its lease
Told = Mapping[str, str]  # slot -> what its holder was told last


class Heard(NamedTuple):
    """What the caller was told last: why slots are unwell, and which ends by rule are near; None: it does not ask."""

    unwell: Told | None = None
    ending: Told | None = None


NOTHING = Heard()


class Watched(NamedTuple):
    """The leases that have ended, and those whose slot is unwell or well again, or that are about to end by a rule or
    no longer are, unlike their holder has heard."""

    over: list[EndedLease]
    unwell: list[tuple[str, str, Hold]]
    ending: list[tuple[str, str, Limits]]


class Watching:
    """The watch over the leases of holders. It changes nothing."""

    def __init__(self, store: Store, holds: Holds, use: LeaseUse) -> None:
        self._store = store
        self._holds = holds
        self._use = use
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
        self, leases: Sequence[Held], wait_s: float, ended: Callable[[], Awaitable[bool]], heard: Heard = NOTHING
    ) -> Watched:
        """Return those of these leases that have ended, as soon as one has; nothing after `wait_s` seconds, or once
        `ended()` says that the caller is gone. With `heard` also those whose slot is unwell for another reason, '' for
        well, and those with another near end by rule, than the holder has heard. Raises `StoreUnavailable`.
        """
        until = time.monotonic() + wait_s
        channels = sorted({self._store.keys.revoked_notice(slot) for slot, _ in leases})
        while True:
            async with self._store.notifications.listen(*channels) as subscription:
                found = await self._listen(subscription, leases, until, ended, heard)
                if found is not None:
                    return found

    async def _listen(
        self,
        subscription: Subscription,
        leases: Sequence[Held],
        until: float,
        ended: Callable[[], Awaitable[bool]],
        heard: Heard,
    ) -> Watched | None:
        """Wait as `wait` does on one subscription; return None when its connection was lost."""
        seen, unsure = None, False
        while True:
            if seen != self._store.generation:  # the store was replaced: leases that ended by that had no notification
                seen = self._store.generation
                subscription.notify()
            left_s = until - time.monotonic()
            if await subscription.wait(max(0.0, min(LOOK_S, left_s))) or unsure:
                over, unsure = await self.over(leases)
                gone = {(slot, token) for slot, token, *_ in over}
                live = [lease for lease in leases if lease not in gone]
                unwell = [] if heard.unwell is None else await self._unwell(live, heard.unwell)
                ending = [] if heard.ending is None else await self._ending(live, heard.ending)
                if over or unwell or ending:
                    return Watched(over, unwell, ending)
            if left_s <= 0 or await ended():
                return Watched([], [], [])
            if subscription.cut:
                return None

    async def _unwell(self, live: Sequence[Held], heard: Told) -> list[tuple[str, str, Hold]]:
        held = await self._holds.of([slot for slot, _ in live])
        return [
            (slot, token, hold)
            for (slot, token), hold in zip(live, held, strict=True)
            if hold.reason != heard.get(slot, "")
        ]

    async def _ending(self, live: Sequence[Held], heard: Told) -> list[tuple[str, str, Limits]]:
        limits = await self._use.limits([slot for slot, _ in live])
        return [
            (slot, token, each)
            for (slot, token), each in zip(live, limits, strict=True)
            if each.told != heard.get(slot, "")
        ]
