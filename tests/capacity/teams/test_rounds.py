"""Rounds that follow each other: what one has recalled is not changed by the next while nothing else has changed."""

from __future__ import annotations

import pytest

from tests.capacity.bundles.acts import cap
from tests.capacity.teams.acts import look_after, recalled, want_all, want_any
from tests.capacity.teams.conftest import Teams
from tests.capacity.teams.test_recalls import live, renew_all


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("nodes", ["nm", "mn"])
@pytest.mark.parametrize("narrow_first", [True, False])
@pytest.mark.parametrize("kind", ["gpu", "tpu", "npu", "cpu", "dev", "tap"])  # the order of labels is one of chance
def test_what_is_recalled_for_two_labels_stays_from_second_to_second(
    fleet: Teams, first: str, nodes: str, narrow_first: bool, kind: str
) -> None:
    one, other, pattern = f"{kind}:a", f"{kind}:b", f"{kind}:*"
    fleet.node(nodes[0], 1, one)
    fleet.node(nodes[1], 1, other)
    fleet.team("a", pattern, guarantee=2)
    for label in (one, other) if first == "a" else (other, one):
        fleet.want("b", label, ttl_ms=10_000)
        look_after(fleet, "n", "m")
    for label in (one, kind) if narrow_first else (kind, one):
        fleet.want("a", label)
    live(fleet, "n", "m", seconds=3, ttl_ms=10_000)
    seen = []
    for _ in range(4):
        live(fleet, "n", "m", ttl_ms=10_000)
        seen.append(sorted(recalled(fleet, pattern)))
    assert seen == [["m-1", "n-1"]] * 4
    live(fleet, "n", "m", seconds=6, ttl_ms=10_000)
    if narrow_first:  # else what suits both may go to the ticket whose turn it is
        assert fleet.held("a", pattern) == 2


def test_no_more_is_recalled_than_the_cap_of_a_label_leaves_room_for(fleet: Teams) -> None:
    fleet.node("m", 4)
    fleet.team("a", guarantee=3)
    cap(fleet, "gpu:a", 1)
    for _ in range(4):
        fleet.want("b", "gpu:a:x")
    for _ in range(3):
        fleet.want("a")
    look_after(fleet, "m")
    assert len(recalled(fleet)) == 1


def test_one_ticket_with_alternatives_under_two_patterns_needs_one_lease(fleet: Teams) -> None:
    fleet.node("n", 1, "gpu:a")
    fleet.node("m", 1, "gpu:b")
    fleet.team("a", "gpu:a", guarantee=1)
    fleet.team("a", "gpu:b", guarantee=1)
    fleet.want("b", "gpu:a")
    fleet.want("b", "gpu:b")
    want_any(fleet, "a", ("gpu:a", ""), ("gpu:b", ""))
    look_after(fleet, "n", "m")
    assert len(recalled(fleet, "gpu:a") | recalled(fleet, "gpu:b")) == 1


def test_a_slot_that_is_set_aside_for_a_bundle_comes_to_nobody_else(fleet: Teams) -> None:
    fleet.node("m", 6)
    fleet.team("a", guarantee=1)
    for _ in range(6):
        fleet.want("b", ttl_ms=40_000)
    want_all(fleet, "b", ("gpu:a", "", 3))
    for _ in range(35):  # it reserves
        renew_all(fleet, 40_000)
        look_after(fleet, "m")
    assert fleet.redis.exists("hub:reserver")
    fleet.want("a")
    assert len(recalled(fleet)) == 1
    live(fleet, "m", seconds=41, ttl_ms=40_000)
    assert fleet.redis.scard("hub:reserved") == 1
    live(fleet, "m", seconds=3, ttl_ms=40_000)
    assert fleet.held("a") == 1 or len(recalled(fleet)) == 1


def test_a_recalled_lease_whose_time_is_over_ends_by_the_recall_whoever_looks_first(fleet: Teams) -> None:
    fleet.node("m", 1)
    fleet.team("a", guarantee=1)
    slot = fleet.want("b", ttl_ms=10_000)
    fleet.want("a")
    assert recalled(fleet) == {slot}
    fleet.renew(slot, 10_000)
    fleet.direct.wait(10_001)
    fleet.direct.tick("h1")
    fleet.direct.call("nodes/beat", timeout_ms=60_000, rest=("m", "m", 0, ""))
    assert fleet.direct.call("capacity/lapse", rest=[slot]) == ["recall"]


def test_a_ticket_that_is_provided_for_under_another_pattern_hides_none_behind_it(fleet: Teams) -> None:
    fleet.node("n", 1, "gpu:a")
    fleet.node("m", 1, "gpu:b")
    fleet.team("a", "gpu:a", guarantee=1)
    fleet.team("a", "gpu:b", guarantee=1)
    fleet.want("b", "gpu:a")
    fleet.want("b", "gpu:b")
    want_any(fleet, "a", ("gpu:a", ""), ("gpu:b", ""))
    fleet.want("a", "gpu:b")
    look_after(fleet, "n", "m")
    assert (recalled(fleet, "gpu:a"), recalled(fleet, "gpu:b")) == ({"n-1"}, {"m-1"})


def test_a_team_has_a_lease_recalled_also_beside_hundreds_that_are_recalled(fleet: Teams) -> None:
    fleet.node("m", 302)
    for _ in range(302):
        fleet.want("b")
    for _ in range(300):
        fleet.want("a")
    fleet.team("a", guarantee=300)
    look_after(fleet, "m", seconds=2)
    assert len(recalled(fleet)) == 300
    fleet.team("z", guarantee=1)
    fleet.want("z")
    look_after(fleet, "m", seconds=2)
    assert len(recalled(fleet)) == 301
