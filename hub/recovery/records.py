"""The interface of the records of any source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hub.recovery.models import Reset, Source, Stuck


class Records(Protocol):
    """The records of one source. Every method raises `RecordsUnavailable` when their store does not answer, and
    `SourceRefused` when the source does not fit the store.

    A record is stuck when it has the stuck status and was last updated more than the threshold ago, by the clock of its
    own store. A record without a time of its last update is never touched.
    """

    @property
    def source(self) -> Source:
        """Return the source as it was declared."""
        ...

    async def check(self) -> None:
        """Check that the records are as declared."""
        ...

    async def count(self) -> int:
        """Return how many are stuck now; without an index by age, how many were seen within half a minute."""
        ...

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """Return the first stuck records, the longest stuck first; perhaps of these ids alone, or of a greater age."""
        ...

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Reset one batch, the longest stuck first, or the stuck ones of these ids.

        A batch is reset whole or not at all; many ids are several batches. Safe to repeat, and beside other hubs: each
        record is reset once.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
