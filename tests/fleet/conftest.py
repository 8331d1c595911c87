"""A machine with a fleet file, before a real hub and Redis."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.processes import environments
from tests.cli.command import Command, Running
from tests.world import PATIENCE_S, HubProcess, wait_until

NODE = f"rack-{os.getpid()}"  # no other test, whose programs its agent would end, has the same
SERVER = Path(__file__).with_name("server.py")
# A pool of small HTTP servers, each of which tells its process id, and keeps what it was told until it ends.
SERVERS = f"""
[[pools]]
label = "web:small"
driver = "process"
command = ["{sys.executable}", "{SERVER}", "{{port}}", "{{slot}}"]
count = COUNT
address = "http://127.0.0.1:{{port}}"
check = {{ every = "200ms", timeout = "500ms", down_after = 2 }}
"""


class Machine:
    """A machine that runs `hub agent --fleet`, and what the hub shows of it."""

    def __init__(self, hub: HubProcess, folder: Path) -> None:
        self.hub = hub
        self.file = folder / "fleet.toml"
        self.temporary = folder / "t"
        self.temporary.mkdir()
        self.command = Command(hub, folder)
        self.broken = folder / "broken"  # while this file is there, no server starts
        self.command.environment |= {"TMPDIR": str(self.temporary), "TEST_BROKEN": str(self.broken)}

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def begin(self, *words: str, **environment: str) -> Running:
        """Start the agent, and return once it is announced."""
        agent = self.command.start("agent", "--node", NODE, "--fleet", str(self.file), *words, **environment)
        agent.until_err("node announced")
        return agent

    def slots(self) -> dict[str, dict[str, Any]]:
        """Slot id -> slot, as the hub shows them; none while it does not answer."""
        try:
            node = self.command.ask(f"/nodes/{NODE}")
        except (httpx.HTTPError, AssertionError):
            return {}
        return {slot["browserId"]: slot for slot in node["slotList"]}

    def until_lendable(self, count: int) -> dict[str, dict[str, Any]]:
        """Wait until so many slots, and no others, may be lent; return them."""

        def all_well() -> bool:
            slots = self.slots()
            return len(slots) == count and all(
                slot["state"] == "free" and "held" not in slot for slot in slots.values()
            )

        wait_until(all_well, why=lambda: f"{json.dumps(self.slots(), indent=1)}\n{self.log()}")
        return self.slots()

    def log(self) -> str:
        return "\n".join(running.err for running in self.command.started)

    def borrow(self, label: str = "web:small", wait_s: int = 10) -> httpx.Response:
        return httpx.post(
            f"{self.hub.url}/session/borrow",
            json={"labelKey": label, "maxWaitSeconds": wait_s},
            headers={"x-hub-secret": self.hub.runner_secret},
            timeout=PATIENCE_S,
        )

    def give_back(self, lease: dict[str, Any]) -> None:
        answer = httpx.post(
            f"{self.hub.url}/session/return",
            json={
                "labelKey": lease["labelKey"],
                "browserId": lease["browserId"],
                "lease": {"token": lease["leaseToken"]},
            },
            headers={"x-hub-secret": self.hub.runner_secret},
            timeout=PATIENCE_S,
        )
        assert answer.status_code == 200, answer.text

    def programs(self, slot_id: str = "") -> list[int]:
        """The processes with the marks of this machine, or of one slot of it; other tests have another TMPDIR."""
        return [
            pid
            for pid, given in environments("HUB_FLEET_RUN")
            if given.get("TMPDIR") == str(self.temporary) and slot_id in ("", given.get("HUB_SLOT_ID"))
        ]

    def folders(self) -> list[Path]:
        """Return the folders that the runs of the agent have left."""
        return [folder for top in self.temporary.glob("hub-fleet-*") for folder in top.iterdir()]

    def until_nothing_is_left(self) -> None:
        wait_until(
            lambda: not self.programs() and not self.folders(), why=lambda: f"{self.programs()} {self.folders()}"
        )

    def close(self) -> None:
        self.command.close()
        for pid in self.programs():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def machine(live_hub: HubProcess, tmp_path: Path) -> Iterator[Machine]:
    """A machine whose agent and programs end with the test."""
    made = Machine(live_hub, tmp_path)
    yield made
    made.close()


def told(slot: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the server of a slot: its process id, its slot, and the words since its start."""
    return httpx.get(slot["webSocketEndpoint"], timeout=PATIENCE_S).json()
