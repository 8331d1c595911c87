"""Detection of dead connections: when a firewall drops a connection or a machine is gone, no error tells the reader."""

from __future__ import annotations

import time

from redis.asyncio.client import PubSub
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

# The errors of a connection that is cut; redis-py raises the last two when a connection is closed while it is used.
CUT_OFF = (RedisError, OSError, RuntimeError, AttributeError)
SILENT_S = 5.0  # after so long without a message Redis is pinged; after as long again the connection is dead


class ConnectionMonitor:
    """A monitor of one connection. The reader calls `note_message` for each message, `check` after a while without."""

    def __init__(self, pubsub: PubSub) -> None:
        self._pubsub = pubsub
        self._heard_at = time.monotonic()
        self._looks = 0  # calls of `check` since Redis was pinged, with the one that pinged; 0 when no ping is open

    def note_message(self) -> None:
        """Note that a message came, which may be the answer to a ping."""
        self._heard_at, self._looks = time.monotonic(), 0

    async def check(self) -> None:
        """Ping Redis when no message came for 5 s; raise redis-py's ConnectionError when none came for 10 s.

        It raises only after one more read without a message since the ping: if this process stood still meanwhile, the
        answer may have come and wait to be read.
        """
        silent_s = time.monotonic() - self._heard_at
        if self._looks > 1 and silent_s > 2 * SILENT_S:
            raise RedisConnectionError(f"nothing was heard of Redis for {silent_s:.0f} s")
        if self._looks:
            self._looks += 1
        elif silent_s > SILENT_S:
            self._looks = 1
            await self._pubsub.ping()
