"""What the scripts of the peers have in common; each runs in an environment of its own that knows nothing of the hub.

`work URL PROCESSES CONCURRENCY MARK...` works until it is killed, in so many processes that run so many tasks each at a
time, and prints the time (monotonic) at which each number of tasks is done.
`submit URL` reads a number a line, submits as many tasks and prints the times of the first and of the last answer.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvloop

Enqueue = Callable[[int], Awaitable[None]]
SUBMITTED_AT_ONCE = 100


class Tally:
    """Counts tasks that are done, over all processes of a worker, and says when each of some numbers is reached."""

    def __init__(self, marks: Iterable[int]) -> None:
        self._marks = sorted(marks)
        self._done = multiprocessing.Value("q", 0)

    def one(self) -> None:
        """One more is done, and that is on record."""
        with self._done.get_lock():
            self._done.value += 1
            done = self._done.value
        if done in self._marks:
            print(time.monotonic(), flush=True)

    @property
    def awaited(self) -> int | None:
        """Return the number that `reached` is to report next."""
        return self._marks[0] if self._marks else None

    def reached(self, done: int) -> None:
        """So many are done, and that is on record."""
        while self._marks and self._marks[0] <= done:
            self._marks.pop(0)
            print(time.monotonic(), flush=True)


def main(
    work: Callable[[str, int, Tally], Coroutine[Any, Any, None]],
    submitter: Callable[[str], AbstractAsyncContextManager[Enqueue]],
) -> None:
    """Do what the command line says."""
    role, url, *numbers = sys.argv[1:]
    if role == "submit":
        uvloop.run(_submit(submitter(url)))
        return
    processes, concurrency, *marks = (int(number) for number in numbers)
    tally = Tally(marks)
    for _ in range(processes - 1):
        if os.fork() == 0:
            break
    uvloop.run(work(url, concurrency, tally))


async def _submit(opened: AbstractAsyncContextManager[Enqueue]) -> None:
    async with opened as enqueue:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            began = time.monotonic()
            await enqueue(int(line))
            print(began, time.monotonic(), flush=True)


async def side_by_side(call: Callable[[int], Awaitable[Any]], count: int) -> None:
    """Call with 0 to count - 1, so many at a time, for queues that take one task a call."""
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(some() for _ in range(SUBMITTED_AT_ONCE)))
