"""Scripts that take many records, where one bad record does not spoil the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hub.batched import batched
from hub.errors import ForeignKey
from hub.observability.logs import get_logger

_log = get_logger("hub.sweeping")


async def each(
    records: Sequence[str], size: int, script: Callable[[Sequence[str]], Awaitable[list[str]]]
) -> tuple[list[tuple[str, str]], int]:
    """Run a script over many records; return (record, word) pairs, and how many records failed.

    A batch that trips over a key another program has overwritten is repeated record by record.
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
                more, errors = await each(batch, 1, script)
                words += more
                failed += errors
    return words, failed
