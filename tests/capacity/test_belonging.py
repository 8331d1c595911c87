"""Slots whose ids name a node: to whom they belong, and how a conflict of two nodes is told."""

from __future__ import annotations

import pytest

from hub.tokens.models import NODE, Holder, digest_of, new_secret, user_of
from tests.world import borrow, give_back, listed, publish

LABEL = "gpu:a"
OWN = "rack-7-gpu.a-1"  # as the hub names the first slot of rack-7 in this pool


async def join(api, node):
    answer = await api.post("/node/register", json={"nodeId": node})
    assert answer.status_code == 200, answer.text


async def offer(api, node, *slots, label=LABEL):
    """Publish these slots; return the status and the reason of each."""
    said = {"slots": [{"labelKey": label, "slotId": slot} for slot in slots]}
    answer = await api.post(f"/node/{node}/slots", json=said)
    assert answer.status_code == 200, answer.text
    return [(row["status"], row.get("reason", "")) for row in answer.json()["slots"]]


async def offer_pool(api, node, label=LABEL):
    """Publish a pool of one slot; return what became of the slot that the hub named."""
    answer = await api.post(f"/node/{node}/slots", json={"pools": {label: 1}})
    (row,) = answer.json()["slots"]
    return row["browserId"], row["status"], row.get("reason", "")


def events(redis):
    found = [facts for _, facts in redis.xrange("hub:history")]
    return [(e["slot"], e["node"], e["other"]) for e in found if e["event"] == "slot.conflict"]


async def trouble(api):
    found = (await api.get("/console/overview")).json()["troubles"]
    return [each["text"] for each in found if each["name"] == "slot-conflict"]


@pytest.mark.parametrize("label", [LABEL, "x:y"])
async def test_a_slot_id_that_names_a_node_is_refused_to_every_other_node(api, redis, label):
    await join(api, "rack-7")
    await join(api, "stranger")
    ((status, reason),) = await offer(api, "stranger", OWN, label=label)
    assert status == "refused"
    assert "rack-7" in reason
    assert "stranger" in reason
    assert await offer_pool(api, "rack-7") == (OWN, "published", "")
    assert listed(redis, f"available:{LABEL}") == [OWN]
    assert events(redis) == [(OWN, "rack-7", "stranger")]
    (text,) = await trouble(api)
    assert OWN in text
    assert "rack-7" in text
    assert "stranger" in text


async def test_a_slot_id_that_names_a_node_known_only_by_its_token_is_refused_to_others(api, hub):
    await hub.tokens.create(Holder("rack-7", user_of("rack-7"), kind=NODE), digest_of(new_secret()))
    await join(api, "stranger")
    assert [status for status, _ in await offer(api, "stranger", OWN)] == ["refused"]
    assert await offer_pool(api, "stranger") == ("stranger-gpu.a-1", "published", "")


async def test_a_free_slot_goes_over_to_the_node_that_its_id_names(api, redis):
    await publish(api, "stranger", **{LABEL: [OWN, "s2"]})
    await join(api, "rack-7")
    assert await offer_pool(api, "rack-7") == (OWN, "published", "")
    assert redis.hget(f"hub:slot:{OWN}", "node") == "rack-7"
    assert sorted(listed(redis, f"available:{LABEL}")) == [OWN, "s2"]
    assert redis.smembers("hub:node_slots:stranger") == {"s2"}
    assert [status for status, _ in await offer(api, "stranger", OWN)] == ["refused"]
    assert events(redis) == [(OWN, "rack-7", "stranger")]


@pytest.mark.parametrize("left", [False, True])
async def test_a_lent_slot_goes_over_to_the_node_that_its_id_names_when_the_lease_ends(api, redis, left):
    await publish(api, "stranger", **{LABEL: [OWN]})
    lease = (await borrow(api, LABEL)).json()
    await join(api, "rack-7")
    slot, status, reason = await offer_pool(api, "rack-7")
    assert (slot, status) == (OWN, "refused")
    assert "rack-7" in reason
    assert "stranger" in reason
    assert [status for status, _ in await offer(api, "stranger", OWN)] == ["lent"]
    if left:
        assert (await api.delete("/node/rack-7")).status_code == 200
    assert (await give_back(api, LABEL, OWN, leaseToken=lease["leaseToken"])).status_code == 200
    assert not redis.exists(f"hub:slot:{OWN}", f"available:{LABEL}", f"inuse:{LABEL}")
    said = (await api.post("/node/heartbeat", json={"nodeId": "rack-7"})).json()
    assert said["known"] is False  # it is to register and publish again, whether it has left or gets the slot
    if left:
        assert await offer(api, "stranger", OWN) == [("published", "")]
        return
    await join(api, "rack-7")
    assert await offer_pool(api, "rack-7") == (OWN, "published", "")


@pytest.mark.parametrize(
    ("node", "slot", "label"),
    [
        ("gpu", "gpu-1", LABEL),
        ("rack-7.lab", "rack-7.lab-1", LABEL),  # its own name, which begins as that of another node
        ("rack", "rack-7-gpu.a-1", "7-gpu:a"),  # as the hub names its own slot
        ("other", "rack-7-1", LABEL),  # no label stands there
        ("other", "rack-7-gpu.a-01", LABEL),  # no number
        ("other", "rack-7-gpu.a-x", LABEL),
        ("other", "wheel-8-gpu.a-1", LABEL),  # of no node
        ("other", "7d1c0f2e-4a31-4a53-9a5e-0c3c0f0a1b2c", LABEL),
    ],
)
async def test_a_slot_id_that_names_no_node_can_be_published_by_any_node(api, redis, node, slot, label):
    await join(api, "rack")
    await join(api, "rack-7")
    await join(api, node)
    assert await offer(api, node, slot, label=label) == [("published", "")]
    assert events(redis) == []
    assert await trouble(api) == []


async def test_a_slot_id_that_names_several_nodes_belongs_to_the_one_with_the_longest_id(api):
    for node in ("rack", "rack-7", "stranger"):
        await join(api, node)
    assert [reason for _, reason in await offer(api, "stranger", OWN) if "rack-7" in reason]
    assert [status for status, _ in await offer(api, "rack", OWN)] == ["refused"]


async def test_a_slot_id_that_two_nodes_may_claim_stays_with_the_first(api):
    await join(api, "rack")
    await join(api, "rack-7")
    assert await offer(api, "rack", OWN, label="7-gpu:a") == [("published", "")]
    slot, status, reason = await offer_pool(api, "rack-7")
    assert (slot, status) == (OWN, "refused")
    assert "rack has it" in reason


async def test_a_slot_on_offer_stays_when_the_node_that_its_id_names_joins(api, redis):
    await publish(api, "stranger", **{LABEL: [OWN]})
    await join(api, "rack-7")
    assert await offer(api, "stranger", OWN) == [("unchanged", "")]
    assert (await borrow(api, LABEL)).status_code == 200
    assert events(redis) == []


async def test_a_conflict_of_two_nodes_about_a_slot_writes_one_event_and_is_forgotten_after_an_hour(api, redis, hub):
    await publish(api, "n1", **{LABEL: ["s1", "s2"]})
    await join(api, "n2")
    for _ in range(3):
        assert [status for status, _ in await offer(api, "n2", "s1", "s2")] == ["refused"] * 2
    assert events(redis) == [("s1", "n1", "n2")]
    (text,) = await trouble(api)
    assert "s2 is of n1, and n2 offered it" in text
    assert 0 < redis.ttl("hub:conflicts") <= 3600
    redis.hincrby("hub:store", "clock_ms", 3_610_000)
    assert await hub.pools.conflicts() == []
    await offer(api, "n2", "s1")
    assert len(events(redis)) == 2


async def test_a_hundred_conflicts_are_remembered_and_the_oldest_is_dropped(api, redis):
    await publish(api, "n1", **{LABEL: ["s1"]})
    await join(api, "n2")
    redis.hincrby("hub:store", "clock_ms", 20_000)
    redis.hset("hub:conflicts", mapping={f"old-{n}": f"s|{10_000 if n != 99 else 9_000}|n1" for n in range(100)})
    await offer(api, "n2", "s1")
    known = redis.hkeys("hub:conflicts")
    assert len(known) == 100
    assert "n2" in known
    assert "old-99" not in known
    (text,) = await trouble(api)
    assert "97 more" in text
