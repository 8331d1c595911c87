"""Pages over one or several sorted sets of the store that are shown as one list, newest first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from hub.batched import batched
from hub.jobs.models import Page
from hub.store.store import Store

BATCH = 100  # records described per script: 1 to 2 ms
R = TypeVar("R")


class Pages:
    """A reader of pages over one or several sorted sets."""

    def __init__(self, store: Store) -> None:
        self._page = store.script("jobs/page")

    async def read(
        self, keys: Sequence[str], limit: int, offset: int, describe: Callable[[list[str]], Awaitable[list[R]]]
    ) -> Page[R]:
        """Return at most `limit` records after the first `offset`, and the number of all. `describe` returns the
        records of a batch of members, without those that were deleted meanwhile.
        """
        total, *members = await self._page(limit=limit, offset=offset, rest=keys)
        found: list[R] = []
        for batch in batched(members, BATCH):
            found += await describe(list(batch))
        return Page(found, total)
