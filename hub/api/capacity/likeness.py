"""What slots are like, as answers count it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hub.api.shapes.attributes import AttributeShape, CountsOfValueShape
from hub.capacity.attributes import PoolClass

VALUES_MAX = 100  # values of one attribute in an answer
_TYPES = {bool: "bool", int: "number", float: "number", str: "text", list: "list"}


def counted(found: Sequence[PoolClass]) -> list[AttributeShape]:
    """Return the attributes that these classes of slots have, by name: one entry for each type of value."""
    slots: Counter[tuple[str, str]] = Counter()
    of_value: dict[tuple[str, str], Counter[Any]] = {}
    free: dict[tuple[str, str], Counter[Any]] = {}
    for each in found:
        for name, said in each.attributes.items():
            kind = name, _TYPES[type(said)]
            slots[kind] += each.slots
            for value in said if isinstance(said, list) else [said]:
                of_value.setdefault(kind, Counter())[value] += each.slots
                free.setdefault(kind, Counter())[value] += each.free
    return [_shown(*kind, slots[kind], of_value.get(kind, {}), free.get(kind, {})) for kind in sorted(slots)]


def _shown(name: str, kind: Any, slots: int, values: dict[Any, int], free: dict[Any, int]) -> AttributeShape:
    listed = sorted(values)
    rows = [CountsOfValueShape(value=each, slots=values[each], free=free[each]) for each in listed[:VALUES_MAX]]
    shown = AttributeShape(name=name, type=kind, slots=slots, values=rows)
    if len(listed) > VALUES_MAX:
        shown["more"] = len(listed) - VALUES_MAX
    return shown
