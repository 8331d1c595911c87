"""The time that requests have: one timer for all of them, and each gets the whole of it."""

from __future__ import annotations

import asyncio

import pytest

from hub.api.handling.deadlines import Deadlines

SOON_S, NEVER_S = 0.01, 3600


async def stand_still(deadlines: Deadlines, begun: asyncio.Event | None = None, more_s: float = 0) -> None:
    with deadlines.begin() as limit:
        if more_s:
            limit.extend(more_s)
        if begun:
            begun.set()
        await asyncio.Event().wait()


async def test_a_request_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError):
        await stand_still(Deadlines(SOON_S))


async def test_each_of_many_is_ended_and_so_is_one_that_begins_later() -> None:
    deadlines = Deadlines(SOON_S)
    ended = await asyncio.gather(*(stand_still(deadlines) for _ in range(20)), return_exceptions=True)
    assert [type(each) for each in ended] == [TimeoutError] * 20
    with pytest.raises(TimeoutError):
        await stand_still(deadlines)


async def test_one_that_is_over_leaves_the_time_of_the_next_as_it_is() -> None:
    deadlines = Deadlines(SOON_S)
    with deadlines.begin():
        pass
    with pytest.raises(TimeoutError):
        await stand_still(deadlines)
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_one_that_may_take_longer_goes_on_when_the_others_are_ended() -> None:
    deadlines, begun = Deadlines(SOON_S), asyncio.Event()
    longer = asyncio.ensure_future(stand_still(deadlines, begun, NEVER_S))
    await begun.wait()
    with pytest.raises(TimeoutError):
        await stand_still(deadlines)
    assert not longer.done()
    longer.cancel()
    with pytest.raises(asyncio.CancelledError):  # not a timeout: somebody else has ended it
        await longer


async def test_one_that_may_take_longer_is_ended_too() -> None:
    with pytest.raises(TimeoutError):
        await stand_still(Deadlines(SOON_S), more_s=SOON_S)


async def test_a_failure_is_told_as_it_is() -> None:
    with pytest.raises(KeyError), Deadlines(NEVER_S).begin():
        raise KeyError


async def test_one_that_is_over_gets_no_more_time_and_ends_nothing_later() -> None:
    with Deadlines(SOON_S).begin() as limit:
        pass
    limit.extend(SOON_S)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5 * SOON_S):
            await asyncio.Event().wait()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


def test_what_was_left_on_a_loop_that_is_closed_keeps_nobody_from_being_ended() -> None:
    deadlines, left = Deadlines(SOON_S), asyncio.new_event_loop()
    waiting = left.create_task(stand_still(deadlines))
    left.run_until_complete(asyncio.sleep(0))
    left._ready.clear()  # type: ignore[attr-defined]
    left.close()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(stand_still(deadlines))
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    waiting.get_coro().close()  # type: ignore[union-attr]


def test_an_application_that_is_served_by_another_loop_next_ends_its_requests_too() -> None:
    deadlines = Deadlines(SOON_S)

    async def begin_one() -> None:
        with deadlines.begin():
            pass

    asyncio.run(begin_one())
    with pytest.raises(TimeoutError):
        asyncio.run(stand_still(deadlines))
