"""Records that a database refuses to change, left aside so that a pass goes on behind them. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

AT_MOST = 10_000  # as many are named in one statement; behind more than that a pass does not come


class Aside:
    """The ids of one pass, and what the pass before handed on: those are tried again once nothing else is left."""

    def __init__(self) -> None:
        self._later: dict[Any, None] = {}  # in the order in which they are tried
        self._refused: dict[Any, None] = {}  # in this pass
        self.left = 0
        """How many the database left as they were without a word."""
        self.refusal: Exception | None = None
        """What it said about one of the others."""

    @property
    def ids(self) -> list[Any]:
        """All of them: the choice of a batch leaves them out."""
        return [*self._later, *self._refused]

    @property
    def full(self) -> bool:
        """Whether no more can be left out."""
        return len(self._later) + len(self._refused) >= AT_MOST

    def refuse(self, ids: Iterable[Any], refusal: Exception | None) -> None:
        """They cannot be changed in this pass; without a refusal they were left as they were."""
        for each in ids:
            self._later.pop(each, None)
            self.left += refusal is None
            if not self.full:
                self._refused[each] = None
        self.refusal = refusal or self.refusal

    def put_off(self, ids: Iterable[Any], refusal: Exception) -> None:
        """Some of them cannot be changed; which, is found out when nothing else is left."""
        for each in ids:
            if not self.full:
                self._later[each] = None
        self.refusal = refusal

    def take(self, count: int) -> list[Any]:
        """The first of those that are to be tried now."""
        taken = list(self._later)[:count]
        for each in taken:
            del self._later[each]
        return taken

    def end(self) -> tuple[Exception | None, int]:
        """The pass is over: what was refused, and how many were left. The next one tries them again."""
        over = self.refusal, self.left
        self._later |= self._refused
        self._refused, self.refusal, self.left = {}, None, 0
        return over
