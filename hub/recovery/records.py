"""What every kind of source can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hub.recovery.models import Reset, Source, Stuck


class Records(Protocol):
    """The records of one source. All of it raises `RecordsUnavailable` when their store does not answer, and
    `SourceRefused`, in one sentence, when the source does not fit what is there.

    A record is stuck when it has the stuck status and was last updated more than the threshold ago, by the clock of its
    own store. One without a time of its last update is never touched.
    """

    @property
    def source(self) -> Source:
        """As it was declared."""
        ...

    async def check(self) -> None:
        """Look whether the records are as declared."""
        ...

    async def count(self) -> int:
        """How many are stuck now; where there is no index by age, as many as were seen within half a minute."""
        ...

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """The first of those that are stuck, the longest first; perhaps only of these ids, or of a greater age."""
        ...

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Bring one batch back, the longest stuck first, or those of these ids that are stuck.

        All of a batch or nothing of it; many ids are several batches. Safe to repeat, and beside others that do the
        same: each record is reset once.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
