"""Messages of a slot and the hub that cross or come late."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hub.errors import SlotLent
from hub.fleet.commands import ProcessDriver, ProcessTable
from hub.fleet.driver import Driver, Running, SlotPlan
from hub.fleet.place import Home, SlotPlace
from hub.fleet.processes import Unwell
from hub.fleet.supervised import Supervised
from hub.fleet.tables import PoolTable
from tests.fleet.test_pauses import StandIn
from tests.world import eventually

ID = "n1-dev.x-1"


class Numbered(Driver[PoolTable]):
    """Each start gets another address, so that it is seen which one the hub and a borrower have."""

    def __init__(self, **table: Any) -> None:
        given = {"label": "dev:x", "driver": "x", "check": {"every": "10ms", "down_after": 1}, **table}
        super().__init__(PoolTable.model_validate(given))
        self.starts = self.recycled = 0
        self.ill = False
        self.may_start = asyncio.Event()
        self.may_start.set()

    async def slots(self) -> list[SlotPlan]:
        return []

    async def start(self, place: SlotPlace) -> Running:
        await self.may_start.wait()
        self.ill = False
        self.starts += 1
        return Running(place, f"http://{self.starts}")

    async def check(self, running: Running, *, lent: bool) -> None:
        if self.ill:
            raise Unwell("it is ill")

    async def recycle(self, running: Running) -> Running:
        self.recycled += 1
        return running


class Hub(StandIn):
    """Answers a publication as it is told, once it may; withdraws what is free."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = {ID: {"slotId": ID, "labelKey": "dev:x"}}
        self.answers = asyncio.Event()
        self.answers.set()
        self.status = "published"

    async def publish(self, slots: list[dict[str, Any]]) -> list[dict[str, Any]]:
        await super().publish(slots)
        await self.answers.wait()
        return [{"status": self.status}]

    async def withdraw(self, slot_id: str, *, only_free: bool) -> bool:
        assert only_free
        if slot_id in self.lent:
            raise SlotLent("it is lent")
        self.said.append("withdrawn")
        del self.slots[slot_id]
        return False


@asynccontextmanager
async def living(driver: Driver[Any], hub: Hub, folder: Path) -> AsyncIterator[Supervised]:
    slot = Supervised(SlotPlan("1"), SlotPlace(Home("n1", "run", folder, "host"), ID, 0, ""), driver)
    life = asyncio.create_task(slot.live(hub))  # type: ignore[arg-type]
    await eventually(lambda: "published" in hub.said)
    yield slot
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


async def test_an_order_that_crosses_a_publication_makes_nothing_anew(tmp_path):
    """The slot is new since that lease, and may be lent again by now."""
    driver, hub = Numbered(), Hub()
    hub.answers.clear()
    async with living(driver, hub, tmp_path) as slot:
        assert await slot.make_fresh() is None
        assert (driver.starts, driver.recycled) == (1, 0)
        hub.answers.set()
        await eventually(lambda: not slot._publishing)
        assert (await slot.make_fresh(), driver.recycled) == (None, 1)


async def test_an_order_during_a_start_is_carried_out_by_it(tmp_path):
    driver, hub = Numbered(), Hub()
    async with living(driver, hub, tmp_path) as slot:
        hub.held, hub.said = {ID: ""}, []
        driver.ill = True
        await eventually(lambda: "held: it is ill" in hub.said)
        assert await slot.make_fresh() == {**hub.slots[ID], "endpoint": "http://2"}
        assert (driver.starts, driver.recycled) == (2, 0)


async def test_a_slot_that_was_lent_before_it_could_be_held_is_told_anew_when_its_lease_ends(tmp_path):
    """The hub kept the address of the lease, so the slot must not seem told to it."""
    driver, hub = Numbered(), Hub()
    hub.status = "lent"
    async with living(driver, hub, tmp_path) as slot:
        await eventually(lambda: hub.held.get(ID, "").endswith("at another address"))
        hub.lent = {ID: "7"}  # by now a heartbeat has brought it
        await eventually(lambda: not slot._publishing)
        assert "released" not in hub.said
        assert (await slot.make_fresh() or {})["endpoint"] == "http://1"
        await eventually(lambda: ID not in hub.held)


async def test_a_lent_slot_that_moved_stays_held_until_its_lease_has_ended(tmp_path):
    driver, hub = Numbered(), Hub()
    async with living(driver, hub, tmp_path) as slot:
        hub.lent = {ID: "7"}
        driver.ill = True
        await eventually(lambda: hub.held.get(ID, "").endswith("at another address"))
        assert hub.slots[ID]["endpoint"] == "http://1"
        hub.lent = {}
        assert (await slot.make_fresh() or {})["endpoint"] == "http://2"
        await eventually(lambda: ID not in hub.held)


async def test_a_free_slot_that_is_too_old_is_withdrawn_before_it_is_started_again(tmp_path):
    driver, hub = Numbered(recycle={"age": "50ms"}), Hub()
    async with living(driver, hub, tmp_path):
        await eventually(lambda: hub.said.count("published") > 1)
        assert hub.said[:3] == ["published", "withdrawn", "published"]


async def test_a_lent_slot_that_is_too_old_runs_on_until_its_lease_has_ended(tmp_path):
    driver, hub = Numbered(recycle={"age": "50ms"}), Hub()
    hub.lent = {ID: "7"}
    hub.slots = {ID: {"slotId": ID, "labelKey": "dev:x", "endpoint": "http://1"}}
    hub.said.append("published")
    async with living(driver, hub, tmp_path) as slot:
        await asyncio.wait([asyncio.create_task(slot.place.changed.wait())], timeout=0.2)
        assert driver.starts == 1
        hub.lent = {}
        assert (await slot.make_fresh() or {})["endpoint"] == "http://2"
        assert driver.recycled == 0


async def test_the_late_answer_to_a_publication_releases_no_slot_that_is_unwell_by_then(tmp_path):
    driver, hub = Numbered(), Hub()
    hub.answers.clear()
    async with living(driver, hub, tmp_path) as slot:
        driver.may_start.clear()
        driver.ill = True
        await eventually(lambda: hub.held.get(ID) == "it is ill")
        hub.answers.set()
        await eventually(lambda: not slot._publishing)
        assert hub.held == {ID: "it is ill"}
        driver.may_start.set()
        await eventually(lambda: hub.held == {})
        assert hub.slots[ID]["endpoint"] == "http://2"


async def test_a_slot_is_started_anew_after_as_many_leases_as_uses_says(tmp_path):
    driver, hub = Numbered(recycle={"uses": 2}), Hub()
    async with living(driver, hub, tmp_path) as slot:
        ends = [await slot.make_fresh() for _ in range(4)]
        assert [end and end["endpoint"] for end in ends] == [None, "http://2", None, "http://3"]


async def test_a_slot_whose_port_another_program_has_taken_gets_another_one(tmp_path):
    words = [sys.executable, "-m", "http.server", "{port}", "--bind", "127.0.0.1"]
    driver = ProcessDriver(ProcessTable.model_validate({"label": "dev:x", "driver": "process", "command": words}))
    slot, hub = Supervised(SlotPlan("1"), SlotPlace(Home("n1", "run", tmp_path, "host"), ID, 0, ""), driver), Hub()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        slot.place.port = taken.getsockname()[1]
        life = asyncio.create_task(slot.live(hub))  # type: ignore[arg-type]
        await eventually(lambda: slot._up and slot.place.port != taken.getsockname()[1])
        assert "Address already in use" in str(hub.said)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


async def test_a_free_slot_with_too_much_memory_is_started_again(tmp_path):
    table = {"label": "dev:x", "driver": "process", "command": [sys.executable, "-c", "import time; time.sleep(1000)"]}
    bounds = {"check": {"every": "10ms"}, "recycle": {"memory": "1M"}}
    hub = Hub()
    async with living(ProcessDriver(ProcessTable.model_validate({**table, **bounds})), hub, tmp_path):
        await eventually(lambda: "withdrawn" in hub.said)
