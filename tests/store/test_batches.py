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


async def test_what_comes_together_goes_together_as_far_as_a_call_reaches():
    doubled = Doubled()
    doubled.go.set()
    assert await asyncio.gather(*map(doubled.take, [1, 2, 3, 4, 5])) == [2, 4, 6, 8, 10]
    assert doubled.calls == [[1, 2], [3, 4], [5]]


async def test_what_comes_during_a_call_goes_with_the_next_and_the_one_after_an_end_begins_anew():
    doubled = Doubled()
    first = doubled.take(1)
    await doubled.begun.wait()
    others = [doubled.take(2), doubled.take(3)]
    doubled.go.set()
    assert await asyncio.gather(first, *others) == [2, 4, 6]
    assert await doubled.take(4) == 8
    assert doubled.calls == [[1], [2, 3], [4]]


async def test_a_failure_is_told_to_those_it_is_about_and_to_no_one_else():
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
