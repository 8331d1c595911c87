"""The published client at work against two hubs: it is used as applications use it."""

from __future__ import annotations

import threading
import time
from functools import partial
from hashlib import sha256
from typing import ClassVar

import pytest
from zndraw_joblib import Category, Extension

from tests.joblib.people import done, empty, problem
from tests.joblib.published.host import Fail, Frames, Hold, Listing, Rotate
from tests.joblib.stage import LOOK_S, stage
from tests.world import PATIENCE_S, SLACK_S, wait_until


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


# Serving by itself.


@pytest.mark.parametrize("sockets", [False, True])
def test_a_manager_runs_every_submitted_task(hubs, alice, manage, ended, room, tmp_path, sockets):
    file = tmp_path / "said"
    manager = manage(hubs, sockets=sockets, serve=True)
    manager.register(Rotate, room=room, run_kwargs={"model": "m1"})
    submitter = manage(hubs, "bob-t")
    tasks = [submitter.submit(Rotate(angle=n / 2, file=str(file)), room, job_room=room) for n in range(10)]
    wait_until(lambda: ended(alice, "completed", *tasks))
    assert lines(file) == [f"{n / 2} m1" for n in range(10)]
    found = alice.look(tasks[0])
    assert (found["payload"], found["worker_id"]) == ({"angle": 0.0, "file": str(file)}, str(manager.worker_id))
    assert found["created_at"] < found["started_at"] < found["completed_at"]


def test_an_event_on_the_socket_wakes_a_manager_with_a_long_polling_interval(
    hubs, alice, manage, ended, room, tmp_path
):
    manager = manage(hubs, sockets=True, serve=True, polling_interval=60)
    manager.register(Rotate, room=room)
    bound = f"hub:sockets:{manager.worker_id.hex}"
    wait_until(lambda: hubs.server.client().scard(bound) == 1)  # it would hear of a task
    time.sleep(0.3)  # its first claim has found nothing
    for number in range(3):
        task = alice.submit(f"{room}:modifiers:Rotate", payload={"angle": number, "file": str(tmp_path / "said")})
        wait_until(lambda task=task: ended(alice, "completed", task))
    assert len(lines(tmp_path / "said")) == 3


def test_an_exception_of_an_extension_becomes_the_error_of_its_task(hubs, alice, manage, ended, room, tmp_path):
    manager = manage(hubs, serve=True)
    manager.register(Fail, room=room)
    manager.register(Rotate, room=room)
    failing = manager.submit(Fail(), room, job_room=room)
    after = manager.submit(Rotate(file=str(tmp_path / "said")), room, job_room=room)
    wait_until(lambda: ended(alice, "completed", after))
    found = alice.look(failing)
    assert (found["status"], found["error"]) == ("failed", "ü: no such atom")


def test_a_task_that_was_cancelled_while_it_ran_stays_cancelled_and_the_manager_goes_on(
    hubs, bob, manage, ended, room, tmp_path
):
    manager = manage(hubs, serve=True)
    manager.register(Hold, room=room)
    go = tmp_path / "go"
    task = bob.submit(f"{room}:selections:Hold", payload={"until": str(go)})
    wait_until(lambda: ended(bob, "running", task))
    done(bob.move(task, "cancelled"), 200)
    go.touch()
    after = bob.submit(f"{room}:selections:Hold", payload={"until": str(go)})
    wait_until(lambda: ended(bob, "completed", after))
    assert bob.look(task)["status"] == "cancelled"


def test_a_manager_sends_heartbeats_as_long_as_it_serves(hubs, alice, manage, room):
    manager = manage(hubs, heartbeat_interval=0.1)
    manager.register(Rotate, room=room)

    def beat():
        (found,) = [item for item in alice.get("/workers").json()["items"] if item["id"] == str(manager.worker_id)]
        return found["last_heartbeat"]

    first = beat()
    wait_until(lambda: beat() > first)


@pytest.mark.parametrize("sockets", [False, True])
def test_two_managers_share_the_tasks_and_run_none_twice(hubs, alice, manage, ended, room, tmp_path, sockets):
    done_by = {"one": [], "two": []}
    both = threading.Barrier(2)  # each manager waits in its first task for the other one

    def execute(task, ran):
        ran.append(task.task_id)
        if len(ran) == 1:
            both.wait(PATIENCE_S)

    for name, ran in done_by.items():
        token = "alice-t" if name == "one" else "bob-t"
        manage(hubs, token, sockets=sockets, execute=partial(execute, ran=ran)).register(Rotate, room=room)
    answer = done(alice.send(room, f"{room}:modifiers:Rotate", {"payloads": [{}] * 40}), 202)
    wait_until(lambda: ended(alice, "completed", *answer["ids"]))
    assert sorted(done_by["one"] + done_by["two"]) == sorted(answer["ids"])
    assert all(done_by.values()), done_by


def test_one_manager_can_serve_jobs_of_several_rooms(hubs, alice, root, manage, ended, room, tmp_path):
    manager = manage(hubs, "root-t", serve=True)
    manager.register(Rotate, room=room)
    manager.register(Rotate)
    manager.register(Rotate, room=room + "2")
    payload = {"file": str(tmp_path / "said")}
    fulls = [f"{where}:modifiers:Rotate" for where in (room, "@global", room + "2")]
    tasks = [alice.submit(full, room, payload) for full in fulls]
    wait_until(lambda: ended(alice, "completed", *tasks))
    assert {alice.look(task)["worker_id"] for task in tasks} == {str(manager.worker_id)}
    assert set(manager) == set(fulls)


# Manual.


def test_a_task_can_be_claimed_started_and_completed_by_hand(hubs, alice, manage, room):
    manager = manage(hubs)
    worker = manager.create_worker()

    @manager.register(room=room, run_kwargs={"model": 7})
    class Scale(Extension):
        category: ClassVar[Category] = Category.MODIFIER
        factor: float = 1.0
        names: list[str] | None = None

        def run(self, vis, **kwargs): ...

    full = f"{room}:modifiers:Scale"
    job = done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)
    assert (job["schema"], job["workers"]) == (Scale.model_json_schema(), [str(worker)])
    assert manager.claim() is None
    ids = [manager.submit(Scale(factor=n, names=["ü"]), room, job_room=room) for n in (1.5, 2, 3, 4)]
    claimed = [manager.claim() for _ in ids]
    assert [task.task_id for task in claimed] == ids
    assert [(task.job_name, task.room_id, task.run_kwargs) for task in claimed] == [(full, room, {"model": 7})] * 4
    assert [(task.extension.factor, task.extension.names) for task in claimed] == [(n, ["ü"]) for n in (1.5, 2, 3, 4)]
    for task in claimed[:3]:
        manager.start(task)
    manager.complete(claimed[0])
    manager.fail(claimed[1], "no")
    manager.cancel(claimed[2])
    manager.fail_by_id(claimed[3].task_id, "lost")
    found = [alice.look(task) for task in ids]
    assert [task["status"] for task in found] == ["completed", "failed", "cancelled", "failed"]
    assert [task["error"] for task in found] == [None, "no", None, "lost"]
    with pytest.raises(ValueError, match="invalid-task-transition"):
        manager.complete(claimed[0])
    manager.heartbeat()


def test_listen_yields_one_task_after_the_other(hubs, alice, manage, room):
    manager = manage(hubs)
    manager.register(Rotate, room=room)
    tasks = [alice.submit(f"{room}:modifiers:Rotate") for _ in range(3)]
    stop, heard = threading.Event(), []
    for task in manager.listen(polling_interval=0.05, stop_event=stop):
        heard.append(task.task_id)
        if len(heard) == 3:
            stop.set()
    assert heard == tasks


def test_the_worker_made_by_the_first_registration_serves_the_later_ones(hubs, alice, manage, room):
    manager = manage(hubs)
    manager.register(Rotate, room=room)
    worker = manager.worker_id
    manager.register(Fail, room=room)
    manager.register_provider(Listing, name="disk", handler={}, room=room)
    assert manager.worker_id == worker
    (found,) = [item for item in alice.get(f"/rooms/{room}/workers").json()["items"] if item["id"] == str(worker)]
    assert found["job_count"] == 2


def test_refusals_are_raised_as_the_matching_python_errors(hubs, alice, bob, manage, room):
    manager = manage(hubs)
    with pytest.raises(PermissionError):
        manager.register(Rotate)
    with pytest.raises(KeyError):
        manager.submit(Rotate(), room, job_room=room)
    alice.job(room, schema={"another": "schema"})
    with pytest.raises(ValueError, match="schema-conflict"):
        manager.register(Rotate, room=room)
    assert len(manager) == 0
    foreign = manage(hubs, "bob-t")
    foreign.create_worker()
    empty(bob.leave(str(foreign.worker_id)))
    for call in (foreign.heartbeat, foreign.claim):
        with pytest.raises(KeyError):
            call()


# Leaving.


@pytest.mark.parametrize("sockets", [False, True])
def test_disconnecting_removes_the_worker_with_its_jobs_and_providers(hubs, alice, manage, room, sockets):
    with manage(hubs, sockets=sockets, serve=True) as manager:
        manager.register(Rotate, room=room)
        manager.register_provider(Listing, name="disk", handler={}, room=room)
        worker = str(manager.worker_id)
        assert alice.beat(worker).status_code == 200
    problem(alice.beat(worker), 404, "worker-not-found")
    problem(alice.get(f"/rooms/{room}/jobs/{room}:modifiers:Rotate"), 404, "job-not-found")
    problem(alice.get(f"/rooms/{room}/providers/{room}:filesystem:disk/info"), 404, "provider-not-found")
    manager.disconnect()


def test_a_manager_whose_worker_is_removed_stops(hubs, alice, manage, room):
    manager = manage(hubs, serve=True, heartbeat_interval=0.1)
    manager.register(Rotate, room=room)
    waiting = threading.Thread(target=manager.wait)
    waiting.start()
    empty(alice.leave(str(manager.worker_id)))
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()


# Providers.


def test_a_provider_answers_reads(hubs, bob, manage, room):
    manager = manage(hubs, sockets=True)
    files = {"/": ["a", "b"], "/ü": ["日本"]}
    provider = manager.register_provider(Listing, name="disk", handler=files, room=room)
    full = f"{room}:filesystem:disk"
    assert bob.get(f"/rooms/{room}/providers/{full}/info").json()["id"] == str(provider)
    assert bob.get(f"/rooms/{room}/providers/{full}/info").json()["schema"] == Listing.model_json_schema()
    for query, path in (("", "/"), ("path=%2F%C3%BC", "/ü")):
        answer = bob.read(room, full, query, prefer="wait=8")
        assert done(answer, 200) == {"path": path, "names": files[path]}
        assert answer.headers["preference-applied"] == "wait=8"
        again = bob.read(room, full, query)
        assert again.content == answer.content
        assert "preference-applied" not in again.headers
    manager.unregister_provider(full)
    problem(bob.read(room, full), 404, "provider-not-found")
    assert manager.handlers == {}


def test_a_provider_may_answer_with_bytes(hubs, bob, manage, room):
    manager = manage(hubs, sockets=True)
    manager.register_provider(Frames, name="trajectory", handler=[b"\0\xff" * 50_000, b""], room=room)
    for index, body in enumerate([b"\0\xff" * 50_000, b""]):
        answer = bob.read(room, f"{room}:frames:trajectory", f"index={index}", prefer="wait=8")
        assert (answer.status_code, answer.content) == (200, body)
        assert answer.headers["content-type"] == "application/octet-stream"


def test_a_provider_that_raises_answers_nothing_and_goes_on(hubs, bob, manage, room):
    manager = manage(hubs, sockets=True)
    manager.register_provider(Listing, name="disk", handler={"/": []}, room=room)
    full = f"{room}:filesystem:disk"
    problem(bob.read(room, full, "path=/none", prefer="wait=1"), 504, "provider-timeout")
    assert done(bob.read(room, full, "path=/", prefer="wait=8"), 200)["names"] == []


def test_one_manager_can_serve_a_job_and_a_provider(hubs, alice, bob, manage, ended, room, tmp_path):
    manager = manage(hubs, sockets=True, serve=True, polling_interval=10)
    manager.register_provider(Listing, name="disk", handler={"/": [1]}, room=room)
    manager.register(Rotate, room=room)
    task = alice.submit(f"{room}:modifiers:Rotate", payload={"file": str(tmp_path / "said")})
    assert done(bob.read(room, f"{room}:filesystem:disk", prefer="wait=8"), 200)["names"] == [1]
    wait_until(lambda: ended(alice, "completed", task))


def test_callers_can_compute_the_name_of_a_result_themselves(alice, bob, room):
    from zndraw_joblib import request_hash

    made = alice.provider(room, "t", category="frames", content_type="application/octet-stream")
    digest = request_hash({"q": "ü", "a": "1"})
    assert digest == sha256(b'{"a":"1","q":"\\u00fc"}').hexdigest()
    problem(bob.read(room, f"{room}:frames:t", "q=%C3%BC&a=1", prefer="wait=0"), 504, "provider-timeout")
    empty(alice.upload(made["id"], digest, b"by hand"))
    assert bob.read(room, f"{room}:frames:t", "q=%C3%BC&a=1", prefer="wait=0").content == b"by hand"


# Killed.


@pytest.fixture
def graceful(http):
    """A hub that misses a worker by its connection much sooner than by its heartbeats."""
    with stage(http, 1, HUB_SIO_DISCONNECT_GRACE_SECONDS="1", HUB_WORKER_TIMEOUT_SECONDS="60") as found:
        yield found


def test_a_killed_worker_with_a_connection_is_removed_within_the_grace(graceful, serve, manage, ended, room, tmp_path):
    alice = graceful.person("alice-t")
    process = serve(graceful, room, sockets=True)
    full = f"{room}:selections:Hold"
    before = done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)
    task = alice.submit(full, payload={"until": str(tmp_path / "never")})
    wait_until(lambda: ended(alice, "running", task))
    process.kill()
    start = graceful.clock_s()
    wait_until(lambda: ended(alice, "failed", task))
    assert graceful.clock_s() - start < 1 + LOOK_S + 1 + SLACK_S
    assert alice.look(task)["error"] == "Worker disconnected"
    problem(alice.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")
    manage(graceful).register(Hold, room=room)
    after = done(alice.get(f"/rooms/{room}/jobs/{full}"), 200)
    assert (after["id"], after["schema"]) == (before["id"], before["schema"])
    assert after["workers"] != before["workers"]
