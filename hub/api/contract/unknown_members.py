"""The search for members of a body that its operation does not have. Such a body is refused when its caller asks for
neutral names (`slotId` for `browserId`).

Clients of the original send members that the hub ignores, and logs. A caller that uses the hub's own names has misspelt
such a member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, NamedTuple

from hub.api.shapes.neutral import LEASE, name_of

_REF: Final = "#/components/schemas/"
_LABELS: Final = ("label", "labelKey")
_OPEN: Final = frozenset(("SlotBody",))  # further members of a slot are kept as its attributes


class Misnamed(NamedTuple):
    """A member that is not in the schema: its place in the body, and the members that may stand there."""

    place: tuple[str | int, ...]
    known: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the name of the member."""
        return str(self.place[-1])[:60]

    @property
    def hint(self) -> str:
        """Return the words on the member that may be meant, or on those that there are."""
        member, known = str(self.place[-1]), [each for each in self.known if name_of(each) == each]
        near = get_close_matches(member, known, 1) or get_close_matches(name_of(member), known, 1)
        return f"did you mean {near[0]}?" if near else f"it may have {', '.join(sorted(known))}"


def find(schema: Mapping[str, Any], found: Any, schemas: Mapping[str, Any]) -> Misnamed | None:
    """Return the first member of a document, at any depth, that its schema does not have; None when there is none."""
    return next(walk(schema, found, schemas), None)


def walk(
    schema: Mapping[str, Any],
    found: Any,
    schemas: Mapping[str, Any],
    place: tuple[str | int, ...] = (),
    most: int | None = None,
) -> Iterator[Misnamed]:
    """Yield each member of a document, at any depth, that its schema does not have. `most` is the number of entries
    that are looked at in a list or a map; None: all."""
    name = str(schema.get("$ref", "")).removeprefix(_REF)
    schema = schemas[name] if name else schema
    if isinstance(found, list) and isinstance(schema.get("items"), dict):
        for number, each in enumerate(found[:most]):
            yield from walk(schema["items"], each, schemas, (*place, number), most)
    elif isinstance(found, dict) and "properties" in schema:
        known: Mapping[str, Any] = schema["properties"]
        for member, value in found.items():
            if member in known:
                yield from walk(known[member], value, schemas, (*place, member), most)
            elif name not in _OPEN and not _is_of_a_lease(member, known, place):
                yield Misnamed((*place, member), known)
    elif isinstance(found, dict) and isinstance(schema.get("additionalProperties"), dict):
        for member, value in islice(found.items(), most):
            yield from walk(schema["additionalProperties"], value, schemas, (*place, member), most)


def _is_of_a_lease(member: str, known: Mapping[str, Any], place: tuple[str | int, ...]) -> bool:
    """Return whether a member is part of a lease that the caller sends back as it was answered; such a member is no
    mistake."""
    return member in LEASE.values() if place[-1:] == ("lease",) else "lease" in known and member in _LABELS
