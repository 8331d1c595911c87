"""Bundles: several slots in one block, which are lent, held and given back together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from hub.client import Bundle, HubClient, LeaseLost, NoCapacity
from hub.client import slot as slot_module
from hub.client.naming import own_name
from hub.errors import Forbidden, HubError, NoSuchPool
from tests.client.both import Kind, until_lost
from tests.client.fake_hub import FakeHub, Reset, eventually

BORROW, RENEW, RETURN = "POST /bundles", "POST /session/renew", "POST /bundles/b1/return"
FOUR = [("gpu:a100", 3), "cpu:large"]


@pytest.fixture(autouse=True)
def four_slots(hub: FakeHub) -> None:
    hub.free = ["s1", "s2", "s3", "s4"]


def client_of(hub: FakeHub, kind: Kind = HubClient, **options: float) -> HubClient:
    made: HubClient = kind("http://hub", "secret", transport=hub.transport(), **options)
    return made


async def hold(client: HubClient, block: Callable[[Bundle], Awaitable[None]], **options: Any) -> None:
    async with client, client.borrow_all(FOUR, **options) as bundle:
        await block(bundle)


async def test_a_block_holds_all_slots_in_the_order_of_the_parts_and_returns_them_by_one_call(
    hub: FakeHub, kind: Kind
) -> None:
    parts = ["gpu:a100", ("gpu:a100", 2), {"label": "cpu", "where": "cores >= 8", "count": 1}]
    options = {"ttl": 30, "run": "r1", "run_name": "nightly", "priority": 5}
    async with (
        client_of(hub, kind) as client,
        client.borrow_all(parts, same_node=True, together=True, wait_for_pool=True, **options) as bundle,
    ):
        assert (bundle.id, bundle.together) == ("b1", True)
        assert [slot.id for slot in bundle.slots] == ["s1", "s2", "s3", "s4"]
        assert [slot.label for slot in bundle.slots] == ["gpu:a100"] * 3 + ["cpu"]
        assert {slot.run for slot in bundle.slots} == {"r1"}
        bundle.check()
    assert [seen.what for seen in hub.seen] == [BORROW, RETURN]
    assert hub.seen[0].body == {
        "parts": [
            {"label": "gpu:a100"},
            {"label": "gpu:a100", "count": 2},
            {"label": "cpu", "where": "cores >= 8", "count": 1},
        ],
        "sameNode": True,
        "together": True,
        "waitForPool": True,
        "ttlSeconds": 30,
        "runId": "r1",
        "runName": "nightly",
        "name": own_name(),
        "priority": 5,
        "maxWaitSeconds": 0,
    }
    assert hub.lent == {}
    with pytest.raises(LeaseLost, match="given back"):
        bundle.check()


async def test_a_plain_bundle_says_only_its_parts(hub: FakeHub, kind: Kind) -> None:
    async with client_of(hub, kind) as client, client.borrow_all("gpu:a100") as bundle:
        assert (len(bundle.slots), bundle.together) == (1, False)
    assert hub.seen[0].body == {
        "parts": [{"label": "gpu:a100"}],
        "ttlSeconds": 60,
        "ttlIsDefault": True,
        "name": own_name(),
        "maxWaitSeconds": 0,
    }


@pytest.mark.parametrize(
    "part",
    [
        4, None, (), ("gpu:a100",), ("gpu:a100", 2, "vram >= 40"), ("gpu:a100", "2"), ("gpu:a100", True), (None, 2), {},
        {"label": "gpu:a100", "cuont": 2}, {"label": "gpu:a100", "anyOf": []}, {"count": 2}, {"label": None},
        {"label": "gpu:a100", "count": None}, {"label": "gpu:a100", "count": 1.0}, {"label": "gpu:a100", 1: 2},
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_read_is_refused_before_anything_is_sent(hub: FakeHub, part: Any) -> None:
    with pytest.raises(TypeError) as refused:
        client_of(hub).borrow_all(["cpu:large", part])
    assert str(refused.value).startswith(f"part 2 is {part!r}, and a part is a label, (label, count), or a dict")
    assert hub.seen == []


@pytest.mark.parametrize("parts", [None, 4, {"label": "gpu:a100"}])
def test_parts_that_are_no_list_are_refused(hub: FakeHub, parts: Any) -> None:
    with pytest.raises(TypeError, match=r"^parts are a list of parts, not "):
        client_of(hub).borrow_all(parts)


async def test_a_bundle_whose_answer_is_lost_is_lent_once(hub: FakeHub, kind: Kind) -> None:
    def grant_and_lose_the_answer(seen: Any) -> None:
        hub.play(seen)
        raise Reset

    hub.say(BORROW, grant_and_lose_the_answer, (503, "store-unavailable"))
    async with client_of(hub, kind) as client, client.borrow_all(FOUR) as bundle:
        assert (bundle.id, len(hub.lent)) == ("b1", 4)
    assert len({seen.headers["idempotency-key"] for seen in hub.said(BORROW)}) == 1


async def test_a_bundle_that_has_lost_a_slot_before_its_answer_came_is_given_back_and_borrowed_anew(
    hub: FakeHub, kind: Kind
) -> None:
    def grant_lose_the_answer_and_a_slot(seen: Any) -> None:
        hub.play(seen)
        hub.free = ["s5", hub.lent.popitem()[0]]
        raise Reset

    def give_back(seen: Any) -> Any:
        hub.free += hub.lent
        return hub.play(seen)

    hub.say(BORROW, grant_lose_the_answer_and_a_slot)
    hub.say(RETURN, give_back)
    async with client_of(hub, kind) as client, client.borrow_all(FOUR) as bundle:
        assert (bundle.id, len(bundle.slots)) == ("b2", 4)
    assert hub.lent == {}
    keys = [seen.headers["idempotency-key"] for seen in hub.said(BORROW)]
    assert keys[0] == keys[1] != keys[2]


async def test_without_wait_a_lack_of_slots_is_raised_at_once_and_nothing_is_held(hub: FakeHub, kind: Kind) -> None:
    async with client_of(hub, kind) as client:
        with pytest.raises(NoCapacity):
            async with client.borrow_all([("gpu:a100", 5)]):
                pass
    assert (len(hub.seen), hub.lent) == (1, {})


@pytest.mark.parametrize(
    ("said", "error", "facts"),
    [
        ({"status": 404, "code": "no-such-pool", "part": 0, "published": 2}, NoSuchPool, {"part": 0, "published": 2}),
        ({"status": 403, "code": "forbidden"}, Forbidden, {}),
    ],
)
async def test_a_refusal_is_raised_with_the_part_that_it_is_about(
    hub: FakeHub, kind: Kind, said: dict[str, Any], error: type[HubError], facts: dict[str, Any]
) -> None:
    hub.say(BORROW, lambda _: httpx.Response(said["status"], json={**said, "detail": "2 slots are published"}))
    async with client_of(hub, kind) as client:
        with pytest.raises(error, match="2 slots are published") as refused:
            async with client.borrow_all(FOUR):
                pass
    assert facts.items() <= refused.value.facts.items()


async def test_a_bundle_cancelled_while_it_waits_gives_up_its_place(hub: FakeHub) -> None:
    hub.free = []
    async with HubClient("http://hub", transport=hub.slow_transport(BORROW, 60)) as client:
        task = asyncio.create_task(hold(client, until_any_lost, wait=None, ticket="t1"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [seen.what for seen in hub.seen] == ["DELETE /queue/t1"]


async def test_a_bundle_lent_during_the_cancellation_is_returned_as_a_whole(hub: FakeHub) -> None:
    async def grant_and_keep_the_answer(request: httpx.Request) -> httpx.Response:
        answer = hub.answer(request)
        if request.url.path == "/bundles":
            await asyncio.sleep(60)
        return answer

    async with HubClient("http://hub", transport=httpx.MockTransport(grant_and_keep_the_answer)) as client:
        task = asyncio.create_task(hold(client, until_any_lost))
        await eventually(lambda: len(hub.lent) == 4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert hub.lent == {}
    assert [seen.method for seen in hub.seen] == ["POST", "DELETE", "GET", "POST"]


async def until_any_lost(bundle: Bundle) -> None:
    await until_lost(bundle.slots[1])


async def test_every_lease_is_renewed(hub: FakeHub, kind: Kind) -> None:
    hub.ttl_s = 3
    async with client_of(hub, kind) as client, client.borrow_all(FOUR, ttl=3) as bundle:
        await eventually(lambda: {seen.body["browserId"] for seen in hub.said(RENEW)} == {"s1", "s2", "s3", "s4"})
        bundle.check()


async def test_the_loss_of_one_slot_ends_the_block_and_gives_the_others_back(hub: FakeHub, kind: Kind) -> None:
    hub.ttl_s = 6

    async def block(bundle: Bundle) -> None:
        del hub.lent["s2"]
        await until_any_lost(bundle)
        assert kind is not HubClient  # threads are told, and end the block themselves
        assert not bundle.slots[0].lost.is_set()

    with pytest.raises(LeaseLost, match="s2 of gpu:a100 is lost: told grant-over"):
        await hold(client_of(hub, kind), block)
    assert hub.lent == {}
    assert len(hub.said(RETURN)) == 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_with_threads_each_loss_is_told_and_the_others_are_renewed_on(hub: FakeHub) -> None:
    hub.ttl_s = 3
    told: list[str] = []

    def work() -> None:
        from hub.client import SyncHubClient

        with (
            SyncHubClient("http://hub", transport=hub.transport()) as client,
            client.borrow_all(FOUR, on_lost=lambda slot: told.append(slot.id)) as bundle,
        ):
            del hub.lent["s2"]
            assert bundle.slots[1].lost.wait(30)
            before = len(hub.said(RENEW))
            while len(hub.said(RENEW)) < before + 3:
                bundle.slots[0].check()

    with pytest.raises(LeaseLost, match="s2"):
        await asyncio.to_thread(work)
    assert (told, hub.lent) == (["s2"], {})


async def test_slots_that_the_hub_ends_together_are_all_lost_with_its_reason(hub: FakeHub, kind: Kind) -> None:
    def end_all(seen: Any) -> Any:
        hub.lent.clear()
        over = [{**each, "reason": "bundle", "because": "another slot is lost"} for each in seen.body["leases"]]
        return {"over": over}

    hub.say("POST /leases/watch", end_all)

    async def block(bundle: Bundle) -> None:
        try:
            await until_any_lost(bundle)
        finally:
            await eventually(lambda: all(slot.lost.is_set() for slot in bundle.slots))

    with pytest.raises(LeaseLost, match=r"s1 of gpu:a100 is lost: the hub ended the lease \(another slot is lost\)"):
        await hold(client_of(hub, kind), block, together=True)
    assert len(hub.said(RETURN)) == 1  # that it has stopped


async def test_leases_that_cannot_be_renewed_end_the_block_and_are_given_back_late(
    hub: FakeHub, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_module, "MARGIN_SHARE", 0.5)
    monkeypatch.setattr(slot_module, "MARGIN_MAX_S", 60)
    hub.ttl_s = 4
    hub.say(RENEW, *[Reset() for _ in range(1000)])
    with pytest.raises(LeaseLost, match=r"is lost: not renewed in time"):
        await hold(client_of(hub, kind), until_any_lost)
    await eventually(lambda: not hub.lent)


async def test_a_return_that_fails_while_the_hub_is_away_goes_on_in_the_background(
    hub: FakeHub, kind: Kind, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hub.client.calls.RETURN_POLICY", slot_module.RetryPolicy(trouble_s=0.0, attempt_s=2.0))
    hub.say(RETURN, Reset())
    async with client_of(hub, kind) as client, client.borrow_all(FOUR) as bundle:
        pass
    await eventually(lambda: not hub.lent)
    await eventually(lambda: not bundle.owed)
    assert "could not return bundle b1 yet (no answer from http://hub: connection reset)" in caplog.text


async def test_a_bundle_may_be_given_back_before_the_end_of_the_block(hub: FakeHub, kind: Kind) -> None:
    async with client_of(hub, kind) as client, client.borrow_all(FOUR) as bundle:
        assert await bundle.give_back()
        assert hub.lent == {}
        assert not await bundle.give_back()
        with pytest.raises(LeaseLost, match="given back"):
            bundle.check()
    assert len(hub.said(RETURN)) == 2


async def test_one_slot_may_be_given_back_before_the_others(hub: FakeHub, kind: Kind) -> None:
    async with client_of(hub, kind) as client, client.borrow_all(FOUR) as bundle:
        assert await client.give_back(bundle.slots[1])
        assert sorted(hub.lent) == ["s1", "s3", "s4"]
        bundle.slots[0].check()
    assert hub.lent == {}


async def test_an_answer_without_slots_is_raised_as_an_error(hub: FakeHub) -> None:
    hub.say(BORROW, lambda _: {"bundle": "b1"})
    async with client_of(hub) as client:
        with pytest.raises(HubError, match=r"answer cannot be read.*slots"):
            async with client.borrow_all(FOUR):
                pass
