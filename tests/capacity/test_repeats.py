"""Idempotency-Key, and leases whose caller cannot have received them."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

import pytest

from hub.capacity.models import BorrowRequest
from hub.core import Hub
from hub.errors import StoreUnavailable
from hub.store.connection import open_store
from tests.world import borrow, give_back, listed, publish

LABEL = "a:b"
KEY = {"idempotency-key": "k1"}


def ask(api, **body):
    return api.post("/session/borrow", json={"labelKey": LABEL, **body}, headers=KEY)


async def test_a_repeated_borrow_gets_the_same_lease_and_takes_no_second_slot(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    first, second = [(await ask(api, runId="r1")).json() for _ in range(2)]
    same = ("browserId", "leaseToken", "matchedLabel", "labelKey", "runId", "item", "webSocketEndpoint", "nodeId")
    assert {name: first[name] for name in same} == {name: second[name] for name in same}
    assert second["ttlSeconds"] <= first["ttlSeconds"] + 1  # between ticks the hub clock may fall back a second
    assert listed(redis, f"inuse:{LABEL}") == ["s1"]


async def test_a_repeated_borrow_without_a_run_keeps_the_run_of_the_first(api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    first, second = [await ask(api) for _ in range(2)]
    assert first.headers["correlation-id"] == second.headers["correlation-id"]


@pytest.mark.parametrize("other", [{"labelKey": "a:c"}, {"ttlSeconds": 70}, {"runId": "r2"}], ids=repr)
async def test_a_key_used_with_another_request_is_refused(api, redis, other):
    await publish(api, "n1", **{LABEL: ["s1"], "a:c": ["s2"]})
    await ask(api)
    answer = await ask(api, **other)
    assert (answer.status_code, answer.json()["code"]) == (422, "key-reused")
    assert redis.keys("session:*") == ["session:s1"]


async def test_a_key_whose_lease_has_ended_is_refused_even_when_the_slot_is_lent_again(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await ask(api)
    await give_back(api, LABEL, "s1")
    assert ((await ask(api)).status_code, listed(redis, f"available:{LABEL}")) == (409, ["s1"])
    await borrow(api, LABEL)
    answer = await ask(api)
    assert (answer.status_code, answer.json()["code"]) == (409, "grant-over")


async def test_a_refused_borrow_does_not_use_up_its_key(api):
    assert (await ask(api)).status_code == 503
    await publish(api, "n1", **{LABEL: ["s1"]})
    assert (await ask(api)).json()["browserId"] == "s1"


@pytest.mark.parametrize("key", ["", " ", "x" * 256])
async def test_an_idempotency_key_has_1_to_255_characters(api, redis, key):
    await publish(api, "n1", **{LABEL: ["s1"]})
    answer = await api.post("/session/borrow", json={"labelKey": LABEL}, headers={"idempotency-key": key})
    assert (answer.status_code, answer.json()["member"]) == (400, "Idempotency-Key")
    assert not redis.exists("session:s1")


async def test_any_255_characters_are_a_valid_idempotency_key(api):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    key = {"idempotency-key": ('€ä\\"{}%' * 40)[:80].encode()}
    first, second = [
        (await api.post("/session/borrow", json={"labelKey": LABEL}, headers=key)).json() for _ in range(2)
    ]
    assert first["leaseToken"] == second["leaseToken"]


async def test_a_repeated_return_gets_the_stored_answer_and_ends_no_later_lease(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await borrow(api, LABEL)
    body = {"labelKey": LABEL, "browserId": "s1"}
    first = await api.post("/session/return", json=body, headers=KEY)
    await borrow(api, LABEL)
    again = await api.post("/session/return", json=body, headers=KEY)
    assert (first.json(), again.json()) == ({"returned": "s1"}, {"returned": "s1"})
    assert redis.exists("session:s1")


async def test_a_return_with_the_key_of_the_return_of_another_lease_is_refused(api, redis):
    """Otherwise the borrower would be told that its second lease has ended, while it goes on."""
    slots = [{"labelKey": LABEL, "slotId": "s1"}]
    (await api.post("/node/register", json={"nodeId": "n1", "slots": slots, "policy": "reuse"})).raise_for_status()
    answers = []
    for run in ("r1", "r2"):
        token = (await borrow(api, LABEL, run=run)).json()["leaseToken"]
        body = {"labelKey": LABEL, "browserId": "s1", "leaseToken": token}
        answers += [await api.post("/session/return", json=body, headers=KEY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200, 422, 422]
    assert answers[0].json() == answers[1].json()
    assert answers[2].json()["code"] == "key-reused"
    assert redis.hget("session:s1", "runId") == "r2"


async def test_a_return_with_the_key_of_another_request_is_refused(api, redis):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await ask(api)
    await borrow(api, LABEL)
    answer = await api.post("/session/return", json={"labelKey": LABEL, "browserId": "s1"}, headers=KEY)
    assert (answer.status_code, answer.json()["code"]) == (422, "key-reused")
    other = {"idempotency-key": "k2"}
    await api.post("/session/return", json={"labelKey": LABEL, "browserId": "s1"}, headers=other)
    answer = await api.post("/session/return", json={"labelKey": LABEL, "browserId": "s2"}, headers=other)
    assert answer.status_code == 422
    assert redis.keys("session:*") == ["session:s2"]


def wanted(attempt, request="key-1"):
    return BorrowRequest(LABEL, 900_000, "r1", request, attempt, "f", 60)


@pytest.fixture
async def other_hub(settings):
    async with open_store(settings) as store:
        yield Hub(store, settings)


def cut_off(hub, monkeypatch, *, after):
    """The hub's next script call does not come back: Redis never saw it, or (`after`) the answer was lost."""
    real = hub.store._send

    async def broken(command):
        monkeypatch.setattr(hub.store, "_send", real)
        if after:
            await real(command)
        raise StoreUnavailable("lost")

    monkeypatch.setattr(hub.store, "_send", broken)


@pytest.mark.parametrize("after", [False, True], ids=["never arrived", "answer lost"])
async def test_a_borrow_that_was_not_answered_is_undone_when_redis_is_back(hub, api, redis, monkeypatch, after):
    await publish(api, "n1", **{LABEL: ["s1"]})
    cut_off(hub, monkeypatch, after=after)
    with pytest.raises(StoreUnavailable):
        await hub.leases.borrow(wanted("try-1"))
    await hub.clock.tick()
    assert (listed(redis, f"available:{LABEL}"), redis.keys("session:*")) == (["s1"], [])
    assert not redis.exists("recycle:s1"), "nobody has used it"


@pytest.mark.parametrize("after", [False, True], ids=["never arrived", "answer lost"])
@pytest.mark.parametrize("where", ["the same hub", "another hub"])
async def test_an_undo_does_not_end_the_lease_of_a_repeat(hub, other_hub, api, monkeypatch, after, where):
    await publish(api, "n1", **{LABEL: ["s1"]})
    cut_off(hub, monkeypatch, after=after)
    with pytest.raises(StoreUnavailable):
        await hub.leases.borrow(wanted("try-1"))
    holder = hub if where == "the same hub" else other_hub
    lease = await holder.leases.borrow(wanted("try-2"))
    await hub.clock.tick()
    assert (await holder.leases.verify(lease.slot, lease.token))[0] == "ok"


async def test_a_repeat_after_the_undo_gets_a_new_lease(hub, other_hub, api, monkeypatch):
    await publish(api, "n1", **{LABEL: ["s1"]})
    cut_off(hub, monkeypatch, after=True)
    with pytest.raises(StoreUnavailable):
        await hub.leases.borrow(wanted("try-1"))
    await hub.clock.tick()
    assert (await other_hub.leases.borrow(wanted("try-2"))).slot == "s1"


async def test_an_undo_does_not_end_a_later_lease_of_the_same_slot(hub, api):
    await publish(api, "n1", **{LABEL: ["s1"]})
    first = wanted("own-1", "own-1")
    lease = await hub.leases.borrow(first)
    await give_back(api, LABEL, "s1")
    second = await hub.leases.borrow(wanted("own-2", "own-2"))
    await hub.leases.undo(first, lease)
    assert (await hub.leases.verify("s1", second.token))[0] == "ok"


async def test_a_lease_of_two_attempts_is_undone_when_both_callers_are_gone(hub, api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    first, second = wanted("try-1"), wanted("try-2")
    await hub.leases.borrow(first)
    held = await hub.leases.borrow(second)
    await hub.leases.undo(first, held)
    assert (await hub.leases.verify("s1", held.token))[0] == "ok"
    for _ in range(2):
        await hub.leases.undo(second, held)
        assert (redis.keys("session:*"), listed(redis, f"available:{LABEL}")) == ([], ["s1"])


async def test_a_key_takes_the_memory_that_the_setting_and_the_manual_say(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    headers = {"idempotency-key": secrets.token_hex(16)}
    asked = {"labelKey": LABEL, "runId": secrets.token_hex(16)}
    lease = (await api.post("/session/borrow", json=asked, headers=headers)).json()
    headers = {"idempotency-key": secrets.token_hex(16)}
    held = {"labelKey": LABEL, "browserId": "s1", "leaseToken": lease["leaseToken"]}
    assert (await api.post("/session/return", json=held, headers=headers)).status_code == 200
    kept = redis.keys("hub:request:key-*")
    cost_kb = max(redis.memory_usage(key) for key in kept) / 1000
    print(f"{len(kept)} keys of a borrow and its return, each {cost_kb:.3f} kB at most")
    top = Path(__file__).parents[2]
    said = [
        re.search(pattern, (top / page).read_text())[1]
        for page, pattern in (
            (".env.example", r"an Idempotency-Key .* Each costs ([0-9.]+) kB"),
            ("hub/manual/capacity.md", r"A key costs Redis ([0-9.]+) kB"),
        )
    ]
    assert len(kept) == 2
    assert all(float(each) / 2 <= cost_kb <= float(each) for each in said)
    ttl_s = [redis.ttl(key) for key in kept]
    assert all(3500 < each <= 3600 for each in ttl_s)
