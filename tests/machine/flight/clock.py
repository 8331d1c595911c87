"""The time of this process, moved by the machine: waits and measurements by `time.monotonic` follow it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """How far ahead it is."""

    def __init__(self) -> None:
        self._real = time.monotonic
        self.ahead_s = 0.0

    def now(self) -> float:
        return self._real() + self.ahead_s

    def pass_time(self, ms: int) -> None:
        self.ahead_s += ms / 1000

    @contextmanager
    def believed(self) -> Iterator[None]:
        """The event loop measures by it as well."""
        time.monotonic = self.now
        try:
            yield
        finally:
            time.monotonic = self._real
