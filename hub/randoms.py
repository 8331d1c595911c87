"""Random names that cannot be guessed, thousands a second. `secrets` asks the kernel for each and costs five times as
much; here the kernel is asked for many at once."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Final

_MANY: Final = 4096  # bytes the kernel is asked for at once


class _Bytes:
    """A supply of random bytes from the kernel. Each byte is given out once."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._left = BytesIO()

    def take(self, count: int) -> bytes:
        found = self._left.read(count)  # one step of the interpreter, so no other thread gets the same bytes
        while len(found) < count:
            self._left = BytesIO(os.urandom(_MANY))
            found = self._left.read(count)
        return found


_bytes = _Bytes()
os.register_at_fork(after_in_child=_bytes.forget)  # else a forked process would give out the same bytes as its parent


def random_hex(count: int) -> str:
    """Return `count` random bytes, at most 4,096, as hexadecimal digits; no two calls get the same bytes."""
    return _bytes.take(count).hex()
