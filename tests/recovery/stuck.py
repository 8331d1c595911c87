"""Records that a test makes up: what is stuck, and what goes wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from hub.recovery.models import RedisSource, Reset, Stuck


def source(name: str = "orders", **more: Any) -> RedisSource:
    """Return a source in memory, without a database."""
    return RedisSource(name=name, index="orders", key="order:{id}", **more)


class MadeUp:
    """Records in memory. `doomed` of them have no attempts left; `trouble` is raised by the call of that name."""

    def __init__(self, stuck: int = 0, *, batch_size: int = 500, name: str = "orders") -> None:
        self.source = source(name, batch_size=batch_size)
        self.stuck = [f"r{number}" for number in range(stuck)]
        self.doomed: set[str] = set()
        self.trouble: dict[str, Exception] = {}
        self.before: dict[str, Callable[[], Awaitable[None]]] = {}
        self.calls: list[str] = []
        self.brought_back: list[str] = []
        self.closed = False

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.before:
            await self.before[name]()
        if name in self.trouble:
            raise self.trouble[name]

    async def check(self) -> None:
        await self._called("check")

    async def count(self) -> int:
        await self._called("count")
        return len(self.stuck)

    async def look(
        self, limit: int, older_than_s: float | None = None, ids: Sequence[str] | None = None
    ) -> list[Stuck]:
        await self._called("look")
        return [Stuck(id, "Processing", 7200.4, datetime(2026, 1, 1, tzinfo=UTC)) for id in self.stuck[:limit]]

    async def reset(self, ids: Sequence[str] | None = None) -> Reset:
        await self._called("reset")
        batch, self.stuck = self.stuck[: self.source.batch_size], self.stuck[self.source.batch_size :]
        self.brought_back += batch
        failed = tuple(id for id in batch if id in self.doomed)
        return Reset(tuple(id for id in batch if id not in self.doomed), failed)

    async def close(self) -> None:
        await self._called("close")
        self.closed = True


class WithParked(MadeUp):
    """A source with outcomes that wait, of which three are written at a time."""

    parked = 0

    async def write_parked(self, outcomes: object) -> int:
        await self._called("write_parked")
        written = min(self.parked, 3)
        self.parked -= written
        return written
