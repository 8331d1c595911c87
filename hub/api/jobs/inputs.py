"""What the endpoints of the jobs API take, beside what `hub.api.inputs` has: bodies, parts of lists, and rooms, tasks
and workers in the path, with the check that the caller may see or change them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel

from hub import core
from hub.api.callers import caller
from hub.api.inputs import ByModel, caller_of, hub_of
from hub.api.jobs import bodies
from hub.api.operations import takes
from hub.api.shapes import parameters as p
from hub.api.shapes.job_bodies import PageQuery, TasksQuery
from hub.errors import InvalidRoomId, KeyReused
from hub.jobs.names import check_room

M = TypeVar("M", bound=BaseModel)


@cache
def body_of(model: type[BaseModel]) -> Any:
    """Return the function that reads the body of a request as this model."""

    @takes(body=model)
    async def read(request: Request) -> Any:
        return (await bodies.read(request, model))[0]

    return read


@cache
def body_and_text_of(model: type[BaseModel]) -> Any:
    """Return the function that reads the body of a request as this model, and keeps it as it was sent."""

    @takes(body=model)
    async def read(request: Request) -> Any:
        return await bodies.read(request, model)

    return read


@cache
def query_of(model: type[BaseModel]) -> Any:
    """Return the function that reads the query of a request as this model."""

    @takes(query=model)
    def read(request: Request) -> Any:
        return bodies.validated(model, dict(request.query_params), "query")

    return read


@cache
def part_of(model: type[PageQuery]) -> Callable[[Request], bodies.Slice]:
    """Return the function that reads which part of a list the query asks for."""

    @takes(query=model)
    def read(request: Request) -> bodies.Slice:
        return bodies.part(request, model)

    return read


@takes(p.KEY, refusals=(KeyReused,))
def key_of(request: Request) -> str:
    """Return a digest of the caller's `Idempotency-Key`, empty without one; raises `Malformed`."""
    return bodies.request_key(request, caller_of(request).user)


def _room(check: Callable[[caller.Caller, str], None]) -> Callable[[Request], str]:
    """Return the function that reads the room in the path, and raises `InvalidRoomId`, or `Forbidden` as `check`."""

    @takes(refusals=(InvalidRoomId,))
    def read(request: Request) -> str:
        room: str = request.path_params["room_id"]
        check_room(room)
        check(caller_of(request), room)
        return room

    return read


def _seen_name(part: str) -> Callable[[Request], str]:
    """Return the function that reads the full name of a job or a provider in the path, and raises `Forbidden` unless
    the caller may see its room."""

    def read(request: Request) -> str:
        full: str = request.path_params[part]
        caller_of(request).look_into(caller.room_of(full))
        return full

    return read


def _path_id(part: str) -> Callable[[Request], str]:
    """Return the function that reads an id in the path, as 32 hex digits, and raises `Malformed`."""

    def read(request: Request) -> str:
        return bodies.path_id(request, part)

    return read


def _reached(
    part: str, check: Callable[[caller.Caller, core.Hub, str], Awaitable[None]]
) -> Callable[[Request], Awaitable[str]]:
    """Return the function that reads an id in the path as `_path_id`, and raises as `check` for a caller that may not
    reach what it names."""

    async def read(request: Request) -> str:
        found = bodies.path_id(request, part)
        await check(caller_of(request), hub_of(request), found)
        return found

    return read


if TYPE_CHECKING:
    Sent = Annotated[M, "the body as this model"]
    SentText = Annotated[tuple[M, bodies.SentBody], "the body as this model, and as it was sent"]
    Asked = Annotated[M, "the query as this model"]
else:
    Sent, SentText, Asked = ByModel(body_of), ByModel(body_and_text_of), ByModel(query_of)

Part = Annotated[bodies.Slice, Depends(part_of(PageQuery))]
PartOfTasks = Annotated[bodies.Slice, Depends(part_of(TasksQuery))]
Wait = Annotated[int | None, Depends(takes(p.PREFER)(bodies.wait_preference))]
Key = Annotated[str, Depends(key_of)]
SeenRoom = Annotated[str, Depends(_room(caller.Caller.look_into))]
EnteredRoom = Annotated[str, Depends(_room(caller.Caller.enter))]
SeenJob = Annotated[str, Depends(_seen_name("job_name"))]
SeenProvider = Annotated[str, Depends(_seen_name("name"))]
TaskId = Annotated[str, Depends(_path_id("task_id"))]
WorkerId = Annotated[str, Depends(_path_id("worker_id"))]
ProviderId = Annotated[str, Depends(_path_id("provider_id"))]
ReachedTask = Annotated[str, Depends(_reached("task_id", caller.Caller.reach_task))]
ReachedWorker = Annotated[str, Depends(_reached("worker_id", caller.Caller.reach_worker))]
ReachedProvider = Annotated[str, Depends(_reached("provider_id", caller.Caller.reach_provider))]
