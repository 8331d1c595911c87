"""Which slots a bundle may have: labels, caps, nodes, and lists that other programs change."""

from __future__ import annotations

import itertools

import pytest

from hub.capacity.models import slot_item
from tests.capacity.bundles import acts
from tests.capacity.bundles.conftest import Bundles

POOLS = ("a:b", "a:b:c", "a:b:d", "a:c:c", "x:y")
LABELS = (*POOLS, "a:*:c", "a:b:c:e", "a:*")
OPTIONS = ("000", "100", "010", "110", "001", "111", "101", "011")


def options(fleet: Bundles, said: str) -> None:
    """Switch trailing fallback, prefix expansion and wildcards on or off."""
    fleet.direct.clear(said, 0, 0, {})
    fleet.direct.tick("h1")


@pytest.mark.parametrize(("said", "label"), [*itertools.product(OPTIONS, LABELS)])
def test_a_bundle_has_its_slots_where_one_who_wants_one_has(fleet: Bundles, said: str, label: str) -> None:
    options(fleet, said)
    for n, pool in enumerate(POOLS):
        fleet.node(f"m{n}", 1, pool)
    singles = set()
    while (slot := fleet.borrow((label, ""), wait=0)).startswith("m"):
        singles.add(slot)
    for slot in singles:
        fleet.give_back(slot)
    if not singles:
        assert fleet.ask((label, "", 1)) == ["unpublished", 1, 0]
        return
    assert set(fleet.all_of((label, "", len(singles)))) == singles
    assert fleet.ask((label, "", len(singles) + 1)) == ["unpublished", 1, len(singles)]
    waits = str(fleet.all_of((label, "", len(singles))))
    for slot in singles:
        assert not fleet.held_by(waits)
        fleet.give_back(slot)
    assert fleet.held_by(waits) == singles


@pytest.mark.parametrize("label", LABELS)
def test_slots_are_set_aside_where_a_label_may_have_them(fleet: Bundles, label: str) -> None:
    options(fleet, "111")
    for n, pool in enumerate(POOLS):
        fleet.node(f"m{n}", 1, pool)
    mine = set(fleet.all_of((label, "", 1), wait=0))
    while (slot := fleet.borrow((label, ""), wait=0)).startswith("m"):
        mine.add(slot)
    others = set()
    while (slot := fleet.borrow(("*:*", ""), wait=0)).startswith("m"):
        others.add(slot)
    assert len(mine | others) == len(POOLS)
    ticket = acts.reserve(fleet, (label, "", len(mine)))
    for slot in sorted(mine)[1:] + sorted(others):
        fleet.give_back(slot)
    assert acts.set_aside(fleet) == set(sorted(mine)[1:])
    fleet.give_back(min(mine))
    assert fleet.held_by(ticket) == mine


# -- caps


def test_a_cap_of_a_label_counts_all_slots_of_a_bundle(fleet: Bundles) -> None:
    fleet.node("m", 4)
    acts.cap(fleet, "gpu:a", 3)
    assert fleet.borrow(("gpu:a", "")) == "m-1"
    assert fleet.ask(("gpu:a", "", 3), wait=0) == ["capped", 3, "gpu:a"]
    ticket = str(fleet.all_of(("gpu:a", "", 3)))
    assert len(fleet.all_of(("gpu:a", "", 2))) == 2
    fleet.give_back("m-1")
    assert not fleet.held_by(ticket)
    for slot in fleet.held_by("t4"):
        fleet.give_back(slot)
    fleet.round()
    assert len(fleet.held_by(ticket)) == 3


def test_parts_of_two_labels_count_for_the_cap_of_each(fleet: Bundles) -> None:
    fleet.node("m", 2, "gpu:a:x"), fleet.node("k", 2, "gpu:a:y")
    acts.cap(fleet, "gpu:a:x", 1), acts.cap(fleet, "gpu:a:y", 2)
    assert fleet.ask(("gpu:a:x", "", 2), wait=0) == ["capped", 1, "gpu:a:x"]
    assert fleet.all_of(("gpu:a:x", "", 1), ("gpu:a:y", "", 2)) == ["m-1", "k-1", "k-2"]


def test_a_cap_on_what_a_pool_serves_counts_all_slots_of_a_bundle(fleet: Bundles) -> None:
    fleet.node("m", 2, "gpu:a:x"), fleet.node("k", 2, "gpu:a:y")
    acts.cap(fleet, "gpu:a", 3, served=True)
    assert fleet.all_of(("gpu:a:x", "", 2), ("gpu:a:y", "", 2)) == "t1"
    assert len(fleet.all_of(("gpu:a:x", "", 1), ("gpu:a:y", "", 2))) == 3
    assert fleet.all_of(("gpu:a:x", "", 1)) == "t3"
    acts.cap(fleet, "gpu:a", 4, served=True)
    fleet.round()
    assert fleet.held_by("t3") == {"m-2"}


@pytest.mark.parametrize("same_node", [False, True])
def test_the_first_part_of_a_bundle_leaves_room_under_a_served_cap_for_the_next(
    fleet: Bundles, same_node: bool
) -> None:
    for slot in (*(f"x{n}" for n in range(20)), "y"):
        fleet.publish(slot, attributes={slot[0]: 1})
    acts.cap(fleet, "gpu:a", 2, served=True)
    for _ in range(3):  # on one node slots are looked at in any order
        lent = fleet.all_of(("gpu:a", "x == 1", 1), ("gpu:a", "y == 1", 1), same_node=same_node)
        assert lent[1:] == ["y"], "two places are left under the cap, and two slots are wanted"
        fleet.give_back(lent[0]), fleet.give_back("y")


def test_one_who_wants_one_slot_has_the_room_under_a_cap_before_a_bundle(fleet: Bundles) -> None:
    fleet.node("m", 2), fleet.node("k", 1, "gpu:b")
    acts.cap(fleet, "gpu:a", 1, served=True)
    assert fleet.borrow(("gpu:a", "")) == "m-1"
    bundle, single = str(fleet.all_of(("gpu:a", "", 1), ("gpu:b", "", 1))), fleet.borrow(("gpu:a", ""))
    fleet.give_back("m-1")
    assert fleet.holder("m-1") == single or fleet.holder("m-2") == single
    assert not fleet.held_by(bundle)


# -- order


def test_the_priority_of_a_bundle_decides_its_place(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 2))
    low, high = str(fleet.all_of(("gpu:a", "", 2))), str(fleet.all_of(("gpu:a", "", 2), priority=10))
    assert fleet.redis.zrange("hub:bundles", 0, -1) == [high, low]
    fleet.wait(30_000)
    assert fleet.round()[0] == high
    fleet.give_back("m-1"), fleet.give_back("m-2")
    assert fleet.held_by(high) == {"m-1", "m-2"}


def test_a_bundle_that_is_smaller_goes_on_while_an_older_one_waits(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 3))
    big, small = str(fleet.all_of(("gpu:a", "", 3))), str(fleet.all_of(("gpu:a", "", 2)))
    fleet.give_back("m-1"), fleet.give_back("m-2")
    assert fleet.held_by(small) == {"m-1", "m-2"}
    assert not fleet.held_by(big)


def test_rounds_go_through_all_that_wait(fleet: Bundles) -> None:
    fleet.node("m", 2)
    acts.cap(fleet, "gpu:a", 1)
    for _ in range(40):
        fleet.all_of(("gpu:a", "", 3), hopes=True)
    small = str(fleet.all_of(("gpu:a", "", 2)))
    acts.cap(fleet, "gpu:a", "")
    for _ in range(3):
        assert not fleet.held_by(small)
        fleet.round()
    assert fleet.held_by(small) == {"m-1", "m-2"}


def test_parts_that_overlap_are_given_what_each_needs(fleet: Bundles) -> None:
    for slot, of in {"xy": {"x": 1, "y": 1}, "xz": {"x": 1, "z": 1}, "yz": {"y": 1, "z": 1}}.items():
        fleet.publish(slot, attributes=of)
    for order in itertools.permutations("xyz"):
        lent = fleet.all_of(*(("gpu:a", f"{each} == 1", 1) for each in order))
        assert len(set(lent)) == 3
        assert all(part in slot for part, slot in zip(order, lent, strict=True))
        for slot in lent:
            fleet.give_back(slot)


def test_two_bundles_that_want_the_same_slots_are_served_one_after_the_other(fleet: Bundles) -> None:
    for slot, of in {"x": {"x": 1}, "y": {"y": 1}, "z": {"z": 1}}.items():
        fleet.publish(slot, attributes=of)
        fleet.borrow(("gpu:a", ""))
    first = str(fleet.all_of(("gpu:a", "x == 1", 1), ("gpu:a", "y == 1", 1)))
    second = str(fleet.all_of(("gpu:a", "y == 1", 1), ("gpu:a", "z == 1", 1)))
    fleet.wait(30_000)
    assert fleet.round() == (first, 0)
    fleet.give_back("z"), fleet.give_back("y")
    assert (acts.set_aside(fleet), fleet.held_by(second)) == ({"y"}, set())
    fleet.give_back("x")
    assert fleet.held_by(first) == {"x", "y"}
    fleet.give_back("y")
    assert fleet.held_by(second) == {"y", "z"}


def test_a_part_that_wants_anything_leaves_what_another_part_needs(fleet: Bundles) -> None:
    fleet.publish("big", attributes={"vram": 80})
    fleet.node("m", 1)
    assert fleet.all_of(("gpu:a", "", 1), ("gpu:a", "vram >= 40", 1)) == ["m-1", "big"]


def test_a_slot_that_is_to_be_replaced_is_lent_last(fleet: Bundles) -> None:
    fleet.node("m", 3, policy="recycle")
    acts.lend_all(fleet, ["m-1", "m-2", "m-3"])
    for slot in ("m-1", "m-2", "m-3"):
        fleet.give_back(slot)
    fleet.redis.delete("recycle:m-2", "recycle:m-3")
    assert set(fleet.all_of(("gpu:a", "", 2))) == {"m-2", "m-3"}


# -- other programs


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("same_node", [False, True])
def test_a_slot_that_another_program_has_taken_is_not_lent(fleet: Bundles, typed: bool, same_node: bool) -> None:
    for slot in ("s1", "s2", "s3"):
        fleet.publish(slot, attributes={"vram": 80} if typed else None)
    where = "vram >= 40" if typed else ""
    item = fleet.redis.lpop("available:gpu:a")
    assert fleet.all_of(("gpu:a", where, 3), same_node=same_node) == "t1"
    assert fleet.free() == 2
    assert set(fleet.all_of(("gpu:a", where, 2), same_node=same_node)) == {"s2", "s3"}
    fleet.redis.rpush("available:gpu:a", str(item))
    fleet.give_back("s2"), fleet.give_back("s3")
    listed = fleet.redis.lrange("available:gpu:a", 0, -1)
    fleet.direct.call("capacity/adopt_items", pool="gpu:a", place="free", rest=listed)
    fleet.round()
    assert fleet.held_by("t1") == {"s1", "s2", "s3"}


def test_a_slot_that_another_program_has_put_into_the_list_is_lent(fleet: Bundles) -> None:
    fleet.node("m", 1)
    fleet.redis.lpush("available:gpu:a", slot_item("m", "other", "", {}))
    assert set(fleet.all_of(("gpu:a", "", 2), hopes=True)) == {"m-1", "other"}


def test_an_item_that_cannot_be_lent_does_not_count(fleet: Bundles) -> None:
    fleet.node("m", 1)
    fleet.redis.lpush("available:gpu:a", "no item")
    assert fleet.all_of(("gpu:a", "", 2), hopes=True) == "t1"
    assert fleet.redis.lrange("available:gpu:a", 0, -1) == [slot_item("m", "m-1", "", {})]


def test_slots_of_silent_nodes_are_passed_over(fleet: Bundles) -> None:
    fleet.node("m", 3), fleet.node("k", 2)
    acts.silence(fleet, "m")
    assert set(fleet.all_of(("gpu:a", "", 2))) == {"k-1", "k-2"}
    ticket = str(fleet.all_of(("gpu:a", "", 2)))
    acts.beat(fleet, "m")
    fleet.round()
    assert len(fleet.held_by(ticket)) == 2


def test_an_undrain_says_what_is_lent_to_a_bundle_that_the_last_slot_completes(fleet: Bundles) -> None:
    slots = fleet.node("m", 3)
    assert acts.drain(fleet, "m") == (3, 0)
    ticket = str(fleet.all_of(("gpu:a", "", 3)))
    assert acts.drain(fleet, "m", on=False) == (0, 3)
    assert fleet.held_by(ticket) == set(slots)


def test_an_undrain_says_what_is_held_back_of_a_node_that_turns_out_to_be_silent(fleet: Bundles) -> None:
    fleet.node("m", 2)
    acts.silence(fleet, "m")
    fleet.all_of(("gpu:a", "", 2), hopes=True)
    assert acts.drain(fleet, "m", on=False) == (2, 0)


def test_the_node_with_all_slots_is_found_among_many(fleet: Bundles) -> None:
    for n in range(30):
        fleet.node(f"m{n:02d}", 3)
    fleet.node("k", 4)
    assert set(fleet.all_of(("gpu:a", "", 4), same_node=True)) == {"k-1", "k-2", "k-3", "k-4"}
    assert fleet.ask(("gpu:a", "", 5), same_node=True) == ["unpublished", 0, 31]


def test_parts_on_one_node_may_be_of_different_pools(fleet: Bundles) -> None:
    fleet.node("m", 2, "gpu:a"), fleet.node("m", 1, "cpu:a", first=3)
    fleet.node("k", 2, "gpu:a"), fleet.node("j", 4, "cpu:a")
    first, *rest = fleet.all_of(("cpu:a", "", 1), ("gpu:a", "", 2), same_node=True)
    assert (first, {*rest}) == ("m-3", {"m-1", "m-2"})
    assert fleet.ask(("cpu:a", "", 2), ("gpu:a", "", 1), same_node=True)[:2] == ["unpublished", 0]
