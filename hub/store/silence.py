"""Standstills of this hub: after one, other hubs may know the state of the store better than this hub does."""

from __future__ import annotations

import time

SILENT_S = 3.0  # a hub that has not ticked for so long (six periods) is taken to be gone; the same in `lua/store.lua`
AFTER_S = 1.0  # two ticks: by then every hub that did not stand still has found out whether the store was lost


class Silence:
    """The time of this hub's last tick, whether or not Redis answered it: an outage of Redis is no standstill."""

    def __init__(self) -> None:
        self.ticked_at: float | None = None  # by the monotonic clock
        self._over_at = float("-inf")

    def ticked(self) -> None:
        """Note that a tick has ended."""
        self.ticked_at = time.monotonic()

    def is_over_just_now(self) -> bool:
        """Return whether a standstill of this hub (three seconds without a tick) ended less than a second ago."""
        now = time.monotonic()
        if self.ticked_at is not None and now - self.ticked_at > SILENT_S:
            self.ticked_at = self._over_at = now
        return now - self._over_at < AFTER_S
