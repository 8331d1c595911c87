"""The calls of the SDK as pure steps, played by the async and the sync driver of `transport`.

A generator yields `Send` or `Pause` and is handed the outcome, so retries, back-off, borrowing and renewing are written
once and do no I/O of their own. What breaks a step off - a task is cancelled, somebody pressed Ctrl-C - is raised where
the generator yielded it, so that it can put things in order.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx

from hub.client.refusals import from_problem
from hub.errors import HubError, HubUnavailable, Unavailable
from hub.retries import now_s, pause_s

T = TypeVar("T")

RETRIED = frozenset({408, 429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Send:
    """A step: one HTTP request; the driver answers with a `httpx.Response` or an `Unreachable`.

    The hub may take `wait_s` longer than `timeout_s` to answer: that is how long it may let the call wait in the queue.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 15.0
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: let `seconds` pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unreachable:
    """An outcome without an answer. When the request was `sent`, the hub may have received it all the same."""

    reason: str
    sent: bool = True


Outcome = httpx.Response | Unreachable | None
Steps = Generator[Send | Pause, Outcome, T]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The time of a call: new attempts start for `trouble_s` seconds, and each may take `attempt_s`."""

    trouble_s: float = 10.0
    attempt_s: float = 15.0


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """An accepted call. It was sent at `since_s` (our clock), so the hub wrote its answer later than that."""

    data: Any
    headers: Mapping[str, str]
    since_s: float


def exchange(send: Send, policy: RetryPolicy) -> Steps[HubAnswer]:
    """Send until it is accepted, refused for good, or policy ends; then the last refusal is raised."""
    started_s = now_s()
    for attempt in itertools.count():
        sent_s = now_s()
        outcome = yield replace(send, timeout_s=policy.attempt_s)
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            return accepted(outcome, sent_s)
        error, again = refusal(outcome)
        left_s = started_s + policy.trouble_s - now_s()
        if not again or left_s <= 0:
            raise error
        yield Pause(min(pause_s(attempt, error.retry_after_s), left_s))
    raise AssertionError("unreachable")


def accepted(response: httpx.Response, sent_s: float) -> HubAnswer:
    """Return the answer to an accepted call that was sent at `sent_s`."""
    return HubAnswer(_json(response), response.headers, sent_s)


def refusal(outcome: Outcome) -> tuple[HubError, bool]:
    """Return the error that an outcome stands for, and whether another attempt is right."""
    if not isinstance(outcome, httpx.Response):
        reason = outcome.reason if outcome else "nothing was sent"
        return _away(reason, None), True
    status = outcome.status_code
    problem = _problem(outcome)
    retry_after_s = _retry_after_s(outcome)
    error = from_problem(problem, retry_after_s)
    again = status in RETRIED
    if again and status != 408 and not isinstance(error, Unavailable):
        error = _away(problem["detail"], retry_after_s)
    return error, again


def _away(reason: str, retry_after_s: float | None) -> HubError:
    away: HubError = HubUnavailable(reason)
    away.retry_after_s = retry_after_s  # None: no pause was asked for, and back-off alone decides
    return away


@contextmanager
def readable() -> Iterator[None]:
    """Raise `HubError` in this block for an answer that no hub gives."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HubError(f"the hub's answer cannot be read: {error!r}") from error


def passing(error: HubError) -> bool:
    """Return whether the same call may be accepted later: trouble of the hub or the way to it, not of the request."""
    status = error.facts.get("status") or error.status
    return int(status) >= 500 or status in RETRIED


def _json(response: httpx.Response) -> Any:
    if not response.content:
        return {}
    try:
        return response.json()
    except ValueError:
        raise HubError(f"{response.url} answered {response.status_code} with something that is not JSON") from None


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    known: dict[str, Any] = problem if isinstance(problem, dict) else {}
    sentence = f"{response.url} answered {response.status_code} {response.reason_phrase}".rstrip()
    return {**known, "status": response.status_code, "detail": known.get("detail") or sentence}


def _retry_after_s(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):  # absent, or the form with a date, which a clock that may be wrong cannot read
        return None
