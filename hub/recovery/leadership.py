"""The choice of the one hub that recovers a source, and the list of the sources that any hub has declared."""

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
KEEP_S = 7 * 86_400.0  # a source stays known this long after the last hub that declared it
_log = get_logger("hub.sweeping")


class Leadership:
    """A hub's part in the choice of the leader for one source. The leader for the source need not be the leader of
    the sweeps: during a rolling deployment some hubs do not know the source."""

    def __init__(self, store: Store, hub_id: str, source: str, settings: Settings) -> None:
        self._hub_id = hub_id
        self._source = source
        self._keep_ms = int(max(KEEP_S, 3 * settings.zombie_cleanup_interval_minutes * 60) * 1000)
        self._stand = store.script("recovery/stand")

    async def taken(self) -> bool:
        """Ask the store once to be, or to remain, the leader of the source; return whether this hub is the leader."""
        match await self._stand(source=self._source, hub_id=self._hub_id, keep_ms=self._keep_ms):
            case ["ok"]:
                return True
            case ["taken", _]:
                return False
            case reply:
                raise UnknownReply(self._stand.name, reply)

    async def wait(self) -> None:
        """Wait until this hub is the leader of the source."""
        while True:
            if await self._try_to_lead():
                return
            await asyncio.sleep(AGAIN_S * random.uniform(0.8, 1.2))

    async def _try_to_lead(self) -> bool:
        try:
            return await self.taken()
        except StoreUnavailable:  # the hub clock logs this error once
            return False
        except HubError as error:
            metrics.zombie_errors.labels(self._source).inc()
            _log.error("source leader not chosen", source=self._source, why=error.detail or error.code)
            return False


async def known_sources(store: Store) -> Mapping[str, float]:
    """Return the names of the sources that any hub has declared lately, each with the Unix time in s since when."""
    found = await store.read("HGETALL", store.keys.zombie_sources)
    return {source: int(times.split()[0]) / 1000 for source, times in found.items()}
