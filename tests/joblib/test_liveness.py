"""Silent workers, lost connections and unclaimed tasks, on a hub with short timeouts.

One fixture sets up all of it and waits once; each test then checks one part.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
import socketio

from tests.joblib.people import done, empty, fresh, problem
from tests.joblib.stage import GRACE_S, INTERVAL_S, LOOK_S, TIMEOUT_S
from tests.socket_client import SocketClient
from tests.world import PATIENCE_S, SLACK_S, eventually, wait_until


@pytest.fixture(scope="module")
def ann(quick):
    """A plain user at the hub with short timeouts."""
    return quick.person("alice-t")


def failed(person, *tasks):
    """Return whether all these tasks have failed for want of their worker."""
    found = [person.look(task) for task in tasks]
    return all((task["status"], task["error"]) == ("failed", "Worker disconnected") for task in found)


def kept(person, task):
    """Return whether a task is still in the hands of its worker."""
    return person.look(task)["status"] == "claimed"


# 9.4, 10: silence.


@dataclass
class Silence:
    """The ids of the objects from before the silence, and how long it took until the first worker was removed."""

    room: str = field(default_factory=fresh)
    workers: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    provider: str = ""
    took_s: float = 0.0
    claims: int = 0
    told: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@pytest.fixture(scope="module")
def silence(quick, ann):
    """Workers `silent`, `busy` (claims and moves but never beats), `alone` (has no job) and `beating`; each of the
    tasks `silent`, `beating` is held by the worker of that name, `orphan` and `running` have no worker."""
    boss, found = quick.person("root-t"), Silence()
    start = quick.clock_s()
    for name in ("silent", "beating", "busy"):
        found.workers[name] = ann.job(found.room, name)
    found.workers["alone"] = ann.worker()
    for name in ("silent", "beating"):
        found.tasks[name] = ann.submit(f"{found.room}:modifiers:{name}")
        assert ann.claim(found.workers[name])["id"] == found.tasks[name]
    for name, way in (("orphan", ["claimed"]), ("running", ["claimed", "running"])):
        found.tasks[name] = ann.submit(f"{found.room}:modifiers:beating")
        boss.run(found.tasks[name], *way)
    found.provider = ann.provider(found.room, worker_id=found.workers["silent"])["full_name"]
    listener = socketio.Client(reconnection=False)
    listener.on("*", lambda event, data: found.told.append((event, data)))
    listener.connect(quick.urls[0], auth={"token": "alice-t"}, transports=["websocket"], wait_timeout=PATIENCE_S)
    listener.call("room_join", {"room_id": found.room}, timeout=PATIENCE_S)

    def over():
        done(ann.beat(found.workers["beating"]), 200)
        if found.took_s == 0 and failed(ann, found.tasks["silent"]):
            found.took_s = quick.clock_s() - start
        ann.send(found.room, f"{found.room}:modifiers:busy")
        answer = ann.ask(found.workers["busy"])
        if answer.status_code == 200:
            found.claims += 1
            ann.move(answer.json()["task"]["id"], "running")
        listed = [item["id"] for item in ann.get("/workers?limit=500").json()["items"]]
        lost = [found.workers[name] for name in ("silent", "busy", "alone")]
        gone = found.took_s and not set(lost) & set(listed)
        return gone and failed(ann, found.tasks["orphan"], found.tasks["running"])

    wait_until(over)
    wait_until(lambda: {found.tasks[name] for name in ("silent", "orphan", "running")} <= ends(found).keys())
    listener.disconnect()
    return found


def ends(silence):
    """Return the failures that were told: task -> the worker in the event."""
    failures = [data for _, data in silence.told if data.get("status") == "failed"]
    assert len({data["id"] for data in failures}) == len(failures)  # each once
    return {data["id"]: data["worker_id"] for data in failures}


def test_a_silent_worker_is_removed_in_time_with_all_it_held(ann, silence):
    assert TIMEOUT_S - 0.1 <= silence.took_s < TIMEOUT_S + INTERVAL_S + 0.5 + SLACK_S
    problem(ann.beat(silence.workers["silent"]), 404, "worker-not-found")
    problem(ann.get(f"/rooms/{silence.room}/jobs/{silence.room}:modifiers:silent"), 404, "job-not-found")
    problem(ann.get(f"/rooms/{silence.room}/providers/{silence.provider}/info"), 404, "provider-not-found")
    assert ann.look(silence.tasks["silent"])["worker_id"] is None


def test_the_sweep_sends_events_of_what_it_did(silence):
    failures = ends(silence)
    assert failures[silence.tasks["silent"]] == silence.workers["silent"]
    assert (failures[silence.tasks["orphan"]], failures[silence.tasks["running"]]) == (None, None)
    names = [event for event, _ in silence.told]
    assert names.count("providers_invalidate") == 1
    assert 1 <= names.count("jobs_invalidate") <= 2  # of `silent` and `busy`; another may end in the same pass


def test_a_worker_that_beats_keeps_its_tasks_for_any_time(ann, silence):
    assert kept(ann, silence.tasks["beating"])
    job = done(ann.get(f"/rooms/{silence.room}/jobs/{silence.room}:modifiers:beating"), 200)
    assert job["workers"] == [silence.workers["beating"]]


def test_claims_and_moves_do_not_count_as_heartbeats(ann, silence):
    assert silence.claims > 1
    problem(ann.ask(silence.workers["busy"]), 404, "worker-not-found")


def test_a_silent_worker_without_a_job_is_removed_as_well(ann, silence):
    problem(ann.beat(silence.workers["alone"]), 404, "worker-not-found")


def test_claimed_tasks_without_a_worker_fail_after_the_timeout(ann, silence):
    for name in ("orphan", "running"):
        found = ann.look(silence.tasks[name])
        assert (found["status"], found["error"]) == ("failed", "Worker disconnected")
        assert found["completed_at"]


# 13.4: hanging up.


class Connections:
    """Connections of users to the hub, and workers that beat meanwhile."""

    def __init__(self, url, person):
        self._url, self._person = url, person
        self._clients = []
        self._workers = []

    async def connect(self, token="alice-t"):
        client = SocketClient(reconnection=False)
        self._clients.append(client)
        await client.connect(self._url, auth={"token": token}, transports=["websocket"])
        return client

    async def offering(self, *workers, full="x:y:z", token="alice-t"):
        """Return a connection that stands for these workers."""
        client = await self.connect(token)
        for worker in workers:
            await client.call("join_job_room", {"job_name": full, "worker_id": worker}, timeout=PATIENCE_S)
        return client

    def holding(self):
        """Return a worker that beats and holds a task: (worker, task)."""
        worker, task = self._person.claimed(f"{fresh()}:modifiers:Rotate")
        self._workers.append(worker)
        return worker, task

    async def beat(self):
        while True:
            for worker in self._workers:
                await asyncio.to_thread(self._person.beat, worker)
            await asyncio.sleep(0.3)

    async def close(self):
        for client in self._clients:
            await client.shutdown()


@pytest.fixture
async def connections(quick, ann):
    """Connections that are closed with the test; their workers beat until then."""
    found = Connections(quick.urls[0], ann)
    beating = asyncio.create_task(found.beat())
    yield found
    beating.cancel()
    await found.close()


async def test_a_worker_that_hangs_up_is_removed_after_the_grace_and_a_connected_one_is_kept(quick, ann, connections):
    gone, back, twice, foreign, leaver, removed = (connections.holding() for _ in range(6))
    several = [connections.holding() for _ in range(3)]
    hung_up = await connections.offering(gone[0], back[0], *(worker for worker, _ in several))
    first, second = await connections.offering(twice[0]), await connections.connect()
    provider = ann.provider(fresh(), worker_id=twice[0])["full_name"]
    await second.call("join_provider_room", {"provider_name": provider, "worker_id": twice[0]}, timeout=PATIENCE_S)
    for token in ("bob-t", "root-t"):
        await (await connections.offering(foreign[0], token=token)).disconnect()
    staying = await connections.offering(leaver[0], removed[0])
    for worker, _ in (leaver, removed):
        await staying.call("leave_job_room", {"job_name": "x:y:z", "worker_id": worker}, timeout=PATIENCE_S)
    empty(ann.leave(removed[0]))
    before = quick.clock_s()
    await hung_up.disconnect()
    start = quick.clock_s()
    await connections.offering(back[0])
    await first.disconnect()
    lost = [gone[1], *(task for _, task in several)]
    await eventually(lambda: failed(ann, *lost))
    over_at = quick.clock_s()
    assert over_at - before >= GRACE_S - 0.1
    assert over_at - start < GRACE_S + LOOK_S + 0.5 + SLACK_S
    problem(ann.beat(gone[0]), 404, "worker-not-found")
    await asyncio.sleep(LOOK_S + 0.5)
    assert kept(ann, back[1])  # came back with its old id
    assert kept(ann, twice[1])  # has a connection left
    assert kept(ann, foreign[1])  # was only claimed to be there, by others than its owner
    assert kept(ann, leaver[1])  # has left the rooms, and that is not hanging up
    await second.disconnect()
    await staying.disconnect()
    await eventually(lambda: failed(ann, twice[1], leaver[1]))
