"""The published client while hub, Redis or its own process are restarted, are away, or are killed."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tests.joblib.people import done, problem
from tests.joblib.published.host import Hold, Listing, Rotate
from tests.joblib.stage import GRACE_S, INTERVAL_S, LOOK_S, TIMEOUT_S
from tests.world import PATIENCE_S, SLACK_S, wait_until


@pytest.fixture(scope="module")
def ann(fragile):
    return fragile.person("alice-t")


@pytest.fixture
def restart(fragile):
    """Restart what a test names."""

    def redis():
        with fragile.without_redis():
            pass

    def hub():
        fragile.restart_hub()

    def hub_long_after_a_crash():
        fragile.restart_hub(crash=True, away_s=TIMEOUT_S + INTERVAL_S + 0.2)

    return {f.__name__: f for f in (redis, hub, hub_long_after_a_crash)}


@pytest.mark.parametrize("what", ["hub", "hub_long_after_a_crash", "redis"])
def test_a_manager_goes_on_after_a_restart_of_redis(fragile, ann, manage, ended, restart, room, tmp_path, what):
    manager = manage(fragile, sockets=True, serve=True, polling_interval=1, max_unreachable_seconds=60)
    manager.register(Rotate, room=room)
    manager.register_provider(Listing, name="disk", handler={"/": [1]}, room=room)
    worker, full = manager.worker_id, f"{room}:modifiers:Rotate"
    waiting = ann.submit(full, payload={"file": str(tmp_path / "said")})
    wait_until(lambda: ended(ann, "completed", waiting))
    restart[what]()
    answered(lambda: ann.get("/workers"))
    tasks = [ann.submit(full, payload={"file": str(tmp_path / "said")}) for _ in range(3)]
    wait_until(lambda: ended(ann, "completed", *tasks))
    assert manager.worker_id == worker
    assert done(ann.get(f"/rooms/{room}/jobs/{full}"), 200)["workers"] == [str(worker)]
    wait_until(lambda: ann.read(room, f"{room}:filesystem:disk", "n=1", prefer="wait=1").status_code == 200)
    time.sleep(GRACE_S + LOOK_S + 0.5)  # beyond the grace of the connection that was cut
    assert ann.beat(str(worker)).status_code == 200


def answered(call):
    """Wait until the hub has found Redis again."""
    wait_until(lambda: call().status_code == 200)


def test_a_manager_survives_an_outage_of_redis_longer_than_its_timeout(fragile, ann, manage, ended, room, tmp_path):
    manager = manage(fragile, sockets=True, serve=True, max_unreachable_seconds=60)
    manager.register(Rotate, room=room)
    manager.register(Hold, room=room)
    held = ann.submit(f"{room}:selections:Hold", payload={"until": str(tmp_path / "go")})
    wait_until(lambda: ended(ann, "running", held))
    waiting = ann.submit(f"{room}:modifiers:Rotate", payload={"file": str(tmp_path / "said")})
    with fragile.without_redis():
        time.sleep(TIMEOUT_S + INTERVAL_S + 0.2)
    answered(lambda: ann.get("/workers"))
    assert ann.look(held)["status"] == "running"
    (tmp_path / "go").touch()
    wait_until(lambda: ended(ann, "completed", held, waiting))
    assert ann.beat(str(manager.worker_id)).status_code == 200


def test_a_manager_gives_up_when_redis_stays_away(fragile, ann, manage, room):
    manager = manage(fragile, serve=True, heartbeat_interval=0.2, max_unreachable_seconds=0.5)
    manager.register(Rotate, room=room)
    waiting = threading.Thread(target=manager.wait)
    waiting.start()
    with fragile.without_redis():
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()
    answered(lambda: ann.get("/workers"))


def test_a_manager_whose_store_was_emptied_stops(fragile, ann, manage, room):
    manager = manage(fragile, serve=True, heartbeat_interval=0.2)
    manager.register(Rotate, room=room)
    waiting = threading.Thread(target=manager.wait)
    waiting.start()
    fragile.server.client().flushdb()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    with pytest.raises(KeyError):  # it says its old id
        manager.register(Rotate, room=room)
    manage(fragile).register(Rotate, room=room)
    assert ann.submit(f"{room}:modifiers:Rotate")


def test_a_killed_worker_is_removed_within_its_timeout_and_one_sweep_interval(
    fragile, ann, serve, manage, ended, room, tmp_path
):
    process = serve(fragile, room)
    full = f"{room}:selections:Hold"
    before = done(ann.get(f"/rooms/{room}/jobs/{full}"), 200)
    task = ann.submit(full, payload={"until": str(tmp_path / "never")})
    wait_until(lambda: ended(ann, "running", task))
    process.kill()
    start = fragile.clock_s()
    wait_until(lambda: ended(ann, "failed", task))
    assert fragile.clock_s() - start < TIMEOUT_S + INTERVAL_S + 0.5 + SLACK_S
    assert ann.look(task)["error"] == "Worker disconnected"
    problem(ann.get(f"/rooms/{room}/jobs/{full}"), 404, "job-not-found")
    problem(ann.send(room, full), 404, "job-not-found")
    manage(fragile).register(Hold, room=room)
    assert done(ann.get(f"/rooms/{room}/jobs/{full}"), 200)["id"] == before["id"]
    assert [item["id"] for item in ann.listed(f"/rooms/{room}/jobs/{full}/tasks")] == [task]


@pytest.mark.parametrize("sockets", [False, True])
def test_a_worker_told_to_end_leaves_at_once(fragile, ann, serve, room, sockets):
    process = serve(fragile, room, sockets=sockets)
    (worker,) = done(ann.get(f"/rooms/{room}/jobs/{room}:modifiers:Rotate"), 200)["workers"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    problem(ann.beat(worker), 404, "worker-not-found")
    problem(ann.get(f"/rooms/{room}/jobs/{room}:modifiers:Rotate"), 404, "job-not-found")
