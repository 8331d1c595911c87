"""When a slot that fails is started again, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hub.fleet import supervised
from hub.fleet.driver import Driver, Running, SlotPlan
from hub.fleet.place import Home, SlotPlace
from hub.fleet.processes import Unwell
from hub.fleet.supervised import Supervised, pause_s
from hub.fleet.tables import PoolTable


class StandIn:
    """Stands in for the agent, and keeps what it is told."""

    def __init__(self) -> None:
        self.slots: dict[str, Any] = {"n1-x-1": {}}
        self.lent: dict[str, str] = {}
        self.held: dict[str, str] = {}
        self.said: list[str] = []

    async def publish(self, slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.slots |= {slot["slotId"]: slot for slot in slots}
        self.said.append("published")
        return [{"status": "published"}]

    async def hold(self, slot_id: str, reason: str) -> None:
        self.held[slot_id] = reason
        self.said.append(f"held: {reason}")

    async def release(self, slot_id: str) -> None:
        del self.held[slot_id]
        self.said.append("released")


class Scripted(Driver[PoolTable]):
    """Starts and checks as it is told: each word is the outcome of one start or check, and the last one ends it."""

    def __init__(self, *outcomes: str, start_timeout: str = "120s", **check: Any) -> None:
        table = {"label": "dev:x", "driver": "x", "check": check, "start_timeout": start_timeout}
        super().__init__(PoolTable.model_validate(table))
        self.outcomes = list(outcomes)
        self.done = asyncio.Event()

    async def slots(self) -> list[SlotPlan]:
        return []

    async def start(self, place: SlotPlace) -> Running:
        self._next()
        return Running(place, "http://x")

    async def check(self, running: Running, *, lent: bool) -> None:
        self._next()

    def _next(self) -> None:
        if not self.outcomes:
            self.done.set()
            return
        if (word := self.outcomes.pop(0)) != "ok":
            raise Unwell(word)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, each of which moves the clock and takes no time."""
    pauses: list[float] = []

    async def stepped(seconds: float, event: asyncio.Event) -> bool:
        pauses.append(seconds)
        await asyncio.sleep(0)
        return False

    monkeypatch.setattr(supervised, "now_s", lambda: sum(pauses))
    monkeypatch.setattr(supervised, "is_set_within", stepped)
    return pauses


async def lived(driver: Scripted, tmp_path: Path) -> StandIn:
    """Have a slot live until its driver has done all that it was told."""
    agent = StandIn()
    place = SlotPlace(Home("n1", "run", tmp_path, "host"), "n1-x-1", 0, "")
    life = asyncio.create_task(Supervised(SlotPlan("1"), place, driver).live(agent))  # type: ignore[arg-type]
    await driver.done.wait()
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    return agent


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (8, 60.0), (10_000, 60.0)]
)
def test_the_pause_doubles_from_a_second_to_a_minute(failures, seconds):
    assert pause_s(failures) == seconds


async def test_a_slot_that_does_not_start_is_tried_again_after_ever_longer_pauses(clock, tmp_path):
    await lived(Scripted(*["no disk"] * 8), tmp_path)
    assert clock[:8] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


async def test_a_slot_that_was_up_for_long_starts_again_after_a_second(clock, tmp_path):
    well = ["ok"] * 7  # a start and checks, for more than ten seconds
    await lived(Scripted("a", "b", *well, "gone", "gone", every="2s"), tmp_path)
    assert clock[:2] == [1.0, 2.0]
    assert 1.0 in clock[2:]
    assert 4.0 not in clock


async def test_a_slot_that_starts_in_vain_for_long_is_not_taken_for_one_that_was_up(clock, tmp_path):
    in_vain = ["ok", *["not yet"] * 42]  # a start, and half a second between checks until the start has taken too long
    await lived(Scripted(*in_vain * 3, start_timeout="20s"), tmp_path)
    assert [pause for pause in clock if pause >= 1.0][:3] == [1.0, 2.0, 4.0]


async def test_a_slot_is_held_after_as_many_failed_checks_as_down_after_says(clock, tmp_path):
    agent = await lived(Scripted("ok", "ok", "one", "ok", "one", "two", "three", every="2s", down_after=3), tmp_path)
    assert agent.said[:3] == ["published", "held: three", "released"]


async def test_a_slot_is_published_after_as_many_good_checks_as_up_after_says(clock, tmp_path):
    driver = Scripted("ok", "ok", "ok", every="2s", up_after=2)
    agent = await lived(driver, tmp_path)
    assert (agent.said[0], clock[0]) == ("published", 2.0)
