"""Leases that are recalled: as many as are lacked and of use, in time, and never at the cost of another guarantee."""

from __future__ import annotations

import json

import pytest

from tests.capacity.bundles.acts import drain
from tests.capacity.teams.acts import leave, look_after, recalled, want_all, want_any
from tests.capacity.teams.conftest import Teams
from tests.capacity.teams.test_order import classed


def lacking(fleet: Teams, guarantees: dict[str, int]) -> int:
    """Return the sum of what teams lack of their guarantees."""
    return sum(max(0, most - fleet.held(team)) for team, most in guarantees.items())


def renew_all(fleet: Teams, ttl_ms: int) -> None:
    for slot in fleet.redis.zrange("hub:deadlines", 0, -1):
        fleet.renew(slot, ttl_ms)


def live(fleet: Teams, *nodes: str, seconds: int = 1, ttl_ms: int = 5_000) -> None:
    """Let seconds pass in which all holders renew."""
    for _ in range(seconds):
        renew_all(fleet, ttl_ms)
        look_after(fleet, *nodes)


@pytest.mark.parametrize(("count", "guarantee"), [(6, 2), (20, 12)])
@pytest.mark.parametrize("renewed_ms", [0, 10_000])
def test_a_guarantee_is_reached_within_one_ttl_and_a_second(
    fleet: Teams, count: int, guarantee: int, renewed_ms: int
) -> None:
    fleet.node("m", count)
    fleet.team("a", guarantee=guarantee)
    for _ in range(count):
        fleet.want("b", ttl_ms=10_000)
    look_after(fleet, "m", seconds=4)
    for _ in range(count):
        fleet.want("a")
    waits = [fleet.want("b") for _ in range(5)]
    assert len(recalled(fleet)) == guarantee
    guarantees, before = {"a": guarantee, "b": 0}, guarantee
    for _ in range(11):
        if renewed_ms:
            renew_all(fleet, renewed_ms)
        look_after(fleet, "m")
        assert lacking(fleet, guarantees) <= before
        before = lacking(fleet, guarantees)
    assert fleet.held("a") >= guarantee
    assert not recalled(fleet)
    held = fleet.held("a")
    look_after(fleet, "m", seconds=20)
    assert fleet.held("a") >= min(held, guarantee), waits
    assert not recalled(fleet), waits


def test_a_recall_moves_no_lease_back(fleet: Teams) -> None:
    """What the one gets is not recalled for the other, however long both wait."""
    fleet.node("m", 10)
    fleet.team("a", guarantee=4), fleet.team("b", guarantee=3)
    for _ in range(10):
        fleet.want("b", ttl_ms=5_000)
    for team in "ab" * 10:
        fleet.want(team, ttl_ms=5_000)
    got: list[str] = []
    for _ in range(40):
        renew_all(fleet, 5_000)
        holders = [fleet.redis.hget(f"session:{slot}", "holder") for slot in recalled(fleet)]
        assert not any(json.loads(holder)["team"] == "a" for holder in holders)
        look_after(fleet, "m")
        got.append(f"{fleet.held('a')}/{fleet.held('b')}")
    assert got[-30:] == ["4/6"] * 30, got


def test_two_teams_lack_and_each_has_its_guarantee(fleet: Teams) -> None:
    fleet.node("m", 9)
    fleet.team("a", guarantee=3), fleet.team("b", guarantee=3), fleet.team("c", guarantee=2)
    for _ in range(9):
        fleet.want("c", ttl_ms=5_000)
    for team in "aaabbb":
        fleet.want(team)
    assert len(recalled(fleet)) == 6
    live(fleet, "m", seconds=6)
    assert [fleet.held(team) for team in "abc"] == [3, 3, 3]


def test_no_more_is_recalled_than_is_above_guarantees(fleet: Teams) -> None:
    fleet.node("m", 9)
    fleet.team("a", guarantee=6), fleet.team("b", guarantee=3), fleet.team("c", guarantee=4)
    for team in "bbbbccccc":
        fleet.want(team, ttl_ms=5_000)
    for _ in range(6):
        fleet.want("a")
    assert len(recalled(fleet)) == 2
    live(fleet, "m", seconds=12)
    assert [fleet.held(team) for team in "abc"] == [2, 3, 4]


def test_the_newest_lease_of_the_team_furthest_above_its_guarantee_is_recalled(fleet: Teams) -> None:
    fleet.node("m", 6)
    fleet.team("a", guarantee=2), fleet.team("b", guarantee=3)
    for team in "bbbbcc":
        fleet.want(team)
        fleet.wait(100)
    fleet.want("a")
    assert recalled(fleet) == {"m-6"}
    fleet.want("a")
    assert recalled(fleet) in ({"m-6", "m-4"}, {"m-6", "m-5"})


def test_the_newest_is_known_also_after_the_rows_have_changed(fleet: Teams) -> None:
    fleet.node("m", 3)
    for slot in ("m-1", "m-2", "m-3"):
        assert fleet.want("b") == slot
        fleet.wait(100)
    fleet.give_back("m-1")
    fleet.wait(100)
    assert fleet.want("b") == "m-1"
    fleet.team("a", guarantee=1)
    fleet.want("a")
    assert recalled(fleet) == {"m-1"}


def test_one_ticket_with_alternatives_needs_one_lease(fleet: Teams) -> None:
    fleet.node("m", 3, "gpu:a"), fleet.node("k", 3, "gpu:b")
    fleet.team("a", guarantee=3)
    for _ in range(3):
        fleet.want("b", "gpu:a"), fleet.want("b", "gpu:b")
    want_any(fleet, "a", ("gpu:a", ""), ("gpu:b", ""))
    assert len(recalled(fleet)) == 1


def test_a_ticket_that_no_pool_of_the_pattern_serves_recalls_nothing(fleet: Teams) -> None:
    fleet.node("m", 3)
    fleet.team("a", guarantee=2)
    for _ in range(3):
        fleet.want("b")
    fleet.want("a", "gpu:none")
    assert recalled(fleet) == set()
    fleet.want("a", "gpu:a")
    assert len(recalled(fleet)) == 1


def test_a_ticket_for_what_nobody_has_does_not_keep_others_from_a_recall(fleet: Teams) -> None:
    fleet.node("m", 0)
    classed(fleet, "m", {"vram": 24}, {"vram": 24})
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b")
    want_any(fleet, "a", ("gpu:a", "vram >= 80"))
    assert recalled(fleet) == set()
    want_any(fleet, "a", ("gpu:a", "vram >= 16"))
    assert len(recalled(fleet)) == 1


def test_a_label_that_nobody_serves_does_not_keep_others_from_a_recall(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b")
    for n in range(8):
        fleet.want("a", f"gpu:none{n}")
    fleet.want("a", "gpu:a")
    assert len(recalled(fleet)) == 1


def test_each_team_that_lacks_has_a_lease_recalled_that_it_can_use(fleet: Teams) -> None:
    fleet.node("m", 3, "gpu:a"), fleet.node("k", 3, "gpu:b")
    fleet.team("a", guarantee=1), fleet.team("c", guarantee=1)
    for pool in ("gpu:a", "gpu:b"):
        for _ in range(3):
            fleet.want("b", pool, ttl_ms=5_000)
            fleet.wait(100)
    fleet.want("a", "gpu:a"), fleet.want("c", "gpu:b")
    assert {slot[0] for slot in recalled(fleet)} == {"m", "k"}
    live(fleet, "m", "k", seconds=6)
    assert (fleet.held("a"), fleet.held("c"), fleet.held("b")) == (1, 1, 4)


def test_each_team_that_lacked_before_the_rows_came_has_a_lease_recalled_that_it_can_use(fleet: Teams) -> None:
    fleet.node("m", 3, "gpu:a"), fleet.node("k", 3, "gpu:b")
    for pool in ("gpu:a", "gpu:b"):
        for _ in range(3):
            fleet.want("b", pool, ttl_ms=5_000)
            fleet.wait(100)
    fleet.want("a", "gpu:a"), fleet.want("c", "gpu:b")
    fleet.team("a", guarantee=1), fleet.team("c", guarantee=1)
    live(fleet, "m", "k", seconds=7)
    assert (fleet.held("a"), fleet.held("c"), fleet.held("b")) == (1, 1, 4)


def test_a_recall_that_suits_nobody_any_more_is_not_counted_for_another(fleet: Teams) -> None:
    fleet.node("m", 2, "gpu:a"), fleet.node("k", 2, "gpu:b")
    fleet.team("a", guarantee=1)
    for pool in ("gpu:a", "gpu:b"):
        fleet.want("b", pool, ttl_ms=5_000), fleet.want("b", pool, ttl_ms=5_000)
    ticket = fleet.want("a", "gpu:a")
    assert {slot[0] for slot in recalled(fleet)} == {"m"}
    leave(fleet, ticket)
    other = fleet.want("a", "gpu:b")
    renew_all(fleet, 5_000)
    look_after(fleet, "m", "k")
    assert {slot[0] for slot in recalled(fleet)} == {"k"}
    look_after(fleet, "m", "k", seconds=5)
    assert len(fleet.held_by(other)) == 1


def test_a_recall_is_taken_back_where_its_holder_is_at_its_guarantee_by_now(fleet: Teams) -> None:
    """Its other lease ends with its node."""
    fleet.node("m", 2), fleet.node("k", 2)
    fleet.team("a", guarantee=2), fleet.team("b", guarantee=2)
    for _ in range(4):
        fleet.want("b", ttl_ms=20_000)
        fleet.wait(10)
    fleet.want("a"), fleet.want("a")
    assert recalled(fleet) == {"k-1", "k-2"}
    fleet.direct.call("nodes/leave", id="m", part="m", limit=64, incarnation="")
    assert fleet.held("b") == 2
    look_after(fleet, "k")
    assert recalled(fleet) == set()
    for _ in range(30):
        renew_all(fleet, 20_000)
        look_after(fleet, "k")
        assert fleet.held("b") == 2


def test_a_recalled_lease_that_is_returned_goes_to_the_team_that_lacks_it(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b")
    ticket, other = fleet.want("a"), fleet.want("b")
    (slot,) = recalled(fleet)
    fleet.give_back(slot)
    assert fleet.holder(slot) == ticket
    look_after(fleet, "m")
    assert not recalled(fleet)
    assert not fleet.held_by(other)
    assert fleet.renew(slot, 90_000) == 90_000
    assert fleet.redis.hget(f"hub:slot:{slot}", "recall_ms") is None


def test_a_recalled_lease_that_lapses_goes_to_the_team_that_lacks_it(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b", ttl_ms=3_000)
    ticket = fleet.want("a")
    assert recalled(fleet) == {"m-2"}
    look_after(fleet, "m", seconds=4)
    assert fleet.holder("m-2") == ticket
    assert not recalled(fleet)


def test_a_recall_whose_node_dies_begins_with_another_lease(fleet: Teams) -> None:
    fleet.node("m", 2), fleet.node("k", 1)
    fleet.team("a", guarantee=1)
    for _ in range(3):
        fleet.want("b")
        fleet.wait(10)
    fleet.want("a")
    before = recalled(fleet)
    (slot,) = before
    node = slot[0]
    fleet.direct.call("nodes/leave", id=node, part=node, limit=64, incarnation="")
    assert not recalled(fleet) & before
    look_after(fleet, "m" if node == "k" else "k")
    assert len(recalled(fleet)) == 1


@pytest.mark.parametrize("how", ["cancel", "timeout", "silent"])
def test_a_recall_is_taken_back_when_the_waiter_leaves(fleet: Teams, how: str) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b")
    ticket = fleet.want("a", wait=3_000)
    (slot,) = recalled(fleet)
    if how == "cancel":
        leave(fleet, ticket)
    look_after(fleet, "m", seconds=6, dead=how == "silent")
    fleet.direct.tick("h2")
    fleet.direct.call("queue/retire", limit=50)
    look_after(fleet, "m")
    assert not recalled(fleet)
    assert fleet.renew(slot, 90_000) == 90_000
    assert fleet.redis.hget(f"hub:slot:{slot}", "ending") is None


def test_no_other_lease_is_recalled_while_a_slot_is_in_its_grace(fleet: Teams) -> None:
    """Its last holder has believed in a longer lease."""
    fleet.direct.clear("110", 0, 20_000, {})
    fleet.direct.tick("h1")
    fleet.node("m", 3)
    fleet.team("a", guarantee=1)
    for _ in range(3):
        fleet.want("b", ttl_ms=5_000)
        fleet.wait(10)
    assert fleet.renew("m-3", 40_000) == 40_000
    ticket = fleet.want("a")
    assert recalled(fleet) == {"m-3"}
    for _ in range(40):
        for slot in ("m-1", "m-2"):
            fleet.renew(slot, 5_000)
        look_after(fleet, "m")
    assert fleet.holder("m-3") == ticket
    assert fleet.held("b") == 2


def test_no_other_lease_is_recalled_while_a_slot_is_made_fresh(fleet: Teams) -> None:
    fleet.node("m", 3, policy="fresh")
    fleet.team("a", guarantee=1)
    for _ in range(3):
        fleet.want("b", ttl_ms=3_000)
        fleet.wait(10)
    fleet.want("a")
    assert recalled(fleet) == {"m-3"}
    fleet.give_back("m-3")
    for _ in range(10):
        renew_all(fleet, 3_000)
        look_after(fleet, "m")
    assert fleet.held("b") == 2, "the slot comes as soon as it is fresh"


def test_a_lease_on_a_draining_node_is_not_recalled(fleet: Teams) -> None:
    fleet.node("m", 2), fleet.node("k", 2)
    fleet.team("a", guarantee=1)
    for _ in range(4):
        fleet.want("b", ttl_ms=3_000)
        fleet.wait(10)
    drain(fleet, "k")
    ticket = fleet.want("a")
    assert recalled(fleet) == {"m-2"}
    for _ in range(6):
        renew_all(fleet, 3_000)
        look_after(fleet, "m", "k")
    assert len(fleet.held_by(ticket)) == 1


def test_a_recall_ends_no_bundle_that_takes_its_team_below_its_guarantee(fleet: Teams) -> None:
    """All leases of a bundle that is held together end with one."""
    fleet.node("m", 4)
    fleet.team("a", guarantee=1), fleet.team("b", guarantee=3)
    assert len(want_all(fleet, "b", ("gpu:a", "", 4), together=True, ttl_ms=5_000, wait=0)) == 4
    fleet.want("a")
    for _ in range(10):
        renew_all(fleet, 5_000)
        look_after(fleet, "m")
        assert not recalled(fleet)
        assert fleet.held("b") >= 3


def test_a_bundle_that_waits_recalls_nothing(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=2)
    fleet.want("b"), fleet.want("b")
    want_all(fleet, "a", ("gpu:a", "", 2))
    look_after(fleet, "m", seconds=3)
    assert not recalled(fleet)


def test_overlapping_patterns_recall_only_from_their_own_pools(fleet: Teams) -> None:
    fleet.node("m", 2, "gpu:a"), fleet.node("k", 2, "gpu:b")
    fleet.team("a", "gpu:*", guarantee=1), fleet.team("c", "gpu:a*", guarantee=1)
    for pool in ("gpu:a", "gpu:b"):
        fleet.want("b", pool), fleet.want("b", pool)
    fleet.want("a", "gpu:a")
    assert (recalled(fleet), recalled(fleet, "gpu:a*")) == (set(), set())
    fleet.want("c", "gpu:a")
    assert len(recalled(fleet, "gpu:a*")) == 1
    assert not recalled(fleet)
    fleet.want("a", "gpu:b")
    assert {slot[0] for slot in recalled(fleet)} == {"k"}


def test_a_capped_label_recalls_nothing(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="2", served=0)
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b")
    fleet.want("a")
    look_after(fleet, "m")
    assert not recalled(fleet), "another lease of the label would have to end, which may be any"


def test_a_holder_of_nobody_known_is_told_and_recalled_too(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want(""), fleet.want("")
    fleet.want("a")
    assert len(recalled(fleet)) == 1
    look_after(fleet, "m")
    assert len(recalled(fleet)) == 1
