"""Calls made one by one and sent together: every caller gets his own answer."""

from __future__ import annotations

import asyncio

import pytest

from hub.errors import StoreUnavailable
from hub.store.batches import Batches


class Doubled(Batches[int, int]):
    """Doubles numbers, four to a call at most; knows no 13, and has trouble with calls that hold a 99."""

    def __init__(self) -> None:
        super().__init__("doubled", 4)
        self.calls: list[list[int]] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def call(self, items: list[int]) -> list[int | Exception]:
        self.calls.append(items)
        self.begun.set()
        await self.go.wait()
        if 99 in items:
            raise StoreUnavailable("away")
        return [KeyError(13) if item == 13 else 2 * item for item in items]


@pytest.mark.parametrize(
    ("many", "sizes"),
    [(1, [1]), (2, [2]), (3, [2, 1]), (4, [2, 2]), (5, [2, 2, 1]), (6, [3, 2, 1]), (8, [4, 2, 2]), (12, [4, 4, 2, 2])],
)
async def test_what_comes_together_goes_half_and_half_as_far_as_a_call_reaches(many, sizes):
    doubled = Doubled()
    doubled.go.set()
    assert await asyncio.gather(*map(doubled.take, range(many))) == [2 * n for n in range(many)]
    assert [len(call) for call in doubled.calls] == sizes
    assert [item for call in doubled.calls for item in call] == [*range(many)]


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
