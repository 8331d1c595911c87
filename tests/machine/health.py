"""Steps of nodes and operators that hold slots which are unwell, and release them."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.machine.base import SLOTS, Base, any_one, nodes, slots, step
from tests.machine.fleet import rarely
from tests.machine.holds import Said

PROCESS = "p"  # the incarnation that a node has where it numbers its words
reasons = st.sampled_from(["ill", "hot", "", ""])


class Health(Base):
    """Rules of holds."""

    @step(node=nodes, slot=slots, reason=reasons, own=st.sampled_from([True, True, False]), late=rarely, how=any_one)
    def ail(self, node: str, slot: str, reason: str, own: bool, late: bool, how: int) -> None:
        """A node says of a slot, or of all, that it holds them or not, at once or late."""
        if own and slot in self.model.slots:
            node = self.model.slots[slot].node
        named = dict.fromkeys(SLOTS[how : how + 2], reason or "old") if how < 4 else {slot: reason}
        self.say(node, named, whole=how < 4, numbered=how % 2 == 0 and node in self.model.nodes, late=late)

    def say(self, node: str, named: dict[str, str], *, whole: bool, numbered: bool, late: bool = False) -> None:
        if numbered:  # it is the process that registered last
            self.redis.hset(self.keys.orders(node), "incarnation", PROCESS)
            self.number += not late
        number = max(1, self.number - late) if numbered else 0
        answer = self.direct.call(
            "nodes/hold", node=node, part=node, incarnation=PROCESS if numbered else "", said_number=number or "",
            whole=int(whole), rest=[text for each in named.items() for text in each],
        )  # fmt: skip
        rest = self.model.held_by(node) - set(named) if whole else set()
        self.in_some_order(rest, lambda model, order: model.node_holds(node, number, named, whole, order), answer)

    @step(slot=slots, reason=reasons, which=any_one, again=rarely)
    def bar(self, slot: str, reason: str, which: int, again: bool) -> None:
        """An operator holds a slot or releases it, or a hub brings an earlier call back."""
        number = 0
        if again:
            slot, number, reason = self.calls[which % len(self.calls)]
        self.do_bar(slot, reason, number)

    def do_bar(self, slot: str, reason: str, number: int = 0) -> None:
        answer = self.call(
            "capacity/hold", lambda: self.model.operator_holds(slot, number, reason),
            slot=slot, reason=reason, number=number or "",
        )  # fmt: skip
        if answer[0] == "ok" and not number:
            self.calls.append((slot, int(answer[1]), reason))

    @step(slot=slots, which=any_one, unwell=st.sampled_from([None, "", "ill"]), told=st.booleans(), changed=rarely)
    def publish_as_held(self, slot: str, which: int, unwell: str | None, told: bool, changed: bool) -> None:
        """A node publishes a slot with what it knows of its holds, which may be what an operator said long ago."""
        calls = [(number, reason) for other, number, reason in self.calls if other == slot and reason]
        called, barred = calls[which % len(calls)] if told and calls else (0, "")
        record = self.model.slots.get(slot)
        node, pool, policy = (record.node, record.pool, record.policy) if record else ("n2", "a:b", "recycle")
        version = str(which % 2 + 1) if changed else "1"
        self.do_publish(node, slot, pool, policy, version=version, said=Said(unwell, called, barred))
