"""What teams are due, and which pattern counts for a pool."""

from __future__ import annotations

import pytest

from hub.teams.models import TeamRow, dues, pattern_of


@pytest.mark.parametrize(
    ("supply", "rows", "due"),
    [
        (8, [TeamRow("a", "*"), TeamRow("b", "*", weight=3)], [2, 6]),
        (8, [TeamRow("a", "*", guarantee=6), TeamRow("b", "*")], [6, 2]),
        (8, [TeamRow("a", "*", ceiling=1), TeamRow("b", "*")], [1, 7]),
        (8, [TeamRow("a", "*", ceiling=2), TeamRow("b", "*", ceiling=3)], [2, 3]),
        (3, [TeamRow("a", "*", guarantee=4), TeamRow("b", "*", guarantee=2), TeamRow("c", "*")], [2, 1, 0]),
        (0, [TeamRow("a", "*")], [0]),
        (3, [], []),
    ],
)
def test_slots_are_due_by_guarantee_then_by_weight_up_to_the_ceiling(
    supply: int, rows: list[TeamRow], due: list[float]
) -> None:
    assert [round(each, 6) for each in dues(supply, rows)] == due


@pytest.mark.parametrize(
    ("pool", "pattern"),
    [("gpu:a100", "gpu:a*"), ("gpu:h100", "gpu:*"), ("cpu:big", None), ("x:gpu:b", "*:gpu:?"), ("x:gpu:?", "*:gpu:?")],
)
def test_the_longest_pattern_that_fits_counts(pool: str, pattern: str | None) -> None:
    if pool == "x:gpu:b":
        pattern = None  # only `*` stands for other text
    assert pattern_of(pool, ["gpu:*", "gpu:a*", "*:gpu:?"]) == pattern


@pytest.mark.parametrize("pattern", ["*" * 60 + "b", "*a" * 40 + "*b", "gpu:" + "*a*" * 30 + "b"])
def test_a_pattern_with_many_stars_is_compared_at_once(pattern):
    assert pattern_of("gpu:" + "a" * 100, [pattern, "gpu:*"]) == "gpu:*"


def test_only_a_star_stands_for_others_in_a_pattern():
    assert pattern_of("gpu:a", ["gpu:?", "[g]pu:a", "gpu:*"]) == "gpu:*"
    assert pattern_of("gpu:[a]?", ["gpu:[a]?", "gpu:*"]) == "gpu:[a]?"
