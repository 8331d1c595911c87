"""No team has more than its ceiling, however it borrows; and no borrow waits beside a slot that it may have."""

from __future__ import annotations

import pytest

from tests.capacity.teams.acts import leave, look_after, review, want_all, want_any
from tests.capacity.teams.conftest import Teams
from tests.capacity.teams.test_order import classed


@pytest.mark.parametrize("label", ["gpu:a", "gpu:a:b", "gpu"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_borrow_meets_the_ceiling(fleet: Teams, label: str, fast: bool) -> None:
    fleet.node("m", 3)
    fleet.team("a", ceiling=2)
    for _ in range(2):
        assert fleet.want("a", label, fast=fast and label != "gpu").startswith("m-")
    assert fleet.want("a", label, fast=True) == "ask"
    assert fleet.want("a", label, wait=0) == "empty"
    assert fleet.held("a") == 2
    assert fleet.want("b", label, fast=True) == "m-3"


def test_a_ceiling_counts_all_pools_of_its_pattern_and_no_other(fleet: Teams) -> None:
    fleet.node("m", 1, "gpu:a"), fleet.node("k", 1, "gpu:b"), fleet.node("c", 1, "cpu:a")
    fleet.team("a", ceiling=1)
    assert fleet.want("a", "gpu:a", fast=True) == "m-1"
    assert fleet.want("a", "gpu:b", fast=True) == "ask"
    assert fleet.want("a", "cpu:a", fast=True) == "c-1"


def test_a_borrower_at_its_ceiling_gets_a_slot_of_a_pool_that_the_ceiling_is_not_about(fleet: Teams) -> None:
    fleet.node("m", 1, "gpu:a"), fleet.node("k", 1, "gpu:b")
    fleet.team("a", "gpu:a", ceiling=0)
    assert fleet.want("a", "gpu", wait=0) == "k-1"
    assert fleet.want("a", "gpu", wait=0) == "empty"
    assert want_any(fleet, "a", ("gpu:a", ""), ("gpu:b", ""), wait=0) == "empty"
    fleet.give_back("k-1")
    assert want_any(fleet, "a", ("gpu:a", ""), ("gpu:b", ""), wait=0) == "k-1"


def test_a_hand_off_meets_the_ceiling(fleet: Teams) -> None:
    slots = fleet.node("m", 4)
    fleet.team("a", ceiling=1, weight=100)
    for _ in slots:
        fleet.want("b")
    for _ in range(3):
        fleet.want("a")
    for slot in slots:
        fleet.give_back(slot)
    review(fleet)
    assert (fleet.held("a"), fleet.held("b"), fleet.free()) == (1, 0, 3)


def test_the_first_lease_that_ends_serves_a_waiter_at_the_ceiling(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", ceiling=1)
    fleet.want("a")
    ticket = fleet.want("a")
    fleet.give_back("m-1")
    assert len(fleet.held_by(ticket)) == 1


def test_a_lease_that_ends_serves_a_waiter_of_another_label(fleet: Teams) -> None:
    fleet.node("m", 1, "gpu:a"), fleet.node("k", 1, "gpu:b")
    fleet.team("a", ceiling=1)
    fleet.want("a", "gpu:a")
    ticket = fleet.want("a", "gpu:b")
    fleet.give_back("m-1")
    review(fleet)
    assert fleet.held_by(ticket) == {"k-1"}


def test_a_lease_that_ends_serves_a_waiter_of_another_label_at_once(fleet: Teams) -> None:
    fleet.node("m", 1, "gpu:a"), fleet.node("k", 1, "gpu:b")
    fleet.team("a", ceiling=1)
    fleet.want("a", "gpu:a")
    ticket = fleet.want("a", "gpu:b")
    fleet.give_back("m-1")
    assert fleet.held_by(ticket) == {"k-1"}


def test_a_ceiling_that_is_raised_serves_those_who_wait(fleet: Teams) -> None:
    fleet.node("m", 3)
    fleet.team("a", ceiling=1)
    fleet.want("a")
    tickets = [fleet.want("a"), fleet.want("a")]
    fleet.team("a", ceiling=2)
    assert (fleet.held("a"), len(fleet.held_by(tickets[0]))) == (2, 1)
    fleet.remove("a")
    assert len(fleet.held_by(tickets[1])) == 1


def test_a_waiter_with_alternatives_is_not_kept_by_the_first(fleet: Teams) -> None:
    fleet.node("m", 1, "gpu:a"), fleet.node("k", 1, "gpu:b")
    fleet.team("a", "gpu:a", ceiling=0), fleet.team("a", "gpu:b", ceiling=0)
    ticket = want_any(fleet, "a", ("gpu:a", ""), ("gpu:b", ""))
    fleet.team("a", "gpu:b", ceiling=1)
    review(fleet)
    assert fleet.held_by(ticket) == {"k-1"}


@pytest.mark.parametrize("label", ["gpu", "gpu:*"])
def test_a_waiter_for_several_pools_is_not_kept_by_the_first(fleet: Teams, label: str) -> None:
    fleet.direct.clear("111", 0, 0, {})
    fleet.direct.tick("h1")
    fleet.node("m", 1, "gpu:a"), fleet.node("k", 1, "gpu:b")
    fleet.team("a", "gpu:a", ceiling=0), fleet.team("a", "gpu:b", ceiling=0)
    ticket = fleet.want("a", label)
    assert ticket.startswith("t")
    fleet.team("a", "gpu:b", ceiling=1)
    review(fleet)
    assert fleet.held_by(ticket) == {"k-1"}


def test_a_cap_and_a_ceiling_both_count(fleet: Teams) -> None:
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="2", served=0)
    slots = fleet.node("m", 4)
    fleet.team("a", ceiling=1)
    fleet.want("a")
    assert fleet.want("a", wait=0) in ("empty", "capped")
    fleet.want("b")
    waits = [fleet.want("a"), fleet.want("b"), fleet.want("b")]
    assert fleet.held("a") + fleet.held("b") == 2
    fleet.give_back(slots[0])
    assert (fleet.held("a"), fleet.held("b")) == (1, 1)
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="", served=0)
    assert (fleet.held("a"), fleet.held("b")) == (1, 3)
    assert len(fleet.held_by(waits[0])) == 1


def test_a_label_that_was_passed_by_at_its_cap_is_found_as_soon_as_it_has_room(fleet: Teams) -> None:
    first, other = fleet.node("m", 2)
    fleet.direct.call("queue/set_cap", label="gpu:a:x", cap="1", served=0)
    fleet.team("a")
    fleet.want("a", "gpu:a:x"), fleet.want("a")
    ticket = fleet.want("a", "gpu:a:x")
    fleet.give_back(other)
    assert fleet.holder(other) is None
    fleet.give_back(first)
    assert len(fleet.held_by(ticket)) == 1


def test_a_cap_on_what_is_served_and_a_ceiling_both_count(fleet: Teams) -> None:
    slots = fleet.node("m", 4)
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="2", served=1)
    fleet.team("a", ceiling=1)
    fleet.want("b"), fleet.want("b")
    for team in "aabb":
        fleet.want(team)
    fleet.give_back(slots[0])
    assert (fleet.held("a"), fleet.held("b")) == (1, 1)
    fleet.give_back(slots[1])
    assert (fleet.held("a"), fleet.held("b")) == (1, 1)
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="", served=1)
    assert (fleet.held("a"), fleet.held("b")) == (1, 2)


def test_a_slot_that_is_wanted_for_what_it_has_counts(fleet: Teams) -> None:
    fleet.node("m", 0)
    one, two = classed(fleet, "m", {"vram": 80}, {"vram": 80})
    fleet.team("a", ceiling=1)
    assert want_any(fleet, "a", ("gpu:a", "vram >= 40"), prefer="repo") == one
    ticket = want_any(fleet, "a", ("gpu:a", "vram >= 40"))
    assert ticket.startswith("t")
    other = want_any(fleet, "b", ("gpu:a", "vram >= 40"), prefer="repo")
    assert other == two
    fleet.give_back(two)
    review(fleet)
    assert fleet.holder(two) is None
    fleet.give_back(one)
    assert fleet.held("a") == 1
    assert len(fleet.held_by(ticket)) == 1


def test_a_bundle_counts_with_all_its_slots(fleet: Teams) -> None:
    fleet.node("m", 6)
    fleet.team("a", ceiling=3)
    assert fleet.want("a") == "m-1"
    assert want_all(fleet, "a", ("gpu:a", "", 2), ("gpu:a", "", 1), wait=0) == "empty"
    assert len(want_all(fleet, "a", ("gpu:a", "", 1), ("gpu:a", "", 1), wait=0)) == 2
    assert fleet.held("a") == 3
    assert fleet.want("a", fast=True) == "ask"
    assert len(want_all(fleet, "b", ("gpu:a", "", 3), wait=0)) == 3


def test_a_bundle_waits_at_the_ceiling_until_there_is_room(fleet: Teams) -> None:
    fleet.node("m", 4)
    fleet.team("a", ceiling=2)
    fleet.want("a")
    ticket = want_all(fleet, "a", ("gpu:a", "", 2))
    assert isinstance(ticket, str)
    assert ticket.startswith("t")
    look_after(fleet, "m", seconds=3)
    assert fleet.held("a") == 1
    fleet.give_back("m-1")
    look_after(fleet, "m", seconds=2)
    assert (fleet.held("a"), len(fleet.held_by(ticket))) == (2, 2)


def test_slots_are_set_aside_for_no_bundle_over_the_ceiling_of_its_team(fleet: Teams) -> None:
    """What is set aside for it, others might have; room for it is kept under the ceiling."""
    slots = fleet.node("m", 4)
    fleet.team("a", ceiling=2)
    for _ in slots:
        fleet.want("b")
    ticket = want_all(fleet, "a", ("gpu:a", "", 2))
    look_after(fleet, "m", seconds=31)
    fleet.give_back("m-1")
    assert fleet.redis.smembers("hub:reserved") == {"m-1"}
    single = fleet.want("a")
    fleet.give_back("m-2")
    look_after(fleet, "m", seconds=2)
    fleet.give_back("m-3")
    look_after(fleet, "m", seconds=2)
    assert fleet.held("a") <= 2
    assert len(fleet.held_by(str(ticket))) == 2, (single, fleet.held_by(single), fleet.redis.smembers("hub:reserved"))


def test_a_ceiling_below_what_a_team_holds_ends_nothing(fleet: Teams) -> None:
    fleet.node("m", 3)
    for _ in range(3):
        fleet.want("a")
    fleet.team("a", ceiling=1)
    assert fleet.held("a") == 3
    ticket = fleet.want("a")
    fleet.give_back("m-1"), fleet.give_back("m-2")
    review(fleet)
    assert fleet.held("a") == 1
    assert not fleet.held_by(ticket)
    fleet.give_back("m-3")
    assert len(fleet.held_by(ticket)) == 1


def test_the_shared_secret_may_have_a_ceiling(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("", ceiling=1)
    assert fleet.want("", fast=True) == "m-1"
    assert fleet.want("", fast=True) == "ask"
    assert want_all(fleet, "", ("gpu:a", "", 1), wait=0) == "empty"
    assert fleet.want("a", fast=True) == "m-2"


@pytest.mark.parametrize("pattern", ["gpu:*", "*"])
def test_room_under_the_ceiling_is_kept_for_the_bundle_that_reserves(fleet: Teams, pattern: str) -> None:
    """Leases of its team end one by one, and another borrow of the team waits each time."""
    slots = fleet.node("m", 6)
    fleet.team("a", pattern, ceiling=2)
    for _ in range(2):
        fleet.want("a")
    ticket = want_all(fleet, "a", ("gpu:a", "", 2))
    singles = [fleet.want("a") for _ in slots]
    look_after(fleet, "m", seconds=31)
    assert fleet.redis.hget("hub:reserver", "ticket") == ticket
    assert not fleet.redis.smembers("hub:reserved"), "others may have what is beyond the ceiling"
    fleet.give_back("m-1")
    look_after(fleet, "m", seconds=1)
    assert (fleet.held("a", pattern), len(fleet.redis.smembers("hub:reserved"))) == (1, 1)
    fleet.give_back("m-2")
    look_after(fleet, "m", seconds=1)
    held = fleet.held_by(str(ticket))
    assert (fleet.held("a", pattern), len(held)) == (2, 2)
    fleet.give_back(sorted(held)[0])
    assert sum(len(fleet.held_by(single)) for single in singles) == 1


def test_room_that_is_kept_for_a_bundle_goes_to_no_slot_of_another_pool_until_the_bundle_leaves(fleet: Teams) -> None:
    fleet.node("m", 2), fleet.node("k", 2, "gpu:b")
    fleet.team("a", ceiling=2)
    for _ in range(2):
        fleet.want("a", "gpu:b")
    ticket = want_all(fleet, "a", ("gpu:a", "", 2))
    single = fleet.want("a", "gpu:b")
    look_after(fleet, "m", "k", seconds=31)
    fleet.give_back("k-1")
    look_after(fleet, "m", "k", seconds=1)
    assert (len(fleet.redis.smembers("hub:reserved")), fleet.held_by(single)) == (1, set())
    assert fleet.want("a", "gpu:b", fast=True) == "ask"
    leave(fleet, str(ticket))
    assert len(fleet.held_by(single)) == 1
    assert not fleet.redis.smembers("hub:reserved")
