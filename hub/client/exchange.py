"""The calls of the SDK as steps without I/O, played by the drivers of `transport`: one for asyncio, one for threads.

A call is a generator that yields `Send` or `Pause`; the driver carries the step out and sends its outcome into the
generator. So retries, back-off, borrowing and renewing are written once. When a step is interrupted, by Ctrl-C or the
cancellation of the asyncio task, the exception is raised in the generator at its `yield`, so that it can clean up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx

from hub.errors import HubError, HubUnavailable, JobsProblem, Malformed, Unauthorized, Unavailable, UnknownReply
from hub.retries import now_s, pause_s

T = TypeVar("T")

RETRIED = frozenset({408, 429, 502, 503, 504})
_OF_BROWSERS, _OF_SLOTS = "No browser available", "No slot available"  # the hub sends the first, for older clients
_OF_EVERY_PROBLEM = ("type", "title", "detail", "instance")


@dataclass(frozen=True, slots=True)
class Send:
    """A step that is one HTTP request; its outcome is a `httpx.Response` or an `Unreachable`.

    The body is the JSON of `body`, or `content` unchanged. The answer may take `timeout_s`, and `wait_s` more, for
    which the hub may hold the call, as in the queue.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 15.0
    wait_s: float = 0.0
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A step that lets `seconds` pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The outcome of a request without an answer. When it was `sent`, the hub may have received it all the same."""

    reason: str
    sent: bool = True


Outcome = httpx.Response | Unreachable | None
Steps = Generator[Send | Pause, Outcome, T]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The time limits of a call: attempts are started for `trouble_s` seconds, and each may take `attempt_s`."""

    trouble_s: float = 10.0
    attempt_s: float = 15.0


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """The answer to an accepted call, which was sent at `since_s` on the clock of `now_s`."""

    data: Any
    headers: Mapping[str, str]
    since_s: float


# A function that returns for how many seconds a call may still be repeated.
Left = Callable[[], float]


def lasting(seconds: float) -> Left:
    """Return a function that returns how many of `seconds`, counted from now, are left."""
    until_s = now_s() + seconds
    return lambda: until_s - now_s()


def exchange(send: Send, policy: RetryPolicy) -> Steps[HubAnswer]:
    """Send until the hub accepts, and return its answer; raises the last error when it is final or no time is left."""
    return repeated(send, policy.attempt_s, lasting(policy.trouble_s))


def repeated(send: Send, attempt_s: float, left_s: Left, longest_pause_s: float = math.inf) -> Steps[HubAnswer]:
    """Send as `exchange` does: attempts are started while `left_s()` is more than 0, and each may take `attempt_s`."""
    for attempt in itertools.count():
        sent_s = now_s()
        outcome = yield replace(send, timeout_s=attempt_s)
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            return accepted(outcome, sent_s)
        error, again = refusal(outcome)
        if not again or left_s() <= 0:
            raise error
        yield Pause(min(pause_s(attempt, error.retry_after_s), longest_pause_s, max(0.0, left_s())))
    raise AssertionError("unreachable")


def accepted(response: httpx.Response, sent_s: float) -> HubAnswer:
    """Return an accepted response as the answer to a call that was sent at `sent_s`."""
    return HubAnswer(_json(response), response.headers, sent_s)


def refusal(outcome: Outcome) -> tuple[HubError, bool]:
    """Return the error of an outcome that is no success, and whether another attempt is worth it.

    It is not after a refusal of the jobs API itself, whatever its HTTP status.
    """
    if not isinstance(outcome, httpx.Response):
        reason = outcome.reason if outcome else "nothing was sent"
        return _away(reason, None), True
    problem, retry_after_s = _problem(outcome), _retry_after_s(outcome)
    error = from_problem(problem, retry_after_s)
    if outcome.status_code not in RETRIED or (isinstance(error, JobsProblem) and error.code == code_of(problem)):
        return error, False
    if outcome.status_code != 408 and not isinstance(error, Unavailable):
        error = _away(problem["detail"], retry_after_s)
    return error, True


def _away(reason: str, retry_after_s: float | None) -> HubError:
    away: HubError = HubUnavailable(reason)
    away.retry_after_s = retry_after_s  # None: the hub asked for no pause; back-off decides
    return away


@contextmanager
def readable() -> Iterator[None]:
    """Turn errors in the block, which reads an answer of the hub, into a `HubError` that says so."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HubError(f"the hub's answer cannot be read: {error!r}") from error


def words_of(error: BaseException) -> str:
    """Return the text of an error, or its name where it has no text."""
    return str(error) or type(error).__name__


def passing(error: HubError) -> bool:
    """Return whether the same call may be accepted later, because the hub or the way to it failed, not the request."""
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
    except (KeyError, ValueError):  # absent, or a date, which means nothing where the clock may be wrong
        return None


# -- problem documents --------------------------------------------------------------------------------------------


def _tree(base: type[HubError]) -> list[type[HubError]]:
    return [kind for child in base.__subclasses__() for kind in (child, *_tree(child))]


def code_of(problem: dict[str, Any]) -> str:
    """Return the code of a problem document; the jobs API has it at the end of `type`."""
    return str(problem.get("code") or str(problem.get("type", "")).rpartition("/")[2])


def from_problem(problem: dict[str, Any], retry_after_s: float | None = None) -> HubError:
    """Return the error of a problem document, of the class that the hub raised; a `HubError` if it is unknown.

    The class is found by the code, or else it is the most general class of the status. Its `facts` are the other
    members: `status`, `code`, and those of the refusal itself.
    """
    status, detail = problem.get("status"), problem.get("detail")
    code = code_of(problem)
    kinds = _tree(HubError)
    kind = next((k for k in kinds if k.code == code), None) or next((k for k in kinds if k.status == status), HubError)
    if isinstance(detail, list):  # from the jobs API, for a request that does not validate
        kind, detail = Malformed, "; ".join(str(fault.get("msg", fault)) for fault in detail if isinstance(fault, dict))
        problem = {**problem, "errors": problem["detail"]}
    if isinstance(detail, str) and detail.startswith(_OF_BROWSERS):
        detail = f"{_OF_SLOTS}{detail.removeprefix(_OF_BROWSERS)}"
    if isinstance(detail, str) and isinstance(hint := problem.get("hint"), str):
        detail = f"{detail.rstrip('.')}: {hint}"
    error = kind(detail) if kind is not UnknownReply else HubError(detail)
    error.facts = {name: value for name, value in problem.items() if name not in _OF_EVERY_PROBLEM}
    if retry_after_s is not None:
        error.retry_after_s = retry_after_s
    return error


def heard(error: HubError, shown: str) -> HubError:
    """Return the error without traceback, for the program; `shown` is added to the text of a refused secret."""
    if isinstance(error, Unauthorized) and shown and not str(error).endswith(shown):
        error.detail = f"{str(error).rstrip('.')}; {shown}"
        error.args = (error.detail,)
    return error.with_traceback(None)
