"""Waiting until replicas have confirmed leases (`HUB_GRANT_REPLICAS`)."""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import RedisError, ResponseError

from hub.errors import StoreUnavailable
from hub.store.batches import Batches
from hub.store.faults import translated
from hub.store.store import Store

WAIT_MS = 1000  # how long replicas may take to confirm; less where the timeout of Redis is shorter than two seconds
MOST = 1024  # most callers that share one WAIT


class NotReplicated(StoreUnavailable):
    """Fewer replicas than `HUB_GRANT_REPLICAS` have confirmed a lease in time, so the lease is taken back."""

    code = "not-replicated"


class Replicas(Batches[None, None]):
    """The wait until `number` replicas have all writes that Redis has answered to this hub so far.

    Calls that come while a WAIT command is under way share the next one. A failover may still promote a replica that
    did not confirm.
    """

    def __init__(self, store: Store, number: int, redis_timeout_s: float) -> None:
        super().__init__("replicas", MOST)
        self._store = store
        self._number = number
        self._wait_ms = min(WAIT_MS, int(redis_timeout_s * 500)) if redis_timeout_s else WAIT_MS

    async def confirm(self) -> None:
        """Wait until the replicas have confirmed. Raises `NotReplicated` after a second, and `StoreUnavailable`."""
        if self._number:
            await self.take(None)

    async def call(self, items: list[None]) -> Sequence[None]:
        """Send a write and then WAIT on the same connection: WAIT covers all writes to Redis up to the last write of
        its own connection, so this one write makes it cover those of the hub's other connections.
        """
        library = self._store.library
        try:
            async with self._store.client.pipeline(transaction=False) as pipe:
                pipe.execute_command(*library.call("store/confirm", self._store.keys, []))
                pipe.execute_command("WAIT", self._number, self._wait_ms)
                _, confirmed = await pipe.execute()
        except ResponseError as error:
            raise NotReplicated(f"Redis does not say whether replicas have the lease ({error})") from error
        except (RedisError, OSError) as error:
            raise translated(error) from error
        if int(confirmed) < self._number:
            raise NotReplicated(
                f"{confirmed} of {self._number} replicas confirmed the lease within {self._wait_ms / 1000:g} s; "
                "it was taken back"
            )
        return [None] * len(items)
