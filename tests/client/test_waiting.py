"""A borrow that waits, attempt by attempt, without any hub: what is sent, when, and what is left behind."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from hub.client import Slot, backlog, exchange, slot, waiting
from hub.client.backlog import backlog_of
from hub.client.exchange import Pause, RetryPolicy, Send, Unreachable
from hub.client.naming import own_name
from hub.client.transport import Secret, SyncTransport
from hub.client.waiting import BorrowCall, borrow
from hub.errors import (
    DeadlineMissed,
    HubError,
    HubUnavailable,
    LabelQueueFull,
    NoCapacity,
    Stopping,
    Unauthorized,
    WaitedInVain,
    Withdrawn,
)
from tests.client.fake_hub import FakeHub
from tests.world import wait_until

CUT = Unreachable("the connection was cut")
REFUSED = Unreachable("connection refused", sent=False)


@dataclass
class Took:
    """An outcome that was so many seconds in coming."""

    outcome: httpx.Response | Unreachable | BaseException
    seconds: float


@dataclass
class Played:
    """A borrow that was played: its requests, each with the seconds since the first, and its end."""

    sent: list[tuple[float, Send]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    slot: Slot | None = None
    error: BaseException | None = None

    @property
    def what(self) -> list[str]:
        return [send.path.split("/")[2 if send.method == "POST" else 1] for _, send in self.sent]

    @property
    def waits(self) -> list[Any]:
        return [send.body.get("maxWaitSeconds") for _, send in self.sent if send.body and "borrow" in send.path]

    @property
    def keys(self) -> list[str]:
        return [send.headers["Idempotency-Key"] for _, send in self.sent if "borrow" in send.path]

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.sent]


class Line:
    """Plays borrows against scripted outcomes, on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.hub = FakeHub()
        self.backlog = backlog_of(SyncTransport("http://hub", Secret("secret"), self.hub.transport()))
        for module in (exchange, waiting, slot, backlog):
            monkeypatch.setattr(module, "now_s", lambda: self.now)

    def play(
        self,
        wanted: BorrowCall,
        outcomes: Iterable[Any],
        *,
        trouble_s: float = 10.0,
        cancel_in_pause: int | None = None,
    ) -> Played:
        played, left, begun = Played(), list(outcomes), self.now
        steps = borrow(wanted, RetryPolicy(trouble_s, 15.0), self.backlog)
        outcome: Any = None
        try:
            while True:
                if isinstance(outcome, BaseException):
                    step = steps.throw(outcome)
                else:
                    step = steps.send(outcome)
                outcome = None
                if isinstance(step, Pause):
                    played.pauses.append(step.seconds)
                    self.now += step.seconds
                    if len(played.pauses) == cancel_in_pause:
                        outcome = asyncio.CancelledError()
                    continue
                played.sent.append((self.now - begun, step))
                outcome = left.pop(0)
                if isinstance(outcome, Took):
                    self.now += outcome.seconds
                    outcome = outcome.outcome
        except StopIteration as done:
            played.slot = done.value
        except (HubError, asyncio.CancelledError) as error:
            played.error = error
        assert not left, "outcomes that were not asked for"
        return played


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    return Line(monkeypatch)


def response(status: int, document: dict[str, Any], retry_after: str | None = None) -> httpx.Response:
    headers = {"retry-after": retry_after} if retry_after else {}
    return httpx.Response(status, json=document, headers=headers, request=httpx.Request("POST", "http://hub/x"))


def refused(status: int, code: str, retry_after: str | None = None, **facts: Any) -> httpx.Response:
    return response(status, {"status": status, "code": code, "detail": f"told {code}", **facts}, retry_after)


def granted(ttl_s: float = 900) -> httpx.Response:
    return response(200, {"browserId": "s1", "leaseToken": "7", "labelKey": "gpu:a100", "ttlSeconds": ttl_s})


def vain(seconds: float = 30.0) -> Took:
    return Took(refused(503, "timeout", "1", ticket="key-1", position=2, estimatedWaitSeconds=None), seconds)


CANCELLED = response(200, {"cancelled": True})
UNKNOWN = refused(404, "unknown-ticket")
WANTED = BorrowCall("gpu:a100", {"wait": 70})


@pytest.mark.parametrize(
    ("wait_s", "asked"),
    [(0, 0), (-1, 0), (2.5, 2.5), (60, 60), (86_400, 86_400), (100_000, None), (math.inf, None)],
)
def test_the_hub_is_told_how_long_the_caller_waits_up_to_its_limit(
    line: Line, wait_s: float, asked: float | None
) -> None:
    assert line.play(BorrowCall("gpu:a100", {"wait": wait_s}), [granted()]).waits == [asked]


def test_the_options_of_a_borrow_are_sent_unchanged_and_a_priority_of_0_is_left_out(line: Line) -> None:
    played = line.play(
        BorrowCall(
            "gpu:a100", {"ttl": 90, "run": "r1", "run_name": "nightly", "name": "ada", "priority": -5, "wait": 10}
        ),
        [granted()],
    )
    assert played.sent[0][1].body == {
        "labelKey": "gpu:a100",
        "ttlSeconds": 90,
        "runId": "r1",
        "runName": "nightly",
        "name": "ada",
        "priority": -5,
        "maxWaitSeconds": 10,
    }
    plain = line.play(BorrowCall("gpu:a100"), [granted()])
    assert plain.sent[0][1].body == {"labelKey": "gpu:a100", "maxWaitSeconds": 0, "name": own_name()}


def test_every_attempt_of_a_borrow_names_the_realms_that_were_given_at_its_start(line: Line) -> None:
    realms = ["eu", "us"]
    once: Any = iter(realms)
    borrows = [BorrowCall("gpu:a100", {"wait": 70, "realms": given}) for given in (realms, once)]
    realms.append("asia")
    for wanted in borrows:
        sent = line.play(wanted, [vain(), granted()]).sent
        assert [send.body["realms"] for _, send in sent if send.body] == [["eu", "us"]] * 2


def test_the_read_timeout_is_the_wait_at_the_hub_plus_the_attempt_timeout(line: Line) -> None:
    played = line.play(BorrowCall("gpu:a100", {"wait": 40}), [vain(), granted()])
    assert [(send.timeout_s, send.wait_s) for _, send in played.sent] == [(15, 30), (15, 10)]


def test_a_wait_longer_than_the_hub_allows_is_continued_at_once_with_the_rest(line: Line) -> None:
    played = line.play(WANTED, [vain(), vain(), granted()])
    assert played.slot is not None
    assert (played.waits, played.times, len(set(played.keys))) == ([70, 40, 10], [0, 30, 60], 1)


def test_a_wait_without_a_limit_never_times_out(line: Line) -> None:
    played = line.play(BorrowCall("gpu:a100", {"wait": None}), [*[vain()] * 1000, Took(granted(), 7)])
    assert played.slot is not None
    assert (set(played.waits), len(set(played.keys)), played.times[-1]) == ({None}, 1, 30_000)


def test_a_hub_that_answers_waits_at_once_is_asked_with_pauses(line: Line) -> None:
    played = line.play(BorrowCall("gpu:a100", {"wait": 1}), [vain(0)] * 6 + [CANCELLED])
    assert played.times[:6] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_a_wait_that_times_out_tells_the_last_place_and_leaves_no_ticket(line: Line) -> None:
    played = line.play(WANTED, [vain(), vain(), vain(9.98), CANCELLED])
    assert isinstance(played.error, WaitedInVain)
    assert (played.error.facts["position"], played.error.facts["ticket"]) == (2, "key-1")
    assert played.what == ["borrow", "borrow", "borrow", "queue"]
    assert played.sent[-1][1].path == f"/queue/{played.keys[0]}"


@pytest.mark.parametrize("end", [CUT, response(504, {}), response(502, {})])
def test_a_connection_cut_while_waiting_is_made_again_at_once_and_keeps_the_place(line: Line, end: Any) -> None:
    played = line.play(WANTED, [Took(end, 12), Took(end, 20), granted()])
    assert played.slot is not None
    assert (played.waits, played.times, len(set(played.keys))) == ([70, 58, 38], [0, 12, 32], 1)


def test_a_waiter_retries_often_enough_to_keep_its_place_while_hubs_are_gone(line: Line) -> None:
    played = line.play(BorrowCall("gpu:a100", {"wait": 60}), [Took(CUT, 5), *[REFUSED] * 12, granted()])
    assert played.slot is not None
    assert len(set(played.keys)) == 1
    assert played.pauses[0] == 0
    assert max(played.pauses) <= 2
    assert played.times[-1] < 30


def test_a_stopping_hub_makes_the_waiter_ask_another_within_a_moment(line: Line) -> None:
    stopping = refused(503, "stopping", "30", ticket="key-1", position=1)
    played = line.play(WANTED, [Took(stopping, 8), stopping, stopping, granted()])
    assert played.slot is not None
    assert len(set(played.keys)) == 1
    assert played.times[-1] < 8 + 0.2 + 0.4 + 0.8 + 0.01


def test_a_pause_requested_by_the_hub_is_made(line: Line) -> None:
    played = line.play(WANTED, [refused(503, "settling", "5"), refused(503, "per-run-cap", "1"), granted()])
    assert 5 <= played.pauses[0] <= 6
    assert 1 <= played.pauses[1] <= 1.2


def test_a_borrow_without_an_answer_during_a_short_wait_raises_and_leaves_no_ticket(line: Line) -> None:
    played = line.play(BorrowCall("gpu:a100", {"wait": 2}), [Took(CUT, 5), refused(503, "no-capacity"), CANCELLED])
    assert type(played.error) is NoCapacity
    assert played.waits == [2, 0]


def test_without_wait_a_lack_of_slots_is_raised_at_once(line: Line) -> None:
    played = line.play(BorrowCall("gpu:a100"), [refused(503, "no-capacity", "1")])
    assert type(played.error) is NoCapacity


def test_an_estimated_wait_that_is_too_long_is_raised_at_once_with_the_place(line: Line) -> None:
    played = line.play(WANTED, [refused(503, "deadline", "99", position=4, estimatedWaitSeconds=99.5)])
    assert isinstance(played.error, DeadlineMissed)
    assert (played.error.facts["position"], played.error.facts["estimatedWaitSeconds"]) == (4, 99.5)
    assert played.pauses == []


def test_a_full_queue_is_retried_until_the_wait_is_over_and_once_more_then(line: Line) -> None:
    full = refused(503, "per-label-cap", "2")
    played = line.play(BorrowCall("gpu:a100", {"wait": 5}), [full] * 4)
    assert isinstance(played.error, LabelQueueFull)
    assert played.times[-1] == pytest.approx(5)
    assert played.what == ["borrow"] * 4


@pytest.mark.parametrize("ends", [[Took(asyncio.CancelledError(), 3)], [vain(), Took(asyncio.CancelledError(), 3)]])
@pytest.mark.parametrize("answers", [[CANCELLED], [UNKNOWN], [CUT, CANCELLED]])
def test_a_cancelled_borrow_gives_up_its_place_at_once(line: Line, ends: list[Any], answers: list[Any]) -> None:
    played = line.play(WANTED, [*ends, *answers])
    assert isinstance(played.error, asyncio.CancelledError)
    assert played.what == ["borrow"] * len(ends) + ["queue"] * len(answers)
    assert sum(played.pauses) <= 0.2
    assert {send.path for _, send in played.sent if send.method == "DELETE"} == {f"/queue/{played.keys[0]}"}


def test_a_borrow_cancelled_between_two_attempts_gives_up_its_place(line: Line) -> None:
    played = line.play(WANTED, [CUT, CANCELLED], cancel_in_pause=1)
    assert isinstance(played.error, asyncio.CancelledError)
    assert played.what == ["borrow", "queue"]


@pytest.mark.parametrize("before", [REFUSED, refused(503, "per-label-cap", "1"), refused(503, "settling", "1")])
def test_a_cancelled_borrow_without_a_place_gives_up_nothing(line: Line, before: Any) -> None:
    assert line.play(WANTED, [before], cancel_in_pause=1).what == ["borrow"]


def test_a_lease_granted_during_the_cancellation_is_returned(line: Line) -> None:
    took = [Took(asyncio.CancelledError(), 3), refused(409, "ticket-granted"), granted(), response(200, {})]
    played = line.play(WANTED, took)
    assert isinstance(played.error, asyncio.CancelledError)
    place = f"/queue/{played.keys[0]}"
    asked = [("POST", "/session/borrow"), ("DELETE", place), ("GET", place), ("POST", "/session/return")]
    assert [(send.method, send.path) for _, send in played.sent] == asked
    assert played.sent[-1][1].body == {"labelKey": "gpu:a100", "browserId": "s1", "leaseToken": "7"}


def test_a_cancelled_borrow_gives_up_a_place_that_was_granted_and_freed_meanwhile(line: Line) -> None:
    away = response(200, {"ticket": "key-1", "state": "away"})
    cancel = Took(asyncio.CancelledError(), 3)
    played = line.play(WANTED, [cancel, refused(409, "ticket-granted"), away, CANCELLED])
    assert isinstance(played.error, asyncio.CancelledError)
    assert [send.method for _, send in played.sent] == ["POST", "DELETE", "GET", "DELETE"]


@pytest.mark.parametrize("over", [refused(409, "grant-over"), refused(404, "unknown-ticket")])
def test_a_lease_that_the_hub_has_undone_itself_is_not_returned(
    line: Line, over: httpx.Response, caplog: pytest.LogCaptureFixture
) -> None:
    played = line.play(WANTED, [Took(asyncio.CancelledError(), 3), refused(409, "ticket-granted"), over])
    assert isinstance(played.error, asyncio.CancelledError)
    assert caplog.text == ""


def test_a_place_that_cannot_be_given_up_is_logged_and_the_cancellation_is_raised(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    played = line.play(WANTED, [Took(asyncio.CancelledError(), 3), Took(CUT, 2)])
    assert isinstance(played.error, asyncio.CancelledError)
    assert "could not give up the place in the queue for gpu:a100 yet (the connection was cut)" in caplog.text
    wait_until(lambda: len(line.hub.seen) == 1)
    assert line.hub.seen[0].method == "DELETE"


def test_a_place_that_the_hub_refuses_to_give_up_is_logged_once(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    played = line.play(WANTED, [Took(asyncio.CancelledError(), 3), refused(403, "forbidden")])
    assert isinstance(played.error, asyncio.CancelledError)
    assert (
        "could not give up the place in the queue for gpu:a100 (told forbidden); it lapses in a minute" in caplog.text
    )
    assert not line.backlog.waiting()


@pytest.mark.parametrize(
    ("end", "kind", "left"),
    [
        (refused(401, "unauthorized"), Unauthorized, ["queue"]),
        (Took(CUT, 80), HubUnavailable, ["queue"]),
        (Took(refused(503, "stopping"), 80), Stopping, ["queue"]),
        (response(200, {"browserId": "s1"}), HubError, ["queue"]),
    ],
)
def test_every_end_of_a_borrow_gives_up_its_place(line: Line, end: Any, kind: type[HubError], left: list[str]) -> None:
    played = line.play(WANTED, [Took(CUT, 1), end, CANCELLED])
    assert type(played.error) is kind
    assert played.what == ["borrow", "borrow", *left]


def test_a_borrow_that_never_reached_a_hub_ends_without_further_calls(line: Line) -> None:
    played = line.play(BorrowCall("gpu:a100"), [Took(REFUSED, 20)])
    assert isinstance(played.error, HubUnavailable)
    assert played.what == ["borrow"]


def test_a_lease_that_may_have_begun_long_before_its_answer_is_requested_again(line: Line) -> None:
    played = line.play(WANTED, [Took(granted(30), 25), granted(29.9)])
    assert played.slot is not None
    assert (played.what, len(set(played.keys))) == (["borrow", "borrow"], 1)
    assert played.slot.seconds_left() == pytest.approx(29.9 - 1)


def test_a_lease_much_longer_than_the_wait_is_accepted_as_it_is(line: Line) -> None:
    played = line.play(WANTED, [Took(granted(900), 25)])
    assert played.slot is not None
    assert played.slot.seconds_left() == pytest.approx(900 - 25 - 1)


def test_a_second_late_answer_is_accepted_as_it_is(line: Line) -> None:
    played = line.play(WANTED, [Took(granted(30), 25), Took(granted(30), 20)])
    assert played.slot is not None
    assert played.slot.seconds_left() == pytest.approx(30 - 20 - 1)


@pytest.mark.parametrize("lost", [CUT, Took(granted(2), 5), refused(503, "store-unavailable")])
def test_a_lease_that_ended_before_its_answer_came_is_requested_with_a_new_key(line: Line, lost: Any) -> None:
    played = line.play(WANTED, [lost, refused(409, "grant-over"), granted()])
    assert played.slot is not None
    assert played.keys[0] == played.keys[1] != played.keys[2]


@pytest.mark.parametrize("before", [[], [vain()]])
def test_a_ticket_cancelled_by_another_caller_is_not_requested_again(line: Line, before: list[Any]) -> None:
    played = line.play(WANTED, [*before, Took(refused(409, "withdrawn"), 3)])
    assert isinstance(played.error, Withdrawn)


def test_a_hub_that_stays_away_is_logged_once(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    line.play(WANTED, [*[REFUSED] * 8, granted()])
    assert caplog.text.count("a slot of gpu:a100 is still being asked for: connection refused") == 1
