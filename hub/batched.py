"""Sequences in batches: `itertools.batched` of Python 3.12, for sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in order, at most `size` of them together; nothing for no items."""
    return (items[start : start + size] for start in range(0, len(items), size))
