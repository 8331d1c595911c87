"""Calls of a script for many records, batch by batch, in which one bad record does not fail the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hub.batched import batched
from hub.errors import ForeignKey
from hub.observability.logs import get_logger

_log = get_logger("hub.sweeping")


async def in_batches(
    records: Sequence[str], size: int, script: Callable[[Sequence[str]], Awaitable[list[str]]]
) -> tuple[list[tuple[str, str]], int]:
    """Call `script` with batches of `size` records; return pairs (record, word that it gave), and how many failed.

    When a batch fails because another program has overwritten a key, each of its records is tried alone.
    """
    words: list[tuple[str, str]] = []
    failed = 0
    for batch in batched(records, size):
        try:
            words += zip(batch, await script(batch), strict=True)
        except ForeignKey as error:
            if len(batch) == 1:
                failed += 1
                _log.warning("key has the wrong type", record=batch[0], why=str(error))
            else:
                more, errors = await in_batches(batch, 1, script)
                words += more
                failed += errors
    return words, failed
