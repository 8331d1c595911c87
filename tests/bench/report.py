"""The results of a benchmark, judged against its target. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One measured value and the bound it must keep: `at_least` or `at_most`; with neither it is only shown."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether the promise is kept; a value that is no number keeps none."""
        above = self.at_least is None or self.value >= self.at_least
        below = self.at_most is None or self.value <= self.at_most
        return not math.isnan(self.value) and above and below

    @property
    def target(self) -> str:
        """The bound as it is printed."""
        if self.at_least is not None:
            return f">= {shown(self.at_least)}{self.unit}"
        return "" if self.at_most is None else f"<= {shown(self.at_most)}{self.unit}"

    @property
    def verdict(self) -> str:
        """PASS, FALLS SHORT, or nothing where there is no target."""
        if not self.target:
            return ""
        return "PASS" if self.kept else "FALLS SHORT"

    def line(self) -> str:
        """Return the figure as it is printed."""
        value = f"{shown(self.value)}{self.unit}"
        return f"  {self.name:<56}{value:>12}  {self.target:<12}{self.verdict:<12}{self.note}".rstrip()


@dataclass(frozen=True)
class Rounds:
    """A quotient measured several times, one pair a round: what counts is the median of the rounds."""

    quotients: tuple[float, ...]

    @classmethod
    def of(cls, measured: Sequence[float], baseline: Sequence[float]) -> Rounds:
        """Measured over baseline, round by round, so that what slows a whole round down does not count."""
        return cls(tuple(a / b for a, b in zip(measured, baseline, strict=True)))

    @property
    def median(self) -> float:
        return median(self.quotients)

    @property
    def interval(self) -> str:
        """Where the median of endless such rounds is, with a probability of 95 %, for the note beside a figure: between
        two of the sorted rounds, for any distribution (H. A. David, H. N. Nagaraja, Order Statistics, 7.1)."""
        ranked = sorted(self.quotients)
        middle, away = (len(ranked) - 1) / 2, 1.96 * math.sqrt(len(ranked)) / 2
        low, high = ranked[max(0, math.floor(middle - away))], ranked[min(len(ranked) - 1, math.ceil(middle + away))]
        return f"95 % interval {shown(low)} to {shown(high)}"

    @property
    def spread(self) -> str:
        """From the least to the greatest, for the note beside a figure."""
        return f"rounds {shown(min(self.quotients))} to {shown(max(self.quotients))}"


def shown(value: float) -> str:
    """Three digits that count, thousands with commas."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1000:
        return str(int(value))
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def kept(figures: Iterable[Figure]) -> bool:
    """Return whether every promise is kept."""
    return all(figure.kept for figure in figures)
