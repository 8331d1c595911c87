"""The rules of matching as the model of the state machine has them, one by one: the scripts are held to these."""

import pytest

from hub.capacity.attributes import class_of
from tests.machine.holds import UNSAID
from tests.machine.matching import Described
from tests.machine.model import Model
from tests.machine.records import BorrowRequest, Node
from tests.machine.suiting import ATTRIBUTES, WHERES, digest_of, is_suited

EU24, US80, IB80, EMPTY, NONE = ATTRIBUTES
BIG, EU = "vram >= 40", 'zone == "eu"'


class Scene:
    """A store with one node that is heard, and slots that a borrower holds until the test frees them."""

    def __init__(self, caps: dict[str, int] | None = None) -> None:
        self.model = Model("110", 3_600_000, 1000, caps=caps or {})
        self.model.nodes["n1"] = Node(3_600_000, 10**9)
        self.count = 0

    def publish(self, slot: str, pool: str, attributes: str = NONE, warm: tuple[str, ...] = ()) -> None:
        described = Described(attributes, warm)
        self.model.publish("n1", slot, pool, slot, "reuse", 0, 0, UNSAID, described)
        self.model.finish()

    def ask(
        self, *asks: tuple[str, str], wait_ms: int = 30_000, priority: int = 0, prefer: tuple[str, ...] = ()
    ) -> str:
        """Return the slot, or the name of the ticket that waits."""
        self.count += 1
        name = f"t{self.count}"
        wanted = BorrowRequest(
            name, asks[0][0], "r", name, name, keyed=True, hub="h1", wait_ms=wait_ms, priority=priority,
            any_of=asks, prefer=prefer,
        )  # fmt: skip
        answer = self.model.borrow(wanted)
        self.model.finish()
        return answer[1] if answer[0] == "ok" else name

    def give_back(self, slot: str) -> str:
        """Return who has the slot now, "" for no ticket."""
        self.model.release(slot, mark=False)
        self.model.finish()
        return next((name for name, answered in self.model.answered.items() if slot in self.lent(name)), "")

    def lent(self, name: str) -> list[str]:
        answered = self.model.answered[name]
        grant = self.model.grants.get(answered.slot)
        return [answered.slot] if grant and grant.token == answered.token else []


@pytest.fixture
def scene():
    return Scene()


def test_the_class_of_attributes_is_what_the_hub_says():
    assert [digest_of(text) for text in ATTRIBUTES if text] == [class_of(text) for text in ATTRIBUTES if text]


def test_a_slot_without_attributes_suits_only_a_borrow_that_wants_none():
    assert [where for where in ("", *WHERES) if is_suited(where, NONE)] == [""]


def test_a_slot_with_empty_attributes_suits_nothing_that_names_one():
    assert [where for where in ("", *WHERES) if is_suited(where, EMPTY)] == [""]


def test_a_freed_slot_passes_over_the_label_before_which_it_does_not_suit(scene):
    scene.publish("s0", "a:b", US80)
    assert scene.ask(("a:b", "")) == "s0"
    first, second = scene.ask(("a:b:c", EU)), scene.ask(("a:b", BIG))
    assert scene.give_back("s0") == second
    assert first in scene.model.queue("a:b:c")


def test_a_freed_slot_goes_to_the_label_whose_turn_it_is_whatever_came_first(scene):
    scene.publish("s0", "a:b", US80)
    assert scene.ask(("a:b", BIG)) == "s0"
    tickets = [scene.ask((label, BIG)) for label in ("a:b", "a:b:c", "a:b")]
    assert [scene.give_back("s0") for _ in tickets] == [tickets[0], tickets[1], tickets[2]]


def test_in_a_label_the_earliest_is_served_of_plain_tickets_and_those_that_the_slot_suits(scene):
    scene.publish("s0", "a:b", US80)
    assert scene.ask(("a:b", "")) == "s0"
    tickets = [scene.ask(("a:b", where)) for where in (EU, BIG, "", BIG)]
    assert [scene.give_back("s0") for _ in range(4)] == [*tickets[1:], ""]


def test_a_priority_counts_among_all_tickets_of_a_label(scene):
    scene.publish("s0", "a:b", US80)
    assert scene.ask(("a:b", "")) == "s0"
    last, first = scene.ask(("a:b", "")), scene.ask(("a:b", BIG), priority=100)
    assert [scene.give_back("s0"), scene.give_back("s0")] == [first, last]


def test_a_borrow_gets_the_suiting_slot_that_is_free_for_longest(scene):
    for slot, attributes in (("s0", EU24), ("s1", IB80), ("s2", US80)):
        scene.publish(slot, "a:b", attributes)
    assert scene.ask(("a:b", BIG)) == "s1"


def test_a_borrow_gets_a_slot_that_is_about_to_be_replaced_last(scene):
    for slot, attributes in (("s0", IB80), ("s1", US80)):
        scene.publish(slot, "a:b", attributes)
    scene.model.marked.add("s0")
    assert [scene.ask(("a:b", BIG)), scene.ask(("a:b", BIG))] == ["s1", "s0"]


def test_a_borrow_gets_the_first_of_its_keys_that_is_warm(scene):
    for slot, warm in (("s0", ()), ("s1", ("k2",)), ("s2", ("k1",))):
        scene.publish(slot, "a:b", US80, warm)
    assert scene.ask(("a:b", BIG), prefer=("k1", "k2")) == "s2"


def test_what_is_warm_does_not_decide_which_pool_serves(scene):
    scene.publish("s0", "a:b", US80, ("k1",))
    scene.publish("s1", "a:b:c", US80)
    assert scene.ask(("a:b:c", BIG), prefer=("k1",)) == "s1"


def test_the_first_alternative_counts_although_a_later_one_has_an_older_slot(scene):
    scene.publish("s0", "a:b", US80)
    scene.publish("s1", "x:y", EU24)
    assert scene.ask(("x:y", EU), ("a:b", BIG)) == "s1"


def test_a_ticket_with_alternatives_leaves_all_its_lines_with_the_first_slot(scene):
    for slot, pool in (("s0", "a:b"), ("s1", "x:y")):
        scene.publish(slot, pool, US80)
        scene.ask((pool, ""))
    ticket = scene.ask(("x:y", BIG), ("a:b", BIG))
    assert scene.give_back("s0") == ticket
    assert (scene.give_back("s1"), scene.model.turns) == ("", [])
    assert scene.model.grants["s0"].label == "a:b"


def test_a_label_at_its_cap_lets_another_have_the_slot():
    scene = Scene({"set:a:b": 1})
    for slot in ("s0", "s1"):
        scene.publish(slot, "a:b", US80)
    assert [scene.ask(("a:b", BIG)), scene.ask(("a:b:c", BIG))] == ["s0", "s1"]
    waits, other = scene.ask(("a:b", BIG)), scene.ask(("a:b:c", BIG))
    assert scene.give_back("s1") == other
    assert scene.give_back("s0") == waits


def test_a_free_slot_beside_a_ticket_that_it_suits_is_noticed(scene):
    scene.publish("s0", "a:b", US80)
    scene.ask(("a:b", ""))
    ticket = scene.ask(("a:b", BIG))
    scene.model.grants.clear()
    scene.model.unlist("s0")
    scene.model.list_free("s0")
    assert scene.model.overlooked() == [("s0", ticket)]
