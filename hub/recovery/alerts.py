"""The rules by which a number of stuck records is ok, a warning or critical. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hub.settings import Settings

Level = Literal["ok", "warning", "critical"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "critical")  # the metric shows the place in this list: 0, 1, 2


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of alerts: how many stuck records, or how much growth, make a warning or a critical alert."""

    warning_above: int
    critical_above: int
    growth_factor: float
    growth_min: int
    window_minutes: float

    @classmethod
    def of(cls, settings: Settings) -> Thresholds:
        """Return the thresholds of the settings."""
        return cls(
            settings.zombie_warning_above,
            settings.zombie_critical_above,
            settings.zombie_growth_factor,
            settings.zombie_growth_min,
            settings.zombie_growth_window_minutes,
        )


def level(found: int, lowest: int | None, thresholds: Thresholds) -> tuple[Level, str]:
    """Return the alert level of `found` stuck records and its reason; `lowest` is the least number in the window."""
    if found > thresholds.critical_above:
        return "critical", f"{found} records are stuck, more than {thresholds.critical_above}"
    if found > thresholds.warning_above:
        return "warning", f"{found} records are stuck, more than {thresholds.warning_above}"
    if grown(found, lowest, thresholds):
        return "warning", growth(found, lowest, thresholds)
    return "ok", f"{found} {'record is' if found == 1 else 'records are'} stuck"


def grown(found: int, since: int | None, thresholds: Thresholds) -> bool:
    """Return whether the number of stuck records has grown from `since` to `found` by enough for an alert."""
    grew = since is not None and found > since and found >= thresholds.growth_factor * since
    return grew and found >= thresholds.growth_min


def growth(found: int, since: int | None, thresholds: Thresholds) -> str:
    """Return in words, as the reason of an alert, how the number of stuck records grew from `since` to `found`."""
    return f"{found} records are stuck, up from {since} within {thresholds.window_minutes:g} min"
