"""Tasks that are claimed ahead, and reports that are sent together."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from hub.client.jobs import runner as places_module
from hub.client.jobs.buffers import MOST_READY, MOST_REPORT_BYTES, Outbox, Prefetch
from hub.client.jobs.handlers import Handler, Task
from hub.client.jobs.runner import TaskRunner
from hub.client.jobs.tasks import Report
from tests.client.fake_hub import eventually

JOB = "@global:modifiers:Rotate"


@pytest.mark.parametrize(
    ("task_s", "trip_s", "ready"),
    [(None, 0.01, 0), (0.01, None, 0), (10.0, 0.01, 0), (0.2, 0.01, 1), (0.01, 0.01, 20), (0.0, 0.01, MOST_READY)],
)
def test_a_worker_claims_ahead_as_many_tasks_as_it_finishes_during_one_claim(
    task_s: float | None, trip_s: float | None, ready: int
) -> None:
    prefetch = Prefetch(concurrency=10)
    if task_s is not None:
        prefetch.ran(task_s)
    if trip_s is not None:
        prefetch.travelled(trip_s)
    assert prefetch.ready == ready


def test_the_number_of_tasks_claimed_ahead_follows_their_duration() -> None:
    prefetch = Prefetch(concurrency=10)
    prefetch.travelled(0.01)
    prefetch.ran(0.001)
    assert prefetch.ready == 200
    for _ in range(30):
        prefetch.ran(1.0)
    assert prefetch.ready == 0
    prefetch.forget()
    assert prefetch.ready == 0
    prefetch.ran(0.001)
    assert prefetch.ready == 200


def test_the_number_of_tasks_claimed_ahead_can_be_fixed() -> None:
    prefetch = Prefetch(concurrency=10, fixed=3)
    prefetch.travelled(1.0)
    prefetch.ran(0.001)
    assert (prefetch.ready, prefetch.adaptive) == (3, False)


def test_reports_are_sent_in_order_and_at_most_a_hundred_together() -> None:
    outbox = Outbox()
    for number in range(150):
        outbox.add(Report(str(number), "completed"))
    first = outbox.take()
    assert [report.task for report in first] == [str(number) for number in range(100)]
    assert (len(outbox.take()), outbox.take()) == (50, [])


def test_long_error_texts_are_sent_in_calls_of_their_own() -> None:
    outbox = Outbox()
    for number in range(3):
        outbox.add(Report(str(number), "failed", "x" * (MOST_REPORT_BYTES - 1)))
    assert [len(outbox.take()) for _ in range(3)] == [1, 1, 1]


class Held:
    """TaskRunner whose tasks end when told."""

    def __init__(self, concurrency: int, prefetch: Prefetch) -> None:
        self.go = asyncio.Event()
        self.said: list[tuple[str, str]] = []
        self.counts: Counter[str] = Counter()
        self.runner = TaskRunner(
            concurrency, prefetch, self.counts, lambda report: self.said.append((report.task, report.status))
        )
        self.runner.handlers[JOB] = Handler("@global", "modifiers", "Rotate", {}, self.rotate)

    async def rotate(self, payload: Any, task: Task) -> None:
        await self.go.wait()

    def put(self, *names: str) -> None:
        self.runner.put([Task(name, JOB, "r1", {}) for name in names])

    async def end(self) -> None:
        self.go.set()
        await self.runner.close(5.0, asyncio.Event())


async def test_a_worker_claims_no_more_tasks_than_it_has_places_and_may_hold_ready() -> None:
    held = Held(2, Prefetch(2, fixed=4))
    assert held.runner.wanted() == 6
    held.put("a", "b", "c")
    assert held.runner.wanted() == 3
    held.put("d", "e")
    assert held.runner.wanted() == 0  # more than half of what may be ready is
    held.go.set()
    await eventually(lambda: held.runner.held == 0)
    assert held.runner.wanted() == 6
    await held.end()
    assert held.runner.wanted() == 0


async def test_a_ready_task_that_waits_too_long_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_module, "READY_S", -1.0)
    prefetch = Prefetch(1)
    prefetch.travelled(0.01)
    prefetch.ran(0.001)
    held = Held(1, prefetch)
    held.put("a", "b", "c")
    held.runner.give_back_old()
    assert held.said == [("b", "pending"), ("c", "pending")]
    assert prefetch.ready == 0
    await held.end()
    assert held.said[2:] == [("a", "completed")]


async def test_a_fixed_number_of_ready_tasks_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_module, "READY_S", -1.0)
    held = Held(1, Prefetch(1, fixed=5))
    held.put("a", "b", "c")
    held.runner.give_back_old()
    assert held.said == []
    await held.end()


async def test_a_task_of_an_unknown_job_fails_with_a_reason() -> None:
    held = Held(1, Prefetch(1))
    held.runner.put([Task("a", "@global:modifiers:Other", "r1", {})])
    assert held.said == [("a", "failed")]
    await held.end()
