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


async def test_each_of_many_slow_requests_is_ended_and_so_is_a_later_one() -> None:
    deadlines = Deadlines(SOON_S)
    ended = await asyncio.gather(*(stand_still(deadlines) for _ in range(20)), return_exceptions=True)
    assert [type(each) for each in ended] == [TimeoutError] * 20
    with pytest.raises(TimeoutError):
        await stand_still(deadlines)


async def test_a_finished_request_does_not_change_the_time_limit_of_the_next() -> None:
    deadlines = Deadlines(SOON_S)
    with deadlines.begin():
        pass
    with pytest.raises(TimeoutError):
        await stand_still(deadlines)
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_request_with_a_longer_limit_goes_on_when_shorter_ones_are_ended() -> None:
    deadlines, begun = Deadlines(SOON_S), asyncio.Event()
    longer = asyncio.ensure_future(stand_still(deadlines, begun, NEVER_S))
    await begun.wait()
    with pytest.raises(TimeoutError):
        await stand_still(deadlines)
    assert not longer.done()
    longer.cancel()
    with pytest.raises(asyncio.CancelledError):  # cancelled above, not timed out
        await longer


async def test_a_request_with_a_longer_limit_is_ended_at_its_own_limit() -> None:
    with pytest.raises(TimeoutError):
        await stand_still(Deadlines(SOON_S), more_s=SOON_S)


async def test_a_failure_inside_the_limit_is_raised_unchanged() -> None:
    with pytest.raises(KeyError), Deadlines(NEVER_S).begin():
        raise KeyError


async def test_a_finished_request_cannot_be_extended_and_ends_nothing_later() -> None:
    with Deadlines(SOON_S).begin() as limit:
        pass
    limit.extend(SOON_S)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5 * SOON_S):
            await asyncio.Event().wait()
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


def test_requests_still_end_in_time_after_an_earlier_event_loop_was_closed_with_a_request_under_way() -> None:
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


def test_an_application_served_by_a_second_loop_still_ends_its_slow_requests() -> None:
    deadlines = Deadlines(SOON_S)

    async def begin_one() -> None:
        with deadlines.begin():
            pass

    asyncio.run(begin_one())
    with pytest.raises(TimeoutError):
        asyncio.run(stand_still(deadlines))
