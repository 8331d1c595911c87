"""Real browsers that are killed and stopped while borrowers use them: each is lent live and empty, and nothing is left.

`HUB_BROWSER_LEASES` says how many leases are taken.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException

from hub.client import HubClient
from hub.errors import LeaseLost
from hub.fleet.chromium import NAMES
from hub.processes import children, environments
from tests.fleet.browsing import a_site, visit
from tests.world import PATIENCE_S, SLACK_S, HubProcess, LoggedProcess, eventually, wait_until

LEASES = int(os.environ.get("HUB_BROWSER_LEASES", "24"))
SLOTS, BORROWERS, PER_HIT = 4, 8, 4
SETTLED = 0.01  # private bytes of a browser that has nothing to do change by less within a second
EVERY_S, DOWN_AFTER, BEAT_S = 1.0, 2, 2.0  # the timeout of nodes is 8 s here, and a beat comes six times in it
NEUTRAL = {"accept": "application/vnd.capacity-hub+json"}
POOL = "browser:chromium"
NODE = f"rack-{os.getpid()}"  # an agent ends what an earlier one of its name has left on this machine
FLEET = f"""
[[pools]]
label = "{POOL}"
driver = "chromium"
count = {SLOTS}
check = {{ every = "{EVERY_S:g}s", timeout = "{PATIENCE_S:g}s", down_after = {DOWN_AFTER} }}
"""
pytestmark = [
    pytest.mark.race,
    pytest.mark.slow,
    pytest.mark.timeout(120 + 10 * LEASES),
    pytest.mark.skipif(not any(map(shutil.which, NAMES)), reason="there is no Chromium here"),
]


class Rack:
    """An agent with four browsers, of which some are hit by SIGKILL or SIGSTOP."""

    def __init__(self, hub: HubProcess, folder: Path) -> None:
        (folder / "fleet.toml").write_text(FLEET)
        self.folder = folder / "tmp"
        self.folder.mkdir()
        self.agent = LoggedProcess(
            ["agent", "--node", NODE, "--fleet", str(folder / "fleet.toml")],
            {"HUB_URL": hub.url, "HUB_NODE_SECRET": hub.node_secret, "TMPDIR": str(self.folder)},
        )
        self.hits: dict[str, float] = {}  # address of each browser that was hit -> when

    def up(self) -> dict[str, tuple[int, str]]:
        """Return slot id -> process id and address of the browsers that run."""
        found = {}
        for pid in children(self.agent.process.pid):
            with suppress(OSError, ValueError, IndexError):  # it may start or end at this moment
                profile = Path(f"/proc/{pid}/cmdline").read_text().partition("--user-data-dir=")[2].split("\0")[0]
                port, path = Path(profile, "DevToolsActivePort").read_text().split()
                slot = Path(f"/proc/{pid}/environ").read_text().partition("HUB_SLOT_ID=")[2].split("\0")[0]
                found[slot] = (pid, f"ws://127.0.0.1:{port}{path}")
        return found

    def hit(self) -> tuple[str, str] | None:
        """Kill or stop a browser that runs; return its slot and its address, None when none is up now."""
        whole = [(slot, *up) for slot, up in self.up().items() if up[1] not in self.hits]
        if not whole:
            return None
        slot, pid, address = random.choice(whole)
        self.hits[address] = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(pid, random.choice((signal.SIGKILL, signal.SIGSTOP)))
        return slot, address

    async def memory(self) -> list[int]:
        """Return the bytes that the agent and the browsers share with no other process, once they do not change."""
        seen = [0, 0]

        def is_settled() -> bool:
            before = seen[:]
            seen[:] = private_bytes([self.agent.process.pid]), private_bytes(self.processes())
            return all(abs(now - then) <= SETTLED * now for now, then in zip(seen, before, strict=True))

        await eventually(is_settled, 2 * PATIENCE_S, 1.0)
        return seen

    def processes(self) -> list[int]:
        """Return the ids of the processes of the browsers."""
        return [pid for pid, given in environments("HUB_FLEET") if given["HUB_FLEET"] == NODE]


def private_bytes(pids: list[int]) -> int:
    found = 0
    for pid in pids:
        with suppress(OSError):  # it may have ended
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            found += sum(int(size) for size in re.findall(r"^Private_\w+: +(\d+) kB", text, re.MULTILINE)) * 1024
    return found


@pytest.fixture
def rack(live_hub: HubProcess, tmp_path: Path) -> Iterator[Rack]:
    rack = Rack(live_hub, tmp_path)
    yield rack
    print(rack.agent.log())  # shown when the test has failed
    rack.agent.kill()
    wait_until(lambda: rack.processes() == [])


class Borrowers:
    """Eight borrowers of browsers, and what became of their leases."""

    def __init__(self, hub: HubProcess, rack: Rack, site: str) -> None:
        self.hub, self.rack, self.site = hub, rack, site
        self.ends: list[str] = []
        self.held_after_s: list[float] = []
        self.given_dead_after_s: list[float] = []
        self._begun = 0
        self._hits: set[asyncio.Task[None]] = set()

    async def take(self, leases: int) -> None:
        """Take so many leases, while a browser is hit whenever some more have begun; return when all is well again."""
        self._begun, until = 0, len(self.ends) + leases
        async with HubClient(self.hub.url, self.hub.runner_secret) as client:
            await asyncio.gather(*(self._borrow(client, leases) for _ in range(BORROWERS)))
        assert len(self.ends) == until
        await asyncio.gather(*self._hits)
        await eventually(self._all_free, 4 * PATIENCE_S)

    async def _borrow(self, client: HubClient, leases: int) -> None:
        while self._begun < leases:
            self._begun += 1
            if self._begun % PER_HIT == 0 and (hit := self.rack.hit()) is not None:
                self._hits.add(asyncio.create_task(self._time_hold(*hit)))
            with suppress(LeaseLost):
                async with client.borrow(POOL, wait=4 * PATIENCE_S, ttl=PATIENCE_S) as slot:
                    self.ends.append(await self._use(slot.address, slot.token))

    async def _use(self, address: str, token: str) -> str:
        lent_s, found = time.monotonic(), None
        try:
            found = await visit(address, self.site, f"lease-{token}")
        except (OSError, WebSocketException) as error:
            if address not in self.rack.hits:
                pytest.fail(f"{address} was lent, and is dead: {error!r}\n{self.rack.agent.log()}")
            if self.rack.hits[address] < lent_s:
                self.given_dead_after_s.append(lent_s - self.rack.hits[address])
            return "hit"
        assert found == "", found
        return "used"

    async def _time_hold(self, slot_id: str, address: str) -> None:
        """Wait until the hub holds a slot that was hit: as unwell, or as one that is made fresh anyway."""

        async def is_held() -> bool:
            slot = (await self._slots())[slot_id]
            next_one = self.rack.up().get(slot_id, (0, address))[1]
            return "held" in slot or slot["state"] == "held" or next_one != address

        await eventually(is_held, pause_s=0.1)
        self.held_after_s.append(time.monotonic() - self.rack.hits[address])

    async def _all_free(self) -> bool:
        slots = (await self._slots()).values()
        return [(slot["state"], slot.get("held")) for slot in slots] == [("free", None)] * SLOTS

    async def _slots(self) -> dict[str, dict[str, object]]:
        async with self.hub.client("admin") as admin:
            node = (await admin.get(f"/nodes/{NODE}", headers=NEUTRAL)).json()
        return {slot["slotId"]: slot for slot in node["slotList"]}


async def test_each_lease_begins_with_a_live_and_empty_browser_although_browsers_die(
    live_hub: HubProcess, rack: Rack
) -> None:
    with a_site() as site:
        borrowers = Borrowers(live_hub, rack, site)
        await borrowers.take(LEASES // 2)  # caches and threads of the agent are full then
        before = await rack.memory()
        await borrowers.take(LEASES - LEASES // 2)
        after = await rack.memory()
    rack.agent.signal(signal.SIGTERM)
    rack.agent.process.wait(PATIENCE_S)
    held, dead = sorted(borrowers.held_after_s), sorted(borrowers.given_dead_after_s)
    print(f"{Counter(borrowers.ends)}; {len(rack.hits)} hits, held after {held[-1]:.2f} s at most; lent dead: {dead}")
    print(f"private bytes before {before} and after {after}")
    assert (rack.processes(), list(rack.folder.glob("hub-fleet-*/*"))) == ([], [])
    assert len(rack.hits) >= LEASES // PER_HIT // 2
    assert held[-1] <= EVERY_S * DOWN_AFTER + BEAT_S + SLACK_S
    assert all(after_s <= EVERY_S * DOWN_AFTER + BEAT_S + SLACK_S for after_s in dead)
    assert [now <= 1.1 * then for now, then in zip(after, before, strict=True)] == [True, True], (before, after)
