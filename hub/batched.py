"""Batches of a sequence, as `itertools.batched` of Python 3.12 makes them of an iterable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in order in slices of at most `size`; no slice for an empty sequence."""
    return (items[start : start + size] for start in range(0, len(items), size))
