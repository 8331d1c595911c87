"""Renewals, returns and losses of bundles, and who may end them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hub.store.store import SETTLE_MS
from tests.api.bundles import LABEL, ask, end, ids, lent, offer, sessions, single, waits, wish
from tests.api.test_borrow_tokens import SECRETS, People, refused
from tests.world import PATIENCE_S, beat, eventually


async def test_a_renewal_extends_every_lease_that_is_live(api):
    await offer(api, 2)
    found = await lent(api, (LABEL, 2), ttlSeconds=60)
    answer = await end(api, found["bundle"], "renew", ttlSeconds=600)
    told = answer.json()
    assert (answer.status_code, told["bundle"]) == (200, found["bundle"])
    for row, slot in zip(told["slots"], found["slots"], strict=True):
        assert (row["slotId"], row["lease"]["token"]) == (slot["slotId"], slot["lease"]["token"])
        assert 590 < row["lease"]["ttlSeconds"] <= 600
    first = found["slots"][0]
    gone = {"label": LABEL, "slotId": first["slotId"], "lease": first["lease"]}
    assert (await api.post("/v2/return", json=gone)).status_code == 200
    assert ids((await end(api, found["bundle"], "renew")).json()) == ids(found)[1:]
    old = (await api.post(f"/bundles/{found['bundle']}/renew")).json()["slots"]
    assert [sorted(row) for row in old] == [["expiresAtUtc", "leaseToken", "slotId", "ttlSeconds"]]


async def test_a_return_ends_every_lease_and_a_repeat_changes_nothing(api):
    await offer(api, 2)
    found = await lent(api, (LABEL, 2))
    answer = await end(api, found["bundle"])
    assert answer.json() == {"bundle": found["bundle"], "returned": ids(found)}
    later = await lent(api, (LABEL, 2))
    again = await end(api, found["bundle"])
    assert (again.status_code, again.json()["returned"], again.json()["note"]) == (200, [], "already returned")
    assert len(await sessions(api)) == 2
    late = await end(api, found["bundle"], "renew")
    assert (late.status_code, late.json()["code"]) == (409, "grant-over")
    assert (await end(api, later["bundle"], "renew", ttlSeconds="soon")).json()["member"] == "ttlSeconds"


async def test_a_ticket_that_was_served_is_not_given_up_and_names_the_bundle(api):
    await offer(api, 2)
    found = (await ask(api, (LABEL, 2), key="k")).json()
    told = (await api.delete("/v2/queue/k")).json()
    assert (told["code"], told["slotId"]) == ("ticket-granted", ids(found)[0])
    how = f"give it back with POST /bundles/{found['bundle']}/return, or hub return"
    assert told["detail"] == f"This ticket holds the bundle {found['bundle']} by now; {how}"
    assert (await end(api, found["bundle"])).json()["returned"] == ids(found)


@pytest.mark.parametrize("together", [True, False])
async def test_a_slot_that_is_lost_ends_the_others_where_they_are_held_together(api, together):
    await offer(api, 2)
    found = await lent(api, (LABEL, 2), together=together)
    assert found["together"] is together
    first, second = ({"slotId": slot["slotId"], "lease": slot["lease"]} for slot in found["slots"])
    assert (await api.delete(f"/node/n1/slots/{first['slotId']}")).status_code == 200
    answer = await api.post("/v2/leases/watch", json={"leases": [second], "waitSeconds": 0})
    why = [row.get("because") for row in answer.json()["over"]]
    assert why == (["another slot of its bundle was lost, and they were held together"] if together else [])


async def test_bundles_come_back_after_the_store_was_lost(make_api, redis):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        await offer(api, 3)
        found = await lent(api, (LABEL, 2), together=True)
        given = await lent(api, LABEL)
        await end(api, given["bundle"])
        redis.flushall()
        assert (await end(api, found["bundle"], "renew")).json()["code"] == "settling"
        await hub.clock.tick()
        await offer(api, 3)
        redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
        assert ids((await end(api, found["bundle"], "renew")).json()) == ids(found)
        assert set(await sessions(api)) == set(ids(found)), "what was given back did not come back"
        assert (await end(api, found["bundle"])).json()["returned"] == ids(found)
        redis.flushall()
        await hub.clock.tick()
        await offer(api, 3)
        redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
        assert not await sessions(api)


async def test_a_node_brings_a_bundle_back_that_no_hub_remembers(make_api, redis):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        slots = await offer(api, 2)
        found = await lent(api, (LABEL, 2), together=True)
        orders = await beat(api, "n1")
        hub.leases.memory.leases.clear()
        redis.flushall()
        for act in ("renew", "return"):
            assert (await end(api, found["bundle"], act)).json()["code"] == "settling"
        await hub.clock.tick()
        redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
        for act in ("renew", "return"):
            assert (await end(api, found["bundle"], act)).json()["code"] == "settling"
            assert (await end(api, "b17", act)).json().get("code") != "settling", "no hub gives such an id"
        body = {"nodeId": "n1", "slots": [{"label": LABEL, "slotId": slot} for slot in slots]}
        await api.post("/node/register", json={**body, "lent": orders["lent"], "lentFor": orders["lentFor"]})
        assert {each["bundle"] for each in (await sessions(api)).values()} == {found["bundle"]}
        assert (await api.delete(f"/node/n1/slots/{slots[0]}")).status_code == 200
        assert not await sessions(api), "they are held together as before"


@pytest.fixture
async def people(make_api) -> AsyncIterator[People]:
    async with make_api(**SECRETS, borrow_queue_timeout_s=PATIENCE_S) as api:
        found = People(api)
        await found.begin()
        await offer(api, 4, node="n4", **found.shown["node"])
        yield found


async def borrow(people: People, who: str, *parts: Any, **more: Any) -> httpx.Response:
    return await people.post(who, "/v2/bundles", wish(*parts, **more))


@pytest.mark.parametrize("who", ["bob", "runner", "admin", "all", "root"])
async def test_no_other_caller_renews_or_returns_a_bundle_of_a_user(people, who):
    found = (await borrow(people, "ada", (LABEL, 2), name="ada-1")).json()
    for act in ("renew", "return"):
        told = refused(await people.post(who, f"/v2/bundles/{found['bundle']}/{act}", {}), "not-holder")
        assert (told["holder"]["user"], "ada-1" in told["detail"]) == ("ada", True)
    assert (await people.post("ada again", f"/v2/bundles/{found['bundle']}/renew", {})).status_code == 200
    answer = await people.post("ada again", f"/v2/bundles/{found['bundle']}/return", {})
    assert answer.json()["returned"] == ids(found)


@pytest.mark.parametrize("who", ["node", "reader"])
async def test_who_may_not_borrow_borrows_no_bundle(people, who):
    for path in ("/v2/bundles", "/v2/bundles/b1/renew", "/v2/bundles/b1/return"):
        assert (await people.post(who, path, wish(LABEL))).status_code in (401, 403), path


async def test_a_token_must_be_allowed_the_label_of_every_part(people):
    hub = people.api._transport.app.app.state.serving.hub
    answer = await borrow(people, "ada", LABEL, "cpu:big")
    assert "gpu:*" in refused(answer, "label")["detail"]
    refused(await borrow(people, "ada", LABEL, priority=11), "priority")
    assert (await borrow(people, "ada", (LABEL, 5), "gpu:none")).json()["code"] == "no-such-pool"
    assert (await borrow(people, "ada", (LABEL, 2))).status_code == 200
    await hub.usage.fold()
    figures = (await people.api.get("/usage", params={"by": "label"}, headers=people.shown["admin"])).json()
    assert {row["name"]: row["refusals"] for row in figures["usage"] if row["refusals"]} == {"other": 1, LABEL: 2}


async def test_a_ticket_of_a_bundle_is_its_holders_alone(people):
    async def in_line() -> bool:
        return (await people.api.get("/queue/k", headers=people.shown["runner"])).json().get("state") == "waiting"

    body = wish((LABEL, 2), "cpu:none", maxWaitSeconds=PATIENCE_S, waitForPool=True)
    waiting = asyncio.create_task(people.post("bob", "/v2/bundles", body, **{"idempotency-key": "k"}))
    await eventually(in_line)
    for who in ("ada", "runner", "admin"):
        refused(await people.api.delete("/queue/k", headers=people.shown[who]), "not-holder")
    assert (await people.api.delete("/queue/k", headers=people.shown["bob"])).json() == {"cancelled": True}
    assert (await waiting).json()["code"] == "withdrawn"


async def test_a_run_and_the_line_hold_so_many_bundles_and_no_more(make_api):
    async with make_api(borrow_queue_timeout_s=PATIENCE_S, borrow_queue_max_per_label=2) as api:
        await offer(api, 1)
        calls = [await waits(api, (LABEL, 2), key=key, waitForPool=True) for key in ("a", "b")]
        refusal = await ask(api, (LABEL, 2), waitForPool=True, maxWaitSeconds=PATIENCE_S)
        assert (refusal.status_code, refusal.json()["code"]) == (503, "per-label-cap")
        assert refusal.json()["detail"] == "2 slots of gpu:a100 cannot be lent now: 2 bundles wait already"
        assert (await single(api))["browserId"] == "n1-1"
        for key in ("a", "b"):
            await api.delete(f"/queue/{key}")
        await asyncio.gather(*calls)
