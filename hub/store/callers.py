"""The purpose of a call to Redis: for a caller that waits until a certain time, for the hub clock, or for no caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class _Patience:
    """The time until which one caller waits; None once its request has ended, as work that goes on is for no caller."""

    def __init__(self, until_ms: int) -> None:
        self.until_ms: int | None = until_ms


_patience: ContextVar[_Patience | None] = ContextVar("patience", default=None)
_urgent: ContextVar[bool] = ContextVar("urgent", default=False)


def until_ms() -> int | str:
    """Return the reading of the hub clock until which the caller waits, '' for no caller or no such time."""
    found = _patience.get()
    return "" if found is None or found.until_ms is None else found.until_ms


def is_urgent() -> bool:
    """Return whether this code runs in a block of `urgent`, as part of a tick of the hub clock."""
    return _urgent.get()


@contextmanager
def waiting_until(clock_ms: int) -> Iterator[None]:
    """Mark the calls of this block as made for a caller that waits until the hub clock reads `clock_ms`."""
    patience = _Patience(clock_ms)
    before = _patience.set(patience)
    try:
        yield
    finally:
        patience.until_ms = None
        _patience.reset(before)


@contextmanager
def for_nobody() -> Iterator[None]:
    """Mark the calls of this block as made for no caller: they are carried out also when no caller waits any more."""
    before = _patience.set(None)
    try:
        yield
    finally:
        _patience.reset(before)


@contextmanager
def urgent() -> Iterator[None]:
    """Mark the calls of this block as part of a tick: they are sent at once, before all calls that wait for a tick."""
    before = _urgent.set(True)
    try:
        with for_nobody():
            yield
    finally:
        _urgent.reset(before)
