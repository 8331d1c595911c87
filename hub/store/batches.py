"""Batching of calls: items that callers hand in one by one are sent together in one call."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batches(ABC, Generic[Item, Answer]):
    """A sender of items, at most `most` in one call. Items that come while a call is under way join the next call."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._sender: asyncio.Task[None] | None = None

    def take(self, item: Item) -> asyncio.Future[Answer]:
        """Hand in an item; the future returns its answer, or raises what the call raised or answered for this item."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send(), name=self._name)
        return answer

    @abstractmethod
    async def call(self, items: list[Item]) -> Sequence[Answer | Exception]:
        """Send these items in one call; return an answer or an exception for each, in their order."""

    async def _send(self) -> None:
        await asyncio.sleep(0)  # callers that can run now hand in their items before the first call
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            found: Sequence[Answer | Exception]
            try:
                found = await self.call([item for item, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers, every one of them
                found = [error] * len(batch)
            for (_, answer), each in zip(batch, found, strict=True):
                if answer.done():
                    continue
                if isinstance(each, Exception):
                    answer.set_exception(each)
                else:
                    answer.set_result(each)
