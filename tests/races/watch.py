"""Looking at Redis ten times a second for what must not last."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from redis import Redis

from hub.store.keys import Keys
from hub.store.library import library

PAUSE_S = 0.1
GAP_S = 0.5  # after a longer pause between two looks, because the machine stood still, the time between is unknown
GONE_MS = 5000  # of the hub clock: by then nothing is left of the waiters of a hub that is gone


class Watch:
    """A thread that watches the queue and the free slots while the `with` block runs."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._keys = Keys()
        self._since: dict[str, float] = {}  # pool -> when it was first seen with a free slot and a waiter for it
        self._looked = time.monotonic()
        self.beside_s = 0.0  # how long that lasted, at most
        self.left: set[str] = set()  # hubs that were gone for so long, and had waiters
        self.waiters = 0  # how many stood in the queue at once, at most
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PAUSE_S):
            self._look_at_pools()
            self._look_at_hubs()

    def _look_at_pools(self) -> None:
        pools = self._redis.zrange(self._keys.pools, 0, -1)
        words = self._redis.execute_command(*library().call("doctor/check", self._keys, ["waits", 1, 0, 0, *pools]))
        now = time.monotonic()
        if now - self._looked > GAP_S:
            self._since = {}
        self._looked = now
        waited_for = {pool for pool, some in zip(pools, words, strict=True) if some}
        self._since = {pool: self._since.get(pool, now) for pool in waited_for}
        self.beside_s = max([self.beside_s, *(now - since for since in self._since.values())])

    def _look_at_hubs(self) -> None:
        keys, silent, waiting = self._keys, {}, 0
        clock_ms = int(self._redis.hget(keys.store, "clock_ms"))
        heard = dict(self._redis.zrange(keys.hubs, 0, -1, withscores=True))
        for key in self._redis.scan_iter(keys.waiters("*"), count=10_000):
            count, hub = self._redis.scard(key), key.removeprefix(keys.waiters(""))
            waiting += count
            silent[hub] = clock_ms - heard.get(hub, 0) if count else 0
        self.waiters = max(self.waiters, waiting)
        self.left |= {hub for hub, silent_ms in silent.items() if silent_ms > GONE_MS}
