"""The hub explains itself: why a node, a slot, a ticket or a run is as it is, and what happens next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.world import SLACK_S, age_lease, age_node, beat, borrow, eventually, give_back, publish, push

pytestmark = pytest.mark.story
POOL = "gpu:a100"


async def why(api: httpx.AsyncClient, kind: str, name: str, **query: Any) -> dict[str, Any]:
    answer = await api.get(f"/why/{kind}/{name}", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert (found["kind"], found["because"][-1]) == (kind, ".")
    assert all(event["rule"] for event in found["history"])
    return found


def past(found: dict[str, Any]) -> list[str]:
    """Return the events, oldest first."""
    return [event["event"] for event in reversed(found["history"])]


def coming(found: dict[str, Any]) -> list[str]:
    return [step["event"] for step in found["next"]]


@pytest.fixture
async def patient(make_api) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a hub where a borrow waits in the queue for up to 30 s."""
    async with make_api(borrow_queue_timeout_s=30) as api:
        yield api


@asynccontextmanager
async def waiting(api: httpx.AsyncClient, key: str, run: str = "r2") -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """A borrow under a key that stands in the queue."""
    headers = {b"x-run-id": run.encode(), b"idempotency-key": key.encode()}
    asked = asyncio.create_task(api.post("/session/borrow", json={"labelKey": POOL}, headers=headers))

    async def in_line() -> bool:
        return (await api.get(f"/why/ticket/{key}")).status_code == 200

    await eventually(in_line)
    yield asked
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)


async def test_why_of_a_free_slot_says_that_it_waits_for_a_borrow(api):
    await publish(api, "n1", **{POOL: ["s1"]})
    found = await why(api, "slot", "s1")
    assert (found["state"], found["facts"]["pool"], found["facts"]["node"]) == ("free", POOL, "n1")
    assert (past(found), coming(found), found["complete"]) == (["slot.published"], ["grant.lent"], True)


async def test_why_of_a_lent_slot_says_who_holds_it_and_until_when(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    await borrow(api, POOL, run="r1", ttlSeconds=600)
    found = await why(api, "slot", "s1")
    assert (found["state"], found["facts"]["run"], found["facts"]["label"]) == ("lent", "r1", POOL)
    lease, longest = found["next"]
    assert lease["event"] == longest["event"] == "grant.lapsed"
    assert lease["inSeconds"] == pytest.approx(600, abs=SLACK_S)
    assert longest["inSeconds"] == pytest.approx(86_400, abs=SLACK_S)
    assert "its node is asked to replace it" in lease["rule"]
    assert past(found) == ["slot.published", "grant.lent"]


async def test_why_of_a_slot_whose_lease_lapsed_names_the_lapse(api, hub):
    await publish(api, "n1", **{POOL: ["s1"]})
    await borrow(api, POOL)
    await age_lease(hub, "s1")
    await api.post("/admin/sweep")
    found = await why(api, "slot", "s1")
    assert found["state"] == "free"
    assert found["history"][0]["event"] == "grant.lapsed"
    assert "The lease was not renewed" in found["history"][0]["rule"]
    assert found["facts"]["recycle"]


async def test_why_of_a_held_slot_names_the_reason(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    await api.post("/admin/nodes/n1/drain")
    drained = await why(api, "slot", "s1")
    assert (drained["state"], coming(drained)) == ("held", ["node.undrained"])
    assert "n1 drains" in drained["because"]
    await api.post("/admin/nodes/n1/undrain")
    age_node(redis, "n1", 40)
    redis.set("node_alive:n1", "1")
    await borrow(api, POOL, maxWaitSeconds=0)
    suspect = await why(api, "slot", "s1")
    assert (suspect["state"], coming(suspect)) == ("held", ["node.back"])
    assert "silent for half of HUB_NODE_TIMEOUT" in suspect["because"]


async def test_why_of_a_slot_under_maintenance_says_that_it_is_not_lent(api):
    await publish(api, "n1", **{POOL: ["s1"]})
    await api.post(f"/admin/pools/{POOL}/restart")
    found = await why(api, "slot", "s1")
    assert (found["state"], coming(found)) == ("free", ["pool.maintenance"])
    assert "under maintenance" in found["because"]


async def test_why_of_a_removed_slot_tells_what_happened(api):
    await publish(api, "n1", **{POOL: ["s1"]})
    await borrow(api, POOL)
    await api.delete("/node/n1")
    found = await why(api, "slot", "s1")
    assert (found["state"], found["next"]) == ("gone", [])
    assert past(found)[-2:] == ["grant.ended", "slot.withdrawn"]
    assert "left or expired" in found["because"]


async def test_why_explains_a_pushed_item_once_the_hub_has_seen_it(api, redis):
    push(redis, POOL, ("f1", "x"))
    assert (await api.get("/why/slot/f1")).status_code == 404
    await borrow(api, POOL)
    assert past(await why(api, "slot", "f1")) == ["slot.adopted", "grant.lent"]


@pytest.mark.parametrize(
    ("silent_s", "state", "steps"),
    [
        (5, "alive", [("node.suspect", 25), ("node.expired", 55)]),
        (40, "suspect", [("node.expired", 20)]),
        (90, "stale", [("node.expired", 0)]),
    ],
)
async def test_why_of_a_silent_node_says_what_its_silence_leads_to(api, redis, silent_s, state, steps):
    await publish(api, "n1", **{POOL: ["s1"]})
    age_node(redis, "n1", silent_s)
    if state != "stale":
        redis.set("node_alive:n1", "1", px=int((60 - silent_s) * 1000))
    found = await why(api, "node", "n1")
    assert found["state"] == state
    assert found["facts"]["sinceBeatSeconds"] == pytest.approx(silent_s, abs=SLACK_S)
    assert [step["event"] for step in found["next"]] == [event for event, _ in steps]
    for step, (_, seconds) in zip(found["next"], steps, strict=True):
        assert step["inSeconds"] == pytest.approx(seconds, abs=SLACK_S)


async def test_why_of_a_silent_node_considers_the_expiry_switch_and_the_brake(make_api, redis):
    async with make_api(sweeper_expire=False) as api:
        await publish(api, "n1")
        kept = await why(api, "node", "n1")
        assert coming(kept) == ["node.suspect", "node.kept"]
        assert "expiry is off (HUB_SWEEPER_EXPIRE)" in kept["next"][1]["rule"]
        await api.put("/admin/sweeper", json={"expire": True, "by": "ann"})
        redis.hset("hub:brake", "state", "engaged")
        gone = await why(api, "node", "n1")
        assert coming(gone) == ["node.suspect", "node.expired"]
        assert "switched by ann" in gone["next"][1]["rule"]
        assert "The brake is engaged" in gone["next"][1]["rule"]


async def test_why_of_a_draining_node_says_when_its_leases_end(api):
    await publish(api, "n1", **{POOL: ["s1", "s2"]})
    await borrow(api, POOL)
    await api.post("/admin/nodes/n1/drain", json={"deadlineSeconds": 60})
    found = await why(api, "node", "n1")
    assert (found["facts"]["draining"], found["facts"]["lent"]) == (True, 1)
    assert found["because"].endswith("It drains: nothing more of it is lent.")
    assert found["next"][-1]["event"] == "grant.ended"
    assert found["next"][-1]["inSeconds"] == pytest.approx(60, abs=SLACK_S)


async def test_why_of_a_node_leaves_out_ordinary_lending(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    for _ in range(3):
        await borrow(api, POOL)
        await give_back(api, POOL, "s1")
    assert past(await why(api, "node", "n1")) == ["node.registered", "slot.published"]
    age_node(redis, "n1", 3600)
    await api.post("/admin/sweep")
    gone = await why(api, "node", "n1")
    assert (gone["state"], past(gone)[2]) == ("gone", "node.expired")
    assert (await beat(api, "n1"))["known"] is False


async def test_why_of_a_ticket_says_its_place_and_what_it_waits_for(patient):
    await publish(patient, "n1", **{POOL: ["s1"]})
    await borrow(patient, POOL, run="r1")
    async with waiting(patient, "first ticket"), waiting(patient, "second ticket"):
        found = await why(patient, "ticket", "second ticket")
        assert (found["state"], found["facts"]["position"], found["id"][:4]) == ("waiting", 2, "key-")
        assert "1 wait before it" in found["because"]
        assert coming(found) == ["grant.handed", "ticket.away"]
        assert found["next"][1]["inSeconds"] == pytest.approx(30, abs=SLACK_S)
        assert past(found) == ["ticket.waiting"]
        assert (await why(patient, "ticket", found["id"]))["state"] == "waiting"
        await patient.put(f"/admin/caps/{POOL}", json={"cap": 1})
        capped = await why(patient, "ticket", "first ticket")
        assert "1 of 1 leases that the cap" in capped["because"]


async def test_why_of_a_served_ticket_leads_to_its_slot(patient):
    await publish(patient, "n1", **{POOL: ["s1"]})
    await borrow(patient, POOL, run="r1")
    async with waiting(patient, "schlüssel") as asked:
        await give_back(patient, POOL, "s1")
        assert (await asked).status_code == 200
        found = await why(patient, "ticket", "schlüssel")
        assert (found["state"], found["facts"]["slot"]) == ("granted", "s1")
        assert past(found) == ["ticket.waiting", "grant.handed"]
        await give_back(patient, POOL, "s1")
        assert (await why(patient, "ticket", "schlüssel"))["state"] == "over"


async def test_why_of_a_ticket_without_a_call_says_how_long_its_place_is_kept(make_api):
    async with make_api(borrow_queue_timeout_s=0.2) as api:
        await publish(api, "n1")
        headers = {"x-run-id": "r1", "idempotency-key": "k"}
        answer = await api.post("/session/borrow", json={"labelKey": POOL}, headers=headers)
        assert answer.status_code == 503
        found = await why(api, "ticket", "k")
        assert (found["state"], past(found)) == ("away", ["ticket.waiting", "ticket.away"])
        assert found["next"][0]["inSeconds"] == pytest.approx(60, abs=SLACK_S)


async def test_why_of_a_run_says_what_it_holds_and_waits_for(patient):
    await publish(patient, "n1", **{POOL: ["s1", "s2"]})
    for _ in range(2):
        await borrow(patient, POOL, run="r1")
    async with waiting(patient, "k", run="r1"):
        found = await why(patient, "run", "r1")
        assert found["state"] == "holding and waiting"
        assert {each["slot"] for each in found["facts"]["holds"]} == {"s1", "s2"}
        assert [(each["state"], each["position"]) for each in found["facts"]["waits"]] == [("waiting", 1)]
        assert coming(found) == ["grant.lapsed", "grant.handed"]
        assert past(found) == ["grant.lent", "grant.lent", "ticket.waiting"]


@pytest.mark.parametrize("kind", ["node", "slot", "ticket", "run"])
async def test_why_of_an_unknown_thing_is_not_found(api, kind):
    answer = await api.get(f"/why/{kind}/no one: / such%")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    answer = await api.get("/why/pool/x")
    assert (answer.status_code, answer.json()["member"]) == (400, "kind")


async def test_why_shows_a_bounded_history_and_says_that_it_is_incomplete(api, redis):
    await publish(api, "n1", **{POOL: ["s1"]})
    for _ in range(4):
        await borrow(api, POOL)
        await give_back(api, POOL, "s1")
    found = await why(api, "slot", "s1", limit=3)
    assert (len(found["history"]), found["complete"]) == (3, False)
    assert found["history"][0]["event"] == "grant.returned"
    redis.delete("hub:history")
    assert (await why(api, "slot", "s1"))["history"] == []
