"""For whom something is done in Redis: for a caller who waits so long, for the hub clock, or for nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Patience:
    """Of one caller. It is over with his request: what was begun in that and goes on is not for him."""

    def __init__(self, until_ms: int) -> None:
        self.until_ms: int | None = until_ms


_patience: ContextVar[_Patience | None] = ContextVar("patience", default=None)
_urgent: ContextVar[bool] = ContextVar("urgent", default=False)


def until_ms() -> int | str:
    """Return the reading of the hub clock until which the caller waits, '' where it has not said so."""
    found = _patience.get()
    return "" if found is None or found.until_ms is None else found.until_ms


def is_urgent() -> bool:
    """Return whether calls made here are part of a tick."""
    return _urgent.get()


@contextmanager
def waiting_until(clock_ms: int) -> Iterator[None]:
    """Around the work for a caller who waits until the hub clock reads so much."""
    patience = _Patience(clock_ms)
    before = _patience.set(patience)
    try:
        yield
    finally:
        patience.until_ms = None
        _patience.reset(before)


@contextmanager
def for_nobody() -> Iterator[None]:
    """Around what is put in order whether or not the caller still waits."""
    before = _patience.set(None)
    try:
        yield
    finally:
        _patience.reset(before)


@contextmanager
def urgent() -> Iterator[None]:
    """Calls made in this block go past everything that waits, and wait for no tick: they are part of one."""
    before = _urgent.set(True)
    try:
        with for_nobody():
            yield
    finally:
        _urgent.reset(before)
