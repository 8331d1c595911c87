"""Killing hubs, nodes and borrowers at random, and the operators' switches; hubs are started again where they were."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

import httpx

from hub.settings import Settings
from tests.races.crew import Crew
from tests.world import HubProcess, RedisServer, settings_for

SECONDS = float(os.environ.get("HUB_RACE_SECONDS", "12"))
NODE_TIMEOUT_S = 3.0
TTL_S = 2.0
MORE_S = 120.0  # on a machine that takes its time to start a hub
SETTINGS = {
    "HUB_NODE_TIMEOUT": str(NODE_TIMEOUT_S),
    "HUB_NODE_SWEEP_INTERVAL_SECONDS": "0.5",
    "HUB_BORROW_TTL_SWEEP_SECONDS": "0.5",
    "HUB_BORROW_TTL_SECONDS": str(TTL_S),  # also of leases that a node brings back
}


def hub_settings(redis_server: RedisServer) -> Settings:
    """Return the settings of the hubs of a chaotic run."""
    return settings_for(
        redis_server.url, node_timeout_s=NODE_TIMEOUT_S, node_sweep_interval_s=0.5, borrow_ttl_sweep_s=0.5
    )


def _answers(hub: HubProcess) -> bool:
    try:
        return httpx.get(f"{hub.url}/health/ready", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


class Chaos:
    """Kills a hub, nodes and borrowers every now and then; hubs are started again where they were."""

    def __init__(self, redis_server: RedisServer) -> None:
        self._environment = {"HUB_REDIS_URL": redis_server.url, **SETTINGS}
        self.hubs = [HubProcess(self._environment), HubProcess(self._environment)]
        self._all = list(self.hubs)
        self.kills = {"hub": 0, "node": 0, "borrower": 0}

    def run(
        self, nodes: list[Crew], borrowers: Crew, seconds: float, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """For so many seconds, and until all kinds were killed twice; `meanwhile` is called once in a while too."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or (min(self.kills.values()) < 2 and time.monotonic() < ends + MORE_S):
            which = self.kills["hub"] % 2
            if _answers(self.hubs[1 - which]):
                self._kill_a_hub(which)
            crew = random.choice(nodes)
            self.kills["node"] += crew.kill(random.choice(crew.names))
            for name in random.sample(borrowers.names, 2):
                self.kills["borrower"] += borrowers.kill(name)
            meanwhile()
            time.sleep(random.uniform(0.2, 1.5))

    def _kill_a_hub(self, which: int) -> None:
        old = self.hubs[which]
        old.kill()
        self.kills["hub"] += 1
        self.hubs[which] = HubProcess({**self._environment, "HUB_PORT": str(old.port)})
        self._all.append(self.hubs[which])

    def ask(self, method: str, path: str, document: object = None) -> bool:
        """Call the hubs as an operator until one answers; return False when none does."""
        for hub in self.hubs:
            try:
                headers = {"x-hub-secret": hub.admin_secret}
                answer = httpx.request(method, hub.url + path, json=document, headers=headers, timeout=5)
            except httpx.HTTPError:
                continue
            if answer.status_code < 500:
                return answer.is_success
        return False

    def end(self) -> None:
        """Kill all hubs."""
        for hub in self._all:
            hub.kill()

    def logs(self) -> str:
        """Return the log lines of all hubs, in the order of time."""
        return "\n".join(sorted(line for hub in self._all for line in hub.log().splitlines()))

    def complaints(self) -> list[str]:
        """Return log lines that no hub should ever have written."""
        lines = self.logs().splitlines()
        return [line for line in lines if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")]
