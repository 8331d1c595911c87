"""Reading several keys of which other programs may have overwritten some."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from hub.errors import ForeignKey
from hub.store.store import Store


async def read_each(store: Store, commands: Iterable[tuple[Any, ...]], otherwise: Any = None) -> list[Any]:
    """Return the answers of plain commands that are sent together, in this order; `otherwise` stands for the answer of
    a command whose key has another Redis type.
    """

    async def one(command: tuple[Any, ...]) -> Any:
        try:
            return await store.read(*command)
        except ForeignKey:
            return otherwise

    return list(await asyncio.gather(*map(one, commands)))
