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


def until_made(fleet, slot, attributes, between):
    """Publish a slot until its class is made, calling `between` after the first call; return how many calls it took."""
    assert fleet.publish(slot, attributes=attributes) == "again"
    between()
    calls = 2
    while fleet.publish(slot, attributes=attributes) == "again":
        calls += 1
    return calls


def test_a_class_is_made_in_several_calls_while_many_lines_wait_and_misses_none(fleet):
    waiting = [fleet.borrow((f"gpu:a:l{number % 300}", f"vram >= {number}")) for number in range(600)]
    late = []

    def between():
        for ticket in waiting[:600:7]:
            fleet.direct.call("queue/cancel", ticket=ticket, recalled="", by="")
        late.extend(fleet.borrow((f"gpu:a:l{number}", "vram > 39"), priority=9) for number in range(290, 310))

    assert until_made(fleet, "s1", {"vram": 1000}, between) in (3, 4)
    assert not fleet.direct.examine()
    served = [ticket for ticket in waiting if ticket not in waiting[:600:7]]
    for _ in range(len(served) + len(late)):
        holder = fleet.holder("s1")
        (served if holder in served else late).remove(holder)
        fleet.give_back("s1")
    assert (served, late, fleet.leftovers()) == ([], [], set())


def test_a_class_is_made_from_the_beginning_on_another_server(fleet):
    for number in range(600):
        fleet.borrow((f"gpu:a:l{number}", "vram >= 40"))

    def fail_over():
        fleet.redis.hset(fleet.redis.keys("hub:class:*")[0], mapping={"generation": "before", "cursor": "1023"})

    assert until_made(fleet, "s1", A40, fail_over) == 4
    assert not fleet.direct.examine()


def test_a_class_that_no_hub_goes_on_making_gives_its_room_back_after_a_minute(fleet):
    for number in range(600):
        fleet.borrow(("gpu:a", f"temp == {number}"))
    assert fleet.publish("s1", attributes=A40, most=1) == "again"
    fleet.direct.wait(60_000)
    assert fleet.publish("s2", attributes=A80, most=1) == "too-many-classes"
    fleet.direct.wait(1)
    assert fleet.publish("s2", attributes=A80, most=1) == "again"


def test_a_class_that_slots_have_keeps_its_room_whatever_stands_beside_it(fleet):
    """A hub of an older version may have given a class to a slot while another was still making it."""
    fleet.publish("s1", attributes=A40, most=1)
    fleet.redis.hset(fleet.redis.keys("hub:class:*")[0], mapping={"cursor": "0", "asked_ms": "0"})
    assert fleet.publish("s2", attributes=A80, most=1) == "too-many-classes"
    assert fleet.borrow(("gpu:a", "vram >= 40")) == "s1"


def test_one_call_makes_few_classes_while_many_lines_wait_and_says_which_slots_are_left(fleet):
    for number in range(400):
        fleet.borrow(("gpu:a", f"temp == {number}"))
    slots = [(f"s{number}", {"vram": number}) for number in range(4)]
    for slot, _ in slots:
        fleet.publish(slot)
    answers = [described(fleet, *slots) for _ in range(8)]
    assert all(words == ["set"] * 4 for _, words, _ in answers)
    left = [notes.count("again") for _, _, notes in answers]
    assert left == sorted(left, reverse=True)
    assert (left[0], left[-1]) == (4, 0)


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


def test_a_ticket_that_leaves_gives_its_turn_to_no_later_ticket_that_wants_the_same(fleet):
    fleet.publish("s1", attributes=A80)
    fleet.borrow(("gpu:a", ""))
    gone, next_one, last = (fleet.borrow(("gpu:a", f"vram >= {least}")) for least in (40, 20, 40))
    fleet.direct.call("queue/cancel", ticket=gone, recalled="", by="")
    for ticket in (next_one, last):
        fleet.give_back("s1")
        assert fleet.holder("s1") == ticket


def test_a_label_that_was_met_at_its_cap_is_served_once_the_cap_has_room(fleet):
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="1", served="")
    fleet.publish("s1", attributes=A40)
    fleet.publish("s2", attributes=A40)
    assert [fleet.borrow((label, "")) for label in ("gpu:a", "gpu")] == ["s1", "s2"]
    waiter = fleet.borrow(("gpu:a", "vram >= 40"))
    fleet.give_back("s2")
    assert fleet.borrow(("gpu", "")) == "s2"
    fleet.direct.call(
        "capacity/withdraw", slot="s1", node="n", part="n", only_free="", incarnation="", said_number="", reason=""
    )
    fleet.give_back("s2")
    assert fleet.holder("s2") == waiter
