"""Teams at the scripts: guarantees, ceilings, weights, and leases that are recalled."""

from __future__ import annotations

from tests.capacity.teams.conftest import Teams


def test_teams_have_slots_by_their_weights(fleet: Teams) -> None:
    slots = fleet.node("m", 6)
    fleet.team("a", weight=2), fleet.team("b")
    for _ in slots:
        fleet.want("c")
    waits = [fleet.want(team) for team in "aaaaaabbbbbb"]
    for slot in slots:
        fleet.give_back(slot)
    assert (fleet.held("a"), fleet.held("b"), fleet.held("c")) == (4, 2, 0)
    assert fleet.holder(slots[0]) == waits[0]


def test_one_slot_goes_round_by_weight(fleet: Teams) -> None:
    (slot,) = fleet.node("m", 1)
    fleet.team("a", weight=2), fleet.team("b")
    fleet.want("")
    waits = {fleet.want(team): team for team in "ab" * 12}
    order = ""
    for _ in range(12):
        fleet.give_back(slot)
        order += waits[str(fleet.holder(slot))]
    assert (order.count("a"), order.count("b")) == (8, 4)


def test_a_team_below_its_guarantee_is_next(fleet: Teams) -> None:
    slots = fleet.node("m", 3)
    fleet.team("a", guarantee=2)
    for _ in slots:
        fleet.want("b")
    first = fleet.want("b")
    second = [fleet.want("a"), fleet.want("a"), fleet.want("a")]
    fleet.give_back(slots[0]), fleet.give_back(slots[1])
    assert {fleet.holder(slots[0]), fleet.holder(slots[1])} == set(second[:2])
    fleet.give_back(slots[2])
    assert fleet.holder(slots[2]) == first


def test_a_team_has_no_more_than_its_ceiling(fleet: Teams) -> None:
    fleet.node("m", 3)
    fleet.team("a", ceiling=1)
    assert fleet.want("a", fast=True) == "m-1"
    assert fleet.want("a", fast=True) == "ask"
    ticket = fleet.want("a")
    assert ticket.startswith("t")
    assert fleet.want("b") == "m-2"
    fleet.give_back("m-2")
    assert fleet.holder("m-2") is None
    fleet.give_back("m-1")
    assert len(fleet.held_by(ticket)) == 1


def test_a_lease_above_the_guarantee_is_recalled_for_a_team_below_its_own(fleet: Teams) -> None:
    fleet.node("m", 3)
    fleet.team("a", guarantee=1)
    for _ in range(3):
        fleet.want("b", ttl_ms=30_000)
    fleet.wait(1000)
    assert fleet.renew("m-3", 30_000) == 30_000
    ticket = fleet.want("a")
    assert fleet.redis.zrange("hub:recalled:gpu:*", 0, -1) == ["m-3"], "the newest"
    assert fleet.redis.hget("hub:slot:m-3", "ending") == "recall"
    fleet.wait(10_000)
    assert fleet.renew("m-3", 30_000) == 20_000, "it is renewed no further"
    assert fleet.renew("m-2", 30_000) == 30_000
    fleet.wait(20_001)
    fleet.serve_rounds()
    assert fleet.holder("m-3") in (None, ticket)
    fleet.wait(6_000)
    fleet.direct.call("capacity/relend", limit=10)
    assert fleet.holder("m-3") == ticket
    fleet.serve_rounds()
    assert not fleet.redis.exists("hub:recalled:gpu:*")
    assert (fleet.held("a"), fleet.held("b")) == (1, 2)


def test_a_recall_ends_when_nobody_lacks_anything(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=1)
    fleet.want("b"), fleet.want("b")
    ticket = fleet.want("a")
    assert fleet.redis.hget("hub:slot:m-2", "recall_ms")
    fleet.give_back("m-1")
    assert fleet.holder("m-1") == ticket
    fleet.serve_rounds()
    assert fleet.redis.hget("hub:slot:m-2", "recall_ms") is None
    assert fleet.renew("m-2", 90_000) == 90_000


def test_no_lease_at_or_below_a_guarantee_is_recalled(fleet: Teams) -> None:
    fleet.node("m", 2)
    fleet.team("a", guarantee=2), fleet.team("b", guarantee=2)
    fleet.want("b"), fleet.want("b")
    fleet.want("a")
    assert not fleet.redis.exists("hub:recalled:gpu:*")


def test_rows_that_come_later_count_what_is_there(fleet: Teams) -> None:
    slots = fleet.node("m", 2)
    fleet.want("b"), fleet.want("b")
    waits = [fleet.want("b"), fleet.want("a")]
    fleet.team("a", guarantee=1)
    assert fleet.held("b") == 2
    fleet.give_back(slots[0])
    assert fleet.holder(slots[0]) == waits[1]
    fleet.remove("a")
    assert not [key for key in fleet.redis.keys("hub:*") if "team" in key]
    fleet.give_back(slots[1])
    assert fleet.holder(slots[1]) == waits[0]
