"""The settings of the recovery of stuck records. Names that begin with HUB_ZOMBIE_ are also read without HUB_."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from hub.settings.knobs import BadSetting, Knob, read_duration, read_integer, read_path, read_text

YEAR_MINUTES = 366 * 1440


def _knob(name: str, read: Callable[[str], object], low: float | None = None, high: float | None = None) -> Knob:
    return Knob(name, read, low, high, aliases=(name.removeprefix("HUB_"),))


def _read_enabled(text: str) -> bool:
    """Return the switch from any usual word for on or off, so that an operator in a hurry can switch recovery off."""
    match text.lower():
        case "true" | "1" | "yes" | "on":
            return True
        case "false" | "0" | "no" | "off":
            return False
    raise BadSetting(f"HUB_ZOMBIE_CLEANUP_ENABLED={text[:80]} is neither true nor false.")


def _above_zero(name: str, why: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        minutes = read_duration(text)
        if minutes <= 0:
            raise BadSetting(f"{name}={text} {why}; it must be above 0.")
        return minutes

    return read


def _minutes(name: str, low: float, zero: str | None = None) -> Knob:
    """Return a knob of minutes. With `zero`, a text on what 0 would mean, 0 is refused."""
    return _knob(name, _above_zero(name, zero) if zero else read_duration, low, YEAR_MINUTES)


class RecoverySettings(BaseSettings):
    """The settings of the recovery of stuck records: its sources, the pause between passes, the limits of alerts."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    recovery_file: Annotated[Path | None, Knob("HUB_RECOVERY_FILE", read_path)] = None
    """A TOML file of the sources in which records may get stuck. Unset: none but those of HUB_RECOVERY_SOURCES."""
    recovery_sources: Annotated[str, Knob("HUB_RECOVERY_SOURCES", read_text)] = ""
    """Where further sources are declared in Python, as MODULE:NAME. Empty: none but those of the file."""
    zombie_cleanup_enabled: Annotated[bool, _knob("HUB_ZOMBIE_CLEANUP_ENABLED", _read_enabled)] = True
    """Whether stuck records are reset. false: nothing watches them; without a source there is nothing to watch."""
    zombie_cleanup_interval_minutes: Annotated[
        float, _minutes("HUB_ZOMBIE_CLEANUP_INTERVAL_MINUTES", 0.001, "would never pause")
    ] = 15.0
    """Pause between passes. Too low: queries for nothing; too high: stuck records stay for longer."""
    zombie_stuck_threshold_minutes: Annotated[
        float, _minutes("HUB_ZOMBIE_STUCK_THRESHOLD_MINUTES", 0.001, "would take every record from its worker")
    ] = 60.0
    """Age at which a record is stuck unless its source says. Too low: slow work is done twice; too high: late."""
    zombie_warning_above: Annotated[int, _knob("HUB_ZOMBIE_WARNING_ABOVE", read_integer, 0, 2**31)] = 10
    """More stuck records of a source than this are a warning. Too low: noise; too high: told of late."""
    zombie_critical_above: Annotated[int, _knob("HUB_ZOMBIE_CRITICAL_ABOVE", read_integer, 0, 2**31)] = 50
    """More stuck records of a source than this are critical. Too low: noise; too high: told of late."""
    zombie_growth_factor: Annotated[float, _knob("HUB_ZOMBIE_GROWTH_FACTOR", read_duration, 1, 1_000_000)] = 2.0
    """Growth within the window that is a warning. Too low: noise; too high: a trouble that begins is told of late."""
    zombie_growth_window_minutes: Annotated[float, _minutes("HUB_ZOMBIE_GROWTH_WINDOW_MINUTES", 0.001)] = 60.0
    """How far back growth is measured. Too low: slow growth is missed; too high: old peaks hide it."""
    zombie_growth_min: Annotated[int, _knob("HUB_ZOMBIE_GROWTH_MIN", read_integer, 1, 2**31)] = 4
    """Fewer stuck records never warn of growth: from one to two is no trend. Too high: growth is told of late."""
    zombie_webhook_url: Annotated[
        SecretStr | None, Knob("HUB_ZOMBIE_WEBHOOK_URL", read_text, aliases=("ZOMBIE_WEBHOOK_URL",), secret=True)
    ] = None
    """Where alerts are posted as JSON. Unset: they are logged and counted only."""


def contradictions(settings: RecoverySettings) -> list[str]:
    """Return a sentence for each pair of settings of the recovery whose values contradict each other."""
    if settings.zombie_warning_above < settings.zombie_critical_above:
        return []
    return ["HUB_ZOMBIE_WARNING_ABOVE is not below HUB_ZOMBIE_CRITICAL_ABOVE; no number of stuck records is a warning"]
