"""Bundles at the scripts: all slots or none, the order of those that wait, and slots that are set aside."""

from __future__ import annotations

import pytest

from tests.capacity.bundles.conftest import Bundles

GPU2 = ("gpu:a", "", 2)


def test_a_bundle_is_lent_as_a_whole(fleet: Bundles) -> None:
    fleet.node("m", 3)
    kind, bundle, rows, _ = fleet.ask(GPU2)
    assert kind == "ok"
    assert [row[0] for row in rows] == ["m-1", "m-2"]
    assert len({row[1] for row in rows}) == 2, "each lease has a token of its own"
    assert fleet.redis.hgetall(f"hub:bundle:{bundle}") == {row[0]: f"{n}|{row[1]}" for n, row in enumerate(rows, 1)}
    assert fleet.free() == 1
    fleet.direct.call("capacity/return_bundle", bundle=bundle, by="")
    assert fleet.free() == 3
    assert not fleet.redis.exists(f"hub:bundle:{bundle}")


def test_a_bundle_that_waits_holds_nothing(fleet: Bundles) -> None:
    fleet.node("m", 2)
    ticket = fleet.all_of(("gpu:a", "", 3), hopes=True)
    assert isinstance(ticket, str)
    assert fleet.borrow(("gpu:a", "")) == "m-1", "one slot is still lent to one who wants one"


def test_a_freed_slot_completes_the_oldest_bundle_that_it_can(fleet: Bundles) -> None:
    fleet.node("m", 3)
    first = fleet.borrow(("gpu:a", ""))
    big, small = fleet.all_of(("gpu:a", "", 3)), fleet.all_of(("gpu:a", "", 3))
    fleet.give_back(first)
    assert len(fleet.held_by(str(big))) == 3
    assert not fleet.held_by(str(small))


def test_one_who_wants_one_slot_is_served_before_a_bundle(fleet: Bundles) -> None:
    fleet.node("m", 2)
    one, two = fleet.borrow(("gpu:a", "")), fleet.borrow(("gpu:a", ""))
    bundle, single = fleet.all_of(GPU2), fleet.borrow(("gpu:a", ""))
    fleet.give_back(one)
    assert fleet.holder(one) == single
    fleet.give_back(two)
    assert not fleet.held_by(str(bundle))
    fleet.give_back(one)
    assert fleet.held_by(str(bundle)) == {one, two}


def test_parts_that_suit_the_same_slots_are_given_different_ones(fleet: Bundles) -> None:
    fleet.publish("both", attributes={"vram": 80, "fast": True})
    fleet.publish("big", attributes={"vram": 80})
    lent = fleet.all_of(("gpu:a", "vram >= 40", 1), ("gpu:a", "fast", 1))
    assert lent == ["big", "both"]


def test_all_slots_are_on_one_node_where_that_is_asked_for(fleet: Bundles) -> None:
    fleet.node("m", 1)
    fleet.node("k", 2)
    fleet.node("j", 1)
    assert fleet.all_of(GPU2, same_node=True) == ["k-1", "k-2"] or fleet.held_by("t1") == {"k-1", "k-2"}
    waits = fleet.all_of(GPU2, same_node=True)
    assert waits == "t2"
    fleet.give_back("k-1")
    assert not fleet.held_by("t2")
    fleet.give_back("k-2")
    assert fleet.held_by("t2") == {"k-1", "k-2"}


def test_what_is_not_published_is_refused_with_what_there_is(fleet: Bundles) -> None:
    fleet.node("m", 2)
    assert fleet.ask(("gpu:a", "", 3)) == ["unpublished", 1, 2]
    assert fleet.ask(("gpu:a", "", 1), ("gpu:b", "", 1)) == ["unpublished", 2, 0]
    fleet.node("k", 2)
    assert fleet.ask(("gpu:a", "", 3), same_node=True) == ["unpublished", 0, 2]
    assert len(fleet.all_of(("gpu:a", "", 3))) == 3


def test_the_oldest_bundle_has_slots_set_aside_when_it_has_waited_too_long(fleet: Bundles) -> None:
    slots = fleet.node("m", 3)
    for _ in slots:
        fleet.borrow(("gpu:a", ""))
    bundle = str(fleet.all_of(("gpu:a", "", 3)))
    singles = [fleet.borrow(("gpu:a", "")) for _ in range(3)]
    assert fleet.round() == ("", 0)
    fleet.wait(30_000)
    assert fleet.round() == (bundle, 0)
    fleet.give_back("m-2")
    assert fleet.redis.smembers("hub:reserved") == {"m-2"}
    assert fleet.holder("m-2") is None, "no waiter gets a slot that is set aside"
    fleet.give_back("m-1")
    fleet.give_back("m-3")
    assert fleet.held_by(bundle) == set(slots)
    assert not fleet.redis.exists("hub:reserver", "hub:reserved")
    fleet.give_back("m-1")
    assert fleet.holder("m-1") == singles[0]


def test_slots_that_were_set_aside_are_lent_when_the_bundle_is_given_up(fleet: Bundles) -> None:
    fleet.node("m", 2)
    fleet.borrow(("gpu:a", "")), fleet.borrow(("gpu:a", ""))
    bundle, single = str(fleet.all_of(GPU2)), fleet.borrow(("gpu:a", ""))
    fleet.wait(30_000)
    fleet.round()
    fleet.give_back("m-1")
    assert fleet.holder("m-1") is None
    fleet.direct.call("queue/cancel", ticket=bundle, recalled=0, by="operator")
    assert fleet.holder("m-1") == single


def test_a_bundle_goes_to_the_end_when_it_has_reserved_for_too_long(fleet: Bundles) -> None:
    fleet.node("m", 2)
    fleet.borrow(("gpu:a", "")), fleet.borrow(("gpu:a", ""))
    first, second = str(fleet.all_of(GPU2)), str(fleet.all_of(GPU2))
    fleet.wait(30_000)
    assert fleet.round()[0] == first
    fleet.give_back("m-1")
    fleet.wait(100_000)
    assert fleet.round(reserve=100_000) == (second, 1)
    fleet.give_back("m-2")
    assert fleet.held_by(second) == {"m-1", "m-2"}


def test_a_bundle_that_has_reserved_in_vain_waits_as_long_again_and_its_patience_on_top(fleet: Bundles) -> None:
    fleet.node("m", 2)
    fleet.borrow(("gpu:a", "")), fleet.borrow(("gpu:a", ""))
    ticket = str(fleet.all_of(GPU2, wait=600_000))
    reservers = []
    for ms in (30_000, 100_000, 129_000, 1_000):
        fleet.wait(ms)
        reservers.append(fleet.round(reserve=100_000)[0])
    assert reservers == [ticket, "", "", ticket]


@pytest.mark.parametrize("together", [True, False])
def test_the_end_of_one_lease_ends_the_others_where_they_are_held_together(fleet: Bundles, together: bool) -> None:
    fleet.node("m", 2)
    _, bundle, rows, _ = fleet.ask(GPU2, together=together)
    fleet.direct.call(
        "capacity/withdraw", slot="m-1", node="m", part="m", only_free="", incarnation="", said_number="", reason="",
    )  # fmt: skip
    assert (fleet.redis.exists("session:m-2") == 0) is together
    if together:
        assert fleet.redis.get("hub:end_reason:m-2").startswith(f"{rows[1][1]}|bundle|")
        assert not fleet.redis.exists(f"hub:bundle:{bundle}")


def test_a_return_of_one_lease_ends_no_other(fleet: Bundles) -> None:
    fleet.node("m", 2)
    fleet.all_of(GPU2, together=True)
    fleet.direct.call(
        "capacity/give_back", slot="m-1", hint="gpu:a", token=fleet.redis.hget("session:m-1", "leaseToken"), run="",
        only_run="", request="r", keyed="", keep_s=60, arrived_ms="", revokes="", reason="", by="",
    )  # fmt: skip
    assert fleet.held_by("t1") == {"m-2"}
