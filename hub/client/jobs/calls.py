"""The calls of the jobs API: the requests, and steps that send them, repeat them and read their answers."""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Unpack

import httpx

from hub.client import calls
from hub.client.backlog import ONCE, Backlog, Message
from hub.client.bundle import read_parts
from hub.client.exchange import (
    HubAnswer,
    Left,
    Pause,
    Send,
    Steps,
    accepted,
    lasting,
    passing,
    readable,
    refusal,
    repeated,
)
from hub.client.jobs.tasks import Held, Report, TaskInfo, TermsOptions
from hub.errors import HubError, HubUnavailable, TooLarge, WorkerNotFound
from hub.retries import now_s

log = logging.getLogger("hub.client")

PREFIX = "/v1/joblib"
ATTEMPT_S = 15.0
TROUBLE_S = 10.0
LEAVE_S = 5.0
# The longest pause. A hub that stops asks callers to wait half a minute, but another hub answers long before.
LONGEST_PAUSE_S = 5.0
# The most reports and tasks that the hub takes in one call.
MOST_RESULTS = 100
MOST_CLAIMED = 100


def place(*parts: str) -> str:
    """Return a path of the jobs API, each part escaped."""
    return PREFIX + calls.path(*parts)


def ask(send: Send, left_s: Left, attempt_s: float = ATTEMPT_S) -> Steps[HubAnswer]:
    """Send until the hub accepts, and return its answer; raises the last error when it is final or no time is left."""
    return repeated(send, attempt_s, left_s, LONGEST_PAUSE_S)


def starting(send: Send, attempts: int) -> Steps[dict[str, Any]]:
    """Send up to `attempts` times, with growing pauses after passing failures; return the JSON object of the answer."""
    for attempt in itertools.count(1):
        sent_s = now_s()
        outcome = yield replace(send, timeout_s=ATTEMPT_S)
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            return _object(accepted(outcome, sent_s))  # not repeated when it cannot be read: the hub has accepted
        error, _ = refusal(outcome)
        if not passing(error) or attempt >= attempts:
            raise error
        log.warning("%s %s failed (attempt %d of %d): %s", send.method, send.path, attempt, attempts, error)
        yield Pause(max(min(2.0 ** (attempt - 1), 30.0) + random.random(), min(error.retry_after_s or 0.0, 30.0)))
    raise AssertionError("unreachable")


# -- workers ------------------------------------------------------------------------------------------------------


def incarnation() -> str:
    """Return the incarnation of this process, new with each start and fork. The latest one has the worker."""
    return _name_of(os.getpid())


@cache
def _name_of(pid: int) -> str:
    return uuid.uuid4().hex


def new_worker() -> Send:
    """Return the request that creates a worker."""
    return Send("POST", place("workers"))


def job(room: str, body: Mapping[str, Any], worker_id: str | None) -> Send:
    """Return the request that registers a job; without `worker_id` the hub creates a worker for it."""
    return _registration("jobs", room, {**body, "incarnation": incarnation()}, worker_id)


def terms(**said: Unpack[TermsOptions]) -> dict[str, Any]:
    """Return what a job says about all its tasks as members of its registration; raises `TypeError` for a part that is
    none."""
    found: dict[str, Any] = {"needs": read_parts(said["needs"])} if said.get("needs") else {}
    found |= {"sameNode": True} if said.get("same_node") else {}
    return found | ({"limits": [dict(each) for each in said["limits"]]} if said.get("limits") else {})


def provider(room: str, body: Mapping[str, Any], worker_id: str | None) -> Send:
    """Return the request that registers a provider; without `worker_id` the hub creates a worker for it."""
    return _registration("providers", room, body, worker_id)


def _registration(kind: str, room: str, body: Mapping[str, Any], worker_id: str | None) -> Send:
    return Send("PUT", place("rooms", room, kind), {**body, **({"worker_id": worker_id} if worker_id else {})})


def drop_provider(provider_id: str, left_s: Left, attempt_s: float = ATTEMPT_S) -> Steps[None]:
    """Unregister a provider. Safe to repeat."""
    yield from ask(Send("DELETE", place("providers", provider_id)), left_s, attempt_s)


def upload(
    provider_id: str, request_hash: str, content: bytes, left_s: Left, attempt_s: float = ATTEMPT_S
) -> Steps[None]:
    """Upload the bytes that a provider has read for the request `request_hash`. Safe to repeat."""
    headers = {"X-Request-Hash": request_hash}
    send = Send("POST", place("providers", provider_id, "results"), headers=headers, content=content)
    yield from ask(send, left_s, attempt_s)


def beat(worker_id: str, attempt_s: float = ATTEMPT_S, held: Held | None = None) -> Steps[dict[str, str | None]]:
    """Send one heartbeat, which names the held tasks; return those that the worker has lost, with their claims."""
    send = Send("PATCH", place("workers", worker_id), held.body(incarnation()) if held is not None else None)
    answer = yield from ask(send, lasting(0.0), attempt_s)
    with readable():
        return {str(task_id): held.tasks.get(task_id) if held else None for task_id in answer.data.get("lost", ())}


def taken(worker_id: str, since: int, wait_s: float) -> Steps[int]:
    """Return how many tasks the hub has taken from a worker: as soon as that is not `since`, or after `wait_s` seconds.

    The call is sent once.
    """
    query, headers = {"since": str(since)}, {"Prefer": f"wait={wait_s:.0f}"}
    send = Send("GET", place("workers", worker_id, "taken"), query=query, headers=headers, wait_s=wait_s)
    answer = yield from ask(send, lasting(0.0))
    with readable():
        return int(answer.data["taken"])


@dataclass(frozen=True, slots=True)
class ClaimCall:
    """A claim of tasks, with the reports that it carries. Sent again with its key, it returns the same tasks."""

    worker_id: str
    limit: int = 1
    start: bool = False
    max_runtime_s: float | None = None
    reports: Sequence[Report] = ()
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def send(self, wait_s: float = 0.0) -> Send:
        """Return the request; the hub may hold it for `wait_s` seconds while no task is pending."""
        body: dict[str, Any] = {"worker_id": self.worker_id, "limit": self.limit, "incarnation": incarnation()}
        if wait_s > 0 and self.limit:
            body["waitSeconds"] = wait_s
        if self.start:
            body["start"] = True
        if self.max_runtime_s:
            body["maxRuntimeSeconds"] = self.max_runtime_s
        if self.reports:
            body["results"] = [report.body() for report in self.reports]
        return Send("POST", place("tasks", "claim"), body, headers={"Idempotency-Key": self.key}, wait_s=wait_s)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to a claim: the claimed tasks, and for each report its outcome by task id ("ok", or why not)."""

    tasks: list[TaskInfo]
    outcomes: dict[str, str]

    @classmethod
    def of(cls, answer: HubAnswer) -> Claimed:
        """Return the content of an answer. A hub that claims only one task at a time answers with `task`."""
        with readable():
            one = answer.data.get("task")
            many = answer.data.get("tasks", [one] if one else [])
            outcomes = {str(result["id"]): str(result["outcome"]) for result in answer.data.get("results", ())}
        return cls([TaskInfo.of(task) for task in many], outcomes)


def claim(wanted: ClaimCall, left_s: Left, wait_s: float = 0.0) -> Steps[Claimed]:
    """Send a claim, repeat it unchanged after passing failures, and return its answer."""
    return Claimed.of((yield from ask(wanted.send(wait_s), left_s)))


# -- tasks --------------------------------------------------------------------------------------------------------


def move(task_id: str, status: str, error: str | None, claim: str = "", result: Any = None) -> Send:
    """Return the request that moves a task to a status while `claim` is its claim. Repeats for one claim count once."""
    body = {"status": status, **({"error": error} if error is not None else {}), **({"claim": claim} if claim else {})}
    if result is not None:
        body["result"] = result
    key = f"{task_id}:{claim}:{status}" if claim else uuid.uuid4().hex
    return Send("PATCH", place("tasks", task_id), body, headers={"Idempotency-Key": key})


def task(task_id: str) -> Steps[TaskInfo]:
    """Return one task; raises `TaskNotFound` when there is none."""
    return TaskInfo.of(_object((yield from ask(Send("GET", place("tasks", task_id)), lasting(TROUBLE_S)))))


def _object(answer: HubAnswer) -> dict[str, Any]:
    with readable():
        return dict(answer.data)


def leave(worker_id: str, unanswered: Sequence[ClaimCall], backlog: Backlog) -> Steps[None]:
    """Send the last calls of a worker and delete it; what is not done within a few seconds is done in the background.

    The calls in `unanswered` are sent once more: a claim is repeated unchanged, and the tasks that it got are given
    back. A refusal of the hub is logged.
    """
    left = list(unanswered)
    try:
        if backlog.waiting():
            raise HubUnavailable("reports come first that could not be told yet")
        yield from _last_calls(worker_id, left, lasting(0.0 if left else LEAVE_S), LEAVE_S)
    except HubError as error:
        reports = sum(len(claim.reports) for claim in left)
        action = f"tell what came of {reports} tasks and that worker {worker_id} leaves"
        if passing(error):
            steps = partial(_last_calls, worker_id, left, lasting(0.0), ONCE.attempt_s)
            backlog.add(Message(action, steps, math.inf, "the hub misses it by itself, and fails what it held"), error)
        else:
            log.info("could not %s (%s); the hub misses it by itself", action, error)


def _last_calls(worker_id: str, left: list[ClaimCall], left_s: Left, attempt_s: float) -> Steps[None]:
    """Send the calls in `left`, drop each from it once it is answered, and delete the worker."""
    while left:
        try:
            claimed = Claimed.of((yield from ask(left[0].send(), left_s, min(attempt_s, ATTEMPT_S))))
        except WorkerNotFound:  # the hub has taken the worker's tasks back
            return
        except TooLarge:
            shorter = [report.shorter() for report in left[0].reports]
            if shorter == list(left[0].reports):
                raise
            left[0] = replace(left[0], reports=shorter)
            continue
        given_back = [Report(task.id, "pending", claim=task.claim) for task in claimed.tasks]
        left[:1] = [ClaimCall(worker_id, limit=0, reports=given_back)] if given_back else []
    yield from ask(Send("DELETE", place("workers", worker_id), query={"incarnation": incarnation()}), left_s, attempt_s)
