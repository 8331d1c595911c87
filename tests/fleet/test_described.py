"""Attributes of slots of a fleet: what file and driver say, and what the hub is told when they change."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hub.fleet.commands import CommandDriver, CommandTable
from hub.fleet.driver import Running, SlotPlan
from hub.fleet.place import Home, SlotPlace
from hub.fleet.processes import Unwell
from hub.fleet.supervised import Supervised
from tests.fleet.conftest import NODE, Machine
from tests.fleet.test_words import ID, Hub, Numbered, living
from tests.world import eventually


class Describing(Numbered):
    """Each start has other attributes; `moves` says whether it has another address as well."""

    def __init__(self, *, moves: bool, **table: Any) -> None:
        super().__init__(**table)
        self.moves = moves

    async def start(self, place: SlotPlace) -> Running:
        running = await super().start(place)
        return Running(place, running.endpoint if self.moves else "http://x", attributes={"start": self.starts})


class TellingHub(Hub):
    """Notes descriptions beside all else."""

    async def describe(self, slot_id: str, **facts: Any) -> None:
        self.slots[slot_id] = {**self.slots[slot_id], **facts}
        self.said.append(f"described: {facts}")


def slot_of(tmp_path: Path, plan: SlotPlan, **table: Any) -> Supervised:
    place = SlotPlace(Home("n1", "run", tmp_path, "host"), ID, 0, "")
    return Supervised(plan, place, Numbered(**table))


def test_what_the_file_says_wins_over_what_the_driver_says(tmp_path: Path):
    plan = SlotPlan("1", attributes={"vram": 80, "model": "A100"}, members={"uuid": "GPU-1"})
    slot = slot_of(tmp_path, plan, attributes={"vram": 40, "zone": "eu"}, warm=["repo-42"])
    slot.running = Running(slot.place, "http://x", attributes={"driver": "550"})
    assert slot.item() == {
        "slotId": ID, "labelKey": "dev:x", "endpoint": "http://x", "uuid": "GPU-1", "warm": ["repo-42"],
        "attributes": {"vram": 40, "model": "A100", "driver": "550", "zone": "eu"},
    }  # fmt: skip


def test_a_slot_of_which_nothing_is_said_has_no_attributes(tmp_path: Path):
    assert slot_of(tmp_path, SlotPlan("1")).item() == {"slotId": ID, "labelKey": "dev:x", "endpoint": ""}


async def test_a_lent_slot_with_other_attributes_is_described_anew_and_not_held(tmp_path: Path):
    driver, hub = Describing(moves=False, warm=["repo-42"]), TellingHub()
    async with living(driver, hub, tmp_path):
        hub.lent = {ID: "7"}
        driver.ill = True
        await eventually(lambda: "described: {'attributes': {'start': 2}}" in hub.said)
        await eventually(lambda: ID not in hub.held)
        assert hub.slots[ID]["warm"] == ["repo-42"]


async def test_a_lent_slot_at_another_address_is_held_whatever_its_attributes(tmp_path: Path):
    driver, hub = Describing(moves=True), TellingHub()
    async with living(driver, hub, tmp_path):
        hub.lent = {ID: "7"}
        driver.ill = True
        await eventually(lambda: hub.held.get(ID, "").endswith("at another address"))
        assert not [said for said in hub.said if said.startswith("described")]


async def described(tmp_path: Path, printed: str) -> Running:
    table = {"label": "dev:x", "driver": "command", "items": ["a"]}
    command = [sys.executable, "-c", "import sys; print(sys.argv[1].replace('ITEM', sys.argv[2]))", printed, "{item}"]
    driver = CommandDriver(CommandTable.model_validate({**table, "describe": command}))
    return await driver.start(SlotPlace(Home("n1", "run", tmp_path, "host"), ID, 0, "a"))


async def test_a_command_prints_the_attributes_of_the_slot_that_it_describes(tmp_path: Path):
    running = await described(tmp_path, '{"name": "ITEM", "api": 34, "features": ["nfc"]}')
    assert running.attributes == {"name": "a", "api": 34, "features": ["nfc"]}


@pytest.mark.parametrize("printed", ["", "api=34", "[1]", '{"api level": 34}', '{"api": null}', "[" * 100_000])
async def test_a_slot_whose_description_cannot_be_read_is_unwell(printed: str, tmp_path: Path):
    with pytest.raises(Unwell, match="printed no attributes: "):
        await described(tmp_path, printed)


@pytest.mark.slow
def test_slots_of_a_fleet_are_lent_by_what_file_and_command_say(machine: Machine):
    machine.write(
        '[[pools]]\nlabel = "phone:android"\ndriver = "command"\nitems = ["old", "new"]\n'
        'attributes = { zone = "eu" }\nwarm = ["repo-42"]\n'
        'describe = ["sh", "-c", \'test {item} = new && echo "{\\"api\\": 34}" || echo "{\\"api\\": 28}"\']\n'
    )
    machine.begin()
    slots = machine.until_lendable(2)
    assert slots[f"{NODE}-phone.android-new"]["attributes"] == {"api": 34, "zone": "eu"}
    assert slots[f"{NODE}-phone.android-old"]["warm"] == ["repo-42"]
    done = machine.command("borrow", "phone", "--where", "api >= 30 && zone == 'eu'", "--", "env")
    assert f"HUB_SLOT_ID={NODE}-phone.android-new\n" in done.stdout, done.stderr
    assert {"HUB_SLOT_API=34", "HUB_SLOT_ZONE=eu"} <= set(done.stdout.splitlines())
