"""Measure how a realm whose Redis hangs or is dead affects borrows, pages and metrics of the other realms."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import httpx
from redis import Redis

from tests.bench import machine
from tests.bench.borrowing import POOLS, offer, take_back
from tests.bench.machine import Load, load
from tests.bench.report import Figure
from tests.realms.world import write_realms
from tests.world import RedisServer, wait_until

ROUNDS, SECONDS, CONNECTIONS = 25, 1, 8
PAUSED_MS = "20"  # of each connection before a call: what is measured is the hub, and not a queue before it
PAUSE_S = 0.1  # between calls of the realm that is dead, of pages and of metrics
SECRET = {"x-hub-secret": machine.RUNNER_SECRET}


def run() -> list[Figure]:
    """The default realm, beside one whose server is stopped, or killed, in every other stretch."""
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "dead").mkdir()
        dead = RedisServer(folder / "dead")
        dead.start()
        stack.callback(dead.stop)
        file = write_realms(folder / "realms.toml", eu=(dead.url, {}))
        more = {"HUB_REALMS_FILE": str(file), "HUB_NODE_TIMEOUT": "3600"}
        port = stack.enter_context(machine.hub_server(redis, **more))
        labels = [f"gpu:a100:zone-{n:02d}" for n in range(POOLS)]
        asyncio.run(offer(redis, labels))
        bodies = folder / "borrows"
        bodies.write_text("".join(json.dumps({"labelKey": label, "ttlSeconds": 300}) + "\n" for label in labels))
        return [
            figure for fault in ("stands still", "is dead") for figure in _measure(port, redis, dead, bodies, fault)
        ]


def _measure(port: int, redis: Redis, dead: RedisServer, bodies: Path, fault: str) -> list[Figure]:
    borrow = partial(
        load, "pairs", port, CONNECTIONS, SECONDS, machine.RUNNER_SECRET, str(bodies), "default", PAUSED_MS
    )
    sound: list[Load] = []
    beside: list[Load] = []
    with _Looker(port) as looker:
        for number in range(1 + ROUNDS):
            wait_until(lambda: _is_open(port))
            seen = [borrow()]
            asyncio.run(take_back(redis))
            dead.freeze() if fault == "stands still" else dead.kill()
            seen.append(borrow())  # from the first moment on
            dead.thaw() if fault == "stands still" else dead.start()
            asyncio.run(take_back(redis))
            if number:  # the first round only warms up
                sound.append(seen[0])
                beside.append(seen[1])
    before, meanwhile = (median(each.p99_ms for each in loads) for loads in (sound, beside))
    faults = sum(each.refused + each.broken for each in (*sound, *beside))
    note = f"{meanwhile:.1f} ms against {before:.1f} ms, medians of {ROUNDS} stretches"
    return [
        Figure(
            f"p99 of borrow and return, another realm {fault}", meanwhile / before, at_most=1.2, unit=" x", note=note
        ),
        Figure(f"calls refused or broken meanwhile, another realm {fault}", faults, at_most=0),
        Figure("  pages and metrics not answered", looker.failed, at_most=0, note=f"of {looker.asked}"),
    ]


def _is_open(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/realms/eu/health/ready", headers=SECRET, timeout=10).is_success
    except httpx.HTTPError:
        return False


class _Looker:
    """A client that reads pages and metrics, and calls the dead realm, during the whole measurement."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.asked = self.failed = 0

    def __enter__(self) -> _Looker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with httpx.Client(base_url=self._url, headers=SECRET, timeout=30) as client:
            while not self._over.wait(PAUSE_S):
                client.get("/realms/eu/pools")  # 503 once that is known
                for path in ("/", "/realms/eu/", "/metrics"):
                    self.asked += 1
                    self.failed += client.get(path, headers={"accept": "text/html"}).status_code != 200
