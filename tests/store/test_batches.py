"""Calls made one by one and sent together: every caller gets its own answer."""

from __future__ import annotations

import asyncio

import pytest

from hub.errors import StoreUnavailable
from hub.store.batches import Batches


class Doubled(Batches[int, int]):
    """Doubles numbers, two to a call; knows no 13, and has trouble with calls that hold a 99."""

    def __init__(self) -> None:
        super().__init__("doubled", 2)
        self.calls: list[list[int]] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def call(self, items: list[int]) -> list[int | Exception]:
        self.calls.append(items)
        self.begun.set()
        await self.go.wait()
        if 99 in items:
            raise StoreUnavailable("away")
        return [KeyError(13) if item == 13 else 2 * item for item in items]


async def test_items_that_arrive_together_are_sent_in_calls_of_limited_size():
    doubled = Doubled()
    doubled.go.set()
    assert await asyncio.gather(*map(doubled.take, [1, 2, 3, 4, 5])) == [2, 4, 6, 8, 10]
    assert doubled.calls == [[1, 2], [3, 4], [5]]


async def test_items_that_arrive_during_a_call_are_sent_with_the_next():
    doubled = Doubled()
    first = doubled.take(1)
    await doubled.begun.wait()
    others = [doubled.take(2), doubled.take(3)]
    doubled.go.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6]
    assert await doubled.take(4) == 8
    assert doubled.calls == [[1], [2, 3], [4]]


async def test_a_failed_call_fails_only_its_own_items():
    doubled = Doubled()
    doubled.go.set()
    answers = [doubled.take(item) for item in (1, 13, 99, 2, 3)]
    answers[4].cancel()
    found = await asyncio.gather(*answers, return_exceptions=True)
    assert (found[0], [type(each) for each in found[1:]]) == (
        2, [KeyError, StoreUnavailable, StoreUnavailable, asyncio.CancelledError],
    )  # fmt: skip
    with pytest.raises(KeyError):
        await doubled.take(13)
