"""Twenty workers and ten thousand tasks while workers and a hub are killed: every task ends exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.doctor import examine
from hub.store.connection import open_store
from tests.notes import whole_notes
from tests.races.hands import ROOM
from tests.world import PATIENCE_S, free_port, settings_for, wait_until

WORKERS, TASKS, KILLS = 20, 10_000, 12
TOKEN = "race-token-of-a-user"
ENDED = {"completed", "failed"}


@pytest.fixture
def hubs(start_hub, tmp_path):
    """Two hubs with one user, quick to find out who is gone."""
    file = tmp_path / "tokens.toml"
    file.write_text(f'[[tokens]]\ntoken = "{TOKEN}"\nuser = "racer"\n')
    quick = {"HUB_TOKENS_FILE": str(file), "HUB_WORKER_TIMEOUT_SECONDS": "3", "HUB_SWEEPER_INTERVAL_SECONDS": "1"}
    return [start_hub(**quick, HUB_PORT=str(free_port())) for _ in range(2)]


@pytest.mark.race
@pytest.mark.timeout(600)
async def test_every_task_ends_exactly_once_although_processes_are_killed(
    hubs, start_hub, redis, redis_server, tmp_path
):
    log = tmp_path / "hands.log"
    ports = [hub.port for hub in hubs]
    crew = start_crew(ports, log)
    try:
        wait_until(lambda: said(log, "registered") >= WORKERS, 120)
        chooser = random.Random(7)
        with ThreadPoolExecutor(1) as pool:
            submitted = pool.submit(submit, hubs[0].url)  # they are done about as fast as they come
            for number in range(KILLS):
                wait_until(lambda done=number: ended(redis) > TASKS * (done + 1) / (KILLS + 2), 90)
                if number % 2:
                    kill_a_holder(chooser, log, redis)
                else:
                    os.kill(chooser.choice(living(log)), signal.SIGKILL)
                if number == KILLS // 2:
                    hubs[1].kill()
                    start_hub(**{name: text for name, text in hubs[1].environment.items() if name.startswith("HUB_")})
            ids = submitted.result()
        wait_until(lambda: ended(redis) == TASKS, 90, lambda: str(statuses(redis)))
    finally:
        crew.kill()
        crew.wait()
    notes = whole_notes(log)
    takes = Counter(task for note in notes if note["what"] == "took" for task in note["tasks"])
    assert set(takes) <= set(ids)
    assert [task for task, times in takes.items() if times > 1] == [], "a task was claimed twice"
    told = {note["task"]: note["status"] for note in notes if note["what"] == "ended" and note["outcome"] == "ok"}
    found = {task: redis.hgetall(f"hub:task:{task.replace('-', '')}") for task in ids}
    assert {task: record["status"] for task, record in found.items() if record["status"] not in ENDED} == {}
    assert {task: status for task, status in told.items() if found[task]["status"] != status} == {}
    # A worker that was killed may have reported what it had no time to note; else its tasks failed with it.
    errors = Counter(record.get("error") for task, record in found.items() if task not in told)
    assert set(errors) <= {None, "Worker disconnected"}
    assert errors["Worker disconnected"], f"the kills cost nobody anything: nothing was tried, {errors}, {len(told)}"
    wait_until(lambda: redis.zcard("hub:workers") == 0)
    async with open_store(settings_for(redis_server.url)) as store:
        assert await examine(store) == []


def kill_a_holder(chooser: random.Random, log: Path, redis) -> None:
    """SIGKILL a worker that has tasks: chosen blindly, all of them might have none just then, and nothing be tried."""
    notes = whole_notes(log)
    workers = {note["pid"]: note["worker"].replace("-", "") for note in notes if note["what"] == "registered"}

    def holds(pid: int) -> bool:
        return pid in workers and redis.scard(f"hub:worker_tasks:{workers[pid]}") > 0

    def killed() -> bool:
        if ended(redis) == TASKS:  # they were faster than this, which looks through all that was noted
            return True
        holders = [pid for pid in living(log) if holds(pid)]
        if not holders:
            return False
        pid = chooser.choice(holders)
        os.kill(pid, signal.SIGSTOP)  # stopped for a second look: it may have reported its tasks meanwhile
        has = holds(pid)
        os.kill(pid, signal.SIGKILL if has else signal.SIGCONT)
        return has

    wait_until(killed, 90)


def start_crew(ports: list[int], log: Path) -> subprocess.Popen[bytes]:
    """Twenty workers in processes of their own; each that is killed is replaced."""
    arguments = [json.dumps(ports), TOKEN, str(log), str(WORKERS)]
    return subprocess.Popen([sys.executable, "-m", "tests.races.hands", *arguments])


def submit(url: str) -> list[str]:
    """Ten thousand tasks, a thousand at a time."""
    ids: list[str] = []
    for number in range(TASKS // 1000):
        answer = post(url, {"payloads": [{}] * 1000}, key=str(number))
        assert answer.status_code == 202, answer.text
        ids += answer.json()["ids"]
    return ids


def post(url: str, body: dict[str, Any], key: str) -> httpx.Response:
    """Return the answer to a submit; repeated, as its key allows, while the hub has no answer of Redis."""
    path = f"{url}/v1/joblib/rooms/{ROOM}/tasks/{ROOM}:modifiers:Race"
    headers = {"authorization": f"Bearer {TOKEN}", "idempotency-key": key}
    answers: list[httpx.Response] = []

    def answered() -> bool:
        answers.append(httpx.post(path, json=body, headers=headers, timeout=PATIENCE_S))
        return answers[-1].status_code != 503

    wait_until(answered)
    return answers[-1]


def ended(redis) -> int:
    return sum(redis.zcard(f"hub:room_tasks:{status}:{ROOM}") for status in ENDED)


def statuses(redis) -> dict[str, int]:
    names = ("pending", "claimed", "running", *ENDED)
    return {status: redis.zcard(f"hub:room_tasks:{status}:{ROOM}") for status in names}


def said(log: Path, what: str) -> int:
    return sum(note["what"] == what for note in whole_notes(log))


def living(log: Path) -> list[int]:
    """Worker processes that are there."""
    pids = {note["pid"] for note in whole_notes(log)}
    return [pid for pid in sorted(pids) if Path(f"/proc/{pid}/stat").exists() and not zombie(pid)]


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
