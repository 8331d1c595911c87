"""How the async worker ends: it leaves no task behind at the hub."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest

from hub.client.jobs import Task, Worker
from hub.client.jobs import reporter as desk_module
from hub.client.jobs import runner as places_module
from tests.client.fake_hub import Reset, Seen, eventually
from tests.client.jobs.fake_jobs_hub import CLAIM, JobsHub
from tests.world import PATIENCE_S, SLACK_S

JOB = "@global:modifiers:Rotate"


class Work:
    """A worker of one job, whose handlers wait until they are let go."""

    def __init__(self, hub: JobsHub, **options: Any) -> None:
        self.hub = hub
        self.go = asyncio.Event()
        self.begun: list[str] = []
        self.worker = Worker(
            "http://hub", "t0ken", transport=hub.async_transport(), sync_transport=hub.transport(),
            **{"polling_interval": 0.02, "grace": 5.0, **options},
        )  # fmt: skip
        self.worker.job("modifiers", "Rotate")(self.rotate)

    async def rotate(self, payload: dict[str, Any], task: Task) -> None:
        self.begun.append(task.id)
        await self.go.wait()

    async def begin(self, tasks: int) -> tuple[asyncio.Task[None], list[str]]:
        """Run the worker until it holds these tasks."""
        running = asyncio.create_task(self.worker.run())
        await eventually(lambda: self.worker.worker_id)
        ids = self.hub.add(JOB, *[{}] * tasks)
        await eventually(lambda: self.begun or not ids)
        return running, ids


async def test_a_stopping_worker_finishes_running_tasks_and_gives_back_waiting_ones(hub: JobsHub) -> None:
    work = Work(hub, concurrency=1, prefetch=2)
    running, ids = await work.begin(3)
    await eventually(lambda: hub.statuses(ids) == {"running"})
    work.worker.stop()
    await eventually(lambda: hub.statuses(ids[1:]) == {"pending"})
    assert not running.done()
    (late,) = hub.add(JOB, {})
    work.go.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert [hub.status(task_id) for task_id in [*ids, late]] == ["completed", "pending", "pending", "pending"]
    assert work.begun == ids[:1]
    assert work.worker.counts == {"claimed": 3, "completed": 1, "given back": 2}
    assert hub.workers == set()


async def test_a_task_that_does_not_end_within_the_grace_is_cancelled_and_given_back(hub: JobsHub) -> None:
    work = Work(hub, grace=0.05)
    running, ids = await work.begin(2)
    await eventually(lambda: hub.statuses(ids) == {"running"})
    work.worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
    assert hub.statuses(ids) == {"pending"}
    assert hub.workers == set()


async def test_a_stop_in_a_hurry_does_not_wait_for_the_grace(hub: JobsHub) -> None:
    work = Work(hub, grace=600)
    running, ids = await work.begin(1)
    work.worker.stop()
    work.worker.stop(hurry=True)
    await asyncio.wait_for(running, PATIENCE_S)
    assert hub.statuses(ids) == {"pending"}


async def test_a_function_that_hangs_in_its_thread_is_given_back_and_logged(
    hub: JobsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places_module, "READY_S", 0.1)
    work = Work(hub, grace=0.05)
    go, lost = threading.Event(), []

    @work.worker.job("modifiers", "Hangs")
    def hangs(payload: dict[str, Any], task: Task) -> None:
        go.wait(30)
        lost.append(task.lost)

    running, _ = await work.begin(0)
    (task,) = hub.add("@global:modifiers:Hangs", {})
    await eventually(lambda: hub.status(task) == "running")
    work.worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
    assert hub.status(task) == "pending"
    go.set()
    await eventually(lambda: lost == [True])


async def test_a_handler_that_swallows_its_cancellation_does_not_delay_the_end(
    hub: JobsHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places_module, "READY_S", 0.1)
    work = Work(hub, grace=0.0)

    @work.worker.job("modifiers", "Stubborn")
    async def stubborn(payload: dict[str, Any], task: Task) -> None:
        while not work.go.is_set():
            try:
                await work.go.wait()
            except asyncio.CancelledError:
                continue

    running, _ = await work.begin(0)
    (task,) = hub.add("@global:modifiers:Stubborn", {})
    await eventually(lambda: hub.status(task) == "running")
    work.worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
    assert hub.status(task) == "pending"
    work.go.set()
    await asyncio.sleep(0)


async def test_the_task_of_a_claim_answered_too_late_is_given_back(hub: JobsHub) -> None:
    """The hub has handed out a task; the worker was told to stop before it heard of it."""
    work = Work(hub)
    running, _ = await work.begin(0)
    claimed: list[str] = []

    def hand_out_and_break(seen: Seen) -> Any:
        claimed.extend(task["id"] for task in hub.play(seen)["tasks"])
        work.worker.stop()
        raise Reset

    hub.say(CLAIM, hand_out_and_break)
    ids = hub.add(JOB, {}, {})
    await asyncio.wait_for(running, PATIENCE_S)
    assert claimed == ids
    assert work.begun == []
    assert hub.statuses(ids) == {"pending"}
    assert hub.workers == set()


async def test_a_leaving_worker_reports_its_results_to_a_hub_that_comes_back(hub: JobsHub) -> None:
    work = Work(hub)
    running, ids = await work.begin(2)
    await eventually(lambda: hub.statuses(ids) == {"running"})
    hub.say(CLAIM, *[(503, "store-unavailable")] * 3)
    work.worker.stop()
    work.go.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert hub.statuses(ids) == {"completed"}


async def test_a_hub_that_stays_away_does_not_delay_the_end(hub: JobsHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "LEAVE_S", 0.1)
    monkeypatch.setattr("hub.client.jobs.worker.CLOSE_S", 0.1)
    work = Work(hub)
    running, ids = await work.begin(1)
    hub.away = True
    work.go.set()
    work.worker.stop()
    await asyncio.wait_for(running, PATIENCE_S)
    assert work.worker.counts["completed"] == 1
    assert hub.statuses(ids) == {"running"}


async def test_a_worker_removed_while_it_leaves_does_not_register_again(hub: JobsHub) -> None:
    work = Work(hub)
    running, _ = await work.begin(1)
    work.worker.stop()
    await asyncio.sleep(0)
    hub.forget_workers()
    work.go.set()
    await asyncio.wait_for(running, PATIENCE_S)
    assert hub.workers == set()
    assert work.worker.counts["lost"] == 1


async def test_cancelling_run_ends_the_worker_in_order(hub: JobsHub) -> None:
    work = Work(hub, grace=0.05)
    running, ids = await work.begin(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert hub.statuses(ids) == {"pending"}
    assert hub.workers == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_worker_and_a_second_one_does_so_at_once(hub: JobsHub, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    work = Work(hub, grace=600)
    running, ids = await work.begin(1)
    os.kill(os.getpid(), number)
    await eventually(lambda: work.worker._stop.is_set())
    assert not running.done()
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, PATIENCE_S)
    assert hub.statuses(ids) == {"pending"}
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_at_once_a_worker_that_waits_for_a_hub(
    hub: JobsHub, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Also one that another thread gets, which interrupts nothing that the event loop does."""
    hub.away = True
    monkeypatch.setattr("hub.client.jobs.worker.LONGEST_PAUSE_S", 2 * PATIENCE_S)
    monkeypatch.setattr("hub.client.jobs.worker.pause_s", lambda _: 2 * PATIENCE_S)
    running = asyncio.create_task(Work(hub).worker.run())
    threading.Timer(0.5, signal.raise_signal, [number]).start()
    await asyncio.wait_for(running, PATIENCE_S)


async def test_a_worker_can_run_only_once(hub: JobsHub) -> None:
    work = Work(hub)
    running, _ = await work.begin(0)
    work.worker.stop()
    await running
    with pytest.raises(RuntimeError, match="runs once"):
        await work.worker.run()
    with pytest.raises(RuntimeError, match="before the worker runs"):
        work.worker.job("modifiers", "Late")(work.rotate)


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"prefetch": -1}])
def test_a_worker_without_places_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Worker("http://hub", "t", **options)


@pytest.mark.parametrize("rounds", range(6))
async def test_events_that_arrive_at_the_moment_of_the_end_do_not_keep_the_worker_running(
    hub: JobsHub, rounds: int
) -> None:
    hub.holds = False
    work = Work(hub, polling_interval=600)
    running, _ = await work.begin(0)
    await eventually(lambda: len(hub.said(CLAIM)) > 5)  # it rests for longer and longer
    work.worker.stop()
    for _ in range(rounds):
        await asyncio.sleep(0)
    work.worker._reporter.woken.set()
    await asyncio.wait([running], timeout=SLACK_S)
    assert running.done()
    assert hub.workers == set()
