"""The number of long polls that wait in this process, bounded for each credential and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hub.errors import Unavailable

POLLS_MAX: Final = 10_000  # long polls in this process; each holds a connection
SHARE: Final = 0.75  # of `POLLS_MAX` for one credential, or for one address without a credential
_AGAIN_S: Final = 5.0


class LongPolls:
    """The count of long polls that wait in this process, for each credential and in all."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self._count = 0

    @contextmanager
    def place(self, who: str) -> Iterator[None]:
        """Hold a place for a long poll of this caller within the block; raises `Unavailable` when there is none."""
        if self._of[who] >= int(POLLS_MAX * SHARE):
            raise Unavailable("This credential has too many long polls at this hub; ask again later.", _AGAIN_S)
        if self._count >= POLLS_MAX:
            raise Unavailable("The hub has too many long polls; ask again later.", _AGAIN_S)
        self._of[who] += 1
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            self._of[who] -= 1
            if not self._of[who]:
                del self._of[who]
