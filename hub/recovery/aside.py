"""Records that a database refuses to change. A pass leaves them out, to reach the records behind them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

AT_MOST = 10_000  # ids that one statement can leave out; a pass does not get past more refused records


class Aside:
    """The ids of records that a pass of recovery leaves out: those refused in it, and those of the last pass.

    `left` counts records that the database left unchanged without an error. `refusal` is its last error about another.
    """

    def __init__(self) -> None:
        self._later: dict[Any, None] = {}  # to be tried when no other record is left, in this order
        self._refused: dict[Any, None] = {}  # refused in this pass, and not tried again in it
        self.left = 0
        """The number of records that the database left unchanged without an error."""
        self.refusal: Exception | None = None
        """The last error of the database about another record."""

    @property
    def ids(self) -> list[Any]:
        """Return the ids of all records that the next batch leaves out, because the database refused to change them."""
        return [*self._later, *self._refused]

    @property
    def full(self) -> bool:
        """Return whether a pass of recovery leaves out `AT_MOST` records already, so that it cannot leave out more."""
        return len(self._later) + len(self._refused) >= AT_MOST

    def refuse(self, ids: Iterable[Any], refusal: Exception | None) -> None:
        """Leave these records out for the rest of the pass; `refusal` is the database's error, if any."""
        for each in ids:
            self._later.pop(each, None)
            self.left += refusal is None
            if not self.full:
                self._refused[each] = None
        self.refusal = refusal or self.refusal

    def put_off(self, ids: Iterable[Any], refusal: Exception) -> None:
        """Leave these records out until no other is left: the database refuses some of them, not known which."""
        for each in ids:
            if not self.full:
                self._later[each] = None
        self.refusal = refusal

    def take(self, count: int) -> list[Any]:
        """Return up to `count` ids of records that were put off by `put_off`; the pass tries them now."""
        taken = list(self._later)[:count]
        for each in taken:
            del self._later[each]
        return taken

    def end(self) -> tuple[Exception | None, int]:
        """End a pass of recovery: return the database's last error or None, and how many records it left unchanged."""
        over = self.refusal, self.left
        self._later |= self._refused
        self._refused, self.refusal, self.left = {}, None, 0
        return over
