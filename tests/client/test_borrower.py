"""Borrowing: what holds while the block runs, and how it ends; most of it for asyncio and for threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise

import httpx
import pytest

from hub.client import HubClient, LeaseLost, NoCapacity, Slot, SyncHubClient, Unauthorized
from hub.client import slot as slot_module
from hub.client.naming import own_name
from hub.client.using import Ending
from hub.errors import HubUnavailable
from tests.client.both import Kind, until_lost
from tests.client.fake_hub import FakeHub, Reset, eventually
from tests.world import PATIENCE_S, SLACK_S

BORROW, RENEW, RETURN = "POST /session/borrow", "POST /session/renew", "POST /session/return"


@pytest.fixture
def wide_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the lease as margin, so that a busy machine does not decide the test."""
    monkeypatch.setattr(slot_module, "MARGIN_SHARE", 0.5)
    monkeypatch.setattr(slot_module, "MARGIN_MAX_S", 60)


def client_of(hub: FakeHub, kind: Kind = HubClient, **options: float) -> HubClient:
    made: HubClient = kind("http://hub", "secret", transport=hub.transport(), **options)
    return made


async def until_stopped(slot: Slot | None = None) -> None:
    await asyncio.sleep(60)


async def hold(client: HubClient, block: Callable[[Slot], Awaitable[None]] = until_lost) -> None:
    async with client, client.borrow("gpu:a100") as slot:
        await block(slot)


async def test_a_block_holds_its_slot_and_returns_it_with_its_token(hub: FakeHub, kind: Kind) -> None:
    async with (
        client_of(hub, kind) as client,
        client.borrow("gpu:a100:eu", ttl=30, run="r1", run_name="nightly") as slot,
    ):
        facts = (slot.id, slot.endpoint, slot.label, slot.matched_label, slot.token, slot.node_id, slot.run, slot.item)
        assert facts == ("s1", "ws://there", "gpu:a100:eu", "gpu:a100", "1", "n1", "r1", {"memoryGb": 80})
        assert 29 - SLACK_S < slot.seconds_left() <= 29
        assert "s1 of gpu:a100" in repr(slot)
        slot.check()
    assert [seen.what for seen in hub.seen] == [BORROW, RETURN]
    assert hub.seen[0].body == {
        "labelKey": "gpu:a100:eu",
        "ttlSeconds": 30,
        "runId": "r1",
        "runName": "nightly",
        "name": own_name(),
        "maxWaitSeconds": 0,
    }
    assert hub.seen[0].headers["x-hub-secret"] == "secret"
    assert hub.seen[1].headers["prefer"] == "wait=2"  # a block that is over is not held up for longer
    assert hub.seen[1].body == {"labelKey": "gpu:a100", "browserId": "s1", "leaseToken": "1"}
    with pytest.raises(LeaseLost, match="given back"):
        slot.check()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("renew-")]


async def test_an_error_in_the_block_returns_the_slot_and_is_raised(hub: FakeHub, kind: Kind) -> None:
    async with client_of(hub, kind) as client:
        with pytest.raises(ZeroDivisionError):
            async with client.borrow("gpu:a100"):
                _ = 1 / 0
    assert hub.lent == {}


async def test_all_attempts_of_one_borrow_have_one_key_and_take_one_slot(hub: FakeHub, kind: Kind) -> None:
    def grant_and_lose_the_answer(seen: object) -> None:
        hub.play(seen)  # type: ignore[arg-type]
        raise Reset

    hub.say(BORROW, grant_and_lose_the_answer, (503, "store-unavailable"))
    async with client_of(hub, kind) as client:
        slot = await client.acquire("gpu:a100")
        other = await client.acquire("gpu:a100")
    keys = [seen.headers["idempotency-key"] for seen in hub.said(BORROW)]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert (slot.id, other.id) == ("s1", "s2")


LATE_S = 1.2


async def test_a_borrow_answered_late_counts_only_the_rest_of_its_lease(hub: FakeHub) -> None:
    async def grant_slowly(request: httpx.Request) -> httpx.Response:
        answer = hub.answer(request)
        if len(hub.said(BORROW)) == 1 and not hub.said(RENEW):
            await asyncio.sleep(60)
        return answer

    hub.ttl_s = 6
    transport = httpx.MockTransport(grant_slowly)
    async with HubClient("http://hub", attempt_timeout=LATE_S, transport=transport) as client:
        async with client.borrow("gpu:a100", ttl=6) as slot:
            assert 0.2 < slot.ttl_s <= 6 - LATE_S + 0.1  # a timer may ring a moment early
            assert slot.seconds_left() > 0.1
            await eventually(lambda: slot.ttl_s == 6)
        unasked = await client.acquire("gpu:a100")
        await client.renew(unasked)
    assert hub.said(RENEW)[0].body == {"browserId": "s1", "leaseToken": "1", "ttlSeconds": 6}
    assert hub.said(RENEW)[-1].body == {"browserId": "s2", "leaseToken": "2"}


async def test_a_lease_that_ended_before_its_answer_came_is_requested_with_a_new_key(hub: FakeHub) -> None:
    hub.say(BORROW, Reset(), (409, "grant-over"))
    async with client_of(hub) as client:
        assert (await client.acquire("gpu:a100")).id == "s1"
    keys = [seen.headers["idempotency-key"] for seen in hub.said(BORROW)]
    assert keys[0] == keys[1] != keys[2]


async def test_without_wait_a_lack_of_slots_is_raised_at_once(hub: FakeHub, kind: Kind) -> None:
    hub.free = []
    async with client_of(hub, kind) as client:
        with pytest.raises(NoCapacity):
            async with client.borrow("gpu:a100"):
                pass
    assert len(hub.seen) == 1


async def test_with_wait_the_borrow_gets_the_slot_that_is_freed(hub: FakeHub, kind: Kind) -> None:
    hub.free = []
    async with client_of(hub, kind) as client:
        waiting = asyncio.create_task(client.acquire("gpu:a100", wait=5))
        await eventually(lambda: len(hub.seen) >= 2)
        hub.free = ["s9"]
        assert (await waiting).id == "s9"
    assert len({seen.headers["idempotency-key"] for seen in hub.seen}) == 1


async def test_a_borrow_cancelled_in_the_queue_gives_up_its_place_and_stays_cancelled(hub: FakeHub) -> None:
    async with HubClient("http://hub", transport=hub.slow_transport(BORROW, 60)) as client:
        hub.free = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.acquire("gpu:a100", wait=None)
    assert [seen.method for seen in hub.seen] == ["DELETE"]
    assert hub.seen[0].path.startswith("/queue/")


async def test_a_lease_granted_during_the_cancellation_is_returned(hub: FakeHub) -> None:
    async def grant_and_keep_the_answer(request: httpx.Request) -> httpx.Response:
        answer = hub.answer(request)
        if request.url.path == "/session/borrow":
            await asyncio.sleep(60)
        return answer

    async with HubClient("http://hub", transport=httpx.MockTransport(grant_and_keep_the_answer)) as client:
        task = asyncio.create_task(client.acquire("gpu:a100"))
        await eventually(lambda: hub.lent == {"s1": "1"})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert hub.lent == {}  # the end of the client has waited for that


async def test_the_read_timeout_grows_by_the_wait_and_the_connect_timeout_does_not(hub: FakeHub) -> None:
    bounds: list[dict[str, float]] = []

    def note(request: httpx.Request) -> httpx.Response:
        bounds.append(dict(request.extensions["timeout"]))
        return hub.answer(request)

    async with HubClient("http://hub", transport=httpx.MockTransport(note)) as client:
        await client.acquire("gpu:a100", wait=None)
        await client.acquire("gpu:a100")
    assert [(bound["connect"], bound["read"]) for bound in bounds] == [(15, 45), (15, 15)]


async def test_a_hub_that_is_away_is_named_in_the_error_after_the_timeout() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    async with HubClient("http://hub", timeout=0.05, transport=httpx.MockTransport(refuse)) as client:
        with pytest.raises(HubUnavailable, match=r"no answer from http://hub.*refused"):
            await client.acquire("gpu:a100")


async def test_an_attempt_at_a_call_without_an_answer_is_given_up_after_the_attempt_timeout(hub: FakeHub) -> None:
    transport = hub.slow_transport("GET /pools", 60)
    async with HubClient("http://hub", timeout=0, attempt_timeout=0.05, transport=transport) as client:
        with pytest.raises(HubUnavailable):
            await client.pools()


async def test_a_borrow_with_a_wrong_secret_is_not_retried(hub: FakeHub, kind: Kind) -> None:
    hub.say(BORROW, (401, "unauthorized"))
    async with client_of(hub, kind) as client:
        with pytest.raises(Unauthorized):
            await client.acquire("gpu:a100")
    assert len(hub.seen) == 1


async def test_the_lease_is_renewed_about_every_third_of_its_length(hub: FakeHub) -> None:
    hub.ttl_s = 6
    async with client_of(hub) as client, client.borrow("gpu:a100", ttl=6) as slot:
        await eventually(lambda: len(hub.said(RENEW)) >= 3)
        slot.check()
    times = [seen.at for seen in hub.said(RENEW)]
    assert hub.said(RENEW)[0].body == {"browserId": "s1", "leaseToken": "1", "ttlSeconds": 6}
    gaps = [after - before for before, after in pairwise(times)]
    assert 1.4 < min(gaps) < 4  # the other may have been stretched by the machine


async def test_a_lease_that_cannot_be_renewed_ends_the_block_before_it_ends(
    hub: FakeHub, kind: Kind, wide_margin: None
) -> None:
    hub.ttl_s = 8
    hub.say(RENEW, *[Reset() for _ in range(1000)])
    states = []

    async def block(slot: Slot) -> None:
        try:
            await until_lost(slot)
        finally:
            states.append(slot.lost.is_set())

    begun = time.monotonic()
    with pytest.raises(LeaseLost, match=r"s1 of gpu:a100 is lost: not renewed in time \(.*reset") as lost:
        await hold(client_of(hub, kind), block)
    assert 4 <= time.monotonic() - begun < 8
    assert states == [True]
    assert isinstance(lost.value.__cause__, asyncio.CancelledError) == (kind is HubClient)
    # One of the renewals may have been carried out all the same.
    await eventually(lambda: bool(hub.said(RETURN)))
    assert [seen.body["leaseToken"] for seen in hub.said(RETURN)] == [hub.said(RENEW)[0].body["leaseToken"]]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize(
    ("granted_s", "why"), [(1, "it was recalled for a team below its guarantee"), (2, r"not renewed in time \(.*reset")]
)
async def test_a_lease_that_its_rule_ends_is_lost_by_that_rule_also_if_its_last_renewal_has_no_answer(
    hub: FakeHub, kind: Kind, granted_s: float, why: str
) -> None:
    hub.ttl_s = 2

    async def block(slot: Slot) -> None:
        slot.use.heard(slot.id, "end", Ending("recall", granted_s))
        await until_lost(slot)

    hub.say(RENEW, lambda _: {"ttlSeconds": granted_s}, *[Reset() for _ in range(1000)])
    with pytest.raises(LeaseLost, match=why):
        await hold(client_of(hub, kind), block)


async def test_a_hub_that_hangs_makes_the_lease_lost_in_time_too(hub: FakeHub, wide_margin: None) -> None:
    hub.ttl_s = 8
    begun = time.monotonic()
    with pytest.raises(LeaseLost):
        await hold(HubClient("http://hub", transport=hub.slow_transport(RENEW, 60)))
    assert time.monotonic() - begun < 8


async def test_a_transient_failure_does_not_lose_the_lease(hub: FakeHub, kind: Kind) -> None:
    hub.ttl_s = 9
    hub.say(RENEW, Reset(), (503, "store-unavailable"), (401, "unauthorized"), (500, "internal"))
    async with client_of(hub, kind) as client, client.borrow("gpu:a100") as slot:
        await eventually(lambda: len(hub.said(RENEW)) >= 6)
        slot.check()


async def test_a_lease_that_the_hub_has_ended_ends_the_block_at_once(hub: FakeHub, kind: Kind) -> None:
    hub.ttl_s = 6

    async def block(slot: Slot) -> None:
        hub.lent.clear()
        await until_lost(slot)

    with pytest.raises(LeaseLost, match="told grant-over"):
        await hold(client_of(hub, kind), block)
    (said,) = hub.said(RETURN)  # that it has stopped: the hub may have kept the slot for that
    assert said.body["leaseToken"]


async def test_a_block_that_never_awaits_learns_of_the_loss_at_its_end_and_from_check(hub: FakeHub) -> None:
    hub.ttl_s = 0.05
    refused = []

    async def block(slot: Slot) -> None:
        while slot.seconds_left() > 0:
            pass
        with pytest.raises(LeaseLost) as lost:
            slot.check()
        refused.append(lost.value)

    with pytest.raises(LeaseLost):
        await hold(client_of(hub), block)
    assert len(refused) == 1


async def test_an_error_raised_in_a_lost_block_is_the_cause_of_lease_lost(hub: FakeHub, kind: Kind) -> None:
    hub.ttl_s = 0.1
    hub.say(RENEW, (409, "grant-over"))

    async def block(slot: Slot) -> None:
        try:
            await until_lost(slot)
        finally:
            raise OSError("socket closed")

    with pytest.raises(LeaseLost) as lost:
        await hold(client_of(hub, kind), block)
    assert isinstance(lost.value.__cause__, OSError)


async def test_renewals_that_break_make_the_lease_lost_with_an_error(
    hub: FakeHub, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    async def broken_too(*_: object) -> None:
        broken()

    monkeypatch.setattr(HubClient, "keep", broken_too)
    monkeypatch.setattr(SyncHubClient, "keep", broken)
    with pytest.raises(LeaseLost, match="renewing broke off with RuntimeError"):
        await hold(client_of(hub, kind))


async def test_a_task_cancelled_during_its_cleanup_after_a_loss_stays_cancelled(hub: FakeHub) -> None:
    hub.ttl_s = 0.1
    hub.say(RENEW, (409, "grant-over"))
    cleaning = asyncio.Event()

    async def block(slot: Slot) -> None:
        try:
            await until_stopped()
        finally:
            cleaning.set()
            await until_stopped()

    task = asyncio.create_task(hold(client_of(hub), block))
    await cleaning.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_cancelling_the_task_returns_the_slot_and_stays_a_cancellation(hub: FakeHub) -> None:
    async with client_of(hub) as client:

        async def work() -> None:
            async with client.borrow("gpu:a100"):
                await until_stopped()

        task = asyncio.create_task(work())
        await eventually(lambda: hub.lent)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert hub.lent == {}  # the end of the client has waited for that


async def test_a_cancelled_return_is_tried_once_more_and_the_task_stays_cancelled(hub: FakeHub) -> None:
    returning = asyncio.Event()

    async def hang_once(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/session/return" and not returning.is_set():
            returning.set()
            await asyncio.sleep(60)
        return hub.answer(request)

    async with HubClient("http://hub", transport=httpx.MockTransport(hang_once)) as client:

        async def work() -> None:
            async with client.borrow("gpu:a100"):
                pass

        task = asyncio.create_task(work())
        await returning.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert hub.lent == {}  # the end of the client has waited for that


async def test_a_timeout_around_a_lost_block_is_not_taken_for_the_loss(hub: FakeHub) -> None:
    hub.ttl_s = 0.1
    hub.say(RENEW, *[Reset() for _ in range(1000)])
    async with client_of(hub) as client:
        with pytest.raises(LeaseLost):
            async with asyncio.timeout(PATIENCE_S), client.borrow("gpu:a100"):
                await until_stopped()
        hub.ttl_s = 30
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), client.borrow("gpu:a100"):
                await until_stopped()


async def test_returning_the_slot_inside_the_block_ends_the_lease_without_an_error(hub: FakeHub, kind: Kind) -> None:
    async with client_of(hub, kind) as client, client.borrow("gpu:a100") as slot:
        assert await client.give_back(slot)
        with pytest.raises(LeaseLost):
            slot.check()
        with pytest.raises(StopIteration):  # it is renewed no more
            next(slot_module.keep(slot))
        assert not await client.give_back(slot)
    assert len(hub.said(RETURN)) == 2
    assert hub.said(RENEW) == []


async def test_a_slot_that_cannot_be_returned_is_left_until_its_lease_ends(
    hub: FakeHub, kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    hub.say(RETURN, Reset(), (503, "stopping"), (400, "invalid-value"))
    async with client_of(hub, kind) as client, client.borrow("gpu:a100"):
        pass
    assert "could not return slot s1 (told invalid-value); it stays lent until " in caplog.text
    assert len(hub.said(RETURN)) == 3


async def test_renewing_by_hand_extends_the_lease_and_says_when_it_is_over(hub: FakeHub, kind: Kind) -> None:
    async with client_of(hub, kind) as client:
        slot = await client.acquire("gpu:a100")
        hub.ttl_s = 600
        await client.renew(slot, ttl=600)
        assert 570 < slot.seconds_left() <= 599
        hub.lent.clear()
        with pytest.raises(LeaseLost):
            await client.renew(slot)
        assert slot.lost.is_set()


async def test_after_an_unanswered_shorter_renewal_the_shorter_lease_is_assumed(hub: FakeHub) -> None:
    hub.say(RENEW, Reset())
    async with client_of(hub, timeout=0) as client:
        slot = await client.acquire("gpu:a100")
        with pytest.raises(HubUnavailable):
            await client.renew(slot, ttl=5)
    assert slot.seconds_left() < 5
    assert slot.renewal_in_s() < 0


async def test_a_machine_that_was_suspended_loses_its_slot_when_it_wakes(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_module, "LOOK_S", 0.02)

    async def block(slot: Slot) -> None:
        now_s = slot_module.now_s
        monkeypatch.setattr(slot_module, "now_s", lambda: now_s() + 3600)
        await until_stopped()

    with pytest.raises(LeaseLost):
        await hold(client_of(hub), block)


async def test_an_answer_without_a_token_is_raised_as_an_error(hub: FakeHub) -> None:
    hub.say(BORROW, lambda seen: {"browserId": "s1", "labelKey": "gpu:a100"})
    async with client_of(hub) as client:
        with pytest.raises(Exception, match=r"answer cannot be read.*leaseToken"):
            await client.acquire("gpu:a100")


async def test_an_unreadable_answer_to_a_renewal_is_a_transient_failure(hub: FakeHub) -> None:
    hub.ttl_s = 9
    hub.say(RENEW, lambda seen: httpx.Response(200, text="<html>"), lambda seen: {"browserId": "s1"})
    async with client_of(hub) as client, client.borrow("gpu:a100") as slot:
        await eventually(lambda: len(hub.said(RENEW)) >= 4)
        assert isinstance(slot, Slot)
