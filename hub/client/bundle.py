"""A bundle as its holder sees it: slots that are lent together, and given back by one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from hub.client.exchange import HubAnswer, readable
from hub.client.slot import Slot

Part = str | tuple[str, int] | Mapping[str, Any]

_MEMBERS = {"label": str, "where": str, "count": int}


def slots_in_words(number: int, label: str) -> str:
    """Return so many slots of a label, in words."""
    return f"{number} slot{'' if number == 1 else 's'} of {label}"


def read_parts(parts: Sequence[Part] | str) -> tuple[Mapping[str, Any], ...]:
    """Return parts in the form of the wire, as they are now; a text alone is one part. Raises `TypeError`."""
    if isinstance(parts, Mapping) or not isinstance(parts, Iterable):
        raise TypeError(f"parts are a list of parts, not {parts!r}")
    return tuple(_read(*each) for each in enumerate([parts] if isinstance(parts, str) else parts, 1))


def _read(number: int, part: Part) -> Mapping[str, Any]:
    found: Mapping[Any, Any] = {}
    if isinstance(part, str):
        found = {"label": part}
    elif isinstance(part, Mapping):
        found = dict(part)
    elif isinstance(part, tuple | list) and len(part) == 2:
        found = {"label": part[0], "count": part[1]}
    right = all(name in _MEMBERS and type(value) is not bool for name, value in found.items())
    if "label" not in found or not right or not all(isinstance(found[name], _MEMBERS[name]) for name in found):
        what = "a label, (label, count), or a dict with label, where and count, of which only label must be there"
        raise TypeError(f"part {number} is {part!r}, and a part is {what}")
    return found


class HeldBundle:
    """The slots of a bundle, in the order of its parts.

    `id` names the bundle. `together` is True where the hub ends all leases with the first that is lost. `owed` is True
    while the hub could not be told that the slots are given back.
    """

    def __init__(self, give_back: Callable[[Any], Any], answer: HubAnswer, asked_s: float | None = None) -> None:
        self._give_back = give_back
        with readable():
            self.id: str = answer.data["bundle"]
            self.together = bool(answer.data.get("together"))
            each = answer.data["slots"]
            self.slots = [Slot(HubAnswer(data, answer.headers, answer.since_s), asked_s) for data in each]
        self.owed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self.slots}>"

    @property
    def is_ours(self) -> bool:
        """Return whether this process borrowed the slots and so may end their leases; a forked child may not."""
        return all(slot.is_ours for slot in self.slots)

    @property
    def ends_by_s(self) -> float:
        """Return the time by which the hub ends the last lease by itself."""
        return max(slot.ends_by_s for slot in self.slots)

    def check(self) -> None:
        """Raise `LeaseLost` when one of the slots is no longer held here; else return. Sends no request."""
        for slot in self.slots:
            slot.check()

    def given_back(self) -> None:
        """Mark all slots as returned and lost, before the call that gives them back is sent."""
        for slot in self.slots:
            slot.given_back()


Held = Slot | HeldBundle
H = TypeVar("H", bound=Held)
B = TypeVar("B", bound=HeldBundle)


def slots_of(held: Held) -> Sequence[Slot]:
    """Return the slots of a bundle, or the one slot that is held without one."""
    return [held] if isinstance(held, Slot) else held.slots


def name_of(held: Held) -> str:
    """Return what is held in words, as `slot s1` or `bundle b7`."""
    return f"{'slot' if isinstance(held, Slot) else 'bundle'} {held.id}"
