"""The jobs API over HTTP to one hub process, against zndraw-joblib on SQLite, with the same client for both."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import httpx

from tests.bench import jobs_peers, machine
from tests.bench.jobs_hub import jobs_hub
from tests.bench.machine import Load, load
from tests.bench.report import Figure, Rounds
from tests.world import free_port, wait_until

ROUNDS, SECONDS = 5, 2
PEER = "zndraw-joblib"
WORKERS = 20
JOB, ROOM = "@global:modifiers:Noop", "bench"
PAYLOAD = '{"payload":{"n":1,"text":"as short as most"}}'
TARGETS = {"submit": 30, "claim, running, completed": 30, "heartbeat": 50}
CONNECTIONS = {"hub": 64, PEER: 4}  # at which each is fastest: SQLite lets one write at a time


@dataclass
class Side:
    """A server of the jobs API with a job and workers; what it did per second, round by round."""

    port: int
    token: str
    connections: int
    workers: list[str] = field(default_factory=list)
    loads: dict[str, list[Load]] = field(default_factory=lambda: {kind: [] for kind in TARGETS})

    def register(self) -> None:
        """Workers, the first of which has the job."""
        headers = {"authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{self.port}/v1/joblib", headers=headers, timeout=20) as client:
            self.workers = [client.post("/workers").raise_for_status().json()["id"] for _ in range(WORKERS)]
            wanted = {"category": "modifiers", "name": "Noop", "worker_id": self.workers[0]}
            client.put("/rooms/@global/jobs", json=wanted).raise_for_status()

    def kinds(self) -> dict[str, Callable[[], Load]]:
        """Return the loads to measure. Tasks that the first submits are claimed and ended by the second."""
        run = partial(load, "jobs", self.port, self.connections, SECONDS, self.token)
        beats = [f"/v1/joblib/workers/{worker}" for worker in self.workers]
        return {
            "submit": partial(run, "repeat", "POST", PAYLOAD, f"/v1/joblib/rooms/{ROOM}/tasks/{JOB}"),
            "claim, running, completed": partial(run, "tasks", self.workers[0]),
            "heartbeat": partial(run, "repeat", "PATCH", "", *beats),
        }

    def faults(self) -> int:
        """Count the answers that are not the expected ones."""
        return sum(each.refused + each.broken for loads in self.loads.values() for each in loads)


def run() -> list[Figure]:
    """Alternate between the two servers; the first round only warms up."""
    with ExitStack() as stack:
        redis = stack.enter_context(machine.redis_server())
        token = secrets.token_hex(16)
        sides = {
            "hub": Side(stack.enter_context(jobs_hub(redis, token)), token, CONNECTIONS["hub"]),
            PEER: Side(stack.enter_context(_peer(token)), token, CONNECTIONS[PEER]),
        }
        for side in sides.values():
            side.register()
        for number in range(1 + ROUNDS):
            for kind in TARGETS:
                for side in sides.values():
                    seen = side.kinds()[kind]()
                    if number:
                        side.loads[kind].append(seen)
        return _figures(sides["hub"], sides[PEER])


@contextmanager
def _peer(token: str) -> Iterator[int]:
    """The router in the smallest application around it, on the server and with the options that the hub has."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="hub-bench-") as folder:
        command = f"-m uvicorn joblib_app:app --app-dir {jobs_peers.SCRIPTS} --port {port} --log-level warning"
        options = [*command.split(), *machine.UVICORN.split()]
        environment = {"TOKEN": token, "DATABASE": str(Path(folder) / "joblib.sqlite")}
        with machine.process([jobs_peers.python_of(PEER), *options], machine.SERVER_CORE, environment):
            wait_until(lambda: _answers(f"http://127.0.0.1:{port}/v1/joblib/workers"), 30)
            yield port


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _figures(hub: Side, peer: Side) -> list[Figure]:
    figures, version = [], jobs_peers.version_of(PEER, PEER)
    for kind, target in TARGETS.items():
        ours, theirs = ([each.per_second for each in side.loads[kind]] for side in (hub, peer))
        rounds = Rounds.of(ours, theirs)
        note = f"{median(ours):,.0f}/s against {median(theirs):,.0f}/s, {rounds.spread}"
        figures.append(Figure(f"{kind}: times {version}", rounds.median, at_least=target, note=note))
    note = f"{peer.faults():,} at the peer"
    figures.append(Figure("refusals, claims without a task, lost connections", hub.faults(), at_most=0, note=note))
    return figures
