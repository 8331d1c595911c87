"""Workers of tasks with slots, and hubs at which they wait, are killed: no slot has two tasks, none is left lent."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter

import httpx
import pytest

from hub.doctor import examine
from hub.store.connection import open_store
from tests.notes import whole_notes
from tests.races.slot_hands import BODY
from tests.world import PATIENCE_S, SECRETS, free_port, settings_for, wait_until

TASKS, HANDS, KILLS = 300, 5, 8
SLOTS = [f"g{number}" for number in range(5)]  # for two tasks at a time
ADMIN, NODE = ({"x-hub-secret": SECRETS[f"HUB_{role}_SECRET"]} for role in ("ADMIN", "NODE"))


@pytest.fixture(params=["4"])
def hubs(start_hub, request):
    """Two hubs, quick to find out who is gone, and a node that is not heard again."""
    quick = {
        "HUB_WORKER_TIMEOUT_SECONDS": request.param,
        "HUB_SWEEPER_INTERVAL_SECONDS": "1",
        "HUB_NODE_TIMEOUT": "600",
    }
    found = [start_hub(**quick, HUB_PORT=str(free_port())) for _ in range(2)]
    body = {"nodeId": "n1", "policy": "reuse", "slots": [{"label": "gpu:a", "slotId": slot} for slot in SLOTS]}
    httpx.post(f"{found[0].url}/node/register", json=body, headers=NODE).raise_for_status()
    return found


@pytest.fixture
def start_hand(hubs, tmp_path):
    """Start workers in processes of their own, which are killed with the test."""
    started = []

    def start():
        arguments = [json.dumps([hub.port for hub in hubs]), str(tmp_path / "log"), str(tmp_path)]
        started.append(subprocess.Popen([sys.executable, "-m", "tests.races.slot_hands", *arguments]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def post(hub, path, body, **more):
    method, url = more.get("method", "POST"), f"{hub.url}/v1/joblib{path}"
    return httpx.request(method, url, json=body, headers=ADMIN, timeout=2 * PATIENCE_S)


def submit(hub, count):
    payloads = [{"customer": f"c{number % 3}"} for number in range(count)]
    return [
        each.replace("-", "")
        for each in post(hub, "/rooms/race/tasks/race:modifiers:Slots", {"payloads": payloads}).json()["ids"]
    ]


def lent(redis):
    return redis.zrange("hub:deadlines", 0, -1)


@pytest.mark.race
@pytest.mark.timeout(300)
async def test_no_slot_has_two_tasks_although_workers_and_a_hub_are_killed(
    hubs, start_hub, start_hand, redis, redis_server, tmp_path
):
    log, chance = tmp_path / "log", random.Random(3)
    hands = [start_hand() for _ in range(HANDS)]
    wait_until(lambda: sum(note["what"] == "registered" for note in whole_notes(log)) == HANDS, 120)
    tasks = submit(hubs[0], TASKS)

    def done():
        return redis.zcard("hub:room_tasks:completed:race")

    for number in range(KILLS):
        wait_until(lambda least=TASKS * (number + 1) / (KILLS + 2): done() > least, 90, lambda: _state(redis))
        one = hands.pop(chance.randrange(len(hands)))
        one.kill()
        hands.append(start_hand())
        if number in (2, 5):
            hubs[1].kill()
            start_hub(**{name: text for name, text in hubs[1].environment.items() if name.startswith("HUB_")})
    wait_until(lambda: done() == TASKS, 90, lambda: _state(redis))
    for one in hands:
        one.kill()
    wait_until(lambda: lent(redis) == [] and not redis.exists("hub:workers"), 90, lambda: _state(redis))
    notes = whole_notes(log)
    assert [note for note in notes if note["what"] in ("conflict", "refused")] == []
    assert Counter(note["slots"] for note in notes if note["what"] == "took").keys() == {2}
    ends = Counter(note["task"] for note in notes if note["what"] == "ended" and note["outcome"] == "ok")
    assert [task for task, times in ends.items() if times > 1] == []
    assert {redis.hget(f"hub:task:{task}", "status") for task in tasks} == {"completed"}
    assert redis.keys("hub:limit_taken:*") + redis.keys("hub:limit_held:*") + redis.keys("hub:limited:*") == []
    async with open_store(settings_for(redis_server.url)) as store:
        assert await examine(store) == []


def _state(redis):
    counts = {status: redis.zcard(f"hub:room_tasks:{status}:race") for status in ("pending", "running", "failed")}
    return f"{counts}, lent: {lent(redis)}, workers: {redis.zcard('hub:workers')}"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("hubs", ["120"], indirect=True)
async def test_a_hub_that_is_killed_with_a_claim_that_waits_keeps_no_slots(hubs, redis):
    """The slots come for that claim, or for the one at the other hub."""
    one, other = hubs
    workers = [post(hub, "/rooms/race/jobs", BODY, method="PUT").json()["worker_id"] for hub in (one, one, other)]
    first, second, third = submit(one, 3)
    said = {"limit": 1, "start": True}
    holds = [post(one, "/tasks/claim", {**said, "worker_id": workers[0], "limit": 5}).json()["tasks"]]
    assert [len(each) for each in holds] == [2]
    assert len(lent(redis)) == 4
    async with httpx.AsyncClient(headers=ADMIN, timeout=2 * PATIENCE_S) as client:

        def claims(hub, worker):
            body = {**said, "worker_id": worker, "waitSeconds": 25}
            return asyncio.create_task(client.post(f"{hub.url}/v1/joblib/tasks/claim", json=body))

        lost = claims(one, workers[1])
        await asyncio.to_thread(wait_until, lambda: redis.zcard("hub:bundles") == 1)
        waits = claims(other, workers[2])
        await asyncio.to_thread(wait_until, lambda: redis.zcard("hub:bundles") == 2)
        one.kill()
        with pytest.raises(httpx.HTTPError):
            await lost
        done = [{"id": task["id"], "status": "completed"} for task in holds[0]]
        answer = post(other, "/tasks/claim", {**said, "worker_id": workers[0], "results": done[:1]})
        assert answer.status_code == 200
        found = (await waits).json()["tasks"] + answer.json()["tasks"]
    assert [task["id"].replace("-", "") for task in found] == [third]
    assert len(found[0]["slots"]) == 2
    assert first
    assert second
    wait_until(lambda: redis.zcard("hub:bundles") == 0 and len(lent(redis)) == 4, 60, lambda: _state(redis))
