"""Slots with attributes and tickets that want something, script by script."""

from __future__ import annotations

import json

from hub.capacity.attributes import read_attributes
from hub.capacity.models import slot_item
from hub.capacity.where import parse

A40, A80, EU = {"vram": 40, "zone": "us"}, {"vram": 80, "zone": "us"}, {"vram": 40, "zone": "eu"}


def test_a_borrow_with_where_gets_the_slot_that_suits_and_has_been_free_for_longest(fleet):
    for slot, attributes in (("s1", A40), ("s2", A80), ("s3", A80), ("s4", None)):
        assert fleet.publish(slot, attributes=attributes) == "published"
    assert fleet.borrow(("gpu:a", "vram >= 80")) == "s2"
    assert fleet.borrow(("gpu:a", "vram >= 80")) == "s3"
    assert fleet.borrow(("gpu:a", "vram >= 80"), wait=0) == "empty"
    assert fleet.borrow(("gpu:a", "")) == "s1"
    assert fleet.redis.lrange("available:gpu:a", 0, -1) == [slot_item("n", "s4", "", {})]


def test_of_many_sets_of_attributes_the_slot_is_lent_that_has_been_free_for_longest(fleet):
    for vram in range(60):  # the first 20 suit no borrow
        fleet.publish(f"s{vram}", attributes={"vram": vram})
    for vram in range(20, 57):  # these are about to be replaced, and come last
        fleet.redis.set(f"recycle:s{vram}", "1")
    lent = [fleet.borrow(("gpu:a", "vram >= 20"), wait=0) for _ in range(41)]
    assert lent == ["s57", "s58", "s59", *(f"s{vram}" for vram in range(20, 57)), "empty"]


def test_a_freed_slot_goes_to_the_first_ticket_that_it_suits(fleet):
    fleet.publish("s1", attributes=A40)
    assert fleet.borrow(("gpu:a", "")) == "s1"
    big, plain, small = (fleet.borrow(("gpu:a", where)) for where in ("vram >= 80", "", "vram >= 40"))
    fleet.give_back("s1")
    assert fleet.holder("s1") == plain
    fleet.give_back("s1")
    assert fleet.holder("s1") == small
    fleet.give_back("s1")
    assert (fleet.holder("s1"), fleet.waiting()) == (None, {big})
    fleet.publish("s2", attributes=A80)
    assert (fleet.holder("s2"), fleet.waiting(), fleet.leftovers()) == (big, set(), set())


def test_a_priority_puts_a_newcomer_before_others_that_want_the_same_or_something_else(fleet):
    fleet.publish("s1", attributes=EU)
    fleet.borrow(("gpu:a", ""))
    first = fleet.borrow(("gpu:a", 'zone == "eu"'))
    second = fleet.borrow(("gpu:a", "vram >= 40"))
    third = fleet.borrow(("gpu:a", "vram >= 40"), priority=100)
    served = []
    for _ in range(3):
        fleet.give_back("s1")
        served.append(fleet.holder("s1"))
    assert served == [third, first, second]


def test_a_ticket_with_alternatives_leaves_all_its_places_with_the_first_slot(fleet):
    fleet.publish("s1", attributes=A40)
    fleet.publish("s2", "gpu:b", attributes=A80)
    fleet.borrow(("gpu:a", "")), fleet.borrow(("gpu:b", ""))
    either = fleet.borrow(("gpu:a", "vram >= 80"), ("gpu:b", "vram >= 80"))
    other = fleet.borrow(("gpu:b", ""))
    fleet.give_back("s2")
    assert (fleet.holder("s2"), fleet.redis.hget("session:s2", "labelKey")) == (either, "gpu:b")
    fleet.give_back("s2")
    assert (fleet.holder("s2"), fleet.waiting(), fleet.leftovers()) == (other, set(), set())


def test_what_is_preferred_chooses_among_free_slots_and_delays_nothing(fleet):
    for slot, warm in (("s1", ""), ("s2", "repo-1"), ("s3", "repo-2 repo-1")):
        fleet.publish(slot, attributes=A40, warm=warm)
    assert fleet.borrow(("gpu:a", "vram >= 40"), prefer="repo-2 repo-1") == "s3"
    assert fleet.borrow(("gpu:a", ""), prefer="repo-2 repo-1") == "s2"
    assert fleet.borrow(("gpu:a", ""), prefer="repo-2 repo-1") == "s1"


def test_a_warm_slot_that_comes_back_goes_to_the_tail_behind_those_that_a_cap_had_kept_free(fleet):
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="1", served="")
    for slot, attributes in (("s1", None), ("s2", None), ("s3", A80)):
        fleet.publish(slot, attributes=attributes, warm="repo-1")
    assert fleet.borrow(("gpu:a", "")) == "s1"
    waiters = [fleet.borrow(("gpu:a", "")) for _ in range(3)]
    fleet.give_back("s1")
    assert (fleet.holder("s1"), fleet.holder("s2")) == (None, waiters[0])
    for index in ("hub:order:gpu:a", "hub:warm:gpu:a repo-1"):
        assert fleet.redis.zrange(index, 0, -1) == ["s3", "s1"]
    fleet.give_back("s2")
    assert fleet.holder("s3") == waiters[1]
    assert fleet.redis.lrange("available:gpu:a", 0, -1) == [slot_item("n", slot, "", {}) for slot in ("s1", "s2")]


def test_a_waiter_gets_what_it_prefers_of_those_free_when_a_slot_comes_back(fleet):
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="1", served="")
    for slot, warm in (("s1", "repo-1"), ("s2", ""), ("s3", "repo-2")):
        fleet.publish(slot, warm=warm)
    assert fleet.borrow(("gpu:a", "")) == "s1"
    waiters = [fleet.borrow(("gpu:a", ""), prefer=keys) for keys in ("repo-9 repo-1", "repo-2 repo-1", "repo-9")]
    for back, lent, waiter in zip(("s1", "s1", "s3"), ("s1", "s3", "s2"), waiters, strict=True):
        fleet.give_back(back)
        assert fleet.holder(lent) == waiter


def test_one_segment_finds_longer_pools_and_is_found_by_their_slots(fleet):
    fleet.publish("s1", "gpu:a:x", attributes=A40)
    assert fleet.borrow(("gpu", "vram >= 40")) == "s1"
    waiter = fleet.borrow(("gpu", "vram >= 40"))
    fleet.give_back("s1")
    assert fleet.holder("s1") == waiter


def test_attributes_that_change_serve_a_waiter_at_once(fleet):
    fleet.publish("s1", attributes=A40)
    big = fleet.borrow(("gpu:a", "vram >= 80"))
    assert fleet.publish("s1", attributes=A80) == "unchanged"
    assert fleet.holder("s1") == big
    after = fleet.borrow(("gpu:a", "vram >= 80"))
    fleet.publish("s1", attributes=A40)  # while it is lent
    fleet.give_back("s1")
    assert (fleet.holder("s1"), fleet.waiting()) == (None, {after})
    answer = fleet.direct.call(
        "capacity/describe_slots",
        id="n",
        part="n",
        incarnation="",
        said_number="",
        classes_max=64,
        rest=("s1", read_attributes(A80), "="),
    )
    assert (answer, fleet.holder("s1")) == (["ok", ["set"], [""]], after)


def test_a_slot_whose_class_is_one_too_many_has_none(fleet):
    assert fleet.publish("s1", attributes=A40, most=1) == "published"
    assert fleet.publish("s2", attributes=A80, most=1) == "too-many-classes"
    assert fleet.borrow(("gpu:a", "vram >= 80"), wait=0) == "empty"
    assert {fleet.borrow(("gpu:a", "")), fleet.borrow(("gpu:a", ""))} == {"s1", "s2"}


def test_a_cap_parks_a_label_under_the_classes_that_it_waits_for(fleet):
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="1", served="")
    for slot in ("s1", "s2"):
        fleet.publish(slot, attributes=A40)
    assert fleet.borrow(("gpu:a", "vram >= 40")) == "s1"
    waiter = fleet.borrow(("gpu:a", "vram >= 40"))
    fleet.publish("s3", attributes=A40)
    assert fleet.redis.smembers("hub:parked:gpu:a") != set()
    fleet.give_back("s1")
    assert (fleet.waiting(), fleet.redis.hget("hub:ticket:" + waiter, "label")) == (set(), None)
    last = fleet.borrow(("gpu:a", "vram >= 40"))
    fleet.direct.call("queue/set_cap", label="gpu:a", cap="", served="")
    assert fleet.waiting() == set(), last
    assert fleet.leftovers() == set()


def test_what_other_programs_take_or_put_back_is_found_out(fleet):
    for slot in ("s1", "s2"):
        fleet.publish(slot, attributes=A80)
    item = fleet.redis.lpop("available:gpu:a")
    assert fleet.borrow(("gpu:a", "vram >= 80")) == "s2"
    waiter = fleet.borrow(("gpu:a", "vram >= 80"))
    fleet.redis.rpush("available:gpu:a", item)
    fleet.direct.call("capacity/adopt_items", pool="gpu:a", place="free", rest=(item,))
    assert (fleet.holder("s1"), fleet.waiting()) == (waiter, set())


def test_the_classes_of_slots_are_counted_by_pool(fleet):
    for slot, attributes in (("s1", A40), ("s2", A40), ("s3", A80)):
        fleet.publish(slot, attributes=attributes)
    fleet.borrow(("gpu:a", "vram >= 80"))
    flat = fleet.direct.call("capacity/attributes", label="gpu")
    rows = {json.loads(flat[i + 2])["vram"]: (flat[i], flat[i + 3], flat[i + 4]) for i in range(0, len(flat), 5)}
    assert rows == {40: ("gpu:a", 2, 2), 80: ("gpu:a", 1, 0)}
    big = parse("vram >= 80")
    fleet.borrow(("gpu:a", "vram >= 80"))
    said = fleet.direct.call("capacity/autoscale", pool="gpu:a", limit=100, want=big.want, tree=big.tree)
    assert said == [0, 1, 1, 0, 1, 1, 0]
    fleet.direct.call(
        "capacity/withdraw", slot="s3", node="n", part="n", only_free="", incarnation="", said_number="", reason=""
    )
    assert fleet.redis.scard("hub:classes") == 1


def test_a_slot_deep_in_a_long_list_is_taken_and_the_last_one_has_its_place(fleet):
    for number in range(800):
        fleet.publish(f"s{number:03}", attributes=A80 if number == 400 else A40)
    assert fleet.borrow(("gpu:a", "vram >= 80")) == "s400"
    items = fleet.redis.lrange("available:gpu:a", 0, -1)
    assert (len(items), items[400], items[-1]) == (799, slot_item("n", "s799", "", {}), slot_item("n", "s798", "", {}))
    order = fleet.redis.zrange("hub:order:gpu:a", 0, -1)
    assert [slot_item("n", slot, "", {}) for slot in order] == items
