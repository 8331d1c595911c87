"""Caps after a loss of the store: each reported lease counts for its requested label, in any order of the reports."""

from __future__ import annotations

import json

import pytest

from hub.store.store import SETTLE_MS
from tests.world import beat, borrow, give_back, publish

POOL, ASKED = "pay:chromium", "pay:chromium:eu"


@pytest.fixture
async def lent(make_api, redis):
    """(client, hub, the lease, what the node was told of it): one of a capped label, served by the pool above it."""
    async with make_api(borrow_concurrency_caps=f"{ASKED}=1") as api:
        hub = api._transport.app.app.state.serving.hub
        await publish(api, "n1", **{POOL: ["s1", "s2"]})
        lease = (await borrow(api, ASKED, run="nightly")).json()
        assert (await borrow(api, ASKED)).json()["code"] == "capped"
        yield api, hub, lease, await beat(api, "n1")


async def wipe(api, hub, redis):
    """The store is emptied, and the hub says nothing yet. Returns what it remembers."""
    remembered = dict(hub.leases.memory.leases)
    hub.leases.memory.leases.clear()
    redis.flushall()
    assert (await beat(api, "n1"))["known"] is False
    return remembered


async def opened(hub, redis):
    """The hub says what it knows, and the time for that passes."""
    await hub.clock.tick()
    redis.hincrby("hub:store", "clock_ms", SETTLE_MS + 1)
    await hub.clock.tick()


async def report(api, told):
    """The node says again what it was told, as an agent does."""
    slots = [{"labelKey": POOL, "slotId": slot} for slot in ("s1", "s2")]
    said = {name: told[name] for name in ("lent", "lentFor") if name in told}
    answer = await api.post("/node/register", json={"nodeId": "n1", "slots": slots, **said})
    assert [slot["status"] for slot in answer.json()["slots"]] == ["lent", "published"]


async def test_a_node_that_reports_first_names_the_label_under_which_its_slot_was_requested(lent, redis):
    api, hub, lease, told = lent
    await wipe(api, hub, redis)
    await report(api, told)
    await opened(hub, redis)
    assert (await borrow(api, ASKED)).json()["code"] == "capped"
    found = (await api.get("/sessions/s1")).json()
    assert (found["labelKey"], found["runId"]) == (ASKED, "nightly")
    held = {"leaseToken": lease["leaseToken"], "onlyRun": True, "runId": "nightly"}
    assert (await give_back(api, ASKED, "s1", **held)).json()["returned"] == "s1"
    assert (await borrow(api, ASKED)).json()["browserId"] == "s2"


async def test_a_hub_adds_the_label_to_a_lease_that_its_node_reported_without_one(lent, redis):
    """Plain clients report slot and token alone."""
    api, hub, _, told = lent
    remembered = await wipe(api, hub, redis)
    await report(api, {"lent": told["lent"]})
    hub.leases.memory.leases.update(remembered)
    await hub.leases.memory.recall()
    await opened(hub, redis)
    assert (await borrow(api, ASKED)).json()["code"] == "capped"
    assert [redis.zcard(f"hub:asked:{label}") for label in (POOL, ASKED)] == [0, 1]
    assert (await api.get("/sessions/s1")).json()["runId"] == "nightly"
    assert (await api.get("/sessions?run=nightly")).json()["total"] == 1


async def test_a_process_that_takes_over_a_node_is_told_the_requested_labels_of_its_leases(lent):
    api, _, lease, _ = lent
    took = (await api.post("/node/register", json={"nodeId": "n1", "incarnation": "first"})).json()
    assert "lentFor" not in took  # no earlier process of the node is known, which could have known of more leases
    took = (await api.post("/node/register", json={"nodeId": "n1", "incarnation": "second"})).json()
    assert took["lent"] == {"s1": lease["leaseToken"]}
    holder = json.loads(took["lentFor"]["s1"].pop("holder"))
    assert holder == {"user": None, "team": None, "name": "127.0.0.1", "client": "127.0.0.1"}
    assert took["lentFor"] == {"s1": {"labelKey": ASKED, "runId": "nightly"}}


@pytest.mark.parametrize(
    "said",
    [["s1"], {"s1": ASKED}, {"s1": {"labelKey": "a:"}}, {"s1": {"labelKey": []}}, {"s1": {"runId": "r" * 201}}],
    ids=str,
)
async def test_a_reported_label_or_run_that_is_invalid_is_refused(make_api, said):
    async with make_api() as api:
        answer = await api.post("/node/register", json={"nodeId": "n1", "lentFor": said})
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
