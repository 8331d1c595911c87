"""The count of what callers hold in this process, such as long polls, bounded for each caller and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hub.errors import Unavailable

POLLS_MAX: Final = 10_000  # long polls in this process; each holds a connection
SHARE: Final = 0.75  # of a bound on all for one caller
_AGAIN_S: Final = 5.0


class Shares:
    """A count of what is held, for each holder and in all. `most` bounds the whole, and `each` what one holder has."""

    def __init__(self, most: int, each: int) -> None:
        self.most, self.each = most, each
        self.count = 0
        self.held: Counter[object] = Counter()

    def is_used_up(self, size: int = 1) -> bool:
        """Return whether all holders together leave no room for `size` more."""
        return self.count + size > self.most

    def is_used_up_by(self, holder: object, size: int = 1) -> bool:
        """Return whether one holder has too much to be given `size` more."""
        return self.held[holder] + size > self.each

    def take(self, holder: object, size: int = 1) -> None:
        """Count `size` more for a holder."""
        self.count += size
        self.held[holder] += size

    def give_back(self, holder: object, size: int = 1) -> None:
        """Count `size` less for a holder."""
        self.count -= size
        self.held[holder] -= size
        if not self.held[holder]:
            del self.held[holder]


class LongPolls(Shares):
    """The count of long polls that wait in this process, for each credential (for each address without one)."""

    def __init__(self) -> None:
        super().__init__(POLLS_MAX, int(POLLS_MAX * SHARE))

    @contextmanager
    def place(self, caller: str) -> Iterator[None]:
        """Hold a place for a long poll of this caller within the block; raises `Unavailable` when there is none."""
        if self.is_used_up_by(caller):
            raise Unavailable("This credential has too many long polls at this hub; ask again later.", _AGAIN_S)
        if self.is_used_up():
            raise Unavailable("The hub has too many long polls; ask again later.", _AGAIN_S)
        self.take(caller)
        try:
            yield
        finally:
            self.give_back(caller)
