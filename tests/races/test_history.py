"""Check the notes of all processes, taken while hubs, Redis and the network failed in turn, against each other.

Hubs, agents, borrowers and workers are processes of their own, the clocks of two hubs are off by hours, and three
Sentinels watch over Redis. A fault or two come in `make test`, all of them in the ten minutes of `make proof`; the seed
is printed, and `HUB_HISTORY_SEED` sets it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest

from tests.notes import whole_notes
from tests.races.crew import Crew
from tests.races.history import CLOCKS_S, NODE_TIMEOUT_S, POOL, TTL_S, Faults
from tests.races.ledger import (
    broken,
    cut_by_dead_nodes,
    cut_by_expiry,
    ended_twice,
    expires_elsewhen,
    holds,
    revived,
)
from tests.replicas import Trio
from tests.world import SECRETS, HubProcess, wait_until

SECONDS = float(os.environ.get("HUB_HISTORY_SECONDS", "15"))
SEED = int(os.environ.get("HUB_HISTORY_SEED", "0")) or random.randrange(1, 1 << 30)
TOKEN = "history-token-of-a-user"
WORKERS = 6
EXPIRES_S = 60.0  # the clocks are off by hours; a borrower waits for some seconds

pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(SECONDS + 1200)]


@pytest.fixture
def faults(tmp_path: Path):
    trio = Trio(tmp_path / "redis")
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[[tokens]]\ntoken = "{TOKEN}"\nuser = "racer"\n')
    found = Faults(tmp_path, trio, SEED, HUB_TOKENS_FILE=str(tokens))
    yield found
    found.end()
    trio.stop()


def test_all_answers_of_a_chaotic_run_are_consistent_with_each_other(faults: Faults, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    assert [round(each / 3600) for each in map(clock_off_s, faults.hubs)] == [each / 3600 for each in CLOCKS_S]
    ports, log = faults.wires.ports, tmp_path / "hands.log"
    offer = {"label": POOL, "slots": 2, "restart_s": [0.1, NODE_TIMEOUT_S + 3]}
    nodes = Crew(tmp_path, "node", ["n1", "n2", "n3", "n4"], ports, SECRETS["HUB_NODE_SECRET"], **offer)
    names = [f"b{number}" for number in range(10)]
    secret, careful = SECRETS["HUB_RUNNER_SECRET"], {"label": POOL, "ttl": TTL_S, "holds_s": 3.0, "end": signal.SIGKILL}
    borrowers = Crew(tmp_path, "careful", names, ports, secret, **careful)
    arguments = [json.dumps(ports), TOKEN, str(log), str(WORKERS)]
    hands = subprocess.Popen([sys.executable, "-m", "tests.races.hands", *arguments])
    over = Event()
    submitting = Thread(target=submit, args=(ports, over))
    submitting.start()
    try:
        wait_until(
            lambda: len(holds(borrowers.lines())) > 8 and any(n["what"] == "took" for n in whole_notes(log)), 120
        )
        faults.run(SECONDS, [nodes, borrowers], lambda: kill_a_worker(log))
        borrowers.stop()
        wait_until(
            lambda: free(faults) == 8, 120, lambda: f"free slots stay at {free(faults)}\n{faults.logs()[-4000:]}"
        )
    finally:
        over.set()
        submitting.join(60)
        hands.kill()
        hands.wait()
        for crew in (borrowers, nodes):
            crew.stop()
    found, notes = holds(borrowers.lines()), whole_notes(log)
    cut_by_dead_nodes(found, nodes.lines(), NODE_TIMEOUT_S)
    cut_by_expiry(found, faults.logs(), NODE_TIMEOUT_S, faults.standstills)
    tasks = sum(note["what"] == "ended" for note in notes)
    print(f"{len(found)} leases, {tasks} tasks, {faults.wires.lost} answers lost; {dict(faults.done)}")
    wrong = broken(found, borrowers.lines()) + revived(borrowers.lines()) + ended_twice(notes)
    wrong += expires_elsewhen(borrowers.lines(), EXPIRES_S)
    wrong += [str(note) for note in notes if note["what"] == "beat" and note["status"] not in (200, 404)]
    assert not wrong, "\n".join([f"{len(wrong)} things cannot be true, seed {SEED}", *wrong[:10], *faults.story])
    assert len(found) > SECONDS / 4


def clock_off_s(hub: HubProcess) -> float:
    """By how much the clock of a hub is off, as its log shows."""
    return datetime.fromisoformat(hub.log().splitlines()[-1].split()[0]).timestamp() - time.time()


def submit(ports: list[int], over: Event) -> None:
    """Tasks for the workers, for as long as it lasts."""
    chance = random.Random(SEED)
    with httpx.Client(headers={"authorization": f"Bearer {TOKEN}"}, timeout=5) as http:
        while not over.wait(0.2):
            try:
                url = f"http://127.0.0.1:{chance.choice(ports)}/v1/joblib/rooms/race/tasks/race:modifiers:Race"
                http.post(url, json={"payloads": [{}] * 5, "maxAttempts": 3, "backoffSeconds": 0})
            except httpx.HTTPError:
                time.sleep(0.1)


def kill_a_worker(log: Path) -> None:
    for pid in {note["pid"] for note in whole_notes(log) if note["what"] == "registered"}:
        with suppress(OSError):
            if b"tests.races.hands" in Path(f"/proc/{pid}/cmdline").read_bytes():  # and not another program by now
                os.kill(pid, signal.SIGKILL)
                return


def free(faults: Faults) -> int:
    with faults.trio.primary.client() as redis:
        return int(redis.llen(f"available:{POOL}"))
