"""TaskRecords: the hub's own tasks that a worker has claimed and not started."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID

from hub.batched import batched
from hub.errors import RecordsUnavailable, StoreUnavailable
from hub.recovery.models import Reset, Stuck, TaskSource
from hub.recovery.nominees import Nominees, longest_of
from hub.store.store import Store

BATCH = 50  # tasks reset per script, which takes under 4 ms
LOOK_BATCH = 200  # tasks that one script looks at, and workers whose tasks are read together
ERROR = "Claimed and not started within the threshold"


class TaskRecords:
    """The claimed tasks of the hub. The script that resets a batch (at most `BATCH`) checks again that each is stuck.

    Pending tasks and tasks of @internal jobs are never stuck here: other rules apply to them.
    """

    def __init__(self, source: TaskSource, store: Store) -> None:
        self.source = source
        self._store = store
        self._look = store.script("tasks/find_claimed")
        self._unstick = store.script("tasks/unstick")
        self._nominees = Nominees(lambda: self._stuck(source.threshold_s, None))

    async def check(self) -> None:
        """Check that the store answers; raises `RecordsUnavailable` if not."""
        with self._translated():
            await self._store.read("ZCARD", self._store.keys.worker_beats)

    async def count(self) -> int:
        """Return how many stuck tasks a search of 30 s finds."""
        return await self._nominees.count()

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        """Return up to `limit` stuck tasks, the longest stuck first; `ids` and `older_than_s` narrow the search."""
        return await longest_of(limit, self._stuck(max(self.source.threshold_s, older_than_s or 0), ids))

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        """Put a batch of stuck tasks back into the queues, the longest stuck first, or the stuck tasks among `ids`."""
        if ids is not None:
            return await self._bring_back(ids)
        return await self._nominees.next_batch(min(self.source.batch_size, BATCH), self._bring_back)

    async def close(self) -> None:
        """Do nothing: the connection to the store is the hub's."""

    async def _bring_back(self, ids: Sequence[str]) -> Reset:
        tasks = _tasks(ids)
        words: list[int] = []
        for batch in batched(tasks, BATCH):
            with self._translated():
                words += await self._unstick(
                    threshold_ms=self._ms(self.source.threshold_s),
                    most=self.source.max_attempts or 0,
                    error=ERROR,
                    rest=batch,
                )
        return Reset.of(map(_dashed, tasks), words)

    async def _stuck(self, older_than_s: float, ids: Sequence[str] | None) -> AsyncGenerator[list[Stuck]]:
        """Yield lists of stuck tasks older than this, in no order; a task may come twice."""
        with self._translated():
            async for tasks in self._held() if ids is None else _batches(_tasks(ids)):
                now_ms, *found = await self._look(rest=tasks)
                yield [
                    _read(task, answer, now_ms)
                    for task, answer in zip(tasks, found, strict=True)
                    if answer and answer[0] > self._ms(older_than_s)
                ]

    async def _held(self) -> AsyncIterator[list[str]]:
        """Yield the ids of tasks that workers hold, a batch at a time.

        Workers are read by ZSCAN: a worker that sends a heartbeat meanwhile moves to another rank, and reading by ranks
        could miss others.
        """
        cursor = 0
        while True:
            cursor, pairs = await self._store.read("ZSCAN", self._store.keys.worker_beats, cursor, "COUNT", LOOK_BATCH)
            workers = [(worker, 0) for worker, _ in pairs]
            while workers:
                commands = [
                    ("SSCAN", self._store.keys.worker_tasks(worker), at, "COUNT", LOOK_BATCH) for worker, at in workers
                ]
                pages = await self._store.read_all(commands)
                async for batch in _batches([task for _, tasks in pages for task in tasks]):
                    yield batch
                workers = [(worker, at) for (worker, _), (at, _) in zip(workers, pages, strict=True) if at]
            if not cursor:
                return

    @staticmethod
    def _ms(seconds: float) -> int:
        return round(seconds * 1000)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable:
            why = self.source.refused("kind", "the hub's own Redis does not answer").detail
            raise RecordsUnavailable(why) from None


def _read(task: str, answer: Sequence[int], now_ms: int) -> Stuck:
    age_ms, attempts = answer
    claimed_at = datetime.fromtimestamp((now_ms - age_ms) / 1000, UTC)
    return Stuck(_dashed(task), "claimed", age_ms / 1000, claimed_at, attempts)


def _tasks(ids: Sequence[str]) -> list[str]:
    """Return task ids as the store spells them; a text that is no UUID is no task."""
    found = {}
    for text in ids:
        try:
            found[UUID(text).hex] = True
        except ValueError:
            continue
    return list(found)


def _dashed(task: str) -> str:
    return str(UUID(task))


async def _batches(tasks: Sequence[str]) -> AsyncIterator[list[str]]:
    for start in range(0, len(tasks), LOOK_BATCH):
        yield list(tasks[start : start + LOOK_BATCH])
