"""Reports of what the passes of recovery did to each source, by day; the script `recovery/note_pass` keeps 92 days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from hub.recovery.alerts import LEVELS
from hub.recovery.leadership import known_sources
from hub.store.store import Store

DAYS_MAX = 90
_EPOCH = date(1970, 1, 1)
_SUMS = ("passes", "reset", "failed", "written", "errors")


async def report(store: Store, declared: list[str], days: int) -> dict[str, Any]:
    """Return the sums of the passes over each known or declared source, by day, for `days` days in UTC up to today."""
    today = datetime.fromtimestamp(store.wall_s(), UTC).date()
    shown = [today - timedelta(days=back) for back in range(days - 1, -1, -1)]
    keys = store.keys
    names = sorted({*declared, *await known_sources(store)})
    noted = await store.read_all(
        ("HGETALL", keys.zombie_day(f"{(day - _EPOCH).days}:{name}")) for name in names for day in shown
    )
    now = await store.read_all(("HMGET", keys.zombies(name), "found", "level") for name in names)
    sources = []
    for place, name in enumerate(names):
        found, level = now[place]
        each = zip(shown, noted[place * days : (place + 1) * days], strict=True)
        by_day = [{"day": day.isoformat(), **_numbers(kept)} for day, kept in each if kept]
        sources.append(
            {
                "source": name, **_together(by_day), "lastFound": None if found is None else int(found),
                "lastLevel": level or None, "days": by_day,
            }
        )  # fmt: skip
    return {"from": shown[0].isoformat(), "to": today.isoformat(), "days": days, "sources": sources}


def _numbers(kept: dict[str, str]) -> dict[str, Any]:
    worst = kept.get("worst")  # None where no pass of the day could count
    return {
        **{name: int(kept.get(name, 0)) for name in _SUMS},
        "mostStuck": None if "most" not in kept else int(kept["most"]),
        "worstLevel": None if worst is None else LEVELS[int(worst)],
    }


def _together(days: list[dict[str, Any]]) -> dict[str, Any]:
    levels = [LEVELS.index(day["worstLevel"]) for day in days if day["worstLevel"] is not None]
    return {
        **{name: sum(day[name] for day in days) for name in _SUMS},
        "mostStuck": max((day["mostStuck"] for day in days if day["mostStuck"] is not None), default=None),
        "worstLevel": LEVELS[max(levels)] if levels else None,
    }
