"""The figures of usage: what a name used on a day or in a time, and how both are written in the store."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, Literal, NamedTuple, get_args

Kind = Literal["user", "team", "label", "slot", "node"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
OTHER: Final = "other"  # the name under which the names beyond a bound are counted
NAMES_MAX: Final = 10_000  # names of a day and kind, and of an answer
DAY_S: Final = 86_400


class Figures(NamedTuple):
    """Leases, the time for which they were held, were waited for and were idle, and borrows that were refused."""

    leases: int = 0
    held_ms: int = 0
    waited_ms: int = 0
    idle_ms: int = 0
    refusals: int = 0

    def plus(self, other: Figures) -> Figures:
        """Return the sums of both."""
        return Figures(*(mine + its for mine, its in zip(self, other, strict=True)))

    @classmethod
    def read(cls, text: str) -> Figures:
        """Return the figures in a field of the store; figures of 0 for a text that is none."""
        try:
            return cls(*map(int, text.split()))
        except (TypeError, ValueError):
            return cls()


Table = dict[str, Figures]  # name -> its figures


def add(table: Table, name: str, figures: Figures) -> None:
    """Add figures to those of a name; a name beyond `NAMES_MAX` is counted as `OTHER`."""
    if name not in table and len(table) >= NAMES_MAX:
        name = OTHER
    table[name] = table.get(name, Figures()).plus(figures)


def in_pairs(flat: Iterable[str]) -> Table:
    """Return the table that the store answers as name, figures, name, figures ..."""
    given = iter(flat)
    return {name: Figures.read(text) for name, text in iter(lambda: tuple(islice(given, 2)), ())}
