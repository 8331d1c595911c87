"""Whether a subscription still hears Redis: nobody tells when a firewall drops a connection, or a machine is gone."""

from __future__ import annotations

import time

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

# How a connection ends; the last two come from redis-py where it was closed, in whole or by half, under its hands.
CUT_OFF = (RedisError, OSError, RuntimeError, AttributeError)
SILENT_S = 5.0  # after which Redis is asked for a word; after as long again without one the connection is dead


class ConnectionMonitor:
    """Of one connection. Its reader says what it heard, and looks when it has heard nothing for a while."""

    def __init__(self, pubsub: PubSub) -> None:
        self._pubsub = pubsub
        self._heard_at = time.monotonic()
        self._looks = 0  # since Redis was asked, that included; none when it need not be

    def heard(self) -> None:
        """Anything came, be it only the answer to a ping."""
        self._heard_at, self._looks = time.monotonic(), 0

    async def look(self) -> None:
        """Ping where that is due; raises redis-py's ConnectionError when nothing is heard any more.

        Only after one more read in vain: a process that stood still since the ping has the answer still to read.
        """
        silent_s = time.monotonic() - self._heard_at
        if self._looks > 1 and silent_s > 2 * SILENT_S:
            raise RedisConnectionError(f"nothing was heard of Redis for {silent_s:.0f} s")
        if self._looks:
            self._looks += 1
        elif silent_s > SILENT_S:
            self._looks = 1
            await self._pubsub.ping()
