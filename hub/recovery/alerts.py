"""When many stuck records are worth telling somebody. Pure: no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hub.settings import Settings

Level = Literal["ok", "warning", "critical"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "critical")  # in the order of the numbers in the metric


@dataclass(frozen=True)
class Thresholds:
    """When the number of stuck records of a source is a warning, and when it is critical."""

    warning_above: int
    critical_above: int
    growth_factor: float
    growth_min: int
    window_minutes: float

    @classmethod
    def of(cls, settings: Settings) -> Thresholds:
        """Those of the settings."""
        return cls(
            settings.zombie_warning_above,
            settings.zombie_critical_above,
            settings.zombie_growth_factor,
            settings.zombie_growth_min,
            settings.zombie_growth_window_minutes,
        )


def level(found: int, lowest: int | None, thresholds: Thresholds) -> tuple[Level, str]:
    """What so many stuck records are, and why in words; `lowest` is the least of earlier passes within the window."""
    if found > thresholds.critical_above:
        return "critical", f"{found} records are stuck, more than {thresholds.critical_above}"
    if found > thresholds.warning_above:
        return "warning", f"{found} records are stuck, more than {thresholds.warning_above}"
    if grown(found, lowest, thresholds):
        return "warning", growth(found, lowest, thresholds)
    return "ok", f"{found} {'record is' if found == 1 else 'records are'} stuck"


def grown(found: int, since: int | None, thresholds: Thresholds) -> bool:
    """Whether so many have grown from so few that somebody is told."""
    grew = since is not None and found > since and found >= thresholds.growth_factor * since
    return grew and found >= thresholds.growth_min


def growth(found: int, since: int | None, thresholds: Thresholds) -> str:
    """The same in words."""
    return f"{found} records are stuck, up from {since} within {thresholds.window_minutes:g} min"
