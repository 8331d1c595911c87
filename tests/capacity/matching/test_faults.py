"""Rare ways in which a ticket once waited beside a slot that suits it, or one script took long."""

from __future__ import annotations

import pytest

from hub.capacity.attributes import read_attributes

A40, A80 = {"vram": 40}, {"vram": 80}


def described(fleet, *slots, number="", most=64):
    rest = [text for slot, attributes in slots for text in (slot, attributes and read_attributes(attributes), "=")]
    return fleet.direct.call(
        "capacity/describe_slots",
        id="n",
        part="n",
        incarnation="i" if number else "",
        said_number=number,
        classes_max=most,
        rest=rest,
    )


def calls_of(fleet, action):
    """Return how many commands a script of this action runs."""
    fleet.redis.config_resetstat()
    action()
    return sum(each["calls"] for each in fleet.redis.info("commandstats").values())


@pytest.mark.parametrize("where", ["", "vram >= 40"])
def test_a_label_with_wildcards_is_found_once_they_are_switched_on(fleet, where):
    fleet.publish("s1", "gpu:a:x", A40)
    fleet.borrow(("gpu:a:x", ""))
    waiter = fleet.borrow(("gpu:*:x", where))
    fleet.direct.call("queue/set_shared", name="wildcards", value="true", by="x")
    fleet.direct.call("queue/review", rest=("gpu:*:x",))
    fleet.give_back("s1")
    assert fleet.holder("s1") == waiter


def test_labels_at_their_cap_hide_none_that_has_room(fleet):
    fleet.direct.call("queue/set_cap", label="", cap="1", served="")
    for number in range(410):
        fleet.publish(f"s{number}", f"gpu:z:u{number}", A40)
        fleet.borrow((f"gpu:z:u{number}", "vram >= 40"))
        fleet.borrow((f"gpu:z:u{number}", "vram >= 40"))
    last = fleet.borrow(("gpu:z:last", "vram >= 40"))
    fleet.publish("free", "gpu:z", A40)
    assert fleet.holder("free") == last


def test_waiters_behind_those_of_a_dead_hub_are_served_by_the_call_that_drops_these(fleet):
    fleet.publish("s1", attributes=A40)
    fleet.borrow(("gpu:a", ""))
    for _ in range(205):
        fleet.borrow(("gpu:a", "vram >= 40"))
    fleet.direct.wait(4000)
    fleet.direct.tick("h2")
    last = fleet.borrow(("gpu:a", "vram >= 40"), hub="h2")
    fleet.give_back("s1")
    while fleet.direct.call("queue/retire", limit=100)[3]:
        fleet.direct.tick("h2")
    assert fleet.holder("s1") == last


def test_the_last_slot_of_a_class_may_change_to_another_at_the_limit(fleet):
    fleet.publish("s1", attributes=A40, most=1)
    assert described(fleet, ("s1", A80), most=1) == ["ok", ["set"], [""]]
    assert fleet.borrow(("gpu:a", "vram >= 80")) == "s1"


def test_a_node_is_asked_to_publish_again_once_there_is_room_for_the_class_of_its_slot(fleet):
    fleet.publish("s1", attributes=A40, most=1)
    assert fleet.publish("s2", attributes=A80, most=1) == "too-many-classes"
    described(fleet, ("s1", ""))
    assert fleet.redis.hget("hub:duty:n", "republish") == "1"
    assert fleet.publish("s2", attributes=A80, most=1) == "unchanged"
    assert fleet.redis.scard("hub:unclassed") == 0


def test_a_publication_that_comes_after_a_later_description_keeps_what_that_said(fleet):
    fleet.register("i")
    fleet.publish("s1", attributes=A40, number="1")
    described(fleet, ("s1", A80), number="3")
    assert fleet.publish("s1", "gpu:b", A40, number="2") == "published"
    assert fleet.borrow(("gpu:b", "vram >= 80")) == "s1"


def test_a_want_that_nothing_suits_visits_no_pool(fleet):
    for number in range(60):
        fleet.publish(f"s{number}", f"gpu:p{number}", A40)
    assert calls_of(fleet, lambda: fleet.borrow(("gpu", "vram >= 80"), wait=0)) < 60


def test_the_last_of_many_pools_is_found_if_it_alone_suits(fleet):
    for number in range(300):
        fleet.publish(f"s{number:03}", f"gpu:p{number:03}", A80 if number == 299 else A40)
    assert fleet.borrow(("gpu", "vram >= 80"), wait=0) == "s299"


def test_one_call_makes_few_classes_while_many_lines_wait_and_says_which_slots_are_left(fleet):
    for number in range(400):
        fleet.borrow(("gpu:a", f"temp == {number}"))
    for number in range(4):
        fleet.publish(f"s{number}", attributes={"vram": number})
    slots = [(f"s{number}", {"vram": 100 + number}) for number in range(4)]
    _, words, notes = described(fleet, *slots)
    assert (words, notes) == (["set"] * 4, ["", "", "again", "again"])
    assert described(fleet, *slots)[2] == ["", "", "", ""]


def test_more_slots_than_a_call_looks_at_taken_by_another_program_hide_no_free_one(fleet):
    for number in range(300):
        fleet.publish(f"s{number:03}", attributes=A40)
    fleet.redis.lpop("available:gpu:a", 250)
    assert fleet.borrow(("gpu:a", "vram >= 40"), wait=0) == "s250"


def test_a_ticket_whose_alternatives_cannot_be_read_costs_no_slot(fleet):
    fleet.publish("s1", attributes=A40)
    fleet.borrow(("gpu:a", ""))
    broken, whole = fleet.borrow(("gpu:a", "vram >= 40")), fleet.borrow(("gpu:a", "vram >= 40"))
    fleet.redis.hset(f"hub:ticket:{broken}", "alternatives", "[")
    fleet.give_back("s1")
    assert fleet.holder("s1") == whole
