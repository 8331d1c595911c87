"""Borrows of several slots at once: all are lent in one step, or none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hub.api.capacity import leases
from tests.api.bundles import LABEL, ask, end, give_back, ids, lent, offer, sessions, single, waits
from tests.world import PATIENCE_S, SECRETS, eventually


@pytest.fixture
def make_patient(make_api):
    """Applications at which borrows may wait."""
    return lambda **changes: make_api(borrow_queue_timeout_s=PATIENCE_S, **changes)


async def test_all_slots_are_lent_with_a_lease_each_and_the_same_bundle(api):
    await offer(api, 3)
    await offer(api, 1, "cpu:big", "n2")
    found = await lent(api, (LABEL, 2), "cpu:big", name="ann", runName="nightly", ttlSeconds=120)
    assert (ids(found), found["together"]) == (["n1-1", "n1-2", "n2-1"], False)
    assert {slot["bundle"] for slot in found["slots"]} == {found["bundle"]}
    assert [slot["label"] for slot in found["slots"]] == [LABEL, LABEL, "cpu:big"]
    assert len({slot["lease"]["token"] for slot in found["slots"]}) == 3
    assert {slot["lease"]["ttlSeconds"] for slot in found["slots"]} == {120}
    shown = await sessions(api)
    assert {each["bundle"] for each in shown.values()} == {found["bundle"]}
    assert {(each["holder"]["name"], each["runName"]) for each in shown.values()} == {("ann", "nightly")}
    assert (await api.get("/v2/leases/n1-1")).json()["bundle"] == found["bundle"]
    assert "bundle" not in (await api.get(f"/v2/leases/{(await single(api))['browserId']}")).json()


async def test_a_slot_of_a_bundle_is_answered_in_the_old_names_without_a_prefix(api):
    await offer(api, 1)
    answer = await api.post("/bundles", json={"parts": [{"labelKey": LABEL}]})
    (slot,) = answer.json()["slots"]
    assert (slot["browserId"], slot["labelKey"], bool(slot["leaseToken"])) == ("n1-1", LABEL, True)


async def test_where_fewer_are_free_none_is_lent(api):
    await offer(api, 3)
    await single(api)
    refused = await ask(api, (LABEL, 3))
    assert (refused.status_code, refused.json()["code"], refused.json()["position"]) == (503, "no-capacity", 1)
    assert refused.json()["detail"] == "3 slots of gpu:a100 cannot be lent now"
    assert len(await sessions(api)) == 1


async def test_parts_with_where_get_slots_that_are_so(api):
    likes: dict[str, Any] = {"small": {"vram": 24}, "large": {"vram": 80}, "larger": {"vram": 96}}
    slots = [{"label": LABEL, "slotId": name, "attributes": said} for name, said in likes.items()]
    await api.post("/node/register", json={"nodeId": "n1", "policy": "reuse", "slots": slots})
    found = await lent(api, {"label": "gpu", "where": "vram < 40"}, {"label": LABEL, "where": "vram >= 40", "count": 2})
    assert (ids(found)[0], set(ids(found)[1:])) == ("small", {"large", "larger"})


async def test_with_same_node_one_node_has_all_slots_of_a_bundle(api):
    await offer(api, 1)
    await offer(api, 2, node="n2")
    assert set(ids(await lent(api, (LABEL, 2), sameNode=True))) == {"n2-1", "n2-2"}
    refused = await ask(api, (LABEL, 3), sameNode=True)
    assert (refused.status_code, refused.json()["code"]) == (404, "no-such-pool")
    assert refused.json()["detail"] == "No node has 3 slots of gpu:a100; 2 nodes have some of it"
    await offer(api, 4, "cpu:big", "n3")
    refused = await ask(api, ("cpu:big", 4), LABEL, sameNode=True)
    assert refused.json()["detail"] == "No node has 4 slots of cpu:big and 1 slot of gpu:a100; 1 node has some of it"


async def test_what_is_not_published_is_refused_at_once_with_what_there_is(api):
    await offer(api, 2)
    refused = await ask(api, LABEL, (LABEL, 2), maxWaitSeconds=PATIENCE_S)
    told = refused.json()
    assert (refused.status_code, told["code"], told["part"], told["published"]) == (404, "no-such-pool", 1, 2)
    assert told["detail"] == "2 slots of gpu:a100 are published, and the bundle wants 3 of them in all"
    assert (await ask(api, LABEL, (LABEL, 15))).json()["published"] == 2
    slots = [{"label": "cpu:big", "slotId": name, "attributes": {"cores": 8}} for name in ("c1", "c2")]
    await api.post("/node/register", json={"nodeId": "n2", "policy": "reuse", "slots": slots})
    told = (await ask(api, {"label": "cpu", "where": "cores > 4"}, ("cpu:big", 2))).json()
    assert told["detail"] == "2 slots of cpu:big are published, 2 are wanted, and other parts want some of them"
    refused = await ask(api, LABEL, ("gpu:a10O", 1))
    told = refused.json()
    assert (told["part"], told["published"]) == (1, 0)
    assert told["detail"] == "0 slots of gpu:a10O are published, 1 is wanted"
    assert told["hint"] == "no pool serves gpu:a10O; did you mean gpu:a100?"
    assert not await sessions(api)


async def test_a_bundle_may_wait_for_slots_that_are_not_published(make_patient):
    async with make_patient() as api:
        await offer(api, 1)
        waiting = await waits(api, (LABEL, 2), key="k", waitForPool=True)
        assert (await single(api))["browserId"] == "n1-1", "it holds nothing while it waits"
        await offer(api, 2, node="n2")
        assert ids((await waiting).json()) == ["n2-1", "n2-2"]


async def test_a_bundle_that_waits_is_shown_and_served_by_a_return(make_patient):
    async with make_patient() as api:
        await offer(api, 2)
        first = await single(api)
        waiting = await waits(api, (LABEL, 2), key="k", sameNode=True, name="ann")
        (row,) = (await api.get("/v2/queue")).json()["bundles"]
        told = (await api.get("/v2/queue/k")).json()
        for shown in (row, told):
            assert shown["parts"] == [{"label": LABEL, "where": "", "count": 2}]
            facts = (shown["position"], shown["sameNode"], shown["reserving"], shown["setAside"])
            assert (*facts, shown["holder"]["name"]) == (1, True, False, 0, "ann")
        assert told["state"] == "waiting"
        assert "hub_bundles_waiting 1.0" in (await api.get("/metrics")).text
        assert (await api.get("/queue", params={"label": "cpu:big"})).json()["bundles"] == []
        assert (await api.get("/queue", params={"tickets": 0})).json()["bundles"] == []
        await give_back(api, first)
        found = (await waiting).json()
        assert sorted(ids(found)) == ["n1-1", "n1-2"]
        told = (await api.get("/v2/queue/k")).json()
        assert (told["state"], told["bundle"], told["slots"]) == ("granted", found["bundle"], told["slots"])
        assert [slot["lease"]["token"] for slot in told["slots"]] == [slot["lease"]["token"] for slot in found["slots"]]
        assert (await api.get("/queue")).json()["bundles"] == []


async def test_slots_are_set_aside_for_a_bundle_that_has_waited_too_long(make_patient, redis):
    async with make_patient(bundle_patience_s=0) as api:
        hub = api._transport.app.app.state.serving.hub
        await offer(api, 2)
        held = [await single(api), await single(api)]
        waiting = await waits(api, (LABEL, 2), key="k")
        other = await waits(api, (LABEL, 2), key="later")
        await hub.queue.look_after()
        await give_back(api, held[0])
        assert redis.smembers("hub:reserved") == {held[0]["browserId"]}
        assert (await api.post("/session/borrow", json={"labelKey": LABEL, "maxWaitSeconds": 0})).status_code == 503
        rows = (await api.get("/v2/queue")).json()["bundles"]
        assert [(row["reserving"], row["setAside"]) for row in rows] == [(True, 1), (False, 0)]
        (pool,) = (await api.get("/v2/pools")).json()["pools"]
        assert (pool["heldBack"], pool["heldBackBy"]) == (1, {"bundle": 1})
        why = (await api.get(f"/why/slot/{held[0]['browserId']}")).json()
        assert (why["state"], why["facts"]["reservedFor"]) == ("held", rows[0]["ticket"])
        said = [(await api.get(f"/why/ticket/{key}")).json()["because"] for key in ("k", "later")]
        assert said[0].startswith("It is the first of the bundles; gpu:a100: 2 wanted, 0 free, 2 published; 1 of 2 are")
        assert said[1].endswith(f"slots are set aside for {rows[0]['ticket']}.")
        metrics = (await api.get("/metrics")).text
        assert "hub_bundle_slots_reserved 1.0" in metrics
        await give_back(api, held[1])
        assert len((await waiting).json()["slots"]) == 2
        await api.delete("/queue/later")
        assert (await other).json()["code"] == "withdrawn"


async def test_why_names_the_cap_that_is_too_small(make_patient):
    async with make_patient() as api:
        await offer(api, 3)
        assert (await api.put(f"/admin/caps/{LABEL}", json={"cap": 1})).status_code == 200
        assert (await ask(api, (LABEL, 2))).json()["code"] == "capped"
        waiting = await waits(api, (LABEL, 2), key="k")
        because = (await api.get("/why/ticket/k")).json()["because"]
        assert "the cap of gpu:a100 allows 1 leases, so it is never served as things are" in because
        await api.put(f"/admin/caps/{LABEL}", json={"cap": 3})
        hub = api._transport.app.app.state.serving.hub
        await hub.queue.look_after()
        assert len((await waiting).json()["slots"]) == 2


async def test_a_bundle_that_is_given_up_ends_its_call(make_patient):
    async with make_patient() as api:
        await offer(api, 1)
        waiting = await waits(api, (LABEL, 2), key="k", waitForPool=True)
        assert (await api.delete("/queue/k")).json() == {"cancelled": True}
        assert (await waiting).json()["code"] == "withdrawn"
        assert (await ask(api, LABEL, key="k")).json()["code"] == "withdrawn"


async def test_a_caller_that_hangs_up_leaves_the_line(start_hub):
    async with start_hub(HUB_NODE_TIMEOUT="600", **dict.fromkeys(SECRETS, "one-for-all")).client() as api:
        await offer(api, 1)
        for key in ("", "k"):
            call = asyncio.create_task(ask(api, (LABEL, 2), key=key, waitForPool=True, maxWaitSeconds=PATIENCE_S))

            async def in_line() -> bool:
                return bool((await api.get("/queue")).json()["bundles"])

            await eventually(in_line)
            call.cancel()

            async def left() -> bool:
                return not await in_line()

            await eventually(left)
        assert (await api.get("/queue/k")).json()["state"] == "away"


async def test_a_bundle_whose_caller_is_gone_when_it_is_lent_is_taken_back_whole(api, monkeypatch):
    await offer(api, 2)

    async def gone(_: object) -> bool:
        return True

    hub = api._transport.app.app.state.serving.hub
    monkeypatch.setattr(leases, "is_gone", gone)
    await ask(api, (LABEL, 2))
    assert not await sessions(api)
    assert sorted(hub.leases.memory.ends) == ["n1-1", "n1-2"]
    assert not hub.leases.memory.leases


async def test_a_repeat_under_a_key_gets_the_same_leases(api):
    await offer(api, 3)
    first = await lent(api, (LABEL, 2), key="k")
    again = await lent(api, (LABEL, 2), key="k")
    assert [slot["lease"]["token"] for slot in again["slots"]] == [slot["lease"]["token"] for slot in first["slots"]]
    others: list[Any] = [((LABEL, 1),), ((LABEL, 2), LABEL), ({"label": LABEL, "count": 2, "where": "a == 1"},)]
    for parts in others:
        refused = await ask(api, *parts, key="k")
        assert (refused.status_code, refused.json()["code"]) == (422, "key-reused"), parts
    for more in ({"sameNode": True}, {"together": True}, {"ttlSeconds": 120}):
        assert (await ask(api, (LABEL, 2), key="k", **more)).json()["code"] == "key-reused", more
    plain = {"label": LABEL, "maxWaitSeconds": 0}
    refused = await api.post("/v2/borrow", json=plain, headers={"idempotency-key": "k"})
    assert refused.json()["code"] == "key-reused"
    taken = await api.post("/v2/borrow", json=plain, headers={"idempotency-key": "plain"})
    assert taken.status_code == 200
    assert (await ask(api, LABEL, key="plain")).json()["code"] == "key-reused"
    await end(api, first["bundle"])
    over = await ask(api, (LABEL, 2), key="k")
    assert (over.status_code, over.json()["code"]) == (409, "grant-over")
    assert (await api.get("/queue/k")).json()["code"] == "grant-over"


async def test_a_ticket_of_a_bundle_that_is_attended_again_gets_all_slots(make_patient):
    async with make_patient() as api:
        await offer(api, 1)
        assert (await ask(api, (LABEL, 2), key="k", maxWaitSeconds=0.01, waitForPool=True)).json()["code"] == "timeout"
        prefer = {"prefer": f"wait={PATIENCE_S:.0f}"}
        again = asyncio.create_task(api.get("/v2/queue/k", headers=prefer, timeout=2 * PATIENCE_S))

        async def in_line() -> bool:
            return bool((await api.get("/queue")).json()["bundles"])

        await eventually(in_line)
        await offer(api, 1, node="n2")
        found = (await again).json()
        assert (found["state"], set(ids(found))) == ("granted", {"n1-1", "n2-1"})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"parts": 7}', '{"parts": [[]]}', '{"parts": [["a", "", "", "", "x"]]}']
)
async def test_a_ticket_that_cannot_be_read_hides_no_other(make_patient, redis, text):
    async with make_patient() as api:
        await offer(api, 1)
        calls = [await waits(api, (LABEL, 2), key=key, waitForPool=True) for key in ("a", "b")]
        first, second = (row["ticket"] for row in (await api.get("/queue")).json()["bundles"])
        redis.hset(f"hub:ticket:{first}", "bundle", text)
        shown = (await api.get("/queue")).json()["bundles"]
        assert [row["ticket"] for row in shown][-1] == second
        for path in ("/queue/a", "/why/ticket/a", "/why/ticket/b", "/pools", "/metrics"):
            assert (await api.get(path)).status_code < 500, path
        await api._transport.app.app.state.serving.hub.queue.look_after()
        await offer(api, 1, node="n2")
        assert len((await calls[1]).json()["slots"]) == 2
        calls[0].cancel()
