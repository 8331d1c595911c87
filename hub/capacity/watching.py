"""Waiting for grants to end before their time: one call for all the leases of a client."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from hub.store.bells import Bell
from hub.store.store import Store

BITE = 200  # grants per script: under 0.5 ms
LOOK_S = 2.0  # how often a call that waits sees whether its caller is there, and whether the store is another one

Held = tuple[str, str]  # a slot and the token of its grant


class Watching:
    """Tells holders that their grants are over. Changes nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._still_held = store.script("capacity/still_held")

    async def over(self, grants: Sequence[Held]) -> list[tuple[str, str, str]]:
        """Of these grants those that are over, each with why: `not lent`, `stale token` or `lapsed`."""
        found = []
        for start in range(0, len(grants), BITE):
            bite = grants[start : start + BITE]
            words = await self._still_held(rest=[text for grant in bite for text in grant])
            found += [(*grant, word) for grant, word in zip(bite, words, strict=True) if word != "ok"]
        return found

    async def wait(
        self, grants: Sequence[Held], wait_s: float, ended: Callable[[], Awaitable[bool]]
    ) -> list[tuple[str, str, str]]:
        """As `over`, as soon as there is one; none when `wait_s` are over, or `ended` says that nobody listens.

        Raises `StoreUnavailable`.
        """
        until = time.monotonic() + wait_s
        channels = sorted({self._store.keys.revoked_bell(slot) for slot, _ in grants})
        while True:
            async with self._store.bells.listen(*channels) as bell:
                found = await self._listen(bell, grants, until, ended)
                if found is not None:
                    return found

    async def _listen(
        self, bell: Bell, grants: Sequence[Held], until: float, ended: Callable[[], Awaitable[bool]]
    ) -> list[tuple[str, str, str]] | None:
        """As `wait`; None when the bell will not ring any more."""
        seen = None
        while True:
            if seen != self._store.generation:  # it was lost: whatever is over now was over without a bell
                seen = self._store.generation
                bell.ring()
            left_s = until - time.monotonic()
            if await bell.wait(max(0.0, min(LOOK_S, left_s))) and (found := await self.over(grants)):
                return found
            if left_s <= 0 or await ended():
                return []
            if bell.cut:
                return None
