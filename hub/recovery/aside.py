"""Records that a database refuses to change. A pass leaves them out, to reach the records behind them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

AT_MOST = 10_000  # ids that one statement can leave out; a pass does not get past more refused records


class Aside:
    """The ids that a pass leaves out: those refused in this pass, and those of the last pass, which are tried last.

    `left` counts records that the database left unchanged without an error. `refusal` is its last error about another.
    """

    def __init__(self) -> None:
        self._later: dict[Any, None] = {}  # to be tried when no other record is left, in this order
        self._refused: dict[Any, None] = {}  # refused in this pass, and not tried again in it
        self.left = 0
        """How many the database left as they were without a word."""
        self.refusal: Exception | None = None
        """What it said about one of the others."""

    @property
    def ids(self) -> list[Any]:
        """Return all ids that the choice of a batch leaves out."""
        return [*self._later, *self._refused]

    @property
    def full(self) -> bool:
        """Return whether `AT_MOST` ids are left out, so that no more can be."""
        return len(self._later) + len(self._refused) >= AT_MOST

    def refuse(self, ids: Iterable[Any], refusal: Exception | None) -> None:
        """Leave these ids out for the rest of the pass; without `refusal` the database raised no error."""
        for each in ids:
            self._later.pop(each, None)
            self.left += refusal is None
            if not self.full:
                self._refused[each] = None
        self.refusal = refusal or self.refusal

    def put_off(self, ids: Iterable[Any], refusal: Exception) -> None:
        """Leave these ids out until no other record is left: the database refuses an unknown part of them."""
        for each in ids:
            if not self.full:
                self._later[each] = None
        self.refusal = refusal

    def take(self, count: int) -> list[Any]:
        """Return up to `count` ids that were put off, no longer left out, to be tried now."""
        taken = list(self._later)[:count]
        for each in taken:
            del self._later[each]
        return taken

    def end(self) -> tuple[Exception | None, int]:
        """End the pass: return the last refusal, and how many records stayed unchanged without an error."""
        over = self.refusal, self.left
        self._later |= self._refused
        self._refused, self.refusal, self.left = {}, None, 0
        return over
