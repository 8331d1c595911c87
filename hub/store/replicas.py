"""Waiting until replicas have what was written."""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import RedisError, ResponseError

from hub.errors import StoreUnavailable
from hub.store.batches import Batches
from hub.store.faults import translated
from hub.store.store import Store

WAIT_MS = 1000  # for replicas to confirm; less where answers of Redis are waited for less long
MOST = 1024  # callers for whom one WAIT is enough: those of an instant


class NotReplicated(StoreUnavailable):
    """Fewer replicas than `HUB_GRANT_REPLICAS` have confirmed a lease in time: it is taken back."""

    code = "not-replicated"


class Replicas(Batches[None, None]):
    """Waits until so many replicas have confirmed what this hub has had answers for.

    One WAIT serves all that have been asked for while the one before was under way. It says nothing of writes to come,
    and a failover may still choose a replica that did not confirm.
    """

    def __init__(self, store: Store, number: int, redis_timeout_s: float) -> None:
        super().__init__("replicas", MOST)
        self._store = store
        self._number = number
        self._wait_ms = min(WAIT_MS, int(redis_timeout_s * 500)) if redis_timeout_s else WAIT_MS

    async def confirm(self) -> None:
        """Return when they have; raises `NotReplicated` when they have not in a second, or `StoreUnavailable`."""
        if self._number:
            await self.take(None)

    async def call(self, items: list[None]) -> Sequence[None]:
        """Write once and WAIT, on one connection: Redis waits for what came before the last write of that."""
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
