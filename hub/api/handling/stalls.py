"""A watch for standstills of this process. After a standstill, requests that wait to be read may be of callers that
have given up meanwhile.

The hub reads such a request before it reads the end of the connection, so at first it cannot see that the caller is
gone.
"""

from __future__ import annotations

import asyncio
import time

PERIOD_S = 0.25
LONG_S = 0.5  # from this time without a turn of the event loop on, the process stood still
AFTER_S = 1.0  # the time in which the requests that gathered during a standstill are read
READ_S = 0.05  # for the loop to read the end of a connection after its request


class Stalls:
    """A watch on the event loop in which it is made."""

    def __init__(self) -> None:
        self._turned = time.monotonic()
        self._woke = float("-inf")
        self._turn()

    def is_over_just_now(self) -> bool:
        """Return whether a standstill of the process ended less than a second ago."""
        return time.monotonic() - self._woke < AFTER_S

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._turned > LONG_S:
            self._woke = now
        self._turned = now
        asyncio.get_running_loop().call_later(PERIOD_S, self._turn)
