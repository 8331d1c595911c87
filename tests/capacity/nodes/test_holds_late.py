"""Holds that come late, by the wrong node, in great number, or while another program moves the items of slots."""

from __future__ import annotations

import pytest

from hub.capacity.nodes import beats
from tests.capacity.nodes.test_holds import (
    FREE,
    ILL,
    LABEL,
    LENT,
    hold,
    hold_by_hand,
    offer,
    refused,
    release,
    release_by_hand,
    shown,
)
from tests.world import beat, borrow, give_back, listed

ME = {"incarnation": "one"}


async def publish(api, slot, number, held):
    """Publish a slot of n1 as the call `number` of its process."""
    body = {"slots": [{"labelKey": LABEL, "slotId": slot}], "policy": "reuse", "number": number, "held": held, **ME}
    answer = await api.post("/node/n1/slots", json=body)
    assert answer.status_code == 200, answer.text


async def test_a_slot_whose_publication_was_overtaken_by_a_heartbeat_is_published_as_held(api, redis):
    await offer(api, "s2", number=1, held={}, **ME)
    await beat(api, "n1", number=3, held={"s1": ILL}, **ME)
    await publish(api, "s1", 2, {"s1": ILL})
    assert await shown(api) == {"s1": (ILL, "node")}
    assert listed(redis, FREE) == ["s2"]
    await release(api, number=4, **ME)
    assert sorted(listed(redis, FREE)) == ["s1", "s2"]


async def test_a_late_publication_does_not_lower_the_number_of_the_last_hold(api):
    await offer(api, "s1", number=1, held={}, **ME)
    await hold(api, number=5, **ME)
    await publish(api, "s1", 3, {})
    assert (await release(api, number=4, **ME))["note"] == "a later call said otherwise"
    assert await shown(api) == {"s1": (ILL, "node")}
    assert await refused(api)


@pytest.mark.parametrize("said", ["a hold", "a release", "all that it holds", "nothing that it holds"])
async def test_a_node_whose_id_has_the_same_key_part_neither_holds_nor_releases_a_slot(api, said):
    await offer(api, "s1", "s2", node="a-b", held={"s2": ILL})
    if said in ("a hold", "a release"):
        method, slot = ("POST", "s1") if said == "a hold" else ("DELETE", "s2")
        body = {"json": {"reason": "not mine"}} if said == "a hold" else {}
        answer = await api.request(method, f"/node/a:b/slots/{slot}/hold", **body)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value")
    else:
        await beat(api, "a:b", held={"s1": "not mine"} if said == "all that it holds" else {})
    assert await shown(api, "a-b") == {"s2": (ILL, "node")}


async def test_a_node_whose_id_has_the_same_key_part_does_not_make_a_slot_fresh(api, redis):
    await offer(api, "s1", node="a-b", policy="fresh")
    lease = (await borrow(api, LABEL)).json()
    await give_back(api, LABEL, "s1", leaseToken=lease["leaseToken"])
    (slot,) = (await beat(api, "a-b"))["ends"].items()
    await beat(api, "a:b", recycled=dict([slot]))
    assert listed(redis, FREE) == []
    await beat(api, "a-b", recycled=dict([slot]))
    assert listed(redis, FREE) == ["s1"]


@pytest.mark.parametrize("ahead", [1, 10**15])
async def test_a_number_that_the_store_has_not_counted_is_no_call_of_an_operator(api, redis, ahead):
    await offer(api, "s1")
    await hold_by_hand(api)
    made_up = {"s1": {"number": str(int(redis.hget("hub:slot:s1", "barred_number")) + ahead), "reason": "made up"}}
    await offer(api, "s1", operatorHeld=made_up)
    assert await shown(api) == {"s1": ("fan is broken", "operator")}
    await release_by_hand(api)
    assert await shown(api) == {}


async def test_a_heartbeat_with_many_holds_is_taken_in_scripts_of_a_few_slots(api, redis):
    ids = [f"s{number:03d}" for number in range(320)]
    await offer(api, *ids)
    named = []
    for held in ({"s000": ILL}, dict.fromkeys(ids, ILL)):
        before = redis.info("commandstats")["cmdstat_fcall"]["calls"]
        await beat(api, "n1", held=held)
        named.append(redis.info("commandstats")["cmdstat_fcall"]["calls"] - before)
    few, many = named
    assert many - few >= 2 * len(ids) // beats.HELD_AT_ONCE - 1
    assert (await shown(api)).keys() == set(ids)
    await beat(api, "n1", held={"s319": ILL})
    assert (await shown(api)).keys() == {"s319"}


async def test_a_thousand_leases_are_watched_with_the_reasons_that_were_heard(api):
    await offer(api, "s1")
    lease = (await borrow(api, LABEL)).json()
    mine = {"browserId": "s1", "leaseToken": lease["leaseToken"]}
    await hold(api)
    others = [{"browserId": f"n1-gpu.a100-{slot}", "leaseToken": "1883034944814448641"} for slot in range(999)]
    heard = {each["browserId"]: "x" * 200 for each in (*others, mine)}
    answer = await api.post("/leases/watch", json={"leases": [*others, mine], "unwell": heard})
    assert answer.status_code == 200, answer.text
    assert answer.json()["unwell"][-1] == {**mine, "reason": ILL, "heldBy": "node"}


@pytest.mark.parametrize("by", ["its node", "an operator"])
async def test_a_slot_held_while_another_program_had_its_item_is_not_lent_when_that_puts_it_back(api, redis, by):
    await offer(api, "s1")
    (item,) = redis.lrange(FREE, 0, -1)
    redis.lrem(FREE, 1, item)
    redis.rpush(LENT, item)
    await (hold(api) if by == "its node" else hold_by_hand(api))
    redis.lrem(LENT, 1, item)
    redis.rpush(FREE, item)
    assert await refused(api)
    await (release(api) if by == "its node" else release_by_hand(api))
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"
    assert await refused(api)
