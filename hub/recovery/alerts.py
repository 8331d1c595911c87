"""The rules by which a number of stuck records is ok, a warning or critical. No I/O."""

from __future__ import annotations

from typing import Literal

from hub.settings import Settings

Level = Literal["ok", "warning", "critical"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "critical")  # the metric shows the place in this list: 0, 1, 2


def level(found: int, lowest: int | None, settings: Settings) -> tuple[Level, str]:
    """Return the alert level of `found` stuck records and its reason; `lowest` is the least number in the window."""
    if found > settings.zombie_critical_above:
        return "critical", f"{found} records are stuck, more than {settings.zombie_critical_above}"
    if found > settings.zombie_warning_above:
        return "warning", f"{found} records are stuck, more than {settings.zombie_warning_above}"
    if grown(found, lowest, settings):
        return "warning", growth(found, lowest, settings)
    return "ok", f"{found} {'record is' if found == 1 else 'records are'} stuck"


def grown(found: int, since: int | None, settings: Settings) -> bool:
    """Return whether the number of stuck records has grown from `since` to `found` by enough for an alert."""
    grew = since is not None and found > since and found >= settings.zombie_growth_factor * since
    return grew and found >= settings.zombie_growth_min


def growth(found: int, since: int | None, settings: Settings) -> str:
    """Return in words, as the reason of an alert, how the number of stuck records grew from `since` to `found`."""
    return f"{found} records are stuck, up from {since} within {settings.zombie_growth_window_minutes:g} min"
