"""Everything dies at random: what must hold all the same.

Short in `make test`; the full length is `HUB_RACE_SECONDS=30 python -m pytest tests/races`.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import httpx
import pytest
from redis import Redis

from hub.doctor import examine
from hub.settings import Settings
from hub.store.connection import open_store
from tests.races.crew import Crew
from tests.races.ledger import broken, cut_by_dead_nodes, cut_by_expiry, holds
from tests.world import SECRETS, HubProcess, RedisServer, settings_for, wait_until

SECONDS = float(os.environ.get("HUB_RACE_SECONDS", "12"))
POOL = "gpu:a100"
NODE_TIMEOUT_S = 3.0
TTL_S = 2.0
SETTINGS = {
    "HUB_NODE_TIMEOUT": str(NODE_TIMEOUT_S),
    "HUB_NODE_SWEEP_INTERVAL_SECONDS": "0.5",
    "HUB_BORROW_TTL_SWEEP_SECONDS": "0.5",
    "HUB_BORROW_TTL_SECONDS": str(TTL_S),  # also of grants that a node brings back
}

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(SECONDS + 120)]


def hub_settings(redis_server: RedisServer) -> Settings:
    return settings_for(
        redis_server.url, node_timeout_s=NODE_TIMEOUT_S, node_sweep_interval_s=0.5, borrow_ttl_sweep_s=0.5
    )


def _answers(hub: HubProcess) -> bool:
    try:
        return httpx.get(f"{hub.url}/health/ready", timeout=1).status_code == 200
    except httpx.HTTPError:
        return False


class Chaos:
    """Kills a hub, nodes and borrowers every now and then; hubs are started again where they were."""

    def __init__(self, redis_server: RedisServer) -> None:
        self._environment = {"HUB_REDIS_URL": redis_server.url, **SETTINGS}
        self.hubs = [HubProcess(self._environment), HubProcess(self._environment)]
        self._all = list(self.hubs)
        self.kills = {"hub": 0, "node": 0, "borrower": 0}

    def run(self, nodes: list[Crew], borrowers: Crew, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            which = self.kills["hub"] % 2
            if _answers(self.hubs[1 - which]):
                self._kill_a_hub(which)
            crew = random.choice(nodes)
            self.kills["node"] += crew.kill(random.choice(crew.names))
            for name in random.sample(borrowers.names, 2):
                self.kills["borrower"] += borrowers.kill(name)
            time.sleep(random.uniform(0.2, 1.5))

    def _kill_a_hub(self, which: int) -> None:
        old = self.hubs[which]
        old.kill()
        self.kills["hub"] += 1
        self.hubs[which] = HubProcess({**self._environment, "HUB_PORT": str(old.port)})
        self._all.append(self.hubs[which])

    def end(self) -> None:
        for hub in self._all:
            hub.kill()

    def logs(self) -> str:
        """What all hubs have logged, in the order of time."""
        return "\n".join(sorted(line for hub in self._all for line in hub.log().splitlines()))

    def complaints(self) -> list[str]:
        """What no hub should ever have logged."""
        lines = self.logs().splitlines()
        return [line for line in lines if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")]


async def test_fifty_borrowers_ten_slots_two_hubs_and_everybody_may_die(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    chaos = Chaos(redis_server)
    ports = [hub.port for hub in chaos.hubs]
    offer = {"label": POOL, "slots": 2, "restart_s": [0.1, 0.1, NODE_TIMEOUT_S + 1.5]}
    nodes = [
        Crew(tmp_path, "node", ["n1", "n2", "n3", "n4"], ports, SECRETS["HUB_NODE_SECRET"], **offer),
        Crew(tmp_path, "agent", ["n5"], ports, SECRETS["HUB_NODE_SECRET"], **offer),
    ]
    names = [f"b{number}" for number in range(50)]
    borrowers = Crew(tmp_path, "borrower", names, ports, SECRETS["HUB_RUNNER_SECRET"], label=POOL, ttl=TTL_S, end=9)

    def counts() -> tuple[int, ...]:
        return redis.llen(f"available:{POOL}"), redis.exists(f"inuse:{POOL}"), redis.scard("nodes")

    try:
        wait_until(lambda: len({hold.slot for hold in holds(borrowers.lines())}) == 10, 30)
        chaos.run(nodes, borrowers, SECONDS)
        borrowers.stop()
        wait_until(
            lambda: counts() == (10, 0, 5), 30, lambda: f"(free, lent, nodes) stay at {counts()}\n{chaos.logs()}"
        )
        settings = hub_settings(redis_server)
        async with open_store(settings) as store:
            assert await examine(store, settings=settings) == []
    finally:
        for crew in (borrowers, *nodes):
            crew.stop()
        chaos.end()

    found = holds(borrowers.lines())
    cut_by_dead_nodes(found, [line for crew in nodes for line in crew.lines()], NODE_TIMEOUT_S)
    cut_by_expiry(found, chaos.logs())
    assert broken(found, borrowers.lines()) == []
    assert chaos.complaints() == [], chaos.logs()
    print(f"{len(found)} grants; killed {chaos.kills}")
    assert min(chaos.kills.values()) >= 2
    assert len(found) > 5 * SECONDS
