"""Losses that nothing announces: hubs that have vanished, and leases whose holder renews them no longer."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from hub.core import Hub
from hub.store.lenient import read_each
from hub.wire import time_at

SILENT_MS: Final = 3000  # as in `lua/hubs.lua`
LOST_S: Final = 900.0  # for how long the overview names a hub that has vanished
_ENDING: Final = 50  # leases that are looked at, those that end first


async def lost_and_stale(hub: Hub) -> dict[str, Any]:
    """Return how many hubs are heard, the last one that vanished without a word unless one has begun since, and the
    leases that were renewed and have less than a third of their time left, unless they have lived as long as they
    may."""
    keys, longest_ms = hub.store.keys, hub.settings.max_session_ttl_s * 1000
    heard, (clock, lost, at, joined), ends = await hub.store.read_all(
        [
            ("ZRANGE", keys.hubs, 0, -1, "WITHSCORES"),
            ("HMGET", keys.store, "clock_ms", "lost_hub", "lost_hub_ms", "joined_ms"),
            ("ZRANGE", keys.deadlines, 0, _ENDING - 1, "WITHSCORES"),
        ]
    )  # fmt: skip
    clock_ms = float(clock or 0)
    hubs = {name for name, ms in heard if clock_ms - float(ms) <= SILENT_MS}
    missing = lost and lost not in hubs and float(joined or 0) <= float(at) > 1000 * (hub.store.wall_s() - LOST_S)
    lent = (("HMGET", keys.slot(slot), "granted_ms", "hold_ms") for slot, _ in ends)
    granted = await read_each(hub.store, lent, (None, None))
    asked = (("HMGET", keys.session(slot), "ttlSeconds", "runId") for slot, _ in ends)
    told, stale = await read_each(hub.store, asked, (None, None)), []
    for (slot, end), (since, hold_ms), (ttl, run) in zip(ends, granted, told, strict=True):
        with suppress(ValueError):  # another program may have written anything there
            ttl_ms, left_ms, lasts_ms = 1000 * float(ttl or 0), float(end) - clock_ms, float(end) - float(since or end)
            may_last_ms = min(longest_ms, float(hold_ms or longest_ms)) - 1000
            if ttl_ms + 1000 < lasts_ms < may_last_ms and left_ms < ttl_ms / 3:
                stale.append({"slot": slot, "run": run or "", "seconds": max(0.0, left_ms / 1000)})
    return {
        "hubs": len(hubs),
        "lostHub": {"hub": lost, "at": time_at(float(at) / 1000)} if missing else None,
        "staleLeases": {"leases": len(stale), "first": stale[:3]},
    }
