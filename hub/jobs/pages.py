"""Pages of lists that are kept apart in the store and shown as one, newest first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from hub.jobs.models import Page
from hub.store.store import Store

BATCH = 100  # records described per script: 1 to 2 ms
R = TypeVar("R")


class Pages:
    """Reads a page over one or several lists."""

    def __init__(self, store: Store) -> None:
        self._page = store.script("jobs/page")

    async def read(
        self, keys: Sequence[str], limit: int, offset: int, describe: Callable[[list[str]], Awaitable[list[R]]]
    ) -> Page[R]:
        """Read at most `limit` records after the first `offset`, and count all. `describe` leaves out records that went
        between the two looks.
        """
        total, *members = await self._page(limit=limit, offset=offset, rest=keys)
        found: list[R] = []
        for start in range(0, len(members), BATCH):
            found += await describe(members[start : start + BATCH])
        return Page(found, total)
