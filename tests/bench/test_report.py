"""A benchmark can fail: what falls short is said and decides the exit code."""

import math

import pytest

from tests.bench.__main__ import BENCHMARKS, main
from tests.bench.report import Figure, Rounds, kept, shown


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("f", 0.65, at_least=0.65), "PASS"),
        (Figure("f", 0.649, at_least=0.65), "FALLS SHORT"),
        (Figure("f", 20, at_most=20), "PASS"),
        (Figure("f", 20.1, at_most=20), "FALLS SHORT"),
        (Figure("f", math.nan, at_least=0), "FALLS SHORT"),
        (Figure("f", math.nan, at_most=0), "FALLS SHORT"),
        (Figure("f", 7), ""),
    ],
)
def test_a_figure_is_judged_by_its_bound(figure, verdict):
    assert (figure.verdict, verdict in figure.line()) == (verdict, True)


def test_one_figure_beyond_its_bound_fails_the_benchmark():
    good, bad, bare = Figure("a", 1, at_least=1), Figure("b", 0, at_least=1), Figure("c", 0)
    assert (kept([good, bare]), kept([good, bad, bare])) == (True, False)


def test_the_ratio_is_the_median_over_rounds_so_a_round_slow_on_both_sides_changes_nothing():
    rounds = Rounds.of([60, 6, 70], [100, 10, 100])
    assert (rounds.median, rounds.spread) == (0.6, "rounds 0.6 to 0.7")


@pytest.mark.parametrize(("rounds", "interval"), [(25, "8 to 18"), (100, "40 to 61"), (3, "1 to 3")])
def test_the_confidence_interval_of_a_median_has_the_ranks_of_published_tables(rounds, interval):
    quotients = [1.0 * number for number in range(rounds, 0, -1)]
    assert Rounds.of(quotients, [1] * rounds).interval == f"95 % interval {interval}"


def test_a_comparison_of_sides_with_different_numbers_of_rounds_is_refused():
    with pytest.raises(ValueError):
        Rounds.of([1, 2], [1])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.6543, "0.654"), (19.06, "19.1"), (999, "999"), (12345.6, "12,346")]
)
def test_figures_are_shown_with_three_digits(value, text):
    assert shown(value) == text


def test_an_unknown_benchmark_is_refused_with_the_names_of_the_known_ones(capsys):
    assert main(["heartbeat"]) == 2
    said = capsys.readouterr().err
    assert [name for name in BENCHMARKS if name not in said] == []
