"""Submitting tasks and waiting for their results: the steps, a client for asyncio and a client for threads."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, Unpack

import httpx

from hub.client.exchange import Pause, Send, Steps, lasting, readable
from hub.client.jobs.calls import TROUBLE_S, ask, move, place, task
from hub.client.jobs.tasks import ResultLost, ScheduleOptions, SubmitOptions, TaskCancelled, TaskFailed, TaskInfo
from hub.client.jobs.wire import SyncWire, Token, Wire
from hub.client.options import spelt_out
from hub.errors import TooLarge
from hub.retries import now_s

# Seconds for which one call waits for the end of a task: fewer than most proxies allow for a request.
LONGEST_WAIT_S = 25.0
# The most payloads and bytes in one call. When the hub answers that this is too much, the batch is sent in two halves.
MOST_AT_ONCE = 1000
MOST_BYTES = 512 * 1024


# The name of each option in the body of a request, where it is sent unchanged.
_MEMBERS = {
    "priority": "priority", "max_attempts": "maxAttempts", "backoff": "backoffSeconds",
    "max_silence": "maxSilenceSeconds", "unique_key": "uniqueKey", "unique_for": "uniqueSeconds",
    "on_failure": "onFailure", "cron": "cron", "every": "everySeconds", "zone": "timeZone", "catch_up": "catchUp",
}  # fmt: skip


def submit(job: str, payload: Mapping[str, Any], room: str, options: SubmitOptions) -> Steps[str]:
    """Submit a task; return its id."""
    answer = yield from ask(_submission(job, room, {"payload": payload}, options, ""), lasting(TROUBLE_S))
    with readable():
        return str(answer.data["id"])


def submit_many(job: str, payloads: Sequence[Mapping[str, Any]], room: str, options: SubmitOptions) -> Steps[list[str]]:
    """Submit tasks of one job, as many in a call as the hub takes; return their ids, in the order of the payloads."""
    options = {"idempotency_key": uuid.uuid4().hex, **options}
    ids: list[str] = []
    for batch in _batches(payloads):
        ids += yield from _submit_batch(job, batch, room, options, len(ids))
    return ids


def _submit_batch(
    job: str, payloads: Sequence[Mapping[str, Any]], room: str, options: SubmitOptions, first: int
) -> Steps[list[str]]:
    suffix = f":{first}" if first else ""
    try:
        answer = yield from ask(
            _submission(job, room, {"payloads": payloads}, options, suffix), lasting(TROUBLE_S), attempt_s=60.0
        )
    except TooLarge:
        if len(payloads) == 1:
            raise
    else:
        with readable():
            return [str(task_id) for task_id in answer.data["ids"]]
    middle = len(payloads) // 2
    before = yield from _submit_batch(job, payloads[:middle], room, options, first)
    after = yield from _submit_batch(job, payloads[middle:], room, options, first + middle)
    return before + after


def _submission(job: str, room: str, body: dict[str, Any], options: SubmitOptions, suffix: str) -> Send:
    if (not_before := options.get("not_before")) is not None:
        if not_before.tzinfo is None:
            raise ValueError("not_before needs an offset from UTC: datetime.now(UTC) + timedelta(minutes=5)")
        body["notBefore"] = not_before.isoformat()
    body |= _members_of(options)
    if after := options.get("after"):
        body["after"] = list(after)
    key = options.get("idempotency_key") or uuid.uuid4().hex
    return Send("POST", place("rooms", room, "tasks", job), body, headers={"Idempotency-Key": key + suffix})


def _batches(payloads: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    begin = size = 0
    for index, payload in enumerate(payloads):
        length = len(json.dumps(payload))
        if index > begin and (size + length > MOST_BYTES or index - begin >= MOST_AT_ONCE):
            yield payloads[begin:index]
            begin, size = index, 0
        size += length
    if begin < len(payloads):
        yield payloads[begin:]


def _members_of(options: Mapping[str, Any]) -> dict[str, Any]:
    return {_MEMBERS[name]: value for name, value in options.items() if name in _MEMBERS and value is not None}


def wait_for(task_id: str, timeout: float | None = None) -> Steps[TaskInfo]:
    """Return the task once it is completed, failed or cancelled; raises `TimeoutError` after `timeout` seconds."""
    until_s = now_s() + (math.inf if timeout is None else timeout)
    while True:
        asked_s = now_s()
        wait_s = int(max(0.0, min(LONGEST_WAIT_S, until_s - asked_s)))
        headers = {"Prefer": f"wait={wait_s}"} if wait_s else {}
        send = Send("GET", place("tasks", task_id), headers=headers, wait_s=float(wait_s))
        info = TaskInfo.of((yield from ask(send, lambda: until_s - now_s())).data)
        if info.finished:
            return info
        left_s = until_s - now_s()
        if left_s <= 0:
            raise TimeoutError(f"task {task_id} is still {info.status} after {timeout:g} s")
        # A pause, so that a hub that answers at once is not asked all the time; it also waits out the last second.
        yield Pause(min(left_s, 0.1 if wait_s < 1 else max(0.0, 1.0 - (now_s() - asked_s))))


def result(task_id: str, timeout: float | None = None) -> Steps[Any]:
    """Return the result of the task once it is completed; raises a `TaskEnded` when it has none, or `TimeoutError`."""
    info = yield from wait_for(task_id, timeout)
    if info.status == "failed":
        raise TaskFailed(info.error or "the task has failed", task=info.id)
    if not info.ok:
        raise TaskCancelled(info.error or f"the task was {info.status}", task=info.id)
    if info.result_lost:
        raise ResultLost(
            "the task was completed, and its result was lost with the last second of the store", task=info.id
        )
    return info.result


def schedule(name: str, job: str, payload: Mapping[str, Any], room: str, options: ScheduleOptions) -> Steps[None]:
    """Create a schedule, or change the caller's schedule of this name."""
    body = {"job": job, "payload": payload, **_members_of(options)}
    yield from ask(Send("PUT", place("rooms", room, "schedules", name), body), lasting(TROUBLE_S))


class JobsClient:
    """A submitter of tasks, for asyncio: `await client.submit("@global:modifiers:Rotate", {}, "room-1")`.

    `url` defaults to `HUB_URL`, `token` to `HUB_TOKEN`; a callable is called for the token of each request. A call is
    repeated for ten seconds while no hub answers or the hub asks to wait, and never has its effect twice. After that,
    or when the hub refuses, it raises a `hub.errors.HubError`. Close it with `await client.close()` or `async with`.
    """

    def __init__(
        self,
        url: str | None = None,  # threads: url: str | httpx.Client | None = None,
        token: Token = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._wire = Wire(url, token, transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    @spelt_out(SubmitOptions)
    async def submit(
        self, job: str, payload: Mapping[str, Any], room: str = "@global", **options: Unpack[SubmitOptions]
    ) -> str:
        """Submit a task to `room:category:name` from `room`; return its id, or raise `JobNotFound`."""
        return await self._wire.run(submit(job, payload, room, options))

    @spelt_out(SubmitOptions)
    async def submit_many(
        self, job: str, payloads: Sequence[Mapping[str, Any]], room: str = "@global", **options: Unpack[SubmitOptions]
    ) -> list[str]:
        """Submit many tasks of one job in few calls; return their ids, in the order of the payloads."""
        return await self._wire.run(submit_many(job, payloads, room, options))

    async def wait_for(self, task_id: str, timeout: float | None = None) -> TaskInfo:
        """Return the task once it has ended; raises `TimeoutError` after `timeout` seconds (None: never)."""
        return await self._wire.run(wait_for(task_id, timeout))

    async def result(self, task_id: str, timeout: float | None = None) -> Any:
        """Return the result of the task once it is completed: the value that its handler returned.

        Raises `TaskFailed`, `TaskCancelled` or `ResultLost` when the task ended otherwise, and `TimeoutError` when it
        has not ended within `timeout` seconds (None: waits for ever).
        """
        return await self._wire.run(result(task_id, timeout))

    async def task(self, task_id: str) -> TaskInfo:
        """Return the task as it is now; raises `TaskNotFound`."""
        return await self._wire.run(task(task_id))

    @spelt_out(ScheduleOptions)
    async def schedule(
        self, name: str, job: str, payload: Mapping[str, Any], room: str, **options: Unpack[ScheduleOptions]
    ) -> None:
        """Create a schedule that submits a task at certain times, or change the one of this name."""
        await self._wire.run(schedule(name, job, payload, room, options))

    async def unschedule(self, name: str, room: str) -> None:
        """Remove a schedule; the tasks that it has submitted stay."""
        await self._wire.run(ask(Send("DELETE", place("rooms", room, "schedules", name)), lasting(TROUBLE_S)))

    async def cancel(self, task_id: str) -> None:
        """Cancel a task; raises `InvalidTaskTransition` when it has ended."""
        await self._wire.run(ask(move(task_id, "cancelled", None), lasting(TROUBLE_S)))


# Written from the class `JobsClient` by `make twins`: change that class, not this one.
class SyncJobsClient:
    """A submitter of tasks, for threads: `client.submit("@global:modifiers:Rotate", {}, "room-1")`.

    `url` defaults to `HUB_URL`, `token` to `HUB_TOKEN`; a callable is called for the token of each request. A call is
    repeated for ten seconds while no hub answers or the hub asks to wait, and never has its effect twice. After that,
    or when the hub refuses, it raises a `hub.errors.HubError`. Close it with `client.close()` or `with`.
    """

    def __init__(
        self,
        url: str | httpx.Client | None = None,
        token: Token = None,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._wire = SyncWire(url, token, transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless they were given."""
        self._wire.close()

    @spelt_out(SubmitOptions)
    def submit(
        self, job: str, payload: Mapping[str, Any], room: str = "@global", **options: Unpack[SubmitOptions]
    ) -> str:
        """Submit a task to `room:category:name` from `room`; return its id, or raise `JobNotFound`."""
        return self._wire.run(submit(job, payload, room, options))

    @spelt_out(SubmitOptions)
    def submit_many(
        self, job: str, payloads: Sequence[Mapping[str, Any]], room: str = "@global", **options: Unpack[SubmitOptions]
    ) -> list[str]:
        """Submit many tasks of one job in few calls; return their ids, in the order of the payloads."""
        return self._wire.run(submit_many(job, payloads, room, options))

    def wait_for(self, task_id: str, timeout: float | None = None) -> TaskInfo:
        """Return the task once it has ended; raises `TimeoutError` after `timeout` seconds (None: never)."""
        return self._wire.run(wait_for(task_id, timeout))

    def result(self, task_id: str, timeout: float | None = None) -> Any:
        """Return the result of the task once it is completed: the value that its handler returned.

        See `JobsClient.result` for the rest.
        """
        return self._wire.run(result(task_id, timeout))

    def task(self, task_id: str) -> TaskInfo:
        """Return the task as it is now; raises `TaskNotFound`."""
        return self._wire.run(task(task_id))

    @spelt_out(ScheduleOptions)
    def schedule(
        self, name: str, job: str, payload: Mapping[str, Any], room: str, **options: Unpack[ScheduleOptions]
    ) -> None:
        """Create a schedule that submits a task at certain times, or change the one of this name."""
        self._wire.run(schedule(name, job, payload, room, options))

    def unschedule(self, name: str, room: str) -> None:
        """Remove a schedule; the tasks that it has submitted stay."""
        self._wire.run(ask(Send("DELETE", place("rooms", room, "schedules", name)), lasting(TROUBLE_S)))

    def cancel(self, task_id: str) -> None:
        """Cancel a task; raises `InvalidTaskTransition` when it has ended."""
        self._wire.run(ask(move(task_id, "cancelled", None), lasting(TROUBLE_S)))
