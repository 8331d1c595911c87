"""Faults of hubs, Redis, the network and their clocks, one after the other, chosen by a seed."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.clocks import OFF
from tests.races.crew import Crew
from tests.races.wires import Wires
from tests.replicas import Server, Trio
from tests.world import HubProcess, wait_until

NODE_TIMEOUT_S = 6.0
TTL_S = 4.0
STORY_S = 7.0  # between two faults: hubs have said what they lent, nodes have reported, and all of that is on disk
ALL_S = 120.0  # in so much time every kind of fault happens at least once
CLOCKS_S = (0, 3 * 3600, -5 * 3600)  # how far the clocks of the hubs are off
POOL = "gpu:a100"


class Faults:
    """Three hubs behind three Sentinels, and what befalls them."""

    def __init__(self, folder: Path, trio: Trio, seed: int, **environment: str) -> None:
        self._chance = random.Random(seed)
        self.trio = trio
        (folder / "sitecustomize.py").write_text(OFF)
        self._environment = {
            "HUB_REDIS_URL": trio.url,
            "PYTHONPATH": f"{folder}:{Path(__file__).parent.parent.parent}",
            "HUB_NODE_TIMEOUT": str(NODE_TIMEOUT_S),
            "HUB_NODE_SWEEP_INTERVAL_SECONDS": "1",
            "HUB_BORROW_TTL_SWEEP_SECONDS": "1",
            "HUB_BORROW_TTL_SECONDS": "20",
            "HUB_WORKER_TIMEOUT_SECONDS": "6",
            **environment,
        }
        self.hubs = [self._start(off_s) for off_s in CLOCKS_S]
        self._all = list(self.hubs)
        for hub in self.hubs:
            hub.wait_until_ready(120)
        self.wires = Wires([hub.port for hub in self.hubs], seed)
        self.done: Counter[str] = Counter()
        self.story: list[str] = []
        self.standstills: list[tuple[float, float]] = []  # of hubs: begin and end, in wall time

    def _start(self, off_s: float, port: int = 0) -> HubProcess:
        more = {"HUB_PORT": str(port)} if port else {}
        return HubProcess({**self._environment, "TEST_CLOCK_OFF_S": str(off_s), **more})

    def run(self, seconds: float, crews: list[Crew], kill_a_worker: Callable[[], None]) -> None:
        """One thing after the other; between them everything is well for a while."""
        acts: dict[str, Callable[[], None]] = {
            "hub killed": self._kill_a_hub,
            "hub stood still": self._stop_a_hub,
            "failed over": self.trio.fail_over,
            "primary killed": self._kill_the_primary,
            "primary stood still": self._stop_the_primary,
            "store emptied": self._wipe,
            "network was bad": self._bad_network,
            "somebody killed": lambda: self._kill_somebody(crews, kill_a_worker),
        }
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or (seconds >= ALL_S and len(self.done) < len(acts)):
            left = [name for name in acts if name not in self.done]
            name = self._chance.choice(list(acts) if time.monotonic() < ends else left)
            self.story.append(f"{time.time():.3f} {name}")
            acts[name]()
            self.done[name] += 1
            self._recover()

    def _recover(self) -> None:
        self.trio.wait_until_whole()
        wait_until(lambda: all(_ready(hub) for hub in self.hubs), 120)
        time.sleep(STORY_S * self._chance.uniform(1, 1.5))

    def _kill_a_hub(self) -> None:
        which = self._chance.randrange(len(self.hubs))
        self.hubs[which].kill()
        self.hubs[which] = self._start(CLOCKS_S[which], self.hubs[which].port)
        self._all.append(self.hubs[which])

    def _stop_a_hub(self) -> None:
        hub = self._chance.choice(self.hubs)
        began = time.time()
        hub.signal(signal.SIGSTOP)
        time.sleep(self._chance.uniform(1, 12))
        hub.signal(signal.SIGCONT)
        self.standstills.append((began, time.time()))

    def _kill_the_primary(self) -> None:
        before = self.trio.primary
        before.kill()
        self.trio.wait_for_another(before)
        before.start()

    def _stop_the_primary(self) -> None:
        before: Server = self.trio.primary
        before.signal(signal.SIGSTOP)
        try:
            self.trio.wait_for_another(before)
            time.sleep(self._chance.uniform(0, 4))
        finally:
            before.signal(signal.SIGCONT)

    def _wipe(self) -> None:
        with self.trio.primary.client() as client:
            client.flushall()

    def _bad_network(self) -> None:
        self.wires.lossy, self.wires.slow_s = self._chance.choice([(0.1, 0.1), (0.3, 0.0), (0.02, 1.5)])
        time.sleep(self._chance.uniform(3, 8))
        self.wires.lossy = self.wires.slow_s = 0.0

    def _kill_somebody(self, crews: list[Crew], kill_a_worker: Callable[[], None]) -> None:
        for crew in crews:
            crew.kill(self._chance.choice(crew.names))
        kill_a_worker()

    def logs(self) -> str:
        return "\n".join(sorted(line for hub in self._all for line in hub.log().splitlines()))

    def end(self) -> None:
        self.wires.stop()
        for hub in self._all:
            hub.kill()


def _ready(hub: HubProcess) -> bool:
    try:
        return httpx.get(f"{hub.url}/health/ready", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
