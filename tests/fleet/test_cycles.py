"""Many lives of a slot: nothing of them is left."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from hub.fleet.commands import ProcessDriver, ProcessTable
from hub.fleet.driver import SlotPlan
from hub.fleet.place import SlotPlace
from hub.fleet.runs import new_run
from hub.fleet.supervised import Supervised
from hub.processes import children, environments

LIVES, AT_ONCE = 50, 20


async def test_a_thousand_lives_of_slots_leave_no_process_no_folder_and_no_descriptor(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # Each has a child in a session of its own, which no signal to a group reaches.
    words = ["sh", "-c", "setsid sleep 1000 & exec sleep 1000"]
    driver = ProcessDriver(ProcessTable.model_validate({"label": "dev:x", "driver": "process", "command": words}))

    async def live(slot: Supervised) -> None:
        for _ in range(LIVES):
            await slot.start()
            (slot.place.folder / "profile").touch()
            await slot.check()
            await slot.end(kill=True)

    earlier = set(children(os.getpid()))
    async with new_run("n1", "host") as home:
        opened = len(os.listdir("/proc/self/fd"))
        slots = [Supervised(SlotPlan(str(n)), SlotPlace(home, f"n1-x-{n}", n, ""), driver) for n in range(AT_ONCE)]
        await asyncio.gather(*map(live, slots))
        assert os.listdir(home.folder) == []
        assert len(os.listdir("/proc/self/fd")) <= opened + 2  # those of the event loop
        assert [pid for pid, given in environments("HUB_FLEET_RUN") if given["HUB_FLEET_RUN"] == home.run] == []
        assert set(children(os.getpid())) - earlier == set()
    (top,) = os.listdir(tmp_path)
    assert os.listdir(tmp_path / top) == []
