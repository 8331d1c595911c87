"""The rows of teams, what teams have, and what each is due. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

ROWS_MAX: Final = 256
COUNT_MAX: Final = 999_999_999
WEIGHT_MIN: Final = 0.01
WEIGHT_MAX: Final = 1000
GUARANTEE: Final = f"must be a whole number from 0 to {COUNT_MAX}"
CEILING: Final = f"must be a whole number from the guarantee to {COUNT_MAX}, or left out for none"
WEIGHT: Final = f"must be a number from {WEIGHT_MIN:g} to {WEIGHT_MAX}"
PATTERN_MAX: Final = 200  # characters


class TeamRow(NamedTuple):
    """What a team is to have of the pools whose labels fit `pattern`. `ceiling` is None for no ceiling."""

    team: str
    pattern: str
    guarantee: int = 0
    ceiling: int | None = None
    weight: float = 1
    by: str = ""
    at: str = ""

    @classmethod
    def read(cls, field: str, text: str) -> TeamRow:
        """Return a row from the field and the JSON that the store has of it."""
        pattern, _, team = field.rpartition("\t")
        said = orjson.loads(text)
        ceiling = None if said.get("ceiling") is None else int(said["ceiling"])
        names = str(said.get("by", "")), str(said.get("at", ""))
        return cls(team, pattern, int(said.get("guarantee", 0)), ceiling, float(said.get("weight", 1)), *names)

    @property
    def text(self) -> str:
        """Return the row as the JSON that the store takes."""
        ceiling = {} if self.ceiling is None else {"ceiling": self.ceiling}
        row = {"guarantee": self.guarantee, "weight": self.weight, "by": self.by, **ceiling}
        return orjson.dumps(row).decode()


class TeamNow(NamedTuple):
    """The part of a team in the pools of a pattern. `waiting` counts its borrows that wait, those of several slots,
    which are `bundles` of them, as one each. Room under its ceiling is kept for `kept` leases of the bundle that
    reserves. `share` says which team is next: the one with the least; None at its ceiling. `due` is what it is entitled
    to of the slots that are published.
    """

    team: str
    pattern: str
    row: TeamRow | None
    held: int
    waiting: int
    recalled: int
    share: float | None
    bundles: int = 0
    kept: int = 0
    due: float = 0.0

    @property
    def terms(self) -> TeamRow:
        """Return the row of the team, or the one that counts for a team that has none."""
        return self.row or TeamRow(self.team, self.pattern)

    @property
    def is_full(self) -> bool:
        """Return whether it may have no further slot."""
        return self.terms.ceiling is not None and self.held + self.kept >= self.terms.ceiling


def read_pattern(value: Any) -> str:
    """Return a value as a pattern of pool labels; raises ValueError, whose text says what a pattern must be."""
    pattern = value.strip() if isinstance(value, str) else ""
    if not 1 <= len(pattern) <= PATTERN_MAX or not pattern.isprintable() or " " in pattern:
        raise ValueError(f"must be 1 to {PATTERN_MAX} printable characters without blanks, such as gpu:*")
    return pattern


def read_guarantee(value: Any) -> int:
    """Return a value as a guarantee; raises ValueError."""
    return _count(value, GUARANTEE)


def read_ceiling(value: Any) -> int:
    """Return a value as a ceiling; raises ValueError."""
    return _count(value, CEILING)


def _count(value: Any, must: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise ValueError(must)
    return value


def read_weight(value: Any) -> float:
    """Return a value as a weight; raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not WEIGHT_MIN <= value <= WEIGHT_MAX:
        raise ValueError(WEIGHT)
    return float(value)


def check_row(row: TeamRow) -> TeamRow:
    """Return the row; raises ValueError for a ceiling below the guarantee."""
    if row.ceiling is not None and row.ceiling < row.guarantee:
        raise ValueError(f"ceiling {row.ceiling} is below the guarantee {row.guarantee}; it must be at least as high")
    return row


@cache
def _fitting(pattern: str) -> str:
    """Return a pattern as `fnmatch` wants it, which takes no longer for more of `*`."""
    return re.sub(r"[?[]", r"[\g<0>]", pattern)


def pattern_of(pool: str, patterns: Iterable[str]) -> str | None:
    """Return the pattern whose rows count for a pool: the longest of those that fit; None where none fits."""
    fitting = [each for each in patterns if fnmatchcase(pool, _fitting(each))]
    return min(fitting, key=lambda each: (-len(each.encode()), each.encode()), default=None)


def dues(supply: int, rows: Sequence[TeamRow]) -> list[float]:
    """Return what each team is entitled to of so many slots when all want more than there are: its guarantee, then as
    many slots by weight as every other team, up to its ceiling."""
    promised = sum(row.guarantee for row in rows)
    if promised >= supply:
        return [row.guarantee * supply / max(1, promised) for row in rows]

    def at(level: float) -> list[float]:
        most = [supply if row.ceiling is None else row.ceiling for row in rows]
        found = (max(row.guarantee, row.weight * level) for row in rows)
        return [min(limit, each) for limit, each in zip(most, found, strict=True)]

    low, high = 0.0, supply / WEIGHT_MIN
    for _ in range(64):
        level = (low + high) / 2
        low, high = (low, level) if sum(at(level)) > supply else (level, high)
    return at(low)


def too_much(supply: Mapping[str, int], rows: Iterable[TeamRow]) -> dict[str, str]:
    """Return by pattern a sentence on guarantees that exceed the slots that are published together."""
    promised: dict[str, int] = {}
    for row in rows:
        promised[row.pattern] = promised.get(row.pattern, 0) + row.guarantee
    return {
        pattern: f"the guarantees under {pattern} are {sum_} slot{'' if sum_ == 1 else 's'} together, and "
        f"{supply.get(pattern, 0)} {'is' if supply.get(pattern) == 1 else 'are'} published"
        for pattern, sum_ in promised.items()
        if sum_ > supply.get(pattern, 0)
    }
