"""A client acts on the answer that one of its leases is over."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from hub.client import HubClient, SyncHubClient, watch
from hub.client.exchange import HubAnswer
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
    with SyncHubClient("http://hub", transport=httpx.MockTransport(lambda request: over(request, asked))) as client:
        watching, slots = watch.SyncWatch(client._http), held(2100)
        for slot in slots:
            watching.add(slot)
        assert slots[-1].lost.wait(10)
        watching.close()
    assert {100, 1000} <= set(asked)
