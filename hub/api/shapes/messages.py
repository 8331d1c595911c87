"""The messages of Socket.IO, from the hub and from its clients, and the messages in the stream of events."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from hub.api.shapes import fields as w
from hub.api.shapes.fields import doc
from hub.api.shapes.operators import EventShape
from hub.jobs.models import Status


class NothingShape(TypedDict):
    """A message without members."""


class TaskAvailableShape(TypedDict):
    """A task of a job can be claimed."""

    job_name: w.FullName
    room_id: w.Room
    task_id: w.TaskId


class TaskStatusShape(TypedDict):
    """The new status of a task."""

    id: w.TaskId
    name: w.FullName
    room_id: w.Room
    status: Annotated[Status, doc("How far it is now.", "claimed")]
    created_at: w.Moment
    started_at: Annotated[str | None, doc("When it began to run.", "2026-01-02T03:04:06.000000Z")]
    completed_at: Annotated[str | None, doc("When it ended.", "2026-01-02T03:04:09.000000Z")]
    queue_position: Annotated[int | None, doc("Its place in the queue of its job; null once it is claimed.", 1)]
    worker_id: Annotated[str | None, doc("The worker that holds it.", w.WORKER)]
    error: Annotated[str | None, doc("Why it failed.", "the scene is empty")]


class TaskProgressShape(TypedDict):
    """The progress that a task has reported."""

    id: w.TaskId
    name: w.FullName
    room_id: w.Room
    worker_id: Annotated[str | None, doc("The worker that runs it.", w.WORKER)]
    progress: Annotated[float | None, doc("How far it is, from 0 to 1.", 0.4, ge=0, le=1)]
    message: Annotated[str | None, doc("What it does now.", "step 3")]
    progress_at: w.Moment


class ProviderRequestShape(TypedDict):
    """A read that a provider should answer."""

    request_id: Annotated[str, doc("The hash of the request, which the answer names.", "9f86d081884c7d65")]
    provider_name: w.FullName
    params: Annotated[str, doc("The parameters of the query, as the text of a JSON object.", '{"path": "/"}')]


class ResultReadyShape(TypedDict):
    """A provider has answered."""

    provider_name: w.FullName
    request_hash: Annotated[str, doc("The hash of the request.", "9f86d081884c7d65")]


class JobRoomShape(TypedDict):
    """The room of a job and the worker that joins it; the connection of the worker's user is bound to the worker."""

    job_name: w.FullName
    worker_id: NotRequired[Annotated[str | None, doc("The worker; without one only the room is joined.", w.WORKER)]]


class ProviderRoomShape(TypedDict):
    """The room of a provider, and the worker that answers its reads."""

    provider_name: w.FullName
    worker_id: NotRequired[Annotated[str | None, doc("The worker; without one only the room is joined.", w.WORKER)]]


class WatchedRoomShape(TypedDict):
    """A room of tasks, jobs and providers that the client shows."""

    room_id: w.Room


class DoneShape(TypedDict):
    """The answer to a client's call that was carried out; a call that was refused is answered with a text that says
    why."""

    status: Annotated[Literal["ok"], doc("It is done.", "ok")]


class GapShape(TypedDict):
    """A gap in the stream: events before the next one have been trimmed."""

    after: Annotated[str, doc("The event that was seen last.", "1750000000000-0")]
    oldest: Annotated[str, doc("The oldest event that is still there.", "1750000000005-0")]
    rule: Annotated[str, doc("That in a sentence.", "Older events have been trimmed.")]


class SlowShape(TypedDict):
    """The end of a stream that the client did not read fast enough."""

    rule: Annotated[str, doc("That in a sentence.", "Too much waited to be sent; come back with the last id.")]


class MessageChannel(NamedTuple):
    """A channel of messages: its address, a sentence, and the parts of the address."""

    address: str
    about: str
    parts: dict[str, tuple[str, str]] = {}  # noqa: RUF012 - it is never changed


ROOM: Final = "room"
CHANNELS: Final = {
    ROOM: MessageChannel("room:{room}", "Those who look at a room.", {"room": ("The room.", "lab")}),
    "jobs": MessageChannel("jobs:{job}", "The workers of a job.", {"job": ("The full name of the job.", w.JOB)}),
    "providers": MessageChannel(
        "providers:{provider}", "Those who answer for a provider.", {"provider": ("Its full name.", "lab:files:disk")}
    ),
    "connection": MessageChannel("/socket.io/", "A connection: Socket.IO protocol 5, namespace `/`."),
    "events": MessageChannel("/events", "What happens, as server-sent events over HTTP."),
}
# The messages of the hub: name -> (channel, shape, when it is sent).
SENT: Final[dict[str, tuple[str, Any, str]]] = {
    "jobs_invalidate": (ROOM, NothingShape, "The jobs that are seen from the room have changed."),
    "providers_invalidate": (ROOM, NothingShape, "The providers that are seen from the room have changed."),
    "task_status_event": (ROOM, TaskStatusShape, "A task that was submitted to the room has another status."),
    "task_progress_event": (ROOM, TaskProgressShape, "A task that was submitted to the room said how far it is."),
    "provider_result_ready": (ROOM, ResultReadyShape, "A provider of the room has answered."),
    "task_available": ("jobs", TaskAvailableShape, "A task of the job can be claimed."),
    "provider_request": ("providers", ProviderRequestShape, "A read waits for the provider."),
    "event": ("events", EventShape, "Something happened; the name of the event is what did, such as `grant.lent`."),
    "gap": ("events", GapShape, "Events before the next one have been trimmed."),
    "slow": ("events", SlowShape, "The stream was not read and ends; come back with the last id."),
}
# The messages of clients: name -> (shape, what the message does).
TAKEN: Final[dict[str, tuple[Any, str]]] = {
    "join_job_room": (JobRoomShape, "Enter the room of a job, as one of its workers."),
    "leave_job_room": (JobRoomShape, "Leave it."),
    "join_provider_room": (ProviderRoomShape, "Enter the room of a provider, which answers for it."),
    "leave_provider_room": (ProviderRoomShape, "Leave it."),
    "room_join": (WatchedRoomShape, "Enter a room, to hear what happens there."),
    "room_leave": (WatchedRoomShape, "Leave it."),
}
