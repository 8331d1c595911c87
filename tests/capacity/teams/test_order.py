"""Which team is next: by guarantee, what it holds, what it has had; then the label in turn and the first ticket."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from hub.capacity.attributes import read_attributes
from hub.capacity.models import slot_item
from tests.capacity.teams.acts import leave, review, want_any
from tests.capacity.teams.conftest import Teams

WEIGHTS = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 0.5}


def classed(fleet: Teams, node: str, *attributes: object, pool: str = "gpu:a") -> list[str]:
    """Let a node that is registered publish slots with attributes; return them."""
    slots = [f"{node}-c{n}" for n in range(len(attributes))]
    for slot, said in zip(slots, attributes, strict=True):
        facts = (slot, pool, slot_item(node, slot, "", {}), *[""] * 10, read_attributes(said), "")
        fleet.direct.call(
            "capacity/publish", id=node, part=node, policy="reuse", ttl_ms=1000, incarnation="", said_number="",
            says="", classes_max=64, rest=facts,
        )  # fmt: skip
    return slots


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_of_any_hundred_grants_each_team_has_its_share(fleet: Teams, slots: int) -> None:
    names = fleet.node("m", slots)
    for team, weight in WEIGHTS.items():
        fleet.team(team, weight=weight)
    for _ in names:
        fleet.want("")
    waits = {fleet.want(team): team for team in "abcd" * 5}
    order, chance = [], random.Random(slots)
    for _ in range(400):
        slot = names[0] if slots == 1 else chance.choice(names)
        fleet.give_back(slot)
        team = waits[str(fleet.holder(slot))]
        order.append(team)
        waits[fleet.want(team)] = team
    start, total = 2 * slots, sum(WEIGHTS.values())
    if slots > 1:  # who gives back is left to chance: the shares of what is held count, not those of grants
        return
    for first in range(start, len(order) - 100):
        for team, weight in WEIGHTS.items():
            due, had = 100 * weight / total, order[first : first + 100].count(team)
            assert math.floor(due) - 1 <= had <= math.ceil(due) + 1, (first, team, had, due)


@pytest.mark.parametrize("slots", [4, 15, 30])
def test_what_is_held_follows_the_weights_within_one_lease(fleet: Teams, slots: int) -> None:
    """Whatever ends: once every slot has changed hands, a team with a waiter has the least by weight, or nearly so."""
    names = fleet.node("m", slots)
    for team, weight in WEIGHTS.items():
        fleet.team(team, weight=weight)
    for _ in names:
        fleet.want("")
    waits = {fleet.want(team): team for team in "abcd" * 30}
    chance = random.Random(slots)
    for turn in range(200):
        slot = names[turn] if turn < slots else chance.choice(names)
        fleet.give_back(slot)
        got = waits[str(fleet.holder(slot))]
        waits[fleet.want(got)] = got
        before = {team: fleet.held(team) - (team == got) for team in WEIGHTS}
        least = min(before[team] / weight for team, weight in WEIGHTS.items())
        assert before[got] / WEIGHTS[got] == least, (turn, got, before)


def test_a_team_that_comes_late_does_not_catch_up_on_what_it_has_not_asked_for(fleet: Teams) -> None:
    (slot,) = fleet.node("m", 1)
    fleet.team("a"), fleet.team("b")
    fleet.want("")
    waits = {fleet.want("a"): "a" for _ in range(60)}
    for _ in range(30):
        fleet.give_back(slot)
    waits |= {fleet.want("b"): "b" for _ in range(20)}
    order = ""
    for _ in range(20):
        fleet.give_back(slot)
        order += waits[str(fleet.holder(slot))]
    assert order in ("ba" * 10, "ab" * 10)


def test_of_the_teams_below_their_guarantee_the_emptiest_is_next(fleet: Teams) -> None:
    names = fleet.node("m", 8)
    fleet.team("a", guarantee=2), fleet.team("b", guarantee=4), fleet.team("c", weight=1000)
    for _ in names:
        fleet.want("")
    waits = {fleet.want(team): team for team in "ccccccccaaaabbbb"}
    order = ""
    for slot in names:
        fleet.give_back(slot)
        order += waits[str(fleet.holder(slot))]
    assert sorted(order[:6]) == list("aabbbb")
    assert sorted(order[:2]) == ["a", "b"]
    assert order[2] == "b", "1 of 4 is less than 1 of 2"
    assert order[6:] == "cc", "by weight, 2 and 4 are more than none and 1 of 1000"


def test_inside_a_team_the_labels_take_turns_and_the_first_ticket_is_served(fleet: Teams) -> None:
    (slot,) = fleet.node("m", 1)
    fleet.team("a")
    fleet.want("")
    waits = [fleet.want("a", label) for label in ["gpu:a:x"] * 3 + ["gpu:a"] * 3 + ["gpu:a:y"] * 3]
    order = []
    for _ in range(9):
        fleet.give_back(slot)
        order.append(waits.index(str(fleet.holder(slot))))
    assert order == [0, 3, 6, 1, 4, 7, 2, 5, 8]


def test_a_label_whose_tickets_want_something_takes_turns_too(fleet: Teams) -> None:
    fleet.node("m", 0)
    (slot,) = classed(fleet, "m", {"vram": 80})
    fleet.team("a")
    fleet.want("")
    waits = {}
    for label in ("gpu:a:x", "gpu:a:y"):
        for _ in range(4):
            waits[want_any(fleet, "a", (label, "vram >= 40"))] = label[-1]
    order = ""
    for _ in range(8):
        fleet.give_back(slot)
        order += waits[str(fleet.holder(slot))]
    assert order == "xyxyxyxy"


def test_of_the_tickets_of_a_label_that_want_different_things_the_first_is_served(fleet: Teams) -> None:
    fleet.node("m", 0)
    (slot,) = classed(fleet, "m", {"vram": 80})
    fleet.team("a")
    fleet.want("")
    wheres = ("vram >= 40", "", "", "vram >= 40", "vram >= 20", "vram >= 40")
    waits = [want_any(fleet, "a", ("gpu:a", where)) for where in wheres]
    order = []
    for _ in waits:
        fleet.give_back(slot)
        order.append(str(fleet.holder(slot)))
    assert order == waits


def test_what_teams_have_had_begins_anew_before_it_counts_for_more_than_a_tie(fleet: Teams) -> None:
    (slot,) = fleet.node("m", 1)
    fleet.team("a", weight=0.01)
    for _ in range(31):
        fleet.want("a")
    for _ in range(30):
        fleet.give_back(slot)
    had = fleet.redis.hgetall("hub:team_turns:gpu:*")
    assert max(map(float, had.values())) < 1200


def test_a_waiter_whom_a_slot_does_not_suit_is_passed_by(fleet: Teams) -> None:
    fleet.node("m", 0)
    small, large = classed(fleet, "m", {"vram": 24}, {"vram": 80})
    fleet.team("a", guarantee=1), fleet.team("b")
    fleet.want(""), fleet.want("")
    first = want_any(fleet, "a", ("gpu:a", "vram >= 40"))
    second = want_any(fleet, "b", ("gpu:a", ""))
    fleet.give_back(small)
    assert fleet.holder(small) == second
    fleet.give_back(large)
    assert fleet.holder(large) == first


def test_a_waiter_behind_a_hundred_others_whom_the_slot_does_not_suit_is_served(fleet: Teams) -> None:
    fleet.node("m", 0)
    (small,) = classed(fleet, "m", {"vram": 24})
    fleet.team("a")
    fleet.want("")
    for _ in range(100):
        want_any(fleet, "a", ("gpu:a", "vram >= 40"))
    last = want_any(fleet, "a", ("gpu:a", ""))
    fleet.give_back(small)
    review(fleet)
    assert fleet.holder(small) == last


def test_a_team_whose_label_has_a_late_turn_is_served(fleet: Teams) -> None:
    """Forty labels of a team at its ceiling are before it."""
    slots = fleet.node("m", 2)
    fleet.team("a", ceiling=1)
    fleet.want("a"), fleet.want("")
    for n in range(40):
        fleet.want("a", f"gpu:a:l{n:02d}")
    last = fleet.want("b", "gpu:a:last")
    fleet.give_back(slots[1])
    review(fleet)
    assert fleet.holder(slots[1]) == last


def test_the_emptiest_team_is_next_also_where_others_wait_for_many_labels(fleet: Teams) -> None:
    slots = fleet.node("m", 3)
    fleet.team("a")
    fleet.want("a"), fleet.want("a"), fleet.want("")
    for n in range(40):
        fleet.want("a", f"gpu:a:l{n:02d}")
    last = fleet.want("b", "gpu:a:last")
    fleet.give_back(slots[2])
    assert fleet.holder(slots[2]) == last


def test_a_team_is_found_behind_others_whom_the_slot_does_not_suit(fleet: Teams) -> None:
    fleet.node("m", 0)
    (small,) = classed(fleet, "m", {"vram": 24})
    fleet.team("a")
    fleet.want("z")
    for n in range(20):
        want_any(fleet, f"b{n:02d}", ("gpu:a", "vram >= 40"))
    ticket = fleet.want("z")
    fleet.give_back(small)
    assert fleet.holder(small) == ticket


def test_a_team_is_found_behind_hundreds_that_wait_no_more(fleet: Teams) -> None:
    slots = fleet.node("m", 2)
    fleet.team("a")
    fleet.want("b"), fleet.want("")
    for n in range(200):
        leave(fleet, fleet.want(f"x{n}"))
    last = fleet.want("b")
    fleet.give_back(slots[1])
    review(fleet)
    assert fleet.holder(slots[1]) == last


def test_borrowers_with_a_shared_secret_are_a_team_of_the_weight_one(fleet: Teams) -> None:
    names = fleet.node("m", 6)
    fleet.team("a", weight=2)
    for _ in names:
        fleet.want("z")
    waits = {fleet.want(team): team for team in ["", "a"] * 6}
    for slot in names:
        fleet.give_back(slot)
    assert (fleet.held(""), fleet.held("a")) == (2, 4)
    assert len(waits) == 12


def test_a_slot_of_a_pool_without_rows_goes_by_turns_as_ever(fleet: Teams) -> None:
    (other,) = fleet.node("m", 1, "cpu:a")
    fleet.node("n2", 2)
    fleet.team("a", guarantee=2)
    fleet.want("b", "cpu:a"), fleet.want("b"), fleet.want("b")
    first, second = fleet.want("b", "cpu:a"), fleet.want("a", "cpu:a")
    fleet.give_back(other)
    assert fleet.holder(other) == first
    fleet.give_back(other)
    assert fleet.holder(other) == second


def test_the_rows_of_the_longest_pattern_count(fleet: Teams) -> None:
    (one,) = fleet.node("m", 1, "gpu:a")
    (two,) = fleet.node("k", 1, "gpu:b")
    fleet.team("a", "gpu:*", guarantee=1), fleet.team("b", "gpu:a*", guarantee=1)
    fleet.want("", "gpu:a"), fleet.want("", "gpu:b")
    waits = {pool: [fleet.want(team, pool) for team in "cab"] for pool in ("gpu:a", "gpu:b")}
    fleet.give_back(one), fleet.give_back(two)
    assert fleet.holder(one) == waits["gpu:a"][2], "b has a guarantee there"
    assert fleet.holder(two) == waits["gpu:b"][1], "a has one there"
    assert (fleet.held("b", "gpu:a*"), fleet.held("b"), fleet.held("a")) == (1, 0, 1)


def test_prefixes_and_wildcards_find_their_team(fleet: Teams) -> None:
    fleet.direct.clear("111", 0, 0, {})
    fleet.direct.tick("h1")
    (slot,) = fleet.node("m", 1, "gpu:a:x")
    fleet.team("a", guarantee=1), fleet.team("b", weight=3)
    fleet.want("", "gpu:a")
    labels = ("gpu:a", "gpu:*:x", "gpu:a:x:y", "gpu:a:x")
    waits = {fleet.want(team, label): team for team, label in itertools.product("bac", labels)}
    order = ""
    for _ in range(12):
        fleet.give_back(slot)
        order += waits.pop(str(fleet.holder(slot)))
    assert order[0] == "a"
    assert sorted(order) == list("aaaabbbbcccc")
