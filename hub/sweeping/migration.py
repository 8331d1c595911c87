"""Hubs bring the store to the newest format, while those of the version before go on."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hub.errors import StoreUnavailable
from hub.observability.logs import get_logger
from hub.store.migrating import format_of, step
from hub.store.store import Store

REST_S = 0.02  # between two steps: others are to be served meanwhile
AGAIN_S = 2.0  # before it is looked whether hubs of another version are still there, or the store has an older format
_log = get_logger("hub.sweeping")


async def keep_migrating(store: Store) -> None:
    """Do so until cancelled; a store that came back from a copy may have an older format again. Of several hubs one
    goes on, for the others find that it has."""
    changed, before = 0, 0
    while True:
        pause_s = AGAIN_S
        with suppress(StoreUnavailable):
            if (known := await format_of(store)) > before > 0:
                _log.info("store migrated", format=known, keys=changed)
                changed = 0
            before = known
            done = await step(store)
            changed += done.changed
            pause_s = REST_S if done.word == "on" else AGAIN_S
        await asyncio.sleep(pause_s)
