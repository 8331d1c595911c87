"""The leader among the hubs that declare a source, and the sources that any hub has declared."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from hub.errors import HubError, StoreUnavailable, UnknownReply
from hub.observability import metrics
from hub.observability.logs import get_logger
from hub.settings import Settings
from hub.store.store import Store

AGAIN_S = 2.0  # until a hub that is not the leader asks again
KEEP_S = 7 * 86_400.0  # for which a source stays known after no hub declares it
_log = get_logger("hub.sweeping")


class Leadership:
    """The leadership over one source. It is apart from the leadership over sweeps: during a rolling deployment half of
    the hubs do not know the source."""

    def __init__(self, store: Store, hub_id: str, source: str, settings: Settings) -> None:
        self._hub_id = hub_id
        self._source = source
        self._keep_ms = int(max(KEEP_S, 3 * settings.zombie_cleanup_interval_minutes * 60) * 1000)
        self._stand = store.script("recovery/stand")

    async def taken(self) -> bool:
        """Stand for the leadership once; return whether this hub has it."""
        match await self._stand(source=self._source, hub_id=self._hub_id, keep_ms=self._keep_ms):
            case ["ok"]:
                return True
            case ["taken", _]:
                return False
            case reply:
                raise UnknownReply(self._stand.name, reply)

    async def wait(self) -> None:
        """Return once this hub is the leader."""
        while True:
            if await self._heard():
                return
            await asyncio.sleep(AGAIN_S * random.uniform(0.8, 1.2))

    async def _heard(self) -> bool:
        try:
            return await self.taken()
        except StoreUnavailable:  # the hub clock logs it, once
            return False
        except HubError as error:
            metrics.zombie_errors.labels(self._source).inc()
            _log.error("source sweep failed", source=self._source, why=error.detail or error.code)
            return False


async def known_sources(store: Store) -> Mapping[str, float]:
    """Return the sources that any hub has declared lately, and since when (Unix time in s)."""
    found = await store.read("HGETALL", store.keys.zombie_sources)
    return {source: int(times.split()[0]) / 1000 for source, times in found.items()}
