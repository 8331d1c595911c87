"""A bundle whose caller waits by one call after the other, as the SDK and the command line do."""

from __future__ import annotations

from tests.capacity.bundles.conftest import Bundles

GPU2 = ("gpu:a", "", 2)


def test_slots_stay_set_aside_between_two_calls_of_a_caller_that_waits_on(fleet: Bundles) -> None:
    fleet.node("m", 2)
    fleet.borrow(("gpu:a", "")), fleet.borrow(("gpu:a", ""))
    fleet.ask(GPU2, request="big", attempt="first", keyed=True)
    fleet.borrow(("gpu:a", ""))
    fleet.wait(30_000)
    assert fleet.round() == ("big", 0)
    fleet.give_back("m-1")
    assert fleet.redis.smembers("hub:reserved") == {"m-1"}
    fleet.direct.call("capacity/undo", request="big", attempt="first", hub="h1", why="timeout")
    fleet.ask(GPU2, request="big", attempt="second", keyed=True)
    assert fleet.round() == ("big", 1)
    fleet.give_back("m-2")
    assert fleet.held_by("big") == {"m-1", "m-2"}
