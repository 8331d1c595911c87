"""What borrows ask for beside a label: alternatives, and the parts of a bundle. Pure."""

from __future__ import annotations

from typing import NamedTuple

import orjson

SLOTS_MAX = 16  # of a bundle


class Alternative(NamedTuple):
    """One of the things that a borrow takes: a slot of a label that is as `where` says. `want` is the digest of what
    that demands, and `tree` the same for the scripts; all three are '' where any slot of the label will do."""

    label: str
    want: str = ""
    tree: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"{self.label} where {self.where}" if self.where else self.label


def alternatives_in(text: str | None) -> tuple[Alternative, ...]:
    """Return the alternatives that a ticket in the store has, from `BorrowRequest.asked`; none for a plain ticket."""
    found = tuple(Alternative(*each) for each in orjson.loads(text)) if text else ()
    return found if len(found) > 1 or any(each.want for each in found) else ()


class BundlePart(NamedTuple):
    """One part of a bundle: so many slots, each of which is as an `Alternative` says."""

    label: str
    want: str = ""
    tree: str = ""
    where: str = ""
    number: int = 1

    @property
    def each(self) -> Alternative:
        """Return what each of its slots must be."""
        return Alternative(self.label, self.want, self.tree, self.where)

    def __str__(self) -> str:
        return f"{slots(self.number)} of {self.each}"


class BundleWish(NamedTuple):
    """What a bundle asks for: all its parts, with `same_node` on one node. `together`: one that is lost ends the
    others."""

    parts: tuple[BundlePart, ...]
    same_node: bool = False
    together: bool = False

    @classmethod
    def read(cls, text: str) -> BundleWish | None:
        """Return the wish in a text of the store; None for '', and for a text that no hub wrote."""
        try:
            said = orjson.loads(text)
            return cls(tuple(BundlePart(*part) for part in said["parts"]), said["sameNode"], said["together"])
        except (ValueError, LookupError, TypeError):
            return None

    @property
    def text(self) -> str:
        """Return the wish as JSON, as `lua/bundle_wishes.lua` reads it."""
        parts = [list(part) for part in self.parts]
        return orjson.dumps({"parts": parts, "sameNode": self.same_node, "together": self.together}).decode()

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the parts, each once."""
        return tuple(dict.fromkeys(part.label for part in self.parts))

    @property
    def size(self) -> int:
        """Return how many slots it wants."""
        return sum(part.number for part in self.parts)

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts)) + (" on one node" if self.same_node else "")


def slots(number: int) -> str:
    """Return a number of slots in words."""
    return f"{number} slot{'' if number == 1 else 's'}"
