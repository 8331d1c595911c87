"""A pool of the driver `command` that is as large as a command says, such as the `lmstat` of a licence server."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.errors import StartRefused
from hub.fleet.commands import CommandDriver
from hub.fleet.file import read_fleet
from hub.fleet.processes import Unwell

LMSTAT = """lmstat - Copyright (c) 1989-2024 Flexera. All Rights Reserved.
License server status: 27000@flex1
    License file(s) on flex1: /opt/flexlm/license.dat:

     flex1: license server UP (MASTER) v11.19.5

Feature usage info:

Users of catia:  (Total of {} licenses issued;  Total of 2 licenses in use)

  "catia" v5.0, vendor: dassault, expiry: 31-dec-2027
  floating license

    anna ws17 ws17 (v5.0) (flex1/27000 201), start Fri 11/27 9:02

Users of abaqus:  (Total of 50 licenses issued;  Total of 0 licenses in use)
"""
DOWN = "lmgrd is not running: Cannot connect to license server system. (-15,570:115)\n"
FLEET = """
[[pools]]
label = "licence:catia"
driver = "command"
count = {{ command = ["cat", "{file}"], pattern = '{pattern}', every = "1ms" }}
"""
PATTERN = r"Users of catia:.*Total of (\d+) licenses? issued"


class Licences:
    """A licence server, and the pool that counts its licences."""

    def __init__(self, folder: Path) -> None:
        self.said, file = folder / "lmstat.txt", folder / "fleet.toml"
        self.are(3)
        file.write_text(FLEET.format(file=self.said, pattern=PATTERN))
        (driver,) = read_fleet(file).drivers
        assert isinstance(driver, CommandDriver)
        self.driver = driver

    def are(self, number: int) -> None:
        self.said.write_text(LMSTAT.format(number))

    async def counted(self, *lent: str) -> list[str]:
        """Count again; return the keys of the slots."""
        while (seen := await self.driver.observe(lent)).slots is None:
            pass  # it is not time yet
        return [plan.key for plan in seen.slots]


@pytest.fixture
def licences(tmp_path: Path) -> Licences:
    return Licences(tmp_path)


async def test_a_pool_is_as_large_as_its_command_says(licences: Licences):
    assert [plan.key for plan in await licences.driver.slots()] == ["1", "2", "3"]
    licences.are(5)
    assert await licences.counted() == ["1", "2", "3", "4", "5"]
    licences.are(0)
    assert await licences.counted() == []


async def test_a_smaller_pool_keeps_the_slots_that_are_lent(licences: Licences):
    await licences.driver.slots()
    licences.are(1)
    assert await licences.counted("2") == ["2"]
    licences.are(3)
    assert await licences.counted() == ["1", "2", "3"]


async def test_a_count_that_fails_is_told_and_the_pool_stays(licences: Licences):
    await licences.driver.slots()
    licences.said.write_text(DOWN)
    with pytest.raises(Unwell, match="cat printed no number that 'Users of catia:"):
        await licences.counted()
    licences.said.unlink()
    with pytest.raises(Unwell, match="No such file"):
        await licences.counted()
    licences.are(4)
    assert await licences.counted("3") == ["1", "2", "3", "4"]


async def test_it_is_counted_only_when_it_is_time(licences: Licences, monkeypatch: pytest.MonkeyPatch):
    now_s = 1000.0
    monkeypatch.setattr("hub.fleet.commands.now_s", lambda: now_s)
    await licences.driver.slots()
    licences.are(5)
    assert (await licences.driver.observe([])).slots is None
    now_s += 1.0
    assert len((await licences.driver.observe([])).slots or ()) == 5


@pytest.mark.parametrize(("pattern", "why"), [
    ("Total of .* licenses", "count.pattern has no group; put parentheses around the number"),
    ("Total of ([0-9] licenses", "count.pattern is no regular expression: missing ), unterminated subpattern"),
])  # fmt: skip
def test_a_pattern_that_finds_no_number_is_refused_with_its_line(tmp_path: Path, pattern: str, why: str):
    file = tmp_path / "fleet.toml"
    file.write_text(FLEET.format(file="x", pattern=pattern))
    with pytest.raises(StartRefused) as refused:
        read_fleet(file)
    assert str(refused.value).startswith(f"fleet.toml, line 5: {why}")
