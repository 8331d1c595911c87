"""A realm moves to another server under load: no lease is lost, no node expires, no slot is lent twice.

`HUB_MOVE_NODES` makes it longer; `make proof` moves 10,000 nodes and 5,000 leases. Leases are half as many as nodes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.cli.command import Command
from tests.drill.borrowers import Borrowers
from tests.drill.fleet import Fleet
from tests.realms.world import write_realms
from tests.world import HubProcess, RedisServer, eventually

NODES = int(os.environ.get("HUB_MOVE_NODES", "300"))
LEASES = NODES // 2
FILL_S = 120 + NODES / 10  # for all nodes to register, or all borrowers to be lent a slot
LEASE_S = 60.0 if NODES > 1000 else 15.0
TIMEOUT_S = 60.0  # of nodes: what a fleet of this size on one machine needs
PREFIX = "{eu}:"
pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(600 + NODES / 2)]


class Probe:
    """A client that beats, borrows and returns all the time, and notes when it was served."""

    def __init__(self, hub: HubProcess) -> None:
        self._hub = hub
        self.served: dict[str, list[float]] = {"a heartbeat": [], "a borrow": []}

    async def run(self) -> None:
        """Beat, borrow and return until cancelled."""
        slots = [{"slotId": "probe-1", "labelKey": "probe:one"}]
        node = {"nodeId": "probe", "slots": slots, "policy": "reuse"}
        async with self._hub.client("node") as nodes, self._hub.client("runner") as runners:
            while True:
                answer = await nodes.post("/node/heartbeat", json={"nodeId": "probe"})
                if answer.status_code == 200:
                    self.served["a heartbeat"].append(time.monotonic())
                    if not answer.json()["known"]:
                        await nodes.post("/node/register", json=node)
                await self._borrow(runners)
                await asyncio.sleep(0.02)

    async def _borrow(self, runners: httpx.AsyncClient) -> None:
        answer = await runners.post("/session/borrow", json={"labelKey": "probe:one", "maxWaitSeconds": 0})
        if answer.status_code == 200:
            self.served["a borrow"].append(time.monotonic())
            body = {"labelKey": "probe:one", "browserId": "probe-1", "leaseToken": answer.json()["leaseToken"]}

            async def is_back() -> bool:
                return (await runners.post("/session/return", json=body)).status_code != 503  # while the realm moves

            await eventually(is_back, FILL_S)

    async def is_served(self, since: float) -> bool:
        """Return whether a heartbeat and a borrow were served after that moment."""
        return all(at and at[-1] > since for at in self.served.values())

    def longest_s(self, what: str) -> float:
        """Return the longest time, in seconds, for which no call was served."""
        at = self.served[what]
        return max(after - before for before, after in itertools.pairwise(at))


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """Where the realm is, and where it is to be."""
    servers = [RedisServer(tmp_path / name) for name in ("old", "new")]
    with servers[0], servers[1]:
        yield servers


@asynccontextmanager
async def load(hubs: list[HubProcess]) -> AsyncIterator[tuple[Fleet, Borrowers, Probe]]:
    """All nodes registered, and half of them lent."""
    ports = [hub.port for hub in hubs]
    fleet, probe = Fleet(NODES, 10, 0.0), Probe(hubs[0])
    borrowers = Borrowers(fleet, LEASES + LEASES // 10, ports, hubs[0].runner_secret, LEASE_S, 5.0)
    running = [asyncio.create_task(job) for job in await fleet.announce(ports, hubs[0].node_secret, "", TIMEOUT_S)]
    try:
        await eventually(lambda: heard(fleet, 0), FILL_S)
        running += [*borrowers.run(), asyncio.create_task(probe.run())]
        await eventually(lambda: are_lent(borrowers, 0), FILL_S)
        yield fleet, borrowers, probe
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
        borrowers.close()
        await fleet.close()
    assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []


async def heard(fleet: Fleet, since: float) -> bool:
    return fleet.heard_since(since)


async def are_lent(borrowers: Borrowers, more_than: int) -> bool:
    """Whether there are so many leases, and more were made than before; a tenth of the borrowers is between two."""
    return len(borrowers.leases) >= LEASES and borrowers.granted > more_than


async def renewed(borrowers: Borrowers, since: float) -> bool:
    """Return whether every lease has been renewed, or made, after that moment."""
    return all(lease.hold.end > since + LEASE_S for lease in [*borrowers.leases.values()])


async def test_a_realm_that_moves_under_load_loses_no_lease_and_no_node(servers, start_hub, tmp_path):
    old, new = servers
    file = write_realms(tmp_path / "realms.toml", eu=(old.url, {"labels": ["*"], "nodes": ["*"]}))
    settings = {"HUB_REALMS_FILE": str(file), "HUB_REALMS": "eu", "HUB_NODE_TIMEOUT": str(TIMEOUT_S)}
    hubs = [start_hub(**settings) for _ in range(2)]
    command = Command(hubs[0], tmp_path)
    async with load(hubs) as (fleet, borrowers, probe):
        before = [*borrowers.leases.values()]
        nodes, leases = len(fleet.nodes), len(before)
        move = ("realm", "move", "eu", "--to", new.url, "--file", str(file))
        done = await asyncio.to_thread(lambda: command(*move, seconds=FILL_S))
        moved_at, granted = time.monotonic(), borrowers.granted
        assert done.returncode == 0, done.stderr
        await eventually(lambda: heard(fleet, moved_at), FILL_S)
        await eventually(lambda: renewed(borrowers, moved_at), FILL_S + LEASE_S)
        await eventually(lambda: are_lent(borrowers, granted), FILL_S)
        await eventually(lambda: probe.is_served(moved_at), FILL_S)
        with new.client() as redis:
            assert redis.scard(f"{PREFIX}nodes") == nodes + 1  # the probe
        assert (borrowers.lost, borrowers.late, borrowers.lent_twice()) == ([], [], [])
        print(f"{done.stdout.strip()} {nodes} nodes, {leases} leases; lost 0.")
        print(*(f"No hub served {what} for {probe.longest_s(what):.1f} s." for what in probe.served))
    assert not re.findall(r"node sweep .*expired=[1-9].*", "".join(hub.log() for hub in hubs))
    checked = command("doctor", "--realm", "eu", seconds=FILL_S, HUB_REALMS_FILE=str(file))
    assert checked.stdout.startswith("Every invariant holds"), checked.stdout
