"""How long to wait before an attempt is repeated, and a clock to measure it with."""

from __future__ import annotations

import random
import sys
import time

LONGEST_PAUSE_S = 5.0
FIRST_PAUSE_S = 0.2
LONGEST_RETRY_AFTER_S = 30.0  # what a hub asks for at most when it stops; more is a proxy's header

if sys.platform == "linux":

    def now_s() -> float:
        """Seconds on a clock that only moves forward, also while the machine is suspended: the hub does not wait."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now_s() -> float:
        """Seconds on a clock that only moves forward."""
        return time.monotonic()


def pause_s(attempt: int, retry_after_s: float | None = None, longest_s: float = LONGEST_PAUSE_S) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0): doubling, jittered, never less than
    asked for."""
    backoff_s = min(longest_s, FIRST_PAUSE_S * 2.0 ** min(attempt, 16)) * random.uniform(0.5, 1.0)
    if retry_after_s is None:
        return backoff_s
    return max(backoff_s, min(retry_after_s, LONGEST_RETRY_AFTER_S) * random.uniform(1.0, 1.2))
