"""Forks: a child has connections and threads of its own, and ends nothing that its parent holds."""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.client import NodeAgent, SyncHubClient, SyncNodeAgent
from hub.client.jobs import Category, Extension, JobManager, SyncWorker
from hub.errors import HubUnavailable, LeaseLost
from hub.randoms import random_hex
from tests.world import HubProcess

CLIENT = Path(__file__).parents[2] / "hub/client"
ROUNDS = 30


class Rotate(Extension):
    """A job to register."""

    category = Category.MODIFIER
    angle: int = 0

    def run(self, **_: Any) -> None: ...


def fork(act: Callable[[], Any]) -> Callable[[], Any]:
    """Run `act` in a forked child, which ends as `sys.exit` does; the call of the result waits for what came of it."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of later Pythons: a fork beside threads may hang
        child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = {"value": act()}
        except BaseException:
            said = {"error": traceback.format_exc()}
        with os.fdopen(writing, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(writing)

    def ended() -> Any:
        with os.fdopen(reading) as pipe:
            said = json.load(pipe)
        os.waitpid(child, 0)
        assert "error" not in said, said["error"]
        return said["value"]

    return ended


@pytest.fixture
def hub(start_hub: Callable[..., HubProcess]) -> HubProcess:
    return start_hub()


@pytest.fixture
def token(hub: HubProcess) -> str:
    """A token of the jobs API."""
    answer = httpx.post(f"{hub.url}/admin/tokens", json={"user": "ann"}, headers={"x-hub-secret": hub.admin_secret})
    return str(answer.json()["token"])


@pytest.fixture
def client(hub: HubProcess) -> Iterator[SyncHubClient]:
    with SyncHubClient(hub.url, hub.runner_secret) as client:
        yield client


@pytest.fixture
def node(hub: HubProcess) -> Iterator[SyncNodeAgent]:
    pools = {f"gpu:p{n}": 2 for n in range(5)}
    with SyncNodeAgent("n1", url=hub.url, secret=hub.node_secret, pools=pools) as agent:
        yield agent


def borrow_often(client: SyncHubClient, label: str) -> list[str]:
    """The pools that served these borrows."""
    served = []
    for _ in range(ROUNDS):
        with client.borrow(label, ttl=60, wait=30) as slot:
            served.append(slot.pool)
    return sorted(set(served))


@pytest.mark.usefixtures("node")
def test_processes_that_share_a_client_get_their_own_answers(client: SyncHubClient) -> None:
    client.pools()  # a connection that children could share
    children = [fork(lambda label=f"gpu:p{n}": borrow_often(client, label)) for n in range(4)]
    assert borrow_often(client, "gpu:p4") == ["gpu:p4"]
    assert [ended() for ended in children] == [[f"gpu:p{n}"] for n in range(4)]
    assert client.leases()["total"] == 0


@pytest.mark.usefixtures("node")
def test_a_forked_child_that_leaves_its_parents_block_ends_no_lease(client: SyncHubClient) -> None:
    borrowing = client.borrow("gpu:p0", ttl=60)
    slot = borrowing.__enter__()
    assert fork(lambda: borrowing.__exit__(None, None, None))() is None
    assert client.verify(slot.id, slot.token)["valid"]
    borrowing.__exit__(None, None, None)
    assert client.leases()["total"] == 0


@pytest.mark.usefixtures("node")
def test_a_forked_child_cannot_return_the_slot_of_its_parent(client: SyncHubClient) -> None:
    slot = client.acquire("gpu:p0", ttl=60)

    def give_back() -> str:
        with pytest.raises(LeaseLost, match="forked from") as refused:
            client.give_back(slot)
        return str(refused.value)

    assert slot.id in fork(give_back)()
    assert client.verify(slot.id, slot.token)["valid"]
    assert client.give_back(slot) is True


@pytest.mark.usefixtures("node")
def test_a_fork_beside_busy_threads_leaves_no_lock_held_in_the_child(client: SyncHubClient) -> None:
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            with client.borrow("gpu:p1", ttl=60, wait=30):
                pass

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(busy) for _ in range(4)]
        children = [fork(lambda: borrow_often(client, "gpu:p0")) for _ in range(5)]
        assert [ended() for ended in children] == [["gpu:p0"]] * 5
        stop.set()
        assert [each.result() for each in running] == [None] * 4
    assert client.leases()["total"] == 0


def test_a_forked_child_is_not_the_node_of_its_parent(node: SyncNodeAgent, client: SyncHubClient) -> None:
    def publish() -> None:
        with pytest.raises(HubUnavailable, match="does not run"):
            node.publish([{"label": "gpu:x", "slotId": "x"}])
        node.stopped()
        node.__exit__(None, None, None)

    fork(publish)()
    assert client.node("n1")["nodeId"] == "n1"
    assert node.publish([{"label": "gpu:x", "slotId": "x"}])[0]["status"] == "published"


async def test_a_forked_child_that_leaves_the_block_of_a_node_does_not_end_the_node(hub: HubProcess) -> None:
    agent = NodeAgent("n2", url=hub.url, secret=hub.node_secret, pools={"gpu:a": 1})
    async with agent:

        def leave() -> None:
            leaving = agent.__aexit__(None, None, None)
            with pytest.raises(StopIteration):
                leaving.send(None)

        fork(leave)()
        assert await agent.publish([{"label": "gpu:b", "slotId": "b"}])


def test_a_forked_child_is_not_the_worker_of_its_parent_and_may_start_its_own(hub: HubProcess, token: str) -> None:
    with JobManager(hub.url, token) as manager:
        manager.register(Rotate, room="lab")
        worker = str(manager.worker_id)

        def register() -> list[str]:
            assert manager.worker_id is None
            manager.register(Rotate, room="lab")
            mine = str(manager.worker_id)
            task = manager.submit(Rotate(angle=1), "lab", job_room="lab")
            manager.disconnect()
            return [mine, task]

        mine, task = fork(register)()
        assert mine != worker
        claimed = manager.claim(wait=5)
        assert claimed is not None
        assert str(claimed.task_id) == task
        manager.fail(claimed, "seen")


def test_a_forked_child_that_disconnects_leaves_its_parents_worker_alone(hub: HubProcess, token: str) -> None:
    with JobManager(hub.url, token) as manager:
        manager.register(Rotate, room="lab")
        fork(manager.disconnect)()
        task = manager.submit(Rotate(angle=1), "lab", job_room="lab")
        claimed = manager.claim(wait=5)
        assert claimed is not None
        assert str(claimed.task_id) == task
        manager.fail(claimed, "seen")


def test_a_forked_child_that_exits_ends_no_process_of_its_parents_worker(hub: HubProcess, token: str) -> None:
    worker = SyncWorker(hub.url, token, processes=1, room="lab")
    worker.job("modifiers", "Pid")(pid_of_handler)
    with worker, JobManager(hub.url, token) as manager:
        before = result_of(manager)

        def exit_in_order() -> None:
            import atexit

            worker.__exit__(None, None, None)
            atexit._run_exitfuncs()

        fork(exit_in_order)()
        assert result_of(manager) == before


def pid_of_handler(payload: Any) -> dict[str, int]:
    """The process in which handlers run."""
    return {"pid": os.getpid()}


class Pid(Extension):
    """The job of that handler."""

    category = Category.MODIFIER

    def run(self, **_: Any) -> None: ...


def result_of(manager: JobManager) -> Any:
    task = manager.wait_for(manager.submit(Pid(), "lab", job_room="lab"), 60)
    assert task.status == "completed", task
    return task.result


def test_a_forked_child_draws_other_random_names_than_its_parent() -> None:
    random_hex(8)
    children = [fork(lambda: [random_hex(8) for _ in range(50)]) for _ in range(3)]
    drawn = [ended() for ended in children] + [[random_hex(8) for _ in range(50)]]
    assert len({name for names in drawn for name in names}) == 200


# Objects with a thread, a lock or connections, and why a fork does them no harm.
HARMLESS = {
    "SyncBorrowing": "its thread is not waited for by a child, which leaves the block at once",
    "Signals": "events alone; a child gets a new one with its manager",
    "Threads": "threads of handlers: a child of a worker runs none",
    "_Child": "a process of handlers, of which a child has none left",
    "Guard": "belongs to a task of an event loop",
    "ProgressReporter": "runs on the event loop of a worker, which is the parent's",
    "PodAnnotations": "opens its connections on the event loop of a node, which is the parent's",
}
OWNS = ("threading.Thread(", "threading.Lock(", "threading.RLock(", "threading.Condition(", "threading.Semaphore(")
CONNECTS = ("httpx.Client(", "httpx.AsyncClient(")


def test_every_class_with_threads_locks_or_connections_resets_itself_in_a_forked_child() -> None:
    missing = []
    for path in sorted(CLIENT.rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                source = ast.get_source_segment(text, node) or ""
                begins = "def begin_anew" in source
                if any(word in source for word in OWNS + CONNECTS) and not begins and node.name not in HARMLESS:
                    missing.append(f"{path.relative_to(CLIENT)}: {node.name}")
    assert missing == []


@pytest.mark.skipif(sys.platform != "linux", reason="names of open sockets are in /proc")
@pytest.mark.usefixtures("node")
def test_a_forked_child_opens_its_own_connection(client: SyncHubClient) -> None:
    client.pools()

    def sockets() -> list[str]:
        found = [
            os.readlink(f"/proc/self/fd/{each}")
            for each in os.listdir("/proc/self/fd")
            if Path(f"/proc/self/fd/{each}").exists()
        ]
        return sorted(name for name in found if name.startswith("socket:"))

    def in_child() -> list[list[str]]:
        before = sockets()
        client.pools()
        return [before, sockets()]

    before, after = fork(in_child)()
    assert set(after) - set(before)
