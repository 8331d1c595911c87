"""Whether this process has just stood still: what waits to be read then may be of callers who have given up since.

Their request is read before the end of their connection is, so nothing shows yet that they are gone.
"""

from __future__ import annotations

import asyncio
import time

PERIOD_S = 0.25
LONG_S = 0.5  # without a turn of the event loop: a standstill
AFTER_S = 1.0  # in which what gathered meanwhile is read
READ_S = 0.05  # for the end of a connection to be read, once its request was


class Stalls:
    """Watches the event loop it is made on."""

    def __init__(self) -> None:
        self._turned = time.monotonic()
        self._woke = float("-inf")
        self._turn()

    def is_over_just_now(self) -> bool:
        """Return whether the process stood still less than a second ago."""
        return time.monotonic() - self._woke < AFTER_S

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._turned > LONG_S:
            self._woke = now
        self._turned = now
        asyncio.get_running_loop().call_later(PERIOD_S, self._turn)
