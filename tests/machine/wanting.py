"""Steps of slots with attributes, of borrows that want some of them, and of other programs that change the lists."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.machine.base import WANTED, Base, any_one, hubs, nodes, pick, slots, step, users
from tests.machine.borrowers import runs, urgencies, waits
from tests.machine.fleet import rarely
from tests.machine.matching import Described
from tests.machine.suiting import ATTRIBUTES, WHERES, is_suited

wanted_labels, wheres = st.sampled_from(WANTED), st.sampled_from(WHERES)
heat = st.sampled_from([(), (), ("k1",), ("k2",), ("k2", "k1")])
attributes = st.sampled_from((*ATTRIBUTES, '{"vram":40}', '{"spot":false,"vram":48}'))  # the last ones are mostly new
bounds = st.sampled_from([2, 3, 64])  # of how many there may be


class Wanting(Base):
    """Rules of attributes, wants and preferences. In a third of the examples nothing of them is used."""

    @step(label=wanted_labels, where=wheres, prefer=heat, run=runs, keyed=st.booleans(), hub=hubs, wait_ms=waits,
          user=users)  # fmt: skip
    def borrow_where(self, label: str, where: str, **wanted: Any) -> None:
        if self.describes:
            self.ask(label=label, any_of=((label, where),), **wanted)

    @step(label=wanted_labels, where=wheres, run=runs, keyed=st.booleans(), hub=hubs)
    def wait_for_what_suits(self, label: str, where: str, **wanted: Any) -> None:
        if self.describes:
            self.ask(label=label, any_of=((label, where),), wait_ms=30_000, **wanted)

    @step(label=wanted_labels, where=wheres, hub=hubs, keyed=st.booleans(), priority=urgencies)
    def wait_for_what_suits_with_priority(self, label: str, where: str, **wanted: Any) -> None:
        if self.describes:
            self.ask(label=label, any_of=((label, where),), run="r1", wait_ms=30_000, **wanted)

    @step(
        asks=st.lists(st.tuples(wanted_labels, wheres), min_size=2, max_size=3, unique=True), also=st.booleans(),
        prefer=heat, run=runs, keyed=st.booleans(), hub=hubs, wait_ms=waits,
    )  # fmt: skip
    def borrow_any_of(self, asks: list[tuple[str, str]], also: bool, **wanted: Any) -> None:
        """Take one of several, and with `also` in the end any slot below a label of which nothing else is wanted."""
        last = (("a:b:c", ""),) if also and all(label != "a:b:c" for label, _ in asks) else ()
        if self.describes:
            self.ask(label=asks[0][0], any_of=(*asks, *last), **wanted)

    @step(label=st.sampled_from(WANTED[:5]), prefer=heat, run=runs, keyed=st.booleans(), hub=hubs, wait_ms=waits)
    def borrow_what_is_warm(self, label: str, prefer: tuple[str, ...], **wanted: Any) -> None:
        if self.describes and prefer:
            self.ask(label=label, any_of=((label, ""),), prefer=prefer, **wanted)

    @step(which=any_one, where=wheres, hub=hubs, how=st.sampled_from(["return", "raise", "clear", "wait"]))
    def stand_back(self, which: int, where: str, hub: str, how: str) -> None:
        """A label is at its cap while what its ticket wants becomes free; then, perhaps, its cap has room."""
        grants, model = self.model.grants, self.model
        labels = sorted({grant.label for grant in grants.values()})
        if not self.describes or not labels:
            return
        label = pick(labels, which)
        self.do_set_cap(label, str(model.live(label)))
        self.ask(label=label, any_of=((label, where),), run="r1", keyed=which % 2 == 0, hub=hub, wait_ms=30_000)
        others = [slot for slot, grant in grants.items() if grant.label != label]
        for slot in sorted(others)[:2]:
            self.hand_in(slot, str(grants[slot].token), "")
        self.the_store_says_what_the_model_says()
        of_it = sorted(slot for slot, grant in grants.items() if grant.label == label)
        if how == "return" and of_it:
            self.hand_in(of_it[0], str(grants[of_it[0]].token), "")
        elif how != "wait":
            self.do_set_cap(label, "0" if how == "clear" else str(model.live(label) + 1))

    # -- what slots have

    @step(slot=slots, said=attributes, warm=heat, most=bounds, version=st.sampled_from("1112"))
    def publish_with_attributes(self, slot: str, said: str, warm: tuple[str, ...], most: int, version: str) -> None:
        if not self.describes:
            return
        record = self.model.slots.get(slot)
        node, pool, policy = (record.node, record.pool, record.policy) if record else ("n2", "a:b", "recycle")
        self.described[slot] = Described(said, warm)
        self.do_publish(node, slot, pool, policy, version=version, described=Described(said, warm, most))

    @step(node=nodes, slot=slots, said=attributes, warm=heat, own=st.sampled_from([True, True, False]), what=any_one,
          most=bounds)  # fmt: skip
    def describe(self, node: str, slot: str, said: str, warm: tuple[str, ...], own: bool, what: int, most: int) -> None:
        """A node says with a beat what a slot is like, or only what is warm in it, or only its attributes."""
        if not self.describes:
            return
        record = self.model.slots.get(slot)
        if own and record:
            node = record.node
        said = record.attributes if record and what % 3 == 1 else said
        warm = record.warm if record and what % 3 == 2 else warm
        self.described[slot] = Described(said, warm)
        self.call(
            "capacity/describe_slots", lambda: self.model.describe_slots(node, slot, Described(said, warm, most)),
            id=node, part=node, incarnation="", said_number="", classes_max=most,
            rest=(slot, "=" if what % 3 == 1 else said, "=" if what % 3 == 2 else " ".join(warm)),
        )  # fmt: skip

    # -- other programs

    @step(which=any_one, count=st.sampled_from([1, 1, 2]), head=rarely, label=wanted_labels, where=wheres, hub=hubs)
    def pop_and_push(self, which: int, count: int, head: bool, label: str, where: str, hub: str) -> None:
        """Another program takes slots out of a list and puts them back; a borrow and a return come in between."""
        lists = [pool for pool, listed in self.model.free.items() if listed]
        if not lists or not self.describes or self.model.line_of_bundles():
            return
        pool = pick(lists, which)
        popped = self.model.free[pool][:count]
        suiting = [each for each in WHERES if is_suited(each, self.model.slots[popped[0]].attributes)]
        if which % 2 and suiting:  # it would be lent, were it there
            label, where = pool, suiting[which % len(suiting)]
        items = self.redis.lpop(self.keys.available(pool), len(popped))
        self.model.free[pool] = self.model.free[pool][len(popped) :]
        self.model.popped = dict.fromkeys(popped, True)
        self.ask(label=label, any_of=((label, where),), run="r2", keyed=False, hub=hub, wait_ms=which % 2 * 5_000)
        if self.model.grants and which % 3:
            slot = pick(self.model.grants, which)
            self.hand_in(slot, str(self.model.grants[slot].token), "")
        head = head and all(self.model.popped.values())  # else its place would not be that of its age
        for item in items:
            (self.redis.lpush if head else self.redis.rpush)(self.keys.available(pool), item)
        listed = self.redis.lrange(self.keys.available(pool), 0, -1)
        self.call(
            "capacity/adopt_items", lambda: self.model.adopt(pool, popped, head=head),
            pool=pool, place="free", rest=listed,
        )  # fmt: skip
