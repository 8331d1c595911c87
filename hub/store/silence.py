"""Whether this hub has just stood still: then others may know better than it how the store stood last."""

from __future__ import annotations

import time

SILENT_S = 3.0  # as `lua/store.lua`: a hub that has not ticked for six periods is taken to be gone
AFTER_S = 1.0  # two ticks: in that time every hub that did not stand still has found out that the store was lost


class Silence:
    """Knows when this hub ticked last, whether Redis answered or not: an outage of Redis is no standstill."""

    def __init__(self) -> None:
        self.ticked_at: float | None = None  # by the monotonic clock
        self._over_at = float("-inf")

    def ticked(self) -> None:
        """Note that a tick is over."""
        self.ticked_at = time.monotonic()

    def is_over_just_now(self) -> bool:
        """Return whether this hub stood still until less than a second ago."""
        now = time.monotonic()
        if self.ticked_at is not None and now - self.ticked_at > SILENT_S:
            self.ticked_at = self._over_at = now
        return now - self._over_at < AFTER_S
