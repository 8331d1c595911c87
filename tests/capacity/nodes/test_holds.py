"""Slots that are unwell: their node or an operator holds them back, with a reason, and they are lent to no caller."""

from __future__ import annotations

import pytest

from tests.capacity.nodes.waiting import waiting
from tests.world import beat, borrow, give_back, listed

LABEL, FREE, LENT = "a:b", "available:a:b", "inuse:a:b"
ILL = "does not answer"


async def offer(api, *slots, node="n1", policy="reuse", label=LABEL, **more):
    body = {"nodeId": node, "policy": policy, "slots": [{"labelKey": label, "slotId": slot} for slot in slots], **more}
    answer = await api.post("/node/register", json=body)
    assert answer.status_code == 200, answer.text
    return [row["status"] for row in answer.json()["slots"]]


async def hold(api, slot="s1", reason=ILL, node="n1", **more):
    answer = await api.post(f"/node/{node}/slots/{slot}/hold", json={"reason": reason, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def release(api, slot="s1", node="n1", **more):
    answer = await api.delete(f"/node/{node}/slots/{slot}/hold", params=more)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def hold_by_hand(api, slot="s1", reason="fan is broken"):
    answer = await api.post(f"/admin/slots/{slot}/hold", json={"reason": reason})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def release_by_hand(api, slot="s1"):
    answer = await api.delete(f"/admin/slots/{slot}/hold")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def refused(api):
    return (await borrow(api, LABEL)).json().get("code") == "no-capacity"


async def shown(api, node="n1"):
    """Return the holds of the slots of a node, as lists show them."""
    slots = (await api.get(f"/nodes/{node}")).json()["slotList"]
    return {each["browserId"]: (each["held"], each["heldBy"]) for each in slots if "held" in each}


async def test_a_free_slot_that_is_held_is_on_offer_no_more(api, redis):
    await offer(api, "s1", "s2")
    assert await hold(api) == {"browserId": "s1", "nodeId": "n1", "lent": False, "held": ILL, "heldBy": "node"}
    assert listed(redis, FREE) == ["s2"]
    assert (await borrow(api, LABEL)).json()["browserId"] == "s2"
    assert await refused(api)
    assert await release(api) == {"browserId": "s1", "nodeId": "n1", "lent": False}
    assert (await borrow(api, LABEL)).json()["browserId"] == "s1"


async def test_a_released_slot_goes_to_the_first_that_waits(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api, "s1")
        await hold(api)
        waiter = await waiting(api, redis)
        await release(api)
        assert (await waiter).json()["browserId"] == "s1"


async def test_a_lent_slot_stays_lent_and_is_held_back_after_its_lease(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api, "s1")
        lease = (await borrow(api, LABEL)).json()
        assert (await hold(api))["lent"]
        renewed = await api.post("/session/renew", json={"browserId": "s1", "leaseToken": lease["leaseToken"]})
        assert renewed.status_code == 200
        waiter = await waiting(api, redis)
        await give_back(api, LABEL, "s1")
        assert (listed(redis, FREE), listed(redis, LENT), waiter.done()) == ([], [], False)
        await release(api)
        assert (await waiter).json()["browserId"] == "s1"


async def test_a_slot_is_lent_only_when_neither_node_nor_operator_holds_it(api):
    await offer(api, "s1")
    await hold(api)
    assert (await hold_by_hand(api))["heldBy"] == "operator"
    assert await shown(api) == {"s1": ("fan is broken", "operator")}
    assert (await release_by_hand(api))["held"] == ILL
    assert await refused(api)
    await hold_by_hand(api)
    assert (await release(api))["heldBy"] == "operator"
    assert await refused(api)
    await release_by_hand(api)
    assert await shown(api) == {}
    assert not await refused(api)


async def test_a_heartbeat_says_all_slots_that_its_process_holds(api):
    await offer(api, "s1", "s2", "s3")
    await hold_by_hand(api, "s3")
    await beat(api, "n1", held={"s1": ILL, "s2": "old", "s9": "never published"})
    assert (await shown(api)).keys() == {"s1", "s2", "s3"}
    await beat(api, "n1")
    await beat(api, "n1", held={"s2": "new"})
    assert await shown(api) == {"s2": ("new", "node"), "s3": ("fan is broken", "operator")}
    await beat(api, "n1", held={})
    assert (await shown(api)).keys() == {"s3"}


LATE = {
    "a hold": lambda api, number: hold(api, reason="late", incarnation="one", number=number),
    "a release": lambda api, number: release(api, incarnation="one", number=number),
    "all slots": lambda api, number: beat(api, "n1", incarnation="one", number=number, held={"s1": "late"}),
    "none of the slots": lambda api, number: beat(api, "n1", incarnation="one", number=number, held={}),
}
LAST = {
    "a hold": (lambda api: hold(api, incarnation="one", number=7), ILL),
    "a release": (lambda api: release(api, incarnation="one", number=7), None),
    "all slots": (lambda api: beat(api, "n1", incarnation="one", number=7, held={"s1": ILL}), ILL),
    "none of the slots": (lambda api: beat(api, "n1", incarnation="one", number=7, held={}), None),
    "a publication": (lambda api: offer(api, "s1", incarnation="one", number=7, held={"s1": ILL}), ILL),
    "a publication without it": (lambda api: offer(api, "s1", incarnation="one", number=7, held={}), None),
}


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("last", LAST)
async def test_a_late_word_of_a_node_changes_nothing(api, last, late):
    await offer(api, "s1", incarnation="one", number=1)
    say, expected = LAST[last]
    await say(api)
    for number in (3, 7):
        await LATE[late](api, number)
        found = (await shown(api)).get("s1", (None, ""))[0]
        assert found == expected, number


async def test_two_late_words_of_a_node_change_nothing(api):
    await offer(api, "s1", incarnation="one", number=1)
    await beat(api, "n1", incarnation="one", number=7, held={})
    await beat(api, "n1", incarnation="one", number=3, held={"s1": "late"})
    assert (await hold(api, reason="late", incarnation="one", number=5))["note"] == "a later call said otherwise"
    assert await shown(api) == {}


async def test_a_process_that_is_the_node_no_more_holds_and_releases_nothing(api):
    await offer(api, "s1", "s2", incarnation="one")
    await offer(api, "s1", "s2", incarnation="two", held={"s2": ILL})
    for answer in (
        await api.post("/node/n1/slots/s1/hold", json={"reason": "late", "incarnation": "one", "number": 99}),
        await api.delete("/node/n1/slots/s2/hold", params={"incarnation": "one", "number": 99}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "superseded")
    assert (await beat(api, "n1", incarnation="one", number=99, held={"s1": "late"}))["superseded"]
    assert await shown(api) == {"s2": (ILL, "node")}


async def test_a_slot_that_is_published_as_held_is_never_on_offer(make_api, redis):
    async with make_api(borrow_queue_timeout_s=20) as api:
        await offer(api)
        await offer(api, "s0", label=LABEL)
        await borrow(api, LABEL)
        waiter = await waiting(api, redis)
        await offer(api, "s1", held={"s1": ILL})
        answer = await api.post(
            "/node/n1/slots", json={"slots": [{"labelKey": LABEL, "slotId": "s2"}], "held": {"s2": ILL}}
        )
        assert answer.json()["slots"][0]["status"] == "published"
        assert (waiter.done(), listed(redis, FREE)) == (False, [])
        await offer(api, "s1", held={})
        assert (await waiter).json()["browserId"] == "s1"
        assert (await shown(api)).keys() == {"s2"}


async def test_a_withdrawn_slot_forgets_the_hold_of_its_node(api, redis):
    await offer(api, "s1")
    await hold(api)
    await api.delete("/node/n1/slots/s1")
    assert redis.zcard("hub:unwell") == 0
    await offer(api, "s1")
    assert not await refused(api)


@pytest.mark.parametrize("released", ["never", "while it is withdrawn"])
async def test_an_operators_hold_outlasts_a_withdrawal_until_it_is_released(api, released):
    await offer(api, "s1")
    await hold_by_hand(api)
    await api.delete("/node/n1/slots/s1")
    if released != "never":
        assert (await api.delete("/admin/slots/s1/hold")).status_code == 200
        assert (await api.delete("/admin/slots/s1/hold")).status_code == 404
    await offer(api, "s1")
    assert await refused(api) == (released == "never")


@pytest.mark.parametrize("how", ["unchanged", "changed", "node left"])
async def test_an_operators_hold_outlasts_a_new_publication(api, how):
    await offer(api, "s1", incarnation="one", held={"s1": ILL})
    await hold_by_hand(api)
    if how == "node left":
        await api.delete("/node/n1")
    await offer(api, "s1", incarnation="two", **({"endpoint": "tcp://elsewhere"} if how == "changed" else {}))
    assert await shown(api) == {"s1": ("fan is broken", "operator")}
    await release_by_hand(api)
    assert not await refused(api)


async def test_holds_of_a_process_end_when_the_next_one_publishes_without_them(api):
    await offer(api, "s1", "s2", incarnation="one", held={"s1": ILL, "s2": ILL})
    assert await offer(api, "s1", "s2", incarnation="one") == ["unchanged", "unchanged"]
    assert (await shown(api)).keys() == {"s1", "s2"}
    await offer(api, "s1", incarnation="two")
    assert (await shown(api)).keys() == {"s2"}
    await offer(api, "s2", incarnation="two", held={"s2": ILL})
    assert (await shown(api)).keys() == {"s2"}


async def test_a_slot_that_changes_to_another_node_is_held_by_an_operator_only(api):
    slot = "n1-a.b-1"
    await offer(api, slot, node="n2")
    await hold(api, slot, node="n2")
    await hold_by_hand(api, slot)
    await offer(api, slot)
    assert await shown(api) == {slot: ("fan is broken", "operator")}
    assert await release_by_hand(api, slot) == {"browserId": slot, "nodeId": "n1", "lent": False}


@pytest.mark.parametrize("first", ["a borrow", "a sweep"])
@pytest.mark.parametrize("was", ["held", "lent"])
async def test_a_program_that_knows_the_lists_only_does_not_put_it_on_offer(make_api, redis, first, was):
    async with make_api() as api:
        hub = api._transport.app.app.state.serving.hub
        await offer(api, "s1")
        await borrow(api, LABEL)
        (item,) = redis.lrange(LENT, 0, -1)
        await hold(api)
        if was == "held":
            await give_back(api, LABEL, "s1")
        else:
            redis.lrem(LENT, 1, item)
            redis.delete("session:s1", "borrow_ttl:s1")
        redis.rpush(FREE, item)
        if first == "a borrow":
            assert await refused(api)
        await hub.pools.adopt(LABEL, "free", set())
        assert (listed(redis, FREE), await refused(api)) == ([], True)  # the sweep took it out, before a borrow looked
        await release(api)
        assert not await refused(api)


async def test_what_else_holds_a_slot_back_goes_on_after_a_release(make_api):
    async with make_api() as api:
        await offer(api, "s1")
        await api.post("/admin/nodes/n1/drain")
        await hold(api)
        await release(api)
        assert await refused(api)
        await hold(api)
        await api.post("/admin/nodes/n1/undrain")
        assert await refused(api)
        await release(api)
        assert not await refused(api)


async def test_a_call_about_a_slot_that_there_is_not_is_refused(api):
    await offer(api, "s1")
    await offer(api, "s2", node="n2")
    for path, status, code in (
        ("/node/n1/slots/s9/hold", 404, "unknown-slot"),
        ("/node/n1/slots/s2/hold", 400, "invalid-value"),
        ("/admin/slots/s9/hold", 404, "unknown-slot"),
    ):
        for answer in (await api.post(path, json={"reason": ILL}), await api.delete(path)):
            assert (answer.status_code, answer.json()["code"]) == (status, code), path
    gone = await api.post("/node/n1/slots/s1/hold", json={"reason": ILL, "incarnation": "x", "number": 1})
    assert gone.status_code == 200  # a node that registered without an incarnation


@pytest.mark.parametrize("reason", ["", " ", "x" * 201, "two\nlines", "\x07", 7, None])
async def test_a_reason_is_one_printable_line(api, reason):
    await offer(api, "s1")
    for path in ("/node/n1/slots/s1/hold", "/admin/slots/s1/hold"):
        answer = await api.post(path, json={"reason": reason})
        assert answer.status_code == 400, path
    for path, body in (("/node/heartbeat", {}), ("/node/register", {}), ("/node/n1/slots", {})):
        answer = await api.post(path, json={"nodeId": "n1", "held": {"s1": reason}, **body})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-value"), path
    assert await shown(api) == {}
