"""The check of the number of tasks that each job keeps. All task records are counted, because no list has them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from hub.store.lenient import read_each
from hub.store.scan import keys_of
from hub.store.store import Store

BATCH = 200  # tasks per script, which reads them in about 0.5 ms


@dataclass(frozen=True)
class Count:
    """The numbers of tasks and of tasks put off that a job keeps, and the same numbers as counted; all as text."""

    kept: tuple[str, str]
    counted: tuple[str, str]

    @property
    def words(self) -> list[str]:
        """Return which numbers kept by a job differ from the count: "tasks" (all) and "later" (put off)."""
        pairs = zip(("tasks", "later"), self.kept, self.counted, strict=True)
        return [word for word, kept, counted in pairs if kept != counted]


class RecordCounts:
    """The counter of tasks by job, which reads the records of all tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._check = store.script("doctor/count")

    async def words(self, names: Sequence[str]) -> list[list[str]]:
        """Return for each job which of its numbers of tasks are wrong; [] for a job that changed during the count."""
        found = await self.count(names)
        return [found[name].words if name in found else [] for name in names]

    async def count(self, names: Sequence[str]) -> dict[str, Count]:
        """Return the kept and the counted numbers of tasks by job, without jobs that changed during the count."""
        before = await self._kept(names)
        tasks: Counter[str] = Counter()
        later: Counter[str] = Counter()
        wanted = frozenset(names)
        seen: set[str] = set()
        async for batch in self._tasks():
            facts = await self._check(rest=batch)
            for task, job, put_off in zip(batch, facts[::2], facts[1::2], strict=True):
                if job in wanted and task not in seen:
                    seen.add(task)
                    tasks[job] += 1
                    later[job] += put_off == "1"
        after = await self._kept(names)
        return {
            name: Count(before[name], (str(tasks[name]), str(later[name])))
            for name in names
            if before[name] == after[name]
        }

    async def _kept(self, names: Iterable[str]) -> dict[str, tuple[str, str]]:
        listed = list(names)
        asked = (("HMGET", self._store.keys.job(name), "tasks", "later") for name in listed)
        found = await read_each(self._store, asked, (None, None))
        return {name: (kept[0] or "0", kept[1] or "0") for name, kept in zip(listed, found, strict=True)}

    async def _tasks(self) -> AsyncIterator[list[str]]:
        begin = self._store.keys.task("")
        async for names in keys_of(self._store, begin):
            for start in range(0, len(names), BATCH):
                yield [name[len(begin) :] for name in names[start : start + BATCH]]
