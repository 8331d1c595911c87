"""Slots that are set aside for a bundle, while nodes, operators, hubs and callers do what they do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.capacity.bundles import acts
from tests.capacity.bundles.conftest import Bundles

GPU2, GPU3 = ("gpu:a", "", 2), ("gpu:a", "", 3)


@pytest.fixture
def waiting(fleet: Bundles) -> str:
    """Return the ticket of a bundle of three, all of whose slots are lent but one, which is set aside."""
    slots = fleet.node("m", 3)
    acts.lend_all(fleet, slots)
    ticket = acts.reserve(fleet, GPU3)
    fleet.give_back("m-1")
    assert acts.set_aside(fleet) == {"m-1"}
    return ticket


@pytest.mark.parametrize("why", ["gone", "timeout", "stopping"])
def test_slots_are_offered_again_when_the_caller_gives_up(fleet: Bundles, waiting: str, why: str) -> None:
    acts.undo(fleet, waiting, why)
    assert not fleet.redis.exists("hub:reserver", "hub:reserved")
    assert fleet.free() == 1
    assert fleet.borrow(("gpu:a", "")) == "m-1"


def test_slots_are_offered_again_when_the_hub_of_the_bundle_falls_silent(fleet: Bundles, waiting: str) -> None:
    fleet.direct.wait(4_000)
    fleet.direct.tick("h2")
    assert fleet.round() == ("", 0)
    assert fleet.free() == 1


def test_slots_are_offered_again_when_a_hub_retires_the_silent_one(fleet: Bundles, waiting: str) -> None:
    fleet.direct.wait(4_000)
    fleet.direct.tick("h2")
    fleet.direct.call("queue/retire", limit=50)
    assert fleet.free() == 1
    assert not fleet.redis.exists("hub:reserver", "hub:reserved", "hub:bundles")


def test_slots_are_offered_again_when_the_deadline_of_the_ticket_has_passed(fleet: Bundles, waiting: str) -> None:
    fleet.wait(63_000)
    fleet.direct.call("queue/retire", limit=50)
    assert fleet.free() == 1


def test_a_bundle_whose_hub_is_silent_is_not_lent(fleet: Bundles, waiting: str) -> None:
    fleet.direct.wait(4_000)
    fleet.direct.tick("h2")
    fleet.give_back("m-2"), fleet.give_back("m-3")
    assert not fleet.held_by(waiting)
    fleet.round()
    assert not fleet.held_by(waiting)
    assert fleet.free() == 3


def test_a_node_that_drains_takes_back_what_is_set_aside(fleet: Bundles, waiting: str) -> None:
    acts.drain(fleet, "m")
    fleet.give_back("m-2"), fleet.give_back("m-3")
    fleet.round()
    assert not fleet.held_by(waiting)
    assert acts.set_aside(fleet) == set()
    acts.drain(fleet, "m", on=False)
    fleet.round()
    assert len(fleet.held_by(waiting)) == 3


@pytest.mark.parametrize("by", ["operator", "node"])
def test_a_slot_that_becomes_unwell_is_not_lent_and_comes_back_when_it_is_well(
    fleet: Bundles, waiting: str, by: str
) -> None:
    def hold(reason: str) -> None:
        if by == "operator":
            acts.operator_holds(fleet, "m-1", reason)
        else:
            acts.node_holds(fleet, "m", "m-1", reason)

    hold("ill")
    fleet.give_back("m-2"), fleet.give_back("m-3")
    assert not fleet.held_by(waiting)
    hold("")
    assert len(fleet.held_by(waiting)) == 3


def test_a_slot_of_a_node_that_is_suspect_is_not_lent_until_the_node_is_heard(fleet: Bundles) -> None:
    slots, other = fleet.node("m", 1), fleet.node("k", 1)
    acts.lend_all(fleet, slots + other)
    ticket = acts.reserve(fleet, GPU2)
    fleet.give_back("m-1")
    acts.silence(fleet, "m")
    fleet.give_back("k-1")
    assert not fleet.held_by(ticket)
    assert acts.set_aside(fleet) == {"k-1"}
    acts.beat(fleet, "m")
    assert fleet.held_by(ticket) == {"m-1", "k-1"}


def test_a_node_that_leaves_takes_its_slots_along_and_others_take_their_place(fleet: Bundles, waiting: str) -> None:
    fleet.node("k", 2)
    assert acts.set_aside(fleet) == {"m-1", "k-1", "k-2"} or fleet.held_by(waiting)
    assert fleet.held_by(waiting) == {"m-1", "k-1", "k-2"}


@pytest.mark.parametrize("how", ["leaves", "withdraws"])
def test_what_is_lost_is_set_aside_no_more(fleet: Bundles, waiting: str, how: str) -> None:
    fleet.node("k", 1)
    assert acts.set_aside(fleet) == {"m-1", "k-1"}
    if how == "leaves":
        acts.leave(fleet, "k")
    else:
        acts.withdraw(fleet, "k-1")
    assert acts.set_aside(fleet) == {"m-1"}
    fleet.give_back("m-2"), fleet.give_back("m-3")
    assert len(fleet.held_by(waiting)) == 3


def reserve_on_one_of_two(fleet: Bundles) -> tuple[str, str, str]:
    """Let a bundle for one node reserve where all slots of two nodes are lent; return its ticket and both nodes, first
    the one that it has chosen."""
    acts.lend_all(fleet, fleet.node("m", 2) + fleet.node("k", 2))
    ticket = acts.reserve(fleet, GPU2, same_node=True)
    node = str(fleet.redis.hget("hub:reserver", "node"))
    return ticket, node, {"m": "k", "k": "m"}[node]


def test_a_bundle_chooses_another_node_when_its_own_is_lost(fleet: Bundles) -> None:
    ticket, node, other = reserve_on_one_of_two(fleet)
    fleet.give_back(f"{node}-1")
    assert acts.set_aside(fleet) == {f"{node}-1"}
    fleet.give_back(f"{other}-1")
    assert fleet.free() == 1
    acts.leave(fleet, node)
    assert fleet.round() == (ticket, 1)
    assert fleet.redis.hget("hub:reserver", "node") == other
    fleet.give_back(f"{other}-2")
    assert fleet.held_by(ticket) == {f"{other}-1", f"{other}-2"}


def test_a_bundle_that_chooses_another_node_keeps_nothing_of_the_one_before(fleet: Bundles) -> None:
    ticket, node, other = reserve_on_one_of_two(fleet)
    fleet.give_back(f"{node}-1")
    assert acts.set_aside(fleet) == {f"{node}-1"}
    acts.withdraw(fleet, f"{node}-2")
    assert fleet.round() == (ticket, 0)
    assert fleet.redis.hget("hub:reserver", "node") == other
    assert fleet.free() == 1
    fleet.give_back(f"{other}-1")
    assert not fleet.held_by(ticket)
    fleet.give_back(f"{other}-2")
    assert fleet.held_by(ticket) == {f"{other}-1", f"{other}-2"}


def test_a_bundle_chooses_another_node_when_its_own_drains(fleet: Bundles) -> None:
    ticket, node, other = reserve_on_one_of_two(fleet)
    acts.drain(fleet, node)
    assert fleet.round() == (ticket, 0)
    assert fleet.redis.hget("hub:reserver", "node") == other


def test_a_bundle_that_is_more_than_what_is_left_reserves_no_more(fleet: Bundles, waiting: str) -> None:
    acts.withdraw(fleet, "m-3")
    assert fleet.round() == ("", 0)
    assert fleet.free() == 1
    fleet.node("m", 1, first=3)
    assert fleet.round() == (waiting, 2)


@pytest.mark.parametrize("served", [False, True])
def test_a_bundle_waits_under_a_cap_that_was_lowered_and_is_lent_when_it_is_raised(
    fleet: Bundles, waiting: str, served: bool
) -> None:
    acts.cap(fleet, "gpu:a", 2, served=served)
    fleet.give_back("m-2"), fleet.give_back("m-3")
    assert not fleet.held_by(waiting)
    fleet.round()
    assert not fleet.held_by(waiting)
    acts.cap(fleet, "gpu:a", "", served=served)
    fleet.round()
    assert len(fleet.held_by(waiting)) == 3


def test_a_bundle_larger_than_the_cap_of_its_label_reserves_nothing(fleet: Bundles, waiting: str) -> None:
    acts.cap(fleet, "gpu:a", 2)
    assert fleet.round() == ("", 0)
    assert fleet.borrow(("gpu:a", "")) == "m-1" or fleet.free() == 1


def test_a_slot_that_changes_so_that_it_is_of_no_use_is_offered_to_others(fleet: Bundles) -> None:
    for slot in ("s1", "s2", "s3"):
        fleet.publish(slot, attributes={"vram": 80})
        assert fleet.borrow(("gpu:a", "vram >= 40")) == slot
    ticket = acts.reserve(fleet, ("gpu:a", "vram >= 40", 2))
    fleet.give_back("s1")
    assert acts.set_aside(fleet) == {"s1"}
    acts.describe(fleet, "s1", {"vram": 24})
    fleet.round()
    assert acts.set_aside(fleet) == set(), f"it does not serve {ticket} any more"
    assert fleet.borrow(("gpu:a", "vram < 40")) == "s1"


def test_no_more_is_set_aside_than_is_needed(fleet: Bundles) -> None:
    for slot, of in {"k1": {"x": 1, "y": 1}, "k2": {"y": 1}, "z1": {"z": 1}, "f1": {"x": 1}}.items():
        fleet.publish(slot, attributes=of)
    for slot in ("k1", "k2", "z1", "f1"):  # all are lent
        fleet.borrow(("gpu:a", ""))
        assert fleet.holder(slot)
    ticket = acts.reserve(fleet, ("gpu:a", "x == 1", 1), ("gpu:a", "y == 1", 1), ("gpu:a", "z == 1", 1))
    fleet.give_back("k1"), fleet.give_back("k2")
    assert acts.set_aside(fleet) == {"k1", "k2"}
    fleet.give_back("f1")
    fleet.round()
    assert acts.set_aside(fleet) == {"k1", "k2"}, f"{ticket} lacks nothing but z1"


def test_a_fresh_slot_is_set_aside_when_it_is_fresh(fleet: Bundles) -> None:
    slots = fleet.node("m", 2, policy="fresh")
    acts.lend_all(fleet, slots)
    ticket = acts.reserve(fleet, GPU2)
    ends = {}
    for slot in slots:
        fleet.give_back(slot)
        ends[slot] = fleet.redis.hget(f"hub:slot:{slot}", "owed")
    assert acts.set_aside(fleet) == set()
    for slot, end in ends.items():
        fleet.direct.call("nodes/recycled", node="m", part="m", incarnation="", rest=(slot, end))
    assert fleet.held_by(ticket) == set(slots)


def test_a_slot_that_is_made_anew_is_set_aside_again(fleet: Bundles) -> None:
    slots = fleet.node("m", 2, policy="recycle")
    acts.lend_all(fleet, slots)
    ticket = acts.reserve(fleet, GPU2)
    fleet.give_back("m-1")
    acts.withdraw(fleet, "m-1")
    assert acts.set_aside(fleet) == set()
    assert acts.publish_again(fleet, "m-1", "gpu:a", "recycle") == "published"
    assert acts.set_aside(fleet) == {"m-1"}
    fleet.give_back("m-2")
    assert fleet.held_by(ticket) == set(slots)


def test_a_pool_under_maintenance_lends_nothing_to_a_bundle(fleet: Bundles, waiting: str) -> None:
    fleet.direct.call("capacity/restart_pool", pool="gpu:a")
    fleet.give_back("m-2"), fleet.give_back("m-3")
    fleet.round()
    assert not fleet.held_by(waiting)
    fleet.redis.expire("pool_maintenance:gpu:a", 1800 - 121)
    fleet.redis.expire(fleet.direct.keys.maintenance("gpu:a"), 1800 - 121)
    fleet.round()
    assert len(fleet.held_by(waiting)) == 3


def test_a_maintenance_ends_although_slots_are_set_aside(fleet: Bundles, waiting: str) -> None:
    fleet.direct.call("capacity/restart_pool", pool="gpu:a")
    fleet.give_back("m-2"), fleet.give_back("m-3")
    for n, slot in enumerate(("m-1", "m-2", "m-3")):
        acts.withdraw(fleet, slot)
        fleet.node("m", 1, first=n + 1)
    fleet.redis.expire(fleet.direct.keys.maintenance("gpu:a"), 1800 - 11)
    fleet.round()
    assert len(fleet.held_by(waiting)) == 3, "each slot is replaced: without a bundle it would be over"


@pytest.mark.parametrize("how", [{"wait": 0}, {"wait": 0, "hopes": True}, {"hopes": True}])
def test_waiting_borrows_get_the_slots_when_a_bundle_finds_the_maintenance_over(
    fleet: Bundles, how: dict[str, int]
) -> None:
    fleet.node("m", 2)
    fleet.direct.call("capacity/restart_pool", pool="gpu:a")
    singles = [fleet.borrow(("gpu:a", "")) for _ in range(2)]
    fleet.redis.expire(fleet.direct.keys.maintenance("gpu:a"), 1800 - 121)
    fleet.all_of(("gpu:a", "", 3), **how)
    assert [fleet.held_by(ticket) for ticket in singles] == [{"m-1"}, {"m-2"}]


def test_two_that_reserve_by_turns_never_hold_slots_at_once(fleet: Bundles) -> None:
    slots = fleet.node("m", 4)
    acts.lend_all(fleet, slots)
    first, second = str(fleet.all_of(GPU3)), str(fleet.all_of(GPU3))
    fleet.wait(30_000)
    assert fleet.round()[0] == first
    fleet.give_back("m-1"), fleet.give_back("m-2")
    assert fleet.round() == (first, 2)
    acts.cancel(fleet, first)
    assert fleet.free() == 2
    assert fleet.round() == (second, 2)
    fleet.give_back("m-3")
    assert fleet.held_by(second) == {"m-1", "m-2", "m-3"}


@pytest.mark.parametrize("end", [acts.undo, acts.cancel])
def test_what_was_set_aside_goes_to_the_next_bundle_that_it_completes(
    fleet: Bundles, waiting: str, end: Callable[[Bundles, str], object]
) -> None:
    other = str(fleet.all_of(GPU2))
    fleet.give_back("m-2")
    assert acts.set_aside(fleet) == {"m-1", "m-2"}
    end(fleet, waiting)
    assert fleet.held_by(other) == {"m-1", "m-2"}


def test_bundles_that_do_not_fit_keep_no_other_from_reserving(fleet: Bundles) -> None:
    slots = fleet.node("m", 2)
    acts.lend_all(fleet, slots)
    for _ in range(8):
        fleet.all_of(("gpu:none", "", 1), hopes=True)
    ticket = acts.reserve(fleet, GPU2)
    fleet.give_back("m-1"), fleet.give_back("m-2")
    assert fleet.held_by(ticket) == set(slots)


def test_a_bundle_whose_caller_is_away_does_not_come_back_into_the_line_by_itself(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 2))
    ticket = acts.reserve(fleet, GPU2, keyed=True)
    fleet.wait(1_000)
    acts.undo(fleet, ticket, "timeout")
    fleet.wait(1_000)
    fleet.round(reserve=1_000)
    assert fleet.redis.zrange("hub:bundles", 0, -1) == []
    fleet.give_back("m-1"), fleet.give_back("m-2")
    fleet.round()
    assert not fleet.held_by(ticket)


def test_a_bundle_that_reserves_keeps_no_room_of_the_one_before(fleet: Bundles) -> None:
    acts.lend_all(fleet, fleet.node("m", 2)), acts.lend_all(fleet, fleet.node("k", 2, "gpu:b"), "gpu:b")
    ticket = acts.reserve(fleet, GPU2, keyed=True)
    fleet.direct.tick("h2")
    other = fleet.all_of(("gpu:b", "", 2), hub="h2")
    acts.undo(fleet, ticket, "timeout")
    fleet.direct.wait(4_000)
    fleet.direct.tick("h2")
    assert fleet.round(patience=0)[0] == other
    kept = fleet.redis.hgetall("hub:reserver")
    assert "away_ms" not in kept
    assert [field for field in kept if field.startswith("units:")] == ["units:gpu:b"]


@pytest.mark.parametrize("served", [False, True])
def test_singles_under_one_cap_with_a_bundle_do_not_starve_it(fleet: Bundles, served: bool) -> None:
    fleet.node("m", 4)
    acts.cap(fleet, "gpu:a", 2, served=served)
    assert [fleet.borrow(("gpu:a", "")) for _ in range(2)] == ["m-1", "m-2"]
    ticket = acts.reserve(fleet, GPU2)
    singles = [fleet.borrow(("gpu:a", "")) for _ in range(3)]
    fleet.give_back("m-1")
    fleet.round()
    assert not any(map(fleet.held_by, [ticket, *singles])), "one place is kept for the bundle"
    fleet.give_back("m-2")
    fleet.round()
    assert len(fleet.held_by(ticket)) == 2
    for slot in fleet.held_by(ticket):
        fleet.give_back(slot)
    assert sum(len(fleet.held_by(single)) for single in singles) == 2
