"""Reading a stream as it grows, on a connection of its own, because a read that waits would block other calls."""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError, ResponseError

from hub.errors import StoreFault
from hub.store.faults import translated
from hub.store.store import Store

WAIT_MS = 1000  # how long one read waits for new entries
BATCH = 200  # entries per call


class StreamConnection:
    """A connection for the reads of one stream. Its calls raise `StoreUnavailable`, `StoreFault` and `ForeignKey`."""

    def __init__(self, store: Store, key: str) -> None:
        self._key = key
        self._client = store.client.client()
        # The read must end before the timeout of the connection, which would be an error.
        timeout_s = store.client.connection_pool.connection_kwargs.get("socket_timeout")
        self._wait_ms = min(WAIT_MS, max(1, int(timeout_s * 500))) if timeout_s else WAIT_MS

    async def close(self) -> None:
        """Return the connection to the pool."""
        await self._client.aclose()

    async def _ask(self, *command: Any) -> Any:
        try:
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            known = translated(error)
            if known is error and isinstance(error, ResponseError):
                known = StoreFault(f"{command[0]}: {error}")
            raise known from error


class Follower(StreamConnection):
    """A reader of all entries of one stream."""

    async def newest(self) -> str:
        """Return the id of the last entry; `0-0` when there is none."""
        entries = await self._ask("XREVRANGE", self._key, "+", "-", "COUNT", 1)
        return str(entries[0][0]) if entries else "0-0"

    async def next(self, after: str) -> list[tuple[str, dict[str, str]]]:
        """Return the entries after the id `after`, as soon as there are any; an empty list after a second."""
        found = await self._ask("XREAD", "COUNT", BATCH, "BLOCK", self._wait_ms, "STREAMS", self._key, after)
        return list(found[0][1]) if found else []
