"""How long to wait before a call is repeated, and a clock to measure that with."""

from __future__ import annotations

import random
import sys
import time

LONGEST_PAUSE_S = 5.0
FIRST_PAUSE_S = 0.2
LONGEST_RETRY_AFTER_S = 30.0  # the longest `Retry-After` of a hub, when it stops; a longer one comes from a proxy

if sys.platform == "linux":

    def now_s() -> float:
        """Return the seconds of a clock that only moves forward, also while this machine is suspended, as leases do."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:

    def now_s() -> float:
        """Return the seconds of a clock that only moves forward."""
        return time.monotonic()


def pause_s(attempt: int, retry_after_s: float | None = None, longest_s: float = LONGEST_PAUSE_S) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0): doubled each time, up to `longest_s`,
    times a random factor; never less than `retry_after_s`, of which at most 30 s count."""
    backoff_s = min(longest_s, FIRST_PAUSE_S * 2.0 ** min(attempt, 16)) * random.uniform(0.5, 1.0)
    if retry_after_s is None:
        return backoff_s
    return max(backoff_s, min(retry_after_s, LONGEST_RETRY_AFTER_S) * random.uniform(1.0, 1.2))
