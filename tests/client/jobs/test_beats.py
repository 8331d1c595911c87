"""Heartbeats name the tasks that a worker holds; the worker stops tasks that it has lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from hub.client.jobs import Task, Worker
from hub.errors import Superseded
from tests.client.fake_hub import Seen, eventually
from tests.client.jobs.extensions import JOB, Rotate
from tests.client.jobs.fake_jobs_hub import PREFIX, JobsHub, Make
from tests.world import wait_until

NAME = "@global:modifiers:Rotate"


def beats_of(hub: JobsHub, worker_id: str) -> list[Any]:
    return [seen.body for seen in hub.said(f"PATCH {PREFIX}/workers/{worker_id}")]


def named(body: Any) -> dict[str, str]:
    return {task["id"]: task["claim"] for task in (body or {}).get("tasks", ())}


async def test_a_worker_names_its_tasks_in_its_heartbeats_and_stops_those_it_has_lost(hub: JobsHub) -> None:
    worker = Worker(
        "http://hub", "t0ken", transport=hub.async_transport(), sync_transport=hub.transport(), concurrency=2,
        polling_interval=0.02, heartbeat_interval=0.02,
    )  # fmt: skip
    ended: dict[str, str] = {}
    going = asyncio.Event()

    @worker.job("modifiers", "Rotate")
    async def rotate(_: dict[str, Any], task: Task) -> None:
        try:
            await going.wait()
        except asyncio.CancelledError:
            ended[task.id] = "lost" if task.lost else "cancelled"
            raise
        ended[task.id] = "done"

    async with worker:
        ids = hub.add(NAME, {}, {})
        await eventually(
            lambda: any(named(body) == dict.fromkeys(ids, "1") for body in beats_of(hub, worker.worker_id))
        )

        def lost(seen: Seen) -> Any:
            return {**hub.play(seen), "lost": ids[:1]}

        hub.say(f"PATCH {PREFIX}/workers/{worker.worker_id}", lost)
        await eventually(lambda: ended == {ids[0]: "lost"})
        going.set()
        await eventually(lambda: hub.status(ids[1]) == "completed")
        assert (worker.counts["lost"], hub.reports) == (1, [(ids[1], "completed")])
        await eventually(lambda: named(beats_of(hub, worker.worker_id)[-1]) == {})


def test_a_manager_names_its_tasks_in_its_heartbeats(hub: JobsHub, make: Make) -> None:
    going = threading.Event()
    manager = make(execute=lambda _: going.wait(), heartbeat_interval=0.02)
    manager.register(Rotate)
    task_id = hub.add_one(JOB)
    worker_id = str(manager.worker_id)
    wait_until(lambda: any(named(body) == {task_id: "1"} for body in beats_of(hub, worker_id)))
    going.set()
    wait_until(lambda: hub.status(task_id) == "completed")
    wait_until(lambda: named(beats_of(hub, worker_id)[-1]) == {})


async def test_a_worker_replaced_by_another_process_ends_and_gives_back_its_tasks(hub: JobsHub) -> None:
    worker = Worker(
        "http://hub", "t0ken", transport=hub.async_transport(), sync_transport=hub.transport(), polling_interval=0.02,
        heartbeat_interval=0.05,
    )  # fmt: skip

    @worker.job("modifiers", "Rotate")
    async def rotate(_: dict[str, Any], __: Task) -> None:
        await asyncio.Event().wait()

    async def until_it_ends() -> None:
        async with worker:
            hub.add(NAME, {})
            await eventually(lambda: "running" in {task["status"] for task in hub.tasks.values()})
            said = {body["incarnation"] for body in beats_of(hub, worker.worker_id)}
            assert said <= {hub.jobs[NAME]["incarnation"]}
            hub.say(f"PATCH {PREFIX}/workers/{worker.worker_id}", (409, "superseded"))
            await worker.ended()

    with pytest.raises(Superseded):
        await until_it_ends()
    assert [task["status"] for task in hub.tasks.values()] == ["pending"]
    [left] = [seen for seen in hub.seen if seen.method == "DELETE"]
    assert left.query == {"incarnation": hub.jobs[NAME]["incarnation"]}, "it ends only what is its own"
