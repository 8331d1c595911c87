"""The manager with threads against a hub of a few dictionaries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest

from hub.client.jobs import JobManager
from hub.errors import (
    Forbidden,
    HubError,
    HubUnavailable,
    InvalidTaskTransition,
    JobNotFound,
    Malformed,
    SchemaConflict,
    StoreUnavailable,
    TaskNotFound,
    Unauthorized,
    WorkerNotFound,
)
from tests.client.fake_hub import Reset, Seen
from tests.client.jobs.extensions import JOB, Count, Rotate
from tests.client.jobs.fake_jobs_hub import CLAIM, PREFIX, WORKERS, JobsHub, Make, refusal, unauthorized

pytestmark = pytest.mark.usefixtures("quick")

REGISTER = f"PUT {PREFIX}/rooms/@global/jobs"


# -- registering ---------------------------------------------------------------------------------------------------


def test_register_works_as_a_call_as_a_decorator_and_as_one_with_arguments(hub: JobsHub, make: Make) -> None:
    manager = make()
    assert manager.register(Rotate) is Rotate

    @manager.register
    class Twist(Rotate):
        pass

    @manager.register(room="room-1", run_kwargs={"model": "large"})
    class Bend(Rotate):
        pass

    assert list(manager) == [JOB, "@global:modifiers:Twist", "room-1:modifiers:Bend"]
    assert (len(manager), JOB in manager, "x" in manager) == (3, True, False)
    assert manager["room-1:modifiers:Bend"] is Bend
    assert manager.get_run_kwargs("room-1:modifiers:Bend") == {"model": "large"}
    assert hub.jobs[JOB]["schema"] == Rotate.model_json_schema()
    assert isinstance(manager.worker_id, UUID)
    assert hub.workers == {str(manager.worker_id)}
    with pytest.raises(KeyError):
        manager["x"]


def test_a_category_may_be_a_plain_text(hub: JobsHub, make: Make) -> None:
    make().register(Count)
    assert list(hub.jobs) == ["@global:analysis:Count"]


def test_a_manager_with_a_worker_registers_its_jobs_for_that_worker(hub: JobsHub, make: Make) -> None:
    manager = make()
    worker_id = manager.create_worker()
    manager.register(Rotate)
    assert manager.worker_id == worker_id
    assert hub.workers == {str(worker_id)}


@pytest.mark.parametrize("trouble", [Reset(), (503, "store-unavailable"), (500, "internal"), (429, "slow-down")])
def test_a_transient_failure_at_the_start_is_retried(hub: JobsHub, make: Make, trouble: Any) -> None:
    hub.say(WORKERS, trouble)
    hub.say(REGISTER, trouble)
    manager = make()
    manager.create_worker()
    manager.register(Rotate)
    assert (len(hub.said(WORKERS)), len(hub.said(REGISTER))) == (2, 2)


def test_a_lasting_failure_at_the_start_is_raised_after_the_configured_tries(hub: JobsHub, make: Make) -> None:
    hub.say(REGISTER, *[(503, "store-unavailable")] * 10)
    manager = make(max_startup_retries=2)
    with pytest.raises(StoreUnavailable):
        manager.register(Rotate)
    assert len(hub.said(REGISTER)) == 2
    assert JOB not in manager


@pytest.mark.parametrize("content", [b"<html>", b"[1]", b"7"])
def test_an_accepted_registration_whose_answer_cannot_be_read_is_not_repeated(
    hub: JobsHub, make: Make, content: bytes
) -> None:
    hub.say(REGISTER, *[lambda _: httpx.Response(200, content=content)] * 10)
    with pytest.raises(HubError, match=r"not JSON|cannot be read"):
        make().register(Rotate)
    assert len(hub.said(REGISTER)) == 1


def malformed(_: Seen) -> httpx.Response:
    return httpx.Response(422, json={"detail": [{"type": "missing", "loc": ["body"], "msg": "required", "input": 1}]})


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (lambda _: refusal(409, "schema-conflict"), SchemaConflict),
        (lambda _: refusal(403, "forbidden"), Forbidden),
        (lambda _: refusal(404, "worker-not-found"), WorkerNotFound),
        (unauthorized, Unauthorized),
        (malformed, Malformed),
    ],
)
def test_a_refusal_of_the_hub_is_raised_at_once(
    hub: JobsHub, make: Make, answer: Callable[[Seen], Any], raised: type[Exception]
) -> None:
    hub.say(REGISTER, answer)
    manager = make()
    with pytest.raises(raised):
        manager.register(Rotate)
    assert (len(hub.said(REGISTER)), len(manager)) == (1, 0)


def test_a_validation_error_says_what_is_wrong_and_where(hub: JobsHub, make: Make) -> None:
    hub.say(REGISTER, malformed)
    with pytest.raises(Malformed, match="required") as told:
        make().register(Rotate)
    assert told.value.facts["errors"][0]["loc"] == ["body"]


def test_a_token_function_is_called_for_each_request(hub: JobsHub) -> None:
    tokens = iter(["first", "second", "third", "fourth"])
    with JobManager("http://hub", lambda: next(tokens), transport=hub.transport()) as manager:
        manager.create_worker()
        manager.register(Rotate)
    assert [seen.headers["authorization"] for seen in hub.seen[:2]] == ["Bearer first", "Bearer second"]


def test_a_client_that_was_passed_in_is_not_closed(hub: JobsHub) -> None:
    with httpx.Client(base_url="http://hub", transport=hub.transport()) as http:
        with JobManager(http, "t0ken") as manager:
            manager.register(Rotate)
        assert not http.is_closed


# -- tasks by hand ---------------------------------------------------------------------------------------------------


def test_a_task_is_claimed_started_and_completed(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate, run_kwargs={"model": "large"})
    assert manager.claim() is None
    task_id = hub.add_one(JOB, angle=90)
    task = manager.claim()
    assert task is not None
    assert (task.task_id, task.job_name, task.room_id) == (task_id, JOB, "r1")
    assert (task.extension, task.run_kwargs) == (Rotate(angle=90), {"model": "large"})
    assert hub.status(task_id) == "claimed"
    manager.start(task)
    assert hub.status(task_id) == "running"
    manager.complete(task)
    assert hub.status(task_id) == "completed"
    with pytest.raises(InvalidTaskTransition):
        manager.fail(task, "too late")


def test_a_task_is_failed_or_cancelled(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate)
    first, second, third = (hub.add_one(JOB) for _ in range(3))
    tasks = [manager.claim() for _ in range(3)]
    assert None not in tasks
    manager.fail(tasks[0], "not like this")
    manager.fail_by_id(second, "nor this")
    manager.cancel(tasks[2])
    assert [(hub.status(t), hub.tasks[t]["error"]) for t in (first, second, third)] == [
        ("failed", "not like this"), ("failed", "nor this"), ("cancelled", None),
    ]  # fmt: skip
    with pytest.raises(TaskNotFound):
        manager.fail_by_id("no-such-task", "?")


def test_a_claimed_task_that_cannot_be_run_is_failed_and_the_next_one_claimed(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate)
    unfit, foreign, good = hub.add_one(JOB, angle="much"), hub.add_one("@global:modifiers:Other"), hub.add_one(JOB)
    task = manager.claim()
    assert task is not None
    assert task.task_id == good
    assert hub.statuses([unfit, foreign]) == {"failed"}
    assert "does not fit" in hub.tasks[unfit]["error"]
    assert "not registered" in hub.tasks[foreign]["error"]


def test_after_a_lost_answer_the_next_claim_gets_the_same_task(
    hub: JobsHub, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.client.jobs.listening.TROUBLE_S", 0.0)
    manager = make()
    manager.register(Rotate)
    task_id = hub.add_one(JOB)

    def lose(seen: Seen) -> Any:
        hub.play(seen)
        raise Reset

    hub.say(CLAIM, lose)
    with pytest.raises(HubUnavailable):
        manager.claim()
    task = manager.claim()
    assert task is not None
    assert task.task_id == task_id
    assert len({seen.headers["idempotency-key"] for seen in hub.said(CLAIM)}) == 1


def test_claiming_and_beating_need_a_worker(make: Make) -> None:
    manager = make()
    with pytest.raises(ValueError, match="no worker yet"):
        manager.claim()
    with pytest.raises(ValueError, match="no worker yet"):
        manager.heartbeat()


def test_listen_yields_tasks_until_it_is_stopped(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate)
    hub.say(CLAIM, (503, "store-unavailable"), (500, "internal"))
    ids = [hub.add_one(JOB, angle=angle) for angle in (1, 2)]
    stop, heard = threading.Event(), []
    for task in manager.listen(polling_interval=0.02, stop_event=stop):
        heard.append(task.task_id)
        if len(heard) == 2:
            stop.set()
    assert heard == ids


def test_listen_ends_when_the_worker_is_gone(hub: JobsHub, make: Make) -> None:
    manager = make()
    manager.register(Rotate)
    hub.forget_workers()
    with pytest.raises(WorkerNotFound):
        list(manager.listen(polling_interval=0.02))
    assert isinstance(manager.failure, WorkerNotFound)


# -- submitting ---------------------------------------------------------------------------------------------------


def test_tasks_are_submitted_for_a_class_and_awaited(hub: JobsHub, make: Make) -> None:
    manager = make(execute=lambda task: None)
    manager.register(Rotate)
    manager.register(Rotate, room="room-1")
    task_id = manager.submit(Rotate(angle=90), "r1", priority=5)
    assert hub.said(f"POST {PREFIX}/rooms/r1/tasks/{JOB}")[0].body == {"payload": {"angle": 90.0}, "priority": 5}
    assert manager.wait_for(task_id, 30).ok
    ids = manager.submit_many([Rotate(angle=1), Rotate(angle=2)], "r1", job_room="room-1")
    assert [hub.tasks[each]["payload"]["angle"] for each in ids] == [1, 2]
    assert [hub.tasks[each]["job_name"] for each in ids] == ["room-1:modifiers:Rotate"] * 2
    assert manager.submit_many([], "r1") == []
    with pytest.raises(ValueError, match="one class"):
        manager.submit_many([Rotate(), Count()], "r1")
    with pytest.raises(JobNotFound):
        manager.submit(Count(), "r1")
