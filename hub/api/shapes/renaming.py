"""The renaming of answers: the type of a document gives the function that puts the document into neutral names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, NotRequired, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

from hub.api.shapes.neutral import LEASE, attributes, name_of, renamed

Rename = Callable[[Any], Any]


def _open_object(value: Any) -> Any:
    return renamed(value) if isinstance(value, dict) else value


VALUES: Final[Mapping[str, Rename]] = {
    "item": attributes,
    "lastSeen": lambda text: text or None,
    "facts": _open_object,
    "details": _open_object,
}
"""The functions for members whose values change although their type does not tell it: what a node published of a slot;
an empty text for never; the objects in explanations and in the audit log, whose members no type lists."""


@cache
def members_of(shape: Any) -> dict[str, Any]:
    """Return the members of a `TypedDict` with their types, which may be `NotRequired[...]`."""
    return get_type_hints(shape, include_extras=True)


def members_of_lease(members: Collection[str]) -> list[str]:
    """Return those of these members that stand together in `lease`: the seconds only beside the time at which the lease
    ends."""
    together = LEASE if "expiresAtUtc" in members else ("leaseToken",)
    return [name for name in members if name in together]


@cache
def renaming(shape: Any) -> Rename | None:
    """Return the function that puts a document of this type into neutral names; None when no name changes."""
    origin, parts = get_origin(shape), get_args(shape)
    if is_typeddict(shape):
        return _renaming_of_members(members_of(shape))
    if origin in (Annotated, NotRequired):
        return renaming(parts[0])
    if origin in (Union, UnionType):
        return _renaming_of_one(parts)
    if origin is list and (of_item := renaming(parts[0])):
        return lambda found: [of_item(item) for item in found] if isinstance(found, list) else found
    if origin is dict and (of_value := renaming(parts[1])):
        return lambda found: {name: of_value(value) for name, value in found.items()}
    return None


def _renaming_of_members(members: Mapping[str, Any]) -> Rename | None:
    lease = members_of_lease(members)
    names = {name: name_of(name) for name in members if name not in lease and name_of(name) != name}
    values = {name: put for name, type in members.items() if (put := VALUES.get(name) or renaming(type))}
    if not (lease or names or values):
        return None

    def rename(found: Any) -> Any:
        if not isinstance(found, dict):
            return found
        document = {names.get(name, name): value for name, value in found.items()}
        for name, put in values.items():
            if (value := found.get(name)) is not None:
                document[names.get(name, name)] = put(value)
        if lease:
            document["lease"] = {LEASE[name]: document.pop(name) for name in lease if name in found}
        return document

    return rename


def _renaming_of_one(types: Collection[Any]) -> Rename | None:
    """Return the function for a document of one of these types, which are told apart by their required members."""
    ways = [(_required(type), get_origin(type) is list, renaming(type)) for type in types]
    if not any(rename for _, _, rename in ways):
        return None

    def rename(found: Any) -> Any:
        for required, is_list, inner in ways:
            fits = isinstance(found, list) if is_list else isinstance(found, dict) and required <= found.keys()
            if fits and inner is not None:
                return inner(found)
        return found

    return rename


def _required(shape: Any) -> frozenset[str]:
    if not is_typeddict(shape):
        return frozenset()
    return frozenset(name for name, type in members_of(shape).items() if get_origin(type) is not NotRequired)
