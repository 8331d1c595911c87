"""Ends of bundles, late and repeated calls, and a store that was lost."""

from __future__ import annotations

import json

import pytest

from hub.capacity.models import slot_item
from hub.store.store import SETTLE_MS
from tests.capacity.bundles import acts
from tests.capacity.bundles.conftest import Bundles

GPU2 = ("gpu:a", "", 2)
ADA, BOB = "a" * 32, "b" * 32


def handed(fleet: Bundles, **more: bool) -> str:
    """Return the ticket of a bundle of m-1 and m-2 that waited and was lent, of which its caller has not heard yet."""
    acts.lend_all(fleet, fleet.node("m", 2))
    ticket = str(fleet.all_of(GPU2, **more))
    fleet.give_back("m-1"), fleet.give_back("m-2")
    assert fleet.held_by(ticket) == {"m-1", "m-2"}
    return ticket


def test_a_repeat_gets_the_same_leases(fleet: Bundles) -> None:
    fleet.node("m", 4)
    first = fleet.ask(GPU2, request="k", keyed=True)
    again = fleet.ask(GPU2, request="k", keyed=True, attempt="another")
    assert again[:3] == first[:3]
    assert fleet.free() == 2


def test_a_call_that_comes_twice_gets_the_same_place(fleet: Bundles) -> None:
    fleet.node("m", 2)
    fleet.borrow(("gpu:a", ""))
    assert fleet.ask(GPU2, request="k") == fleet.ask(GPU2, request="k") == ["waiting", 1, -1, []]
    assert fleet.redis.zcard("hub:bundles") == 1
    assert fleet.redis.hgetall("hub:pending") == {"k": "1"}


def test_a_repeat_after_the_end_is_told_so(fleet: Bundles) -> None:
    fleet.node("m", 2)
    _, bundle, *_ = fleet.ask(GPU2, request="k", keyed=True)
    acts.give_all_back(fleet, str(bundle))
    assert fleet.ask(GPU2, request="k", keyed=True) == ["over", "m-1"]
    assert fleet.free() == 2


def test_renewals_and_returns_after_the_end_change_nothing(fleet: Bundles) -> None:
    fleet.node("m", 2)
    _, bundle, rows, _ = fleet.ask(GPU2)
    slots = [row[0] for row in rows]
    assert acts.give_all_back(fleet, bundle)[0] == "returned"
    _, later, *_ = fleet.ask(GPU2)
    assert later != bundle
    assert acts.renew(fleet, bundle) == ["over"]
    assert acts.give_all_back(fleet, bundle) == ["returned", []]
    assert fleet.held_by("t2") == set(slots)


def test_a_renewal_extends_all_leases_that_are_left(fleet: Bundles) -> None:
    fleet.node("m", 3)
    _, bundle, rows, _ = fleet.ask(("gpu:a", "", 3))
    fleet.give_back("m-2")
    kind, said = acts.renew(fleet, bundle)
    assert kind == "ok"
    assert said == ["m-1", rows[0][1], 2_000_000, "m-3", rows[2][1], 2_000_000]
    assert set(fleet.redis.zrange("hub:deadlines", 0, -1)) == {"m-1", "m-3"}


def test_a_slot_that_was_lent_on_is_not_of_the_bundle_any_more(fleet: Bundles) -> None:
    fleet.node("m", 2)
    _, bundle, rows, _ = fleet.ask(GPU2)
    fleet.give_back("m-1")
    assert fleet.borrow(("gpu:a", "")) == "m-1"
    assert acts.renew(fleet, bundle)[1][:2] == ["m-2", rows[1][1]]
    assert acts.give_all_back(fleet, bundle) == ["returned", ["m-2", rows[1][1]]]
    assert fleet.holder("m-1") == "t2"


@pytest.mark.parametrize("keyed", [False, True])
def test_an_undo_takes_back_all_leases(fleet: Bundles, keyed: bool) -> None:
    ticket = handed(fleet, keyed=keyed)
    bundle = acts.bundle_of(fleet, "m-1")
    assert acts.undo(fleet, ticket)[0] == "undone"
    assert fleet.free() == 2
    assert not fleet.redis.exists(f"hub:bundle:{bundle}", "hub:handed:h1")
    assert fleet.redis.exists(f"hub:ticket:{ticket}") == keyed
    assert acts.undo(fleet, ticket) == (["left", "away"] if keyed else ["nothing"])


def test_an_undo_gives_the_slots_to_those_who_wait(fleet: Bundles) -> None:
    ticket = handed(fleet)
    second = str(fleet.all_of(GPU2))
    acts.undo(fleet, ticket)
    assert fleet.held_by(second) == {"m-1", "m-2"}


def test_an_undo_takes_back_what_is_left_when_the_first_lease_has_ended(fleet: Bundles) -> None:
    ticket = handed(fleet)
    first = min(("m-1", "m-2"), key=lambda slot: json.loads(fleet.redis.hget(f"session:{slot}", "holder"))["unit"])
    acts.withdraw(fleet, first)
    acts.undo(fleet, ticket)
    assert not fleet.held_by(ticket), "no caller has it, and none will renew it"


def test_a_hub_that_vanishes_with_a_bundle_that_it_has_not_told_gives_all_back(fleet: Bundles) -> None:
    ticket = handed(fleet)
    fleet.direct.wait(4_000)
    fleet.direct.tick("h2")
    fleet.direct.call("queue/retire", limit=50)
    assert not fleet.held_by(ticket)
    assert fleet.free() == 2


def test_a_late_repeat_of_a_return_ends_no_lease_of_a_bundle_of_which_its_caller_has_not_heard(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 2))
    ticket = str(fleet.all_of(GPU2))

    def give_back(slot: str, request: str) -> None:
        fleet.direct.call(
            "capacity/give_back", slot=slot, hint="gpu:a", token="", run="", only_run="", request=request, keyed="",
            keep_s=60, arrived_ms="", revokes="", reason="", by="",
        )  # fmt: skip

    give_back("m-1", "r1"), give_back("m-2", "r2")
    give_back("m-1", "r3"), give_back("m-2", "r4")
    assert fleet.held_by(ticket) == {"m-1", "m-2"}


def test_a_bundle_that_was_fetched_is_given_back_slot_by_slot_without_tokens(fleet: Bundles) -> None:
    ticket = handed(fleet)
    assert fleet.ask(GPU2, request=ticket, repeated=True)[0] == "ok"
    for slot in ("m-1", "m-2"):
        answer = fleet.direct.call(
            "capacity/give_back", slot=slot, hint="gpu:a", token="", run="", only_run="", request=slot, keyed="",
            keep_s=60, arrived_ms="", revokes="", reason="", by="",
        )  # fmt: skip
        assert answer[0] == "returned"


def test_a_call_that_waits_on_leaves_its_ticket_to_a_later_call(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 2))
    for attempt in ("first", "second"):
        assert fleet.ask(GPU2, request="k", keyed=True, attempt=attempt)[0] == "waiting"
    assert fleet.ask(GPU2, request="k", keyed=True, attempt="first", repeated=True)[0] == "waiting"
    assert fleet.redis.hget("hub:ticket:k", "attempt") == "second"


def test_a_cancelled_bundle_is_gone(fleet: Bundles) -> None:
    slots = fleet.node("m", 2)
    acts.lend_all(fleet, slots)
    ticket = str(fleet.all_of(GPU2))
    assert acts.cancel(fleet, ticket) == ["cancelled"]
    assert acts.cancel(fleet, ticket) == ["cancelled"]
    assert not fleet.redis.exists("hub:bundles", "hub:pending", "hub:ticket_deadlines")
    assert fleet.redis.hget("hub:store", "bundles") is None
    fleet.give_back("m-1"), fleet.give_back("m-2")
    assert fleet.free() == 2
    assert fleet.ask(GPU2, request=ticket) == ["undone"]


def test_a_ticket_with_a_key_keeps_its_place_while_its_caller_is_away(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 2))
    first, second = str(fleet.all_of(GPU2, keyed=True)), str(fleet.all_of(GPU2))
    assert acts.undo(fleet, first, "timeout") == ["left", "away"]
    assert fleet.ask(GPU2, request=first, keyed=True, attempt="again")[:2] == ["waiting", 1]
    fleet.give_back("m-1"), fleet.give_back("m-2")
    assert fleet.held_by(first)
    assert not fleet.held_by(second)


def test_a_call_that_waits_no_longer_leaves_the_line(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 2))
    ticket = str(fleet.all_of(GPU2, keyed=True))
    acts.undo(fleet, ticket, "timeout")
    assert fleet.ask(GPU2, request=ticket, keyed=True, attempt="again", wait=0) == ["empty", []]
    assert not fleet.redis.exists("hub:bundles")
    assert fleet.ask(GPU2, wait=0) == ["empty", []]


def test_a_bundle_is_held_by_one_and_ended_by_no_other(fleet: Bundles) -> None:
    fleet.node("m", 2)
    _, bundle, *_ = fleet.ask(GPU2)
    holder = {"user": "ada", "userId": ADA, "bundle": bundle, "unit": 1}
    for slot in ("m-1", "m-2"):
        fleet.redis.hset(f"session:{slot}", "holder", json.dumps(holder))
    assert acts.renew(fleet, bundle, BOB)[0] == "not-holder"
    assert acts.give_all_back(fleet, bundle, BOB)[0] == "not-holder"
    assert len(fleet.held_by("t1")) == 2
    assert acts.renew(fleet, bundle, ADA)[0] == "ok"
    assert acts.give_all_back(fleet, bundle, ADA)[0] == "returned"


# -- together


@pytest.mark.parametrize("how", ["lapses", "is ended by an operator", "is lost with its node", "drains away"])
def test_leases_that_are_held_together_end_together(fleet: Bundles, how: str) -> None:
    fleet.node("m", 1), fleet.node("k", 1)
    _, bundle, rows, _ = fleet.ask(GPU2, together=True)
    token = fleet.redis.hget("session:m-1", "leaseToken")
    if how == "lapses":
        fleet.redis.delete(fleet.direct.keys.borrow_ttl("m-1"))
        fleet.direct.call("capacity/lapse", rest=("m-1",))
    elif how == "is ended by an operator":
        fleet.direct.call(
            "capacity/give_back", slot="m-1", hint="gpu:a", token=token, run="", only_run="", request="r", keyed="",
            keep_s=60, arrived_ms="", revokes="1", reason="", by="operator",
        )  # fmt: skip
    elif how == "is lost with its node":
        acts.leave(fleet, "m")
    else:
        fleet.direct.call(
            "nodes/drain", id="m", part="m", on=1, deadline_ms=0, cursor="0", limit=64, number="", reason="",
        )  # fmt: skip
        fleet.direct.call("sweeping/end_drained", id="m", part="m", cursor="0", limit=64)
    assert not fleet.redis.exists("session:k-1", f"hub:bundle:{bundle}")
    assert "|bundle|" in fleet.redis.get("hub:end_reason:k-1")
    assert rows


def test_the_slots_of_leases_that_end_together_are_lent_after_the_grace_of_their_holder(fleet: Bundles) -> None:
    fleet.direct.clear("110", 0, 5_000, {})
    fleet.direct.tick("h1")
    fleet.node("m", 1), fleet.node("k", 1)
    fleet.ask(GPU2, together=True)
    single = fleet.borrow(("gpu:a", ""))
    acts.leave(fleet, "m")
    assert fleet.holder("k-1") is None
    fleet.wait(5_000)
    fleet.direct.call("capacity/relend", limit=20)
    assert fleet.holder("k-1") == single


def test_an_undo_of_leases_that_are_held_together_tells_no_holder(fleet: Bundles) -> None:
    ticket = handed(fleet, together=True)
    acts.undo(fleet, ticket)
    assert fleet.free() == 2
    assert not fleet.redis.keys("hub:end_reason:*")


def test_a_slot_that_ends_with_others_completes_a_bundle(fleet: Bundles) -> None:
    fleet.node("m", 1), fleet.node("k", 2)
    lost = str(fleet.all_of(("gpu:a", "", 3), together=True) and "t1")
    second = str(fleet.all_of(GPU2))
    acts.leave(fleet, "m")
    assert not fleet.held_by(lost)
    assert fleet.held_by(second) == {"k-1", "k-2"}


# -- losses


def empty(fleet: Bundles) -> None:
    """Let the store be lost, and opened again by a hub that knew it."""
    fleet.redis.flushall()
    fleet.direct.open()
    fleet.redis.hset("hub:store", mapping={"timeout_ms": acts.TIMEOUT_MS, "options": "110"})
    fleet.direct.tick("h1")


def lost(fleet: Bundles, slots: list[str], *, by: str, together: bool = False) -> tuple[str, dict[str, str]]:
    """Lend a bundle, empty the store, and let nodes or a hub report the leases; return the bundle, and its tokens."""
    _, bundle, rows, _ = fleet.ask(("gpu:a", "", len(slots)), together=together)
    assert [row[0] for row in rows] == slots
    nodes = sorted({slot.partition("-")[0] for slot in slots})
    empty(fleet)
    for node in nodes:
        fleet.node(node, 0)
    for slot, token, item, pool, _, ttl, run, holder, label, _ in rows:
        node = slot.partition("-")[0]
        if by == "nodes":
            assert acts.publish_again(fleet, slot, pool, "reuse", lent=(token, label, run, holder)) == "lent"
        else:
            assert fleet.direct.call(
                "capacity/readopt", slot=slot, pool=pool, item=item, node=node, part=node, label=label, run=run,
                holder=holder, token=token, ttl_ms=ttl,
            ) == ["adopted"]  # fmt: skip
            assert acts.publish_again(fleet, slot, pool, "reuse") == "lent"
    fleet.direct.wait(SETTLE_MS + 1)
    fleet.direct.tick("h1")
    return bundle, {row[0]: row[1] for row in rows}


@pytest.mark.parametrize("by", ["nodes", "hub"])
def test_a_bundle_comes_back_with_its_leases_after_a_loss(fleet: Bundles, by: str) -> None:
    slots = fleet.node("m", 3)
    bundle, tokens = lost(fleet, slots, by=by)
    assert fleet.redis.hgetall(f"hub:bundle:{bundle}") == {s: f"{n}|{tokens[s]}" for n, s in enumerate(slots, 1)}
    assert acts.renew(fleet, bundle)[1][::3] == slots
    assert acts.give_all_back(fleet, bundle)[1][::2] == slots
    assert fleet.free() == 3
    assert acts.give_all_back(fleet, bundle) == ["returned", []], "a repeat"
    assert acts.renew(fleet, bundle) == ["over"]


@pytest.mark.parametrize("by", ["nodes", "hub"])
def test_leases_that_are_held_together_still_end_together_after_a_loss(fleet: Bundles, by: str) -> None:
    fleet.node("m", 1), fleet.node("k", 1)
    bundle, _ = lost(fleet, ["m-1", "k-1"], by=by, together=True)
    acts.leave(fleet, "m")
    assert not fleet.redis.exists("session:k-1", f"hub:bundle:{bundle}")


def test_bundles_of_two_stores_are_never_called_alike(fleet: Bundles) -> None:
    bundle, _ = lost(fleet, fleet.node("m", 2), by="nodes")
    fleet.node("k", 2)
    _, later, *_ = fleet.ask(GPU2)
    assert later != bundle
    assert acts.give_all_back(fleet, bundle)[1][::2] == ["m-1", "m-2"]


def test_a_call_is_put_off_while_the_store_that_was_lost_is_reported(fleet: Bundles) -> None:
    fleet.node("m", 2)
    _, bundle, *_ = fleet.ask(GPU2)
    empty(fleet)
    fleet.node("m", 2)
    assert acts.renew(fleet, bundle) == ["settling"]
    assert acts.give_all_back(fleet, bundle) == ["settling"]
    assert fleet.ask(GPU2, wait=0)[0] == "settling"
    assert fleet.ask(GPU2, request="waits")[0] == "waiting"
    fleet.direct.wait(SETTLE_MS + 1)
    fleet.direct.tick("h1")
    assert fleet.redis.hget("hub:slot:m-1", "item") == slot_item("m", "m-1", "", {})
    fleet.round()
    assert fleet.held_by("waits") == {"m-1", "m-2"}
    for call in (acts.renew, acts.give_all_back):
        assert call(fleet, bundle) == ["settling"], "a node or a hub may still report it"
    fleet.wait(acts.TIMEOUT_MS)
    fleet.direct.tick("h1")
    assert acts.renew(fleet, bundle) == ["over"]
    assert acts.give_all_back(fleet, bundle) == ["returned", []]
