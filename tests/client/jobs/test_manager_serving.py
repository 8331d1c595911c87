"""How a manager serves tasks from its thread, what ends it, and how it leaves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hub.client.jobs import ClaimedTask
from hub.errors import HubUnavailable, SchemaConflict
from tests.client.fake_hub import Reset, Seen
from tests.client.jobs.extensions import JOB, Rotate
from tests.client.jobs.fake_jobs_hub import CLAIM, PREFIX, JobsHub, Make, refusal, unauthorized
from tests.world import wait_until

pytestmark = pytest.mark.usefixtures("quick")


def test_tasks_are_served_from_the_first_registration_on(hub: JobsHub, make: Make) -> None:
    done: list[Any] = []

    def execute(task: ClaimedTask[Any]) -> None:
        if task.extension.angle < 0:
            raise ValueError("not backwards: \udcff")
        if task.extension.angle > 360:
            raise SystemExit
        done.append(task.extension.angle)

    manager = make(execute=execute)
    manager.register(Rotate)
    ids = [hub.add_one(JOB, angle=angle) for angle in (90, -1, 999, 45)]
    wait_until(lambda: hub.statuses(ids) == {"completed", "failed"})
    assert done == [90, 45]
    assert [hub.tasks[task_id]["error"] for task_id in ids] == [None, "not backwards: \\udcff", "SystemExit()", None]
    told = [seen.body for task_id in ids for seen in hub.said(f"PATCH {PREFIX}/tasks/{task_id}")]
    assert [body.get("claim") for body in told] == ["1"] * 4, "each report names the claim it is about"
    assert manager.failure is None


def test_a_manager_starts_a_task_itself_when_the_hub_did_not(hub: JobsHub, make: Make) -> None:
    def plain(seen: Seen) -> Any:
        seen.body.pop("start")
        return {"task": hub.play(seen)["task"]}

    hub.say(CLAIM, *[plain] * 3)
    begun: list[str] = []
    manager = make(execute=lambda task: begun.append(hub.status(task.task_id)))
    manager.register(Rotate)
    task_id = hub.add_one(JOB)
    wait_until(lambda: hub.status(task_id) == "completed")
    assert begun == ["running"]


def test_a_task_cancelled_while_it_runs_does_not_stop_the_manager(hub: JobsHub, make: Make) -> None:
    manager = make(execute=lambda task: hub.tasks[task.task_id].update(status="cancelled"))
    manager.register(Rotate)
    ids = [hub.add_one(JOB), hub.add_one(JOB)]
    wait_until(lambda: hub.statuses(ids) == {"cancelled"})
    assert manager.failure is None


def test_a_result_is_kept_while_the_store_is_away(hub: JobsHub, make: Make) -> None:
    def execute(task: ClaimedTask[Any]) -> None:
        hub.say(f"PATCH {PREFIX}/tasks/{task.task_id}", *[(503, "store-unavailable")] * 3)

    manager = make(execute=execute)
    manager.register(Rotate)
    task_id = hub.add_one(JOB)
    wait_until(lambda: hub.status(task_id) == "completed")


@pytest.mark.parametrize("answer", [unauthorized, lambda _: refusal(403, "forbidden"), lambda _: refusal(404, "x")])
@pytest.mark.parametrize("on", ["claim", "report", "beat"])
def test_a_manager_ends_when_the_hub_answers_its_worker_with_401_403_or_404(
    hub: JobsHub, make: Make, on: str, answer: Callable[[Seen], Any]
) -> None:
    def execute(task: ClaimedTask[Any]) -> None:
        hub.say(f"PATCH {PREFIX}/tasks/{task.task_id}", answer)

    manager = make(execute=execute, heartbeat_interval=0.05)
    if on == "claim":
        hub.say(CLAIM, answer)
    manager.register(Rotate)
    if on == "report":
        hub.add_one(JOB)
    if on == "beat":
        hub.say(f"PATCH {PREFIX}/workers/{manager.worker_id}", answer)
    manager.wait()
    assert int(manager.failure.facts.get("status", 0)) in (401, 403, 404)  # type: ignore[union-attr]


@pytest.mark.parametrize("execute", [None, lambda task: None])
def test_a_manager_that_reaches_no_hub_for_too_long_ends(hub: JobsHub, make: Make, execute: Any) -> None:
    manager = make(execute=execute, heartbeat_interval=0.02, max_unreachable_seconds=0.1)
    manager.register(Rotate)
    hub.away = True
    manager.wait()
    hub.away = False
    assert isinstance(manager.failure, HubUnavailable)


def test_a_short_failure_does_not_end_a_manager(hub: JobsHub, make: Make) -> None:
    manager = make(execute=lambda task: None, heartbeat_interval=0.02)
    manager.register(Rotate)
    what = f"PATCH {PREFIX}/workers/{manager.worker_id}"
    hub.say(what, Reset(), (503, "store-unavailable"), (409, "strange"), (422, "odd"))
    hub.say(CLAIM, Reset(), (503, "store-unavailable"), (409, "strange"))
    task_id = hub.add_one(JOB)
    wait_until(lambda: hub.status(task_id) == "completed" and len(hub.said(what)) > 5)
    assert manager.failure is None


def test_a_long_task_does_not_delay_the_heartbeats(hub: JobsHub, make: Make) -> None:
    go = threading.Event()
    manager = make(execute=lambda task: go.wait(60), heartbeat_interval=0.02)
    manager.register(Rotate)
    task_id = hub.add_one(JOB)
    wait_until(lambda: hub.status(task_id) == "running")
    what = f"PATCH {PREFIX}/workers/{manager.worker_id}"
    seen = len(hub.said(what))
    wait_until(lambda: len(hub.said(what)) > seen + 3)
    go.set()


# -- leaving ---------------------------------------------------------------------------------------------------


def test_disconnecting_lets_the_task_end_and_deletes_the_worker(hub: JobsHub, make: Make) -> None:
    begun, go = threading.Event(), threading.Event()

    def execute(task: ClaimedTask[Any]) -> None:
        begun.set()
        go.wait(60)

    manager = make(execute=execute)
    manager.register(Rotate)
    first, second = hub.add_one(JOB), hub.add_one(JOB)
    begun.wait(10)
    leaving = [threading.Thread(target=manager.disconnect) for _ in range(3)]
    for thread in leaving:
        thread.start()
    go.set()
    for thread in leaving:
        thread.join(10)
    assert (hub.status(first), hub.status(second)) == ("completed", "pending")
    assert (hub.workers, manager.worker_id, len(manager)) == (set(), None, 0)
    assert len([seen for seen in hub.seen if seen.method == "DELETE"]) == 1
    manager.disconnect()
    with pytest.raises(RuntimeError, match="has ended"):
        manager.register(Rotate)


def test_a_task_that_is_claimed_while_the_manager_leaves_is_given_back(hub: JobsHub, make: Make) -> None:
    manager = make(execute=lambda task: None)

    def leave_first(seen: Seen) -> Any:
        manager._signals.end()
        return hub.play(seen)

    manager.register(Rotate)
    hub.say(CLAIM, leave_first)
    task_id = hub.add_one(JOB)
    wait_until(lambda: (task_id, "pending") in hub.reports)
    assert hub.status(task_id) == "pending"


def test_a_task_of_a_claim_without_an_answer_is_given_back_when_the_manager_leaves(hub: JobsHub, make: Make) -> None:
    manager = make(execute=lambda task: None)
    manager.register(Rotate)

    def lose(seen: Seen) -> Any:
        hub.play(seen)
        manager._signals.end()
        raise Reset

    hub.say(CLAIM, lose)
    task_id = hub.add_one(JOB)
    wait_until(lambda: hub.status(task_id) == "running")
    manager.disconnect()
    assert (hub.status(task_id), hub.workers) == ("pending", set())


def test_disconnecting_raises_nothing_when_no_hub_answers(
    hub: JobsHub, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.client.jobs.calls.LEAVE_S", 0.1)
    manager = make()
    manager.register(Rotate)
    hub.away = True
    manager.disconnect()
    assert manager.worker_id is None


def test_disconnecting_a_manager_that_never_registered_does_nothing(hub: JobsHub, make: Make) -> None:
    with make() as manager:
        pass
    manager.wait()
    assert hub.seen == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_wait_and_the_signal_handlers_are_restored(
    hub: JobsHub, make: Make, number: signal.Signals
) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    manager = make(execute=lambda task: None)
    manager.register(Rotate)

    def interrupt() -> None:
        wait_until(lambda: signal.getsignal(number) not in before)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    manager.wait()
    assert hub.workers == set()
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before
    assert manager.failure is None


def test_wait_may_be_called_in_another_thread(hub: JobsHub, make: Make) -> None:
    manager = make()
    waiting = threading.Thread(target=manager.wait)
    waiting.start()
    manager.disconnect()
    waiting.join(10)
    assert not waiting.is_alive()


# -- what seldom happens ------------------------------------------------------------------------------------------


def test_a_failing_token_function_is_a_transient_failure(hub: JobsHub, make: Make) -> None:
    broken = threading.Event()

    def token() -> str:
        if broken.is_set():
            raise OSError("no such file")
        return "t0ken"

    manager = make(token=token, execute=lambda task: None, heartbeat_interval=0.02)
    manager.register(Rotate)
    broken.set()
    with pytest.raises(HubUnavailable, match="there is no token: OSError"):
        manager.wait_for("some-task", 0.0)
    task_id = hub.add_one(JOB)
    broken.clear()
    wait_until(lambda: hub.status(task_id) == "completed")
    assert manager.failure is None


def test_a_manager_whose_serving_thread_breaks_ends_its_worker(
    hub: JobsHub, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = make(execute=lambda task: None)

    def broken(**_: Any) -> None:
        raise TypeError("a bug")

    monkeypatch.setattr(manager, "take", broken)
    manager.register(Rotate)
    manager.wait()
    assert "TypeError('a bug')" in str(manager.failure)


def test_a_second_signal_ends_the_wait_for_running_tasks(
    hub: JobsHub, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = threading.Event(), threading.Event()

    def execute(task: ClaimedTask[Any]) -> None:
        begun.set()
        go.wait(60)

    before = signal.getsignal(signal.SIGTERM)

    def interrupt() -> None:
        begun.wait(10)
        wait_until(lambda: signal.getsignal(signal.SIGTERM) != before)
        os.kill(os.getpid(), signal.SIGTERM)
        manager._signals.stop.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    manager = make(execute=execute)
    manager.register(Rotate)
    hub.add_one(JOB)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        manager.wait()
    go.set()


def test_a_task_that_still_runs_after_disconnecting_does_no_harm(
    hub: JobsHub, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.client.jobs.manager.JOIN_S", 0.05)
    go, begun = threading.Event(), threading.Event()

    def execute(task: ClaimedTask[Any]) -> None:
        begun.set()
        go.wait(60)

    manager = make(execute=execute)
    manager.register(Rotate)
    task_id = hub.add_one(JOB)
    begun.wait(10)
    manager.disconnect()
    assert (hub.workers, hub.status(task_id)) == (set(), "running")
    go.set()
    assert manager._serving is not None
    manager._serving.thread.join(10)
    assert not manager._serving.thread.is_alive()


def test_a_task_may_disconnect_the_manager_that_runs_it(hub: JobsHub, make: Make) -> None:
    manager = make(execute=lambda task: manager.disconnect())
    manager.register(Rotate)
    hub.add_one(JOB)
    manager.wait()
    wait_until(lambda: hub.workers == set())


def test_a_task_that_does_not_validate_stays_claimed_while_the_hub_is_in_trouble(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate)
    unfit = hub.add_one(JOB, angle="much")
    hub.say(f"PATCH {PREFIX}/tasks/{unfit}", *[(503, "store-unavailable")] * 50)
    assert manager.claim() is None
    assert hub.status(unfit) == "claimed"


def test_listen_rests_between_claims_and_is_woken_by_events(hub: JobsHub, make: Make) -> None:
    hub.holds = False
    manager = make()
    manager.register(Rotate)
    heard: list[str] = []
    listening = threading.Thread(target=lambda: heard.extend(t.task_id for t in manager.listen(polling_interval=600)))
    listening.start()
    wait_until(lambda: len(hub.said(CLAIM)) == 1)
    task_id = hub.add_one(JOB)
    manager._signals.wake.set()
    wait_until(lambda: hub.status(task_id) == "claimed")
    manager.disconnect()
    listening.join(10)
    assert (heard, listening.is_alive()) == ([task_id], False)


def test_a_heartbeat_may_be_sent_by_hand(hub: JobsHub, make: Make) -> None:
    manager = make()
    worker_id = manager.create_worker()
    manager.heartbeat()
    assert len(hub.said(f"PATCH {PREFIX}/workers/{worker_id}")) == 1


def test_a_refused_new_registration_keeps_the_old_one(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate, run_kwargs={"model": "large"})
    hub.say(f"PUT {PREFIX}/rooms/@global/jobs", lambda _: refusal(409, "schema-conflict"))
    with pytest.raises(SchemaConflict):
        manager.register(Rotate)
    assert manager.get_run_kwargs(JOB) == {"model": "large"}
