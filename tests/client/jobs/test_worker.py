"""The async worker against a hub of a few dictionaries."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from hub.client.jobs import Task, Worker
from hub.client.jobs import reporter as desk_module
from hub.errors import HubError, SchemaConflict, Unauthorized
from tests.client.fake_hub import Reset, eventually
from tests.client.jobs.fake_jobs_hub import CLAIM, PREFIX, WORKERS, JobsHub, refusal, unauthorized
from tests.world import PATIENCE_S

JOB = "@global:modifiers:Rotate"


class Rotate(BaseModel):
    angle: float


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def worker_of(hub: JobsHub, **options: Any) -> Worker:
    return Worker(
        "http://hub", "t0ken", transport=hub.async_transport(), sync_transport=hub.transport(),
        **{"polling_interval": 0.02, "grace": 5.0, **options},
    )  # fmt: skip


async def test_tasks_are_claimed_run_and_reported(hub: JobsHub) -> None:
    worker = worker_of(hub)
    seen: list[tuple[float, str, str]] = []

    @worker.job("modifiers", schema=Rotate)
    async def rotate(payload: Rotate, task: Task) -> None:
        seen.append((payload.angle, task.room_id, task.job_name))

    name = "@global:modifiers:rotate"
    async with worker:
        assert hub.jobs[name]["schema"] == Rotate.model_json_schema()
        ids = hub.add(name, {"angle": 90}, {"angle": 45}, {"angle": "much"})
        await eventually(lambda: hub.statuses(ids) == {"completed", "failed"})
        assert worker.counts == {"claimed": 3, "completed": 2, "failed": 1}
    assert sorted(seen) == [(45.0, "r1", name), (90.0, "r1", name)]
    assert "angle" in hub.tasks[ids[2]]["error"]
    assert hub.workers == set()
    assert {seen.headers["authorization"] for seen in hub.seen} == {"Bearer t0ken"}


async def test_plain_functions_run_concurrently_with_each_other_and_the_event_loop(hub: JobsHub) -> None:
    worker = worker_of(hub, concurrency=3)
    together = threading.Barrier(3)

    @worker.job("modifiers", "Rotate")
    def rotate(payload: dict[str, Any], task: Task) -> None:
        together.wait(10)

    async with worker:
        ids = hub.add(JOB, {}, {}, {})
        await eventually(lambda: hub.statuses(ids) == {"completed"})


async def test_the_exception_of_a_handler_becomes_the_error_of_its_task(hub: JobsHub) -> None:
    worker = worker_of(hub)

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        raise {
            "value": ValueError("not like this"), "bare": KeyError(), "exit": asyncio.CancelledError(),
            "bytes": ValueError("no such file: \udcff"), "mute": Mute(), "leave": SystemExit(3),
        }[payload["how"]]  # fmt: skip

    @worker.job("modifiers", "Leave")
    def leave(payload: dict[str, Any], task: Task) -> None:
        raise SystemExit(3)

    async with worker:
        ids = [
            *hub.add(JOB, *({"how": how} for how in ("value", "bare", "exit", "bytes", "mute", "leave"))),
            *hub.add("@global:modifiers:Leave", {}),
        ]
        await eventually(lambda: hub.statuses(ids) == {"failed"})
    errors = [hub.tasks[task_id]["error"] for task_id in ids]
    assert errors == [
        "not like this", "KeyError()", "the handler was cancelled", "no such file: \\udcff", "<exception str() failed>",
        "ended by SystemExit(3)", "ended by SystemExit(3)",
    ]  # fmt: skip


async def test_a_task_that_takes_too_long_fails(hub: JobsHub) -> None:
    worker = worker_of(hub)
    let_go, noticed = threading.Event(), []

    @worker.job("modifiers", "Rotate", max_runtime=0.05)
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        await asyncio.sleep(60)

    @worker.job("modifiers", "Blocks", max_runtime=0.05)
    def blocks(payload: dict[str, Any], task: Task) -> None:
        let_go.wait(20)
        noticed.append(task.lost)

    async with worker:
        ids = [*hub.add(JOB, {}), *hub.add("@global:modifiers:Blocks", {})]
        await eventually(lambda: hub.statuses(ids) == {"failed"})
        let_go.set()
        await eventually(lambda: noticed == [True])
    assert [hub.tasks[task_id]["error"] for task_id in ids] == ["Runtime exceeded"] * 2
    assert hub.said(CLAIM)[0].body["maxRuntimeSeconds"] == pytest.approx(5.05)


async def test_a_timeout_raised_by_the_handler_is_not_reported_as_runtime_exceeded(hub: JobsHub) -> None:
    worker = worker_of(hub)

    @worker.job("modifiers", "Rotate", max_runtime=60)
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        raise TimeoutError("the database did not answer")

    async with worker:
        (task,) = hub.add(JOB, {})
        await eventually(lambda: hub.status(task) == "failed")
    assert hub.tasks[task]["error"] == "the database did not answer"


async def test_a_claim_whose_answer_is_lost_loses_no_task_and_runs_none_twice(hub: JobsHub) -> None:
    worker = worker_of(hub)
    runs: list[str] = []

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        runs.append(task.id)

    def lose(seen: Any) -> Any:
        hub.play(seen)
        raise Reset

    hub.say(CLAIM, lose, lose)
    ids = []
    hub.jobs[JOB] = {}
    ids += hub.add(JOB, {}, {}, {})
    async with worker:
        await eventually(lambda: hub.statuses(ids) == {"completed"})
    assert sorted(runs) == sorted(ids)
    assert worker.counts == {"claimed": 3, "completed": 3}


async def test_results_are_kept_while_the_store_is_away(hub: JobsHub) -> None:
    worker = worker_of(hub)
    go = asyncio.Event()

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        await go.wait()

    async with worker:
        ids = hub.add(JOB, {}, {})
        await eventually(lambda: hub.statuses(ids) == {"running"})
        hub.say(CLAIM, *[(503, "store-unavailable")] * 4)
        go.set()
        await eventually(lambda: hub.statuses(ids) == {"completed"})
        assert worker.counts == {"claimed": 2, "completed": 2}


async def test_a_worker_waits_for_a_hub_that_is_away_at_the_start(hub: JobsHub) -> None:
    hub.say(WORKERS, Reset(), (503, "store-unavailable"))
    hub.say(f"PUT {PREFIX}/rooms/@global/jobs", Reset())
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    async with worker:
        (task,) = hub.add(JOB, {})
        await eventually(lambda: hub.status(task) == "completed")
    assert hub.workers == set()


async def test_a_worker_stopped_while_it_looks_for_a_hub_stops(hub: JobsHub) -> None:
    hub.say(WORKERS, *[Reset()] * 1000)
    worker = worker_of(hub)
    running = asyncio.create_task(worker.run())
    await eventually(lambda: len(hub.said(WORKERS)) > 1)
    worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
    assert worker.worker_id is None


@pytest.mark.parametrize("what", [WORKERS, f"PUT {PREFIX}/rooms/@global/jobs"])
async def test_a_refusal_at_the_start_is_raised_at_once(hub: JobsHub, what: str) -> None:
    hub.say(what, unauthorized)
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    with pytest.raises(Unauthorized):
        await worker.run()
    assert len(hub.said(what)) == 1
    assert hub.workers == set()


async def test_a_refused_token_ends_the_worker(hub: JobsHub) -> None:
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    hub.say(CLAIM, unauthorized)
    with pytest.raises(Unauthorized):
        await asyncio.wait_for(worker.run(), PATIENCE_S)


async def test_a_proxy_that_answers_without_hubs_behind_it_does_not_end_the_worker(hub: JobsHub) -> None:
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    hub.say(CLAIM, lambda _: httpx.Response(404, text="no such route"), (502, "bad-gateway"))
    async with worker:
        (task,) = hub.add(JOB, {})
        await eventually(lambda: hub.status(task) == "completed")


async def test_a_worker_that_the_hub_has_removed_registers_again(hub: JobsHub) -> None:
    worker = worker_of(hub)
    stopped: list[bool] = []

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        try:
            await asyncio.sleep(60 if payload.get("long") else 0)
        except asyncio.CancelledError:
            stopped.append(task.lost)
            raise

    async with worker:
        first = worker.worker_id
        (old,) = hub.add(JOB, {"long": True})
        await eventually(lambda: hub.status(old) == "running")
        hub.forget_workers()
        (new,) = hub.add(JOB, {})
        await eventually(lambda: hub.status(new) == "completed")
        assert worker.worker_id != first
        assert stopped == [True]
        assert worker.counts == {"claimed": 2, "completed": 1, "lost": 1}
    assert hub.status(old) == "failed"
    assert (old, "completed") not in hub.reports


async def test_a_heartbeat_is_enough_to_notice_that_the_worker_was_removed(hub: JobsHub) -> None:
    worker = worker_of(hub, heartbeat_interval=0.05)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    async with worker:
        first = worker.worker_id
        await eventually(lambda: len(hub.said(f"PATCH {PREFIX}/workers/{first}")) > 1)
        hub.say(f"PATCH {PREFIX}/workers/{first}", lambda _: refusal(404, "worker-not-found"))
        await eventually(lambda: worker.worker_id not in (None, first))
        (task,) = hub.add(JOB, {})
        await eventually(lambda: hub.status(task) == "completed")


async def test_a_heartbeat_answered_after_the_worker_registered_again_loses_no_task(hub: JobsHub) -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        answered = hub.answer(request)
        await asyncio.sleep(0.05)
        return answered

    worker = Worker(
        "http://hub", "t0ken", transport=httpx.MockTransport(answer), sync_transport=hub.transport(),
        heartbeat_interval=0.3, polling_interval=0.02,
    )  # fmt: skip
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    async with worker:
        beats = f"PATCH {PREFIX}/workers/{worker.worker_id}"
        await eventually(lambda: hub.said(beats))
        hub.say(WORKERS, *[(503, "store-unavailable")] * 3)  # the next beat comes before there is another worker
        hub.forget_workers()
        ids = hub.add(JOB, *[{}] * 5)
        await eventually(lambda: len(hub.said(beats)) > 1 and hub.statuses(ids) == {"completed"})


async def test_a_worker_beats_while_a_handler_blocks_the_event_loop(hub: JobsHub) -> None:
    worker = worker_of(hub, heartbeat_interval=0.02)
    beats = 0

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        nonlocal beats
        what = f"PATCH {PREFIX}/workers/{worker.worker_id}"
        before, waiting = len(hub.said(what)), threading.Event()
        while not waiting.wait(0.01) and beats < 5:
            beats = len(hub.said(what)) - before

    async with worker:
        (task,) = hub.add(JOB, {})
        await eventually(lambda: hub.status(task) == "completed")
    assert beats >= 5


async def test_refused_reports_are_counted_and_stop_nothing(hub: JobsHub) -> None:
    worker = worker_of(hub)
    go = asyncio.Event()

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        await go.wait()

    async with worker:
        ids = hub.add(JOB, {}, {}, {})
        await eventually(lambda: hub.statuses(ids) == {"running"})
        hub.tasks[ids[0]]["status"] = "cancelled"
        del hub.tasks[ids[1]]
        go.set()
        await eventually(lambda: hub.status(ids[2]) == "completed" and worker.counts["refused"] == 2)
    assert hub.status(ids[0]) == "cancelled"


async def test_a_worker_ends_at_a_hub_that_does_not_take_reports_with_a_claim(hub: JobsHub) -> None:
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)

    def plain(seen: Any) -> Any:
        return {"task": hub.play(seen)["task"]}

    hub.say(CLAIM, *[plain] * 50)
    hub.holds = False
    hub.jobs[JOB] = {}
    hub.add(JOB, {})
    with pytest.raises(HubError, match="does not take reports with a claim"):
        await asyncio.wait_for(worker.run(), PATIENCE_S)


async def test_a_worker_pauses_between_claims_at_a_hub_that_does_not_hold_them(
    hub: JobsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def note(seconds: float, _: asyncio.Event) -> bool:
        pauses.append(seconds)
        await asyncio.sleep(0)
        return False

    monkeypatch.setattr(desk_module, "is_set_within", note)
    hub.holds = False
    worker = worker_of(hub, polling_interval=30.0)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    async with worker:
        await eventually(lambda: 30.0 in pauses)
        assert sorted(set(pauses)) == [*(0.05 * 2.0**early for early in range(2, 10)), 30.0]
        (task,) = hub.add(JOB, {})
        await eventually(lambda: hub.status(task) == "completed")
    assert desk_module.LONGEST_WAIT_S > 10


async def test_a_refused_heartbeat_ends_the_worker(hub: JobsHub) -> None:
    worker = worker_of(hub, heartbeat_interval=0.02)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    running = asyncio.create_task(worker.run())
    await eventually(lambda: worker.worker_id)
    hub.say(f"PATCH {PREFIX}/workers/{worker.worker_id}", unauthorized)
    with pytest.raises(Unauthorized):
        await asyncio.wait_for(running, PATIENCE_S)


async def test_a_worker_removed_before_its_jobs_are_registered_begins_again(hub: JobsHub) -> None:
    hub.say(f"PUT {PREFIX}/rooms/@global/jobs", lambda _: refusal(404, "worker-not-found"))
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    async with worker:
        assert len(hub.said(WORKERS)) == 2


async def test_a_job_refused_when_the_worker_registers_again_ends_the_worker(hub: JobsHub) -> None:
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    running = asyncio.create_task(worker.run())
    await eventually(lambda: worker.worker_id)
    hub.say(f"PUT {PREFIX}/rooms/@global/jobs", lambda _: refusal(409, "schema-conflict"))
    hub.forget_workers()
    with pytest.raises(SchemaConflict):
        await asyncio.wait_for(running, PATIENCE_S)


async def test_a_worker_can_run_in_any_thread(hub: JobsHub) -> None:
    worker = worker_of(hub)
    worker.job("modifiers", "Rotate")(lambda payload, task: None)
    thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
    thread.start()
    await eventually(lambda: worker.worker_id)
    (task,) = hub.add(JOB, {})
    await eventually(lambda: hub.status(task) == "completed")
    worker.stop()
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
    worker.stop()


async def test_reports_sent_while_the_worker_is_removed_are_counted_as_lost(hub: JobsHub) -> None:
    worker = worker_of(hub)
    go = asyncio.Event()

    @worker.job("modifiers", "Rotate")
    async def rotate(payload: dict[str, Any], task: Task) -> None:
        await go.wait()

    async with worker:
        first = worker.worker_id
        ids = hub.add(JOB, {}, {})
        await eventually(lambda: hub.statuses(ids) == {"running"})
        hub.say(CLAIM, *[(503, "store-unavailable")] * 3)
        go.set()
        await eventually(lambda: len([seen for seen in hub.said(CLAIM) if seen.body.get("results")]) == 1)
        hub.forget_workers()
        await eventually(lambda: worker.worker_id not in (None, first))
        assert worker.counts == {"claimed": 2, "completed": 2, "lost": 2}


async def test_an_awaitable_returned_by_a_plain_function_is_awaited(hub: JobsHub) -> None:
    worker = worker_of(hub)
    done: list[str] = []

    async def later(task: Task) -> None:
        done.append(task.id)

    worker.job("modifiers", "Rotate")(lambda payload, task: later(task))

    class Callable:
        async def __call__(self, payload: Any, task: Task) -> None:
            done.append(task.id)

    worker.job("modifiers", "Object")(Callable())
    async with worker:
        ids = [*hub.add(JOB, {}), *hub.add("@global:modifiers:Object", {})]
        await eventually(lambda: hub.statuses(ids) == {"completed"})
    assert sorted(done) == sorted(ids)
