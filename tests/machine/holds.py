"""The part of the model that knows which slots are unwell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.machine.bundle_calls import BundleCalls
from tests.machine.records import Slot


class Said(NamedTuple):
    """The words of a publication on a slot: none (`unwell` is None), why its node holds it, and an operator's call."""

    unwell: str | None = None
    called: int = 0
    barred: str = ""


UNSAID = Said()


@dataclass
class Holds(BundleCalls):
    """Slots that are held by their nodes or by operators."""

    said: Said = UNSAID

    def hear_hold(self, slot: str, number: int, reason: str) -> str:
        """The node of a slot says why it holds it, or that it does not; a late word changes nothing."""
        record = self.slots[slot]
        if number and number <= max(record.told, self.told.get(record.node, 0)):
            return "late"
        record.told = number or record.told
        record.unwell, changed = reason, record.unwell != reason
        self.note_hold(slot, changed)
        return "ok"

    def note_hold(self, slot: str, changed: bool) -> None:
        """The holds of a slot have changed."""
        self.holding |= bool(self.slots[slot].held)
        self.changed |= {slot} if changed and self.slots[slot].place != "lent" else set()

    def replace_held(self) -> None:
        """Place slots whose holds have changed."""
        for slot in sorted(self.changed):
            record = self.slots[slot]
            if slot not in self.aside.get(record.node, ()):
                self.unlist(slot)
                self.place_free(slot)
        self.changed = set()

    def node_holds(self, node: str, number: int, named: dict[str, str], whole: bool, rest: Iterable[str]) -> list[Any]:
        """A node names slots that it holds or does not; `rest` are those that it held and does not name."""
        if whole and number and number <= self.told.get(node, 0):
            return ["ok", []]
        words = []
        for slot, reason in [*named.items(), *((slot, "") for slot in rest)]:
            record = self.slots.get(slot)
            word = (
                "unknown" if not record else "foreign" if record.node != node else self.hear_hold(slot, number, reason)
            )
            words += [word] if slot in named else []
            self.replace_held()
        if whole and number:
            self.told[node] = number
        return ["ok", words]

    def held_by(self, node: str) -> set[str]:
        return {slot for slot in self.of_node(node) if self.slots[slot].unwell}

    def operator_holds(self, slot: str, number: int, reason: str) -> list[Any]:
        """An operator holds or releases a slot; with a number a hub brings that back."""
        if slot not in self.slots:
            if number:
                self.holding = True
                kept = self.kept.setdefault(slot, Slot("", "", "", ""))
                if number > kept.called:
                    kept.called, kept.barred = number, reason
            elif not reason and slot in self.kept and self.kept[slot].barred:
                self.kept[slot].called, self.kept[slot].barred = self.next_number(), ""
                return ["ok", str(self.kept[slot].called)]
            return ["unknown"]
        number = number or self.next_number()
        counts = self.call_hold(slot, number, reason)
        self.replace_held()
        return ["ok" if counts else "kept", str(number)]

    def call_hold(self, slot: str, number: int, reason: str) -> bool:
        record = self.slots[slot]
        if not record.called < number <= self.token:
            return False
        record.called, changed = number, record.barred != reason
        record.barred = reason
        self.note_hold(slot, changed)
        return True

    def hear_publication(self, slot: str) -> bool:
        """Return whether a slot that is published is to be placed again."""
        if self.said.called:
            self.call_hold(slot, self.said.called, self.said.barred)
        if self.said.unwell is not None and (self.holding or self.said.unwell):
            self.hear_hold(slot, 0, self.said.unwell)
        again, self.changed = slot in self.changed, set()
        return again

    def enter_held(self, slot: str) -> None:
        """A slot gets a record: what was kept of its holds counts again."""
        if kept := self.kept.pop(slot, None):
            record = self.slots[slot]
            record.barred, record.called = kept.barred, kept.called
            if kept.node == record.node:
                record.unwell, record.told = kept.unwell, kept.told

    def forget_holds(self, slot: str) -> None:
        """A slot was withdrawn; the hold of an operator stays."""
        if kept := self.kept.get(slot):
            kept.unwell, kept.told = "", 0
