"""Handlers that say by their annotations what they take."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from hub.client.jobs import Task, Worker
from tests.client.fake_hub import eventually
from tests.client.jobs.fake_jobs_hub import JobsHub

if TYPE_CHECKING:
    from somewhere import Unknown


class Turn(BaseModel):
    angle: float


class Turned(BaseModel):
    """The result of a task as a model."""

    left: float


class Holder:
    async def __call__(self, payload: Turn) -> Turned:
        return Turned(left=360 - payload.angle)

    def turn(self, payload: Turn, task: Task) -> dict[str, Any]:
        return {"left": payload.angle, "room": task.room_id}


async def turn(payload: Turn) -> Turned:
    return Turned(left=360 - payload.angle)


def turn_in_thread(payload: Turn) -> Turned:
    return Turned(left=360 - payload.angle)


def untyped(payload, task):
    return payload


def plainly_typed(payload: dict[str, Any], task: Task | None = None) -> list[Any]:
    return [payload, task is not None]


def of_unknown(payload: Unknown, task: Task) -> Any:
    return payload


def of_all(*arguments: Any) -> int:
    return len(arguments)


def worker_of(hub: JobsHub, processes: int = 0) -> Worker:
    transports = {"transport": hub.async_transport(), "sync_transport": hub.transport()}
    return Worker("http://hub", "t0ken", **transports, polling_interval=0.02, grace=5.0, processes=processes)


async def come_to(hub: JobsHub, function: Any, payload: dict[str, Any], **options: Any) -> tuple[dict[str, Any], Any]:
    """The schema a handler is registered with, and what a task of it came to."""
    worker = worker_of(hub)
    worker.job("modifiers", "Turn", **options)(function)
    async with worker:
        (task,) = hub.add("@global:modifiers:Turn", payload)
        await eventually(lambda: hub.statuses([task]) <= {"completed", "failed"})
    ended = hub.tasks[task]
    return hub.jobs["@global:modifiers:Turn"]["schema"], ended["error"] or ended["result"]


@pytest.mark.parametrize("function", [turn, turn_in_thread, Holder()])
async def test_an_annotation_gives_the_schema_and_payload_and_result_may_be_models(hub: JobsHub, function: Any) -> None:
    assert await come_to(hub, function, {"angle": 90}) == (Turn.model_json_schema(), {"left": 270.0})


def broken(payload: Turn) -> Turned:
    return {"right": payload.angle}  # type: ignore[return-value]


async def broken_at_once(payload: Turn) -> Turned:
    return {"right": payload.angle}  # type: ignore[return-value]


def loose(payload: Turn) -> Turned:
    return {"left": payload.angle}  # type: ignore[return-value]


async def test_a_return_annotation_is_registered_and_a_result_that_does_not_fit_is_refused(
    hub: JobsHub,
) -> None:
    for function in (broken, broken_at_once):
        _, error = await come_to(hub, function, {"angle": 90})
        assert error.startswith("the result does not fit Turned: 1 validation error for Turned\nleft\n")
    assert hub.jobs["@global:modifiers:Turn"]["resultSchema"] == Turned.model_json_schema()
    assert await come_to(hub, loose, {"angle": 90}) == (Turn.model_json_schema(), {"left": 90.0})
    await come_to(hub, plainly_typed, {"angle": 90})
    assert "resultSchema" not in hub.jobs["@global:modifiers:Turn"]


async def test_a_handler_may_take_the_task_as_a_second_argument(hub: JobsHub) -> None:
    schema, result = await come_to(hub, Holder().turn, {"angle": 90})
    assert (schema, result) == (Turn.model_json_schema(), {"left": 90.0, "room": "r1"})


async def test_a_task_whose_payload_does_not_fit_the_annotation_fails(hub: JobsHub) -> None:
    _, error = await come_to(hub, turn, {"angle": "much"})
    assert "angle" in error


@pytest.mark.parametrize(
    ("function", "result"),
    [(untyped, {"angle": 90}), (plainly_typed, [{"angle": 90}, True]), (of_all, 2)],
)
async def test_an_annotation_that_is_no_model_gives_no_schema_and_the_plain_payload(
    hub: JobsHub, function: Any, result: Any
) -> None:
    assert await come_to(hub, function, {"angle": 90}) == ({}, result)


async def test_an_annotation_that_cannot_be_resolved_is_logged_and_ignored(
    hub: JobsHub, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hub.client"):
        assert await come_to(hub, of_unknown, {"angle": 90}) == ({}, {"angle": 90})
    assert "Unknown" in caplog.text


async def test_an_explicit_schema_wins_over_the_annotation(hub: JobsHub) -> None:
    given: Mapping[str, Any] = {"type": "object"}
    assert await come_to(hub, plainly_typed, {"angle": 90}, schema=given) == (given, [{"angle": 90}, True])
    schema, error = await come_to(hub, turn, {"angle": 90}, schema=given)
    assert schema == given
    assert "angle" in error  # it reads a model, and was given an object


def turn_right(payload: Turn) -> Turned:
    if payload.angle > 180:
        raise RuntimeError("the motor stalled")
    return Turned(left=360 - payload.angle)


@pytest.mark.parametrize("processes", [0, 1])
async def test_a_payload_that_does_not_fit_is_not_tried_again_and_any_other_failure_is(
    hub: JobsHub, processes: int
) -> None:
    worker = worker_of(hub, processes)
    worker.job("modifiers", "Turn", attempts=3)(turn_right)
    async with worker:
        unfit, stalled = (hub.add("@global:modifiers:Turn", {"angle": angle})[0] for angle in ("north", 270))
        await eventually(lambda: hub.statuses([unfit, stalled]) <= {"completed", "failed"})
    assert hub.jobs["@global:modifiers:Turn"]["validate"] is True
    assert [hub.tasks[task].get("retry") for task in (unfit, stalled)] == [False, None]
