"""The interface that every kind of source offers to recovery: check, count, look at and reset its stuck records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hub.recovery.models import Reset, Source, Stuck


class Records(Protocol):
    """The records of one source. Every method raises `RecordsUnavailable` when their database does not answer, and
    `SourceRefused` when the declaration of the source does not fit the database.

    A record is stuck when it has the stuck status and was last updated more than the threshold ago, by the clock of the
    database. A record without a time of its last update is never touched.
    """

    @property
    def source(self) -> Source:
        """Return the source as it was declared."""

    async def check(self) -> None:
        """Check that the records have the fields that the source declares; raise `SourceRefused` if not."""

    async def count(self) -> int:
        """Return how many records are stuck now; without an index by age, how many a search of 30 s finds."""

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """Return up to `limit` stuck records, the longest stuck first; `ids` and `older_than_s` narrow the search."""

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Reset one batch of stuck records, the longest stuck first, or the stuck records among `ids`.

        A batch is reset whole or not at all; many ids are several batches. A repeat, and a reset by another hub at the
        same time, do no harm: each record is reset once.
        """

    async def close(self) -> None:
        """Close the connections to the database."""
