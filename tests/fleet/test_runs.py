"""The runs of agents on one machine: which of them live, and what their programs are given."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Mapping

from hub.fleet import runs
from hub.fleet.place import FLEET, RUN, SlotPlace

RUN_OF_OTHERS = "/their/run"


async def test_a_run_whose_folder_only_its_programs_see_is_ended_only_once_its_agent_has_ended(monkeypatch, tmp_path):
    """A program in a mount namespace of its own: what it sees is below /proc/PID/root, here below a folder."""

    async def kill(marks: Mapping[str, str]) -> int:
        killed.append(marks[RUN])
        return 1

    async def begin() -> None:
        async with runs.new_run("n1", "h"):
            pass

    folder = f"{tmp_path}/root{RUN_OF_OTHERS}"
    os.makedirs(folder)
    killed: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(runs, "without_threads", lambda: None)
    monkeypatch.setattr(runs, "kill_marked", kill)
    program = ("self/cwd", {FLEET: "n1", RUN: RUN_OF_OTHERS})  # in place of a number
    monkeypatch.setattr(runs, "environments", lambda _: [program])
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    await begin()
    assert RUN_OF_OTHERS not in killed
    os.close(lock)
    await begin()
    assert RUN_OF_OTHERS in killed


async def test_a_program_of_a_slot_sees_no_credential_of_the_agent(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(runs, "without_threads", lambda: None)
    for name in ("HUB_JOIN_TOKEN", "HUB_REDIS_URL", "HUB_NODE_SECRET"):
        monkeypatch.setenv(name, "s3")
    monkeypatch.setenv("HUB_URL", "http://hub")
    code = "import json, os; print(json.dumps(sorted(name for name in os.environ if name.startswith('HUB_'))))"
    async with runs.new_run("n1", "h") as home:
        told = await SlotPlace(home, "s1", 0, "").run([sys.executable, "-c", code], 30)
    assert json.loads(told) == ["HUB_FLEET", "HUB_FLEET_RUN", "HUB_SLOT_ID", "HUB_URL"]
