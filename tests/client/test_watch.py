"""A client acts on the answer that one of its leases is over."""

from __future__ import annotations

import asyncio
import json
import queue
import threading

import httpx
import pytest

from hub.client import HubClient, SyncHubClient, watch
from hub.client.exchange import HubAnswer, Send
from hub.client.slot import Slot
from hub.client.watch import look

GRANT = {"browserId": "s1", "leaseToken": "7", "ttlSeconds": 60, "labelKey": "a:b"}
OVER = {"over": [{"browserId": "s1", "leaseToken": "7", "reason": "not lent"}]}


@pytest.mark.parametrize("first", ["the renewal", "the watch", "its own return"])
def test_however_it_learns_that_its_lease_is_over_the_holder_confirms_that_it_has_stopped(first: str) -> None:
    slot = Slot(HubAnswer(GRANT, {}, 0.0))
    if first == "the renewal":  # as `renew` does on 409
        slot.revoked = True
        slot.loss("the hub ended the lease")
    if first == "its own return":
        slot.given_back()
    steps = look([slot], 1.0)
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(httpx.Response(200, json=OVER))
    assert end.value.value is True
    assert slot.lost.is_set()
    assert slot.revoked == (first != "its own return")  # that one has said it already


def held(count: int) -> list[Slot]:
    return [Slot(HubAnswer({**GRANT, "browserId": f"s{n}", "leaseToken": str(n)}, {}, 0.0)) for n in range(count)]


def over(request: httpx.Request, asked: list[int]) -> httpx.Response:
    """Answer a call that names the last of 2,100 leases that this lease is over."""
    leases = json.loads(request.content)["leases"]
    asked.append(len(leases))
    ended = [{**lease, "reason": "not lent"} for lease in leases if lease["browserId"] == "s2099"]
    return httpx.Response(200, json={"over": ended})


async def test_a_client_with_more_leases_than_one_call_takes_watches_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "CALM_S", 0.0)
    asked: list[int] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        if len(json.loads(request.content)["leases"]) == 1000:
            asked.append(1000)
            await asyncio.Event().wait()  # as a call does that has nothing to tell
        return over(request, asked)

    async with HubClient("http://hub", transport=httpx.MockTransport(answer)) as client:
        lost = asyncio.Event()
        watching, slots = watch.Watch(client._http), held(2100)
        for slot in slots:
            watching.add(slot, lost.set)
        await asyncio.wait_for(lost.wait(), 10)
        await watching.close()
    assert [slot.id for slot in slots if slot.lost.is_set()] == ["s2099"]
    assert sorted(asked[:3]) == [100, 1000, 1000]


def test_one_thread_watches_all_leases_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "CALM_S", 0.0)
    asked: list[int] = []
    all_added = threading.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        assert all_added.wait(10)  # in the first call, which holds what was there by then
        return over(request, asked)

    with SyncHubClient("http://hub", transport=httpx.MockTransport(answer)) as client:
        watching, slots = watch.SyncWatch(client._http), held(2100)
        for slot in slots:
            watching.add(slot)
        all_added.set()
        assert slots[-1].lost.wait(10)
        watching.close()
    assert asked[1:3] == [1000, 100]  # the second and the third of three parts


# -- slots that are unwell ------------------------------------------------------------------------------------------


def told(slot: Slot, *reasons: str) -> list[dict[str, str]]:
    """Tell the slot these reasons one after the other, and return what its calls said of the last one heard."""
    asked = []
    for reason in reasons:
        steps = look([slot], 1.0)
        sent = next(steps)
        assert isinstance(sent, Send)
        asked.append((sent.body or {})["unwell"])
        news = [{"browserId": slot.id, "leaseToken": slot.token, "reason": reason, "heldBy": "node"}]
        with pytest.raises(StopIteration):
            steps.send(httpx.Response(200, json={"over": [], "unwell": news}))
    return asked


def test_the_holder_hears_each_reason_once_and_when_the_slot_is_well_again() -> None:
    (slot,) = held(1)
    heard: list[str | None] = []
    slot.on_unwell(heard.append)
    assert told(slot, "hot", "hot", "on fire") == [{}, {"s0": "hot"}, {"s0": "hot"}]
    assert slot.unwell == "on fire"
    late: list[str | None] = []
    slot.on_unwell(late.append)
    assert told(slot, "", "") == [{"s0": "on fire"}, {}]
    assert heard == ["hot", "on fire", None]
    assert late == ["on fire", None]
    assert not slot.lost.is_set()


def test_news_of_an_earlier_lease_and_of_an_older_hub_change_nothing() -> None:
    (slot,) = held(1)
    earlier = {"browserId": "s0", "leaseToken": "earlier", "reason": "hot"}
    answers: list[dict[str, object]] = [{"over": []}, {"over": [], "unwell": [earlier]}]
    for answer in answers:
        steps = look([slot], 1.0)
        next(steps)
        with pytest.raises(StopIteration):
            steps.send(httpx.Response(200, json=answer))
    assert slot.unwell is None


def test_a_callback_that_raises_keeps_no_other_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    (slot,) = held(1)
    heard: list[str | None] = []

    def fails(reason: str | None) -> None:
        raise OSError("no pager")

    slot.on_unwell(fails)
    slot.on_unwell(heard.append)
    told(slot, "hot")
    assert heard == ["hot"]
    assert "slot s0: on_unwell raised" in caplog.text


def test_a_coroutine_function_is_refused_because_nothing_would_await_it() -> None:
    (slot,) = held(1)

    async def callback(reason: str | None) -> None: ...

    with pytest.raises(TypeError, match="on_unwell takes a plain function"):
        slot.on_unwell(callback)


@pytest.mark.parametrize("client", [HubClient, SyncHubClient])
async def test_both_clients_tell_the_holder_while_the_block_runs(
    client: type[HubClient] | type[SyncHubClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "CALM_S", 0.0)
    grants = {"/session/borrow": GRANT, "/session/return": {}}

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        news = [{**lease, "reason": "hot"} for lease in asked.get("leases", ()) if not asked["unwell"]]
        return httpx.Response(200, json=grants.get(request.url.path, {"over": [], "unwell": news}))

    transport = httpx.MockTransport(answer)
    if client is HubClient:
        async with HubClient("http://hub", transport=transport) as hub, hub.borrow("a:b") as slot:
            heard: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            slot.on_unwell(heard.set_result)
            assert await asyncio.wait_for(heard, 10) == "hot"
    else:
        with SyncHubClient("http://hub", transport=transport) as threads, threads.borrow("a:b") as slot:
            told_now: queue.Queue[str | None] = queue.Queue()
            slot.on_unwell(told_now.put)
            assert told_now.get(timeout=10) == "hot"
