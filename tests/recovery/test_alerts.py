"""When a number of stuck records is worth telling: above a number, above a higher one, or grown within the window."""

from __future__ import annotations

import pytest

from hub.recovery.alerts import level
from hub.settings import Settings

DEFAULTS = Settings()


def thresholds(warning_above: int, critical_above: int, growth_factor: float, growth_min: int) -> Settings:
    return Settings(
        zombie_warning_above=warning_above, zombie_critical_above=critical_above, zombie_growth_factor=growth_factor,
        zombie_growth_min=growth_min,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "lowest", "expected"),
    [
        (0, None, "ok"),
        (0, 0, "ok"),
        (10, None, "ok"),
        (11, None, "warning"),
        (11, 11, "warning"),
        (50, 50, "warning"),
        (51, 51, "critical"),
        (51, 0, "critical"),
        (4, 2, "warning"),
        (4, 3, "ok"),
        (3, 1, "ok"),
        (4, 0, "warning"),
        (3, 0, "ok"),
        (10, 5, "warning"),
        (9, 5, "ok"),
        (4, 4, "ok"),
        (4, None, "ok"),
    ],
)
def test_by_default_ten_records_are_ok_and_fifty_or_a_doubling_to_four_a_warning(found, lowest, expected):
    assert level(found, lowest, DEFAULTS)[0] == expected


@pytest.mark.parametrize(
    ("found", "lowest", "settings", "expected"),
    [
        (1, None, thresholds(0, 0, 2, 4), "critical"),
        (1, None, thresholds(0, 5, 2, 4), "warning"),
        (6, None, thresholds(100, 5, 2, 4), "critical"),
        (7, 5, thresholds(100, 100, 1.5, 1), "ok"),
        (8, 5, thresholds(100, 100, 1.5, 1), "warning"),
        (5, 5, thresholds(100, 100, 1, 1), "ok"),
        (6, 5, thresholds(100, 100, 1, 1), "warning"),
        (1, 0, thresholds(100, 100, 2, 1), "warning"),
    ],
)
def test_every_bound_of_the_alert_levels_is_a_setting(found, lowest, settings, expected):
    assert level(found, lowest, settings)[0] == expected


@pytest.mark.parametrize(
    ("found", "lowest", "reason"),
    [
        (51, None, "51 records are stuck, more than 50"),
        (12, 3, "12 records are stuck, more than 10"),
        (8, 3, "8 records are stuck, up from 3 within 60 min"),
        (1, None, "1 record is stuck"),
        (0, None, "0 records are stuck"),
    ],
)
def test_the_reason_of_an_alert_is_a_readable_sentence(found, lowest, reason):
    assert level(found, lowest, DEFAULTS)[1] == reason
