"""The rights of a token in rooms. A token that is bound to rooms acts in these rooms only, and also sees what is
offered to all rooms, in `@global` and `@internal`. A token that is not bound acts and sees everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from hub.api.callers.caller import Caller
from hub.core import Hub
from hub.errors import Forbidden, ProviderNotFound, TaskNotFound
from hub.jobs.models import Outcome, TaskRecord
from hub.jobs.names import SHARED, dashed, parse_full_name
from hub.jobs.submits import unknown_parents


def enter(who: Caller | None, room: str) -> None:
    """Raise `Forbidden` unless the caller may act in the room."""
    if not acts_in(who, room):
        raise _beyond(who, room)


def look_into(who: Caller | None, *rooms: str) -> None:
    """Raise `Forbidden` unless the caller may see what is in each of the rooms."""
    for room in rooms:
        if room not in SHARED and not acts_in(who, room):
            raise _beyond(who, room)


def acts_in(who: Caller | None, room: str) -> bool:
    """Return whether the caller may act in the room."""
    return who is None or not who.rooms or room in who.rooms


def room_of(full: str) -> str:
    """Return the room in the full name of a job or a provider. For a text that is no full name return a room that every
    caller sees; the look-up then finds nothing under this name."""
    parts = parse_full_name(full)
    return parts[0] if parts else SHARED[0]


def see_task(who: Caller | None, task: TaskRecord) -> None:
    """Raise `TaskNotFound` unless the caller may see the task: the room that the task was submitted to, or the room of
    its job, is one of the caller's, or the task was submitted to a room that is for all."""
    if task.room not in SHARED and not _is_near(who, task):
        raise TaskNotFound(f"Task {dashed(task.id)} is not known")


async def see_parents(who: Caller, hub: Hub, after: Sequence[str]) -> None:
    """Raise `Malformed` unless the caller may see all tasks that a new task is to wait for."""
    if unseen := await _unseen(who, hub, after):
        raise unknown_parents(after, sorted(unseen))


async def told(who: Caller, hub: Hub, tasks: Sequence[str], words: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes of reports about tasks, as the caller may know them: `gone`, as for an unknown task, for
    refused reports about tasks that the caller may not see."""
    refused = [task for task, word in zip(tasks, words, strict=True) if word in ("forbidden", "conflict")]
    unseen = await _unseen(who, hub, refused)
    return ["gone" if task in unseen else word for task, word in zip(tasks, words, strict=True)]


async def reach_task(who: Caller, hub: Hub, task: str) -> None:
    """Raise `TaskNotFound` unless the caller may change the task."""
    if who.rooms and not _is_near(who, await hub.tasks.get(task)):
        raise TaskNotFound(f"Task {dashed(task)} is not known")


async def reach_worker(who: Caller, hub: Hub, worker: str) -> None:
    """Raise `Forbidden` when the worker serves a job of a room in which the caller may not act: the caller would get
    the tasks of this job."""
    if who.rooms and (beyond := set(await hub.workers.rooms(worker)) - who.rooms):
        raise Forbidden(f"Worker {dashed(worker)} serves jobs of room {min(beyond)!r:.80}; {_bound(who)}.")


async def reach_provider(who: Caller, hub: Hub, provider: str) -> None:
    """Raise `ProviderNotFound` unless the caller may act in the provider's room."""
    if who.rooms and not acts_in(who, room_of(await hub.providers.name(provider))):
        raise ProviderNotFound(f"Provider {dashed(provider)} is not known")


async def _unseen(who: Caller, hub: Hub, tasks: Sequence[str]) -> set[str]:
    if not who.rooms or not tasks:
        return set()
    found = await hub.tasks.several(list(tasks))
    return set(tasks) - {task.id for task in found if task.room in SHARED or _is_near(who, task)}


def _is_near(who: Caller | None, task: TaskRecord) -> bool:
    return acts_in(who, task.room) or acts_in(who, room_of(task.job))


def _beyond(who: Caller | None, room: str) -> Forbidden:
    return Forbidden(f"This is in room {room!r:.80}; {_bound(who)}.")


def _bound(who: Caller | None) -> str:
    rooms = sorted(who.rooms) if who else []
    return f"the token shown is bound to {', '.join(map(repr, rooms))}"
