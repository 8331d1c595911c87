"""Retries, back-off and the reading of refusals, without any hub."""

from __future__ import annotations

import httpx
import pytest

from hub.client import exchange as module
from hub.client.exchange import HubAnswer, Pause, RetryPolicy, Send, Unreachable, exchange
from hub.errors import (
    BadInput,
    HubError,
    HubUnavailable,
    InvalidLabel,
    InvalidValue,
    LeaseOver,
    NoCapacity,
    SlotLent,
    StoreUnavailable,
    Unauthorized,
    WaitedInVain,
)
from hub.retries import pause_s

URL = "http://hub/session/borrow"
LOST = Unreachable("no answer")
AWAY = (503, "store-unavailable")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "now_s", clock)
    return clock


def response(status: int, code: str | None = None, retry_after: str | None = None) -> httpx.Response:
    body = {"browserId": "s1"} if code is None else {"code": code, "status": status, "detail": f"told {code}"}
    headers = {"retry-after": retry_after} if retry_after else {}
    return httpx.Response(status, json=body, headers=headers, request=httpx.Request("POST", URL))


def play(
    clock: Clock, outcomes: list[object], policy: RetryPolicy, took_s: float = 0.0
) -> tuple[HubAnswer, list[float]]:
    """Run the steps against scripted outcomes; the answer, and the pauses made."""
    steps, pauses, left = exchange(Send("POST", "/x"), policy), [], list(outcomes)
    step = next(steps)
    try:
        while True:
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                clock.now += step.seconds
                step = steps.send(None)
            else:
                clock.now += took_s
                step = steps.send(left.pop(0))  # type: ignore[arg-type]
    except StopIteration as done:
        assert not left, "outcomes that were not asked for"
        return done.value, pauses


@pytest.mark.parametrize(
    "trouble",
    [LOST, *(response(status, "x") for status in (408, 429, 502, 504)), response(503, "stopping")],
)
def test_a_transient_failure_is_retried(clock: Clock, trouble: object) -> None:
    answer, pauses = play(clock, [trouble, trouble, response(200)], RetryPolicy(trouble_s=100))
    assert answer.data == {"browserId": "s1"}
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("refused", "kind"),
    [
        (response(401, "unauthorized"), Unauthorized),
        (response(400, "bad-request"), BadInput),
        (response(400, "invalid-value"), InvalidValue),
        (response(400, "invalid-label"), InvalidLabel),
        (response(409, "grant-over"), LeaseOver),
        (response(409, "slot-lent"), SlotLent),
        (response(503, "no-capacity"), NoCapacity),
        (httpx.Response(200, text="<html>", request=httpx.Request("POST", URL)), HubError),
    ],
)
def test_a_refusal_is_raised_as_the_same_class_that_the_hub_raised(
    clock: Clock, refused: httpx.Response, kind: type[HubError]
) -> None:
    with pytest.raises(kind) as raised:
        play(clock, [refused], RetryPolicy(trouble_s=0))
    assert raised.type is kind


def test_an_error_of_a_proxy_without_a_problem_document_counts_as_a_hub_that_is_away(clock: Clock) -> None:
    page = httpx.Response(502, text="<html>", request=httpx.Request("POST", URL))
    with pytest.raises(HubUnavailable, match="502"):
        play(clock, [page], RetryPolicy(trouble_s=0))


def test_when_retries_are_used_up_the_last_refusal_is_raised(clock: Clock) -> None:
    with pytest.raises(StoreUnavailable):
        play(clock, [LOST, *[response(503, "store-unavailable")] * 50], RetryPolicy(trouble_s=5))
    assert 105 <= clock.now < 106


def test_a_raised_refusal_has_the_members_of_its_problem_document(clock: Clock) -> None:
    said = {"status": 503, "code": "timeout", "detail": "in vain", "ticket": "key-7", "position": 3, "instance": "/x"}
    with pytest.raises(WaitedInVain, match="in vain") as raised:
        play(clock, [httpx.Response(503, json=said, request=httpx.Request("POST", URL))], RetryPolicy(trouble_s=0))
    assert raised.value.facts == {"status": 503, "code": "timeout", "ticket": "key-7", "position": 3}


def test_a_retry_comes_no_sooner_than_retry_after_says(clock: Clock) -> None:
    _, pauses = play(clock, [response(503, "settling", retry_after="3"), response(200)], RetryPolicy(trouble_s=100))
    assert 3.0 <= pauses[0] <= 3.6


def test_the_back_off_doubles_up_to_its_limit_and_is_jittered() -> None:
    for attempt, longest in enumerate([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]):
        drawn = {pause_s(attempt) for _ in range(50)}
        assert longest / 2 <= min(drawn) < max(drawn) <= longest


@pytest.mark.parametrize("before", [[], [LOST, LOST], [response(*AWAY)], [LOST, response(*AWAY)]])
def test_the_age_of_an_answer_is_counted_from_its_own_request(clock: Clock, before: list[object]) -> None:
    """It names what is left of a lease, also when an earlier attempt has made the lease."""
    answer, _ = play(clock, [*before, response(200)], RetryPolicy(trouble_s=50), took_s=1)
    assert answer.since_s == clock.now - 1
