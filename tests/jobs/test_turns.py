"""Turns at one thing: round robin over users, in order for each of them, and none lost with a caller that goes."""

from __future__ import annotations

import asyncio

from hub.jobs.turns import JobTurns


class Line:
    """Callers that take a turn and keep it until they are told to end it."""

    def __init__(self) -> None:
        self.turns = JobTurns()
        self.had: list[str] = []
        self.end = asyncio.Semaphore(0)

    async def take(self, name: str) -> None:
        async with self.turns.of(name[0]):
            self.had.append(name)
            await self.end.acquire()

    async def come(self, *names: str) -> list[asyncio.Task[None]]:
        come = [asyncio.create_task(self.take(name)) for name in names]
        await asyncio.sleep(0)
        return come

    async def all_of(self, *tasks: asyncio.Task[None]) -> None:
        for _ in tasks:
            self.end.release()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_users_take_turns_and_the_calls_of_each_user_keep_their_order():
    line = Line()
    tasks = await line.come("a1", "a2", "a3", "b1", "b2", "c1")
    await line.all_of(*tasks)
    assert line.had == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_a_user_who_comes_during_the_turn_of_another_is_next():
    line = Line()
    tasks = await line.come("a1", "a2", "a3")
    tasks += await line.come("b1")
    await line.all_of(*tasks)
    assert line.had == ["a1", "b1", "a2", "a3"]


async def test_a_turn_goes_to_the_next_caller_when_its_own_caller_has_gone():
    line = Line()
    first, gone, late, last = await line.come("a1", "b1", "c1", "d1")
    gone.cancel()
    await asyncio.sleep(0)
    line.turns._pass_on("a")  # the turn of `a` ends, and in the same moment `c`, which has the next one, goes
    late.cancel()
    await asyncio.gather(gone, late, return_exceptions=True)
    await asyncio.sleep(0)
    assert line.had == ["a1", "d1"]
    first.cancel()
    await line.all_of(last)


async def test_a_finished_turn_goes_to_the_next_caller():
    line = Line()
    for name in ("a1", "a2", "b1"):
        await line.all_of(*await line.come(name))
    assert line.had == ["a1", "a2", "b1"]
