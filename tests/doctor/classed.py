"""Slots with attributes and tickets that want some, by the commands that publish and borrow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hub.capacity.attributes import class_of, read_attributes
from hub.capacity.models import slot_item
from hub.capacity.where import parse
from hub.core import Hub
from tests.world import add_node

HUB = "tests-hub"  # it attends all tickets
SAID = {
    "ttl_ms": 900_000, "idle_ms": 0, "run": "r1", "holder": "", "fingerprint": "f", "keep_s": 600, "keyed": 1,
    "repeated": 0, "hub": HUB, "wait_ms": 600_000, "limit_ms": -1, "priority": 0, "max_label": 1_000, "max_run": 1_000,
    "prefer": "",
}  # fmt: skip


async def offer(
    hub: Hub, pool: str, slots: Mapping[str, dict[str, Any] | None], *, warm: str = "", node: str = "n1", most: int = 64
) -> list[Any]:
    """Publish slots with these attributes, None for none; return what the command answers."""
    await add_node(hub, node)
    rest: list[str] = []
    for slot, attributes in slots.items():
        said = "" if attributes is None else read_attributes(attributes)
        rest += [slot, pool, slot_item(node, slot, "kind", {}), *[""] * 10, said, warm]
    answer: list[Any] = await hub.store.script("capacity/publish")(
        id=node, part=node, policy="reuse", ttl_ms=900_000, incarnation="", said_number="", says="", classes_max=most,
        rest=rest,
    )  # fmt: skip
    return answer


async def ask(hub: Hub, ticket: str, *choices: tuple[str, str], **more: Any) -> list[Any]:
    """Borrow with these labels and `where` in order of preference; return what the command answers."""
    said = [
        [label, *((found.want, found.tree) if (found := parse(where) if where else None) else ("", "")), where]
        for label, where in choices
    ]
    plain = len(said) == 1 and not said[0][1]
    answer: list[Any] = await hub.store.script("capacity/borrow")(
        **{**SAID, **more}, label=choices[0][0], request=ticket, attempt=f"{ticket}-try",
        alternatives="" if plain else json.dumps(said),
    )  # fmt: skip
    return answer


async def take(hub: Hub, label: str, where: str = "", **more: Any) -> str | None:
    """Borrow without waiting; return the slot, None for none."""
    _numbers.append(0)
    word, *rest = await ask(hub, f"take-{len(_numbers)}", (label, where), wait_ms=0, **more)
    return rest[0] if word == "ok" else None


_numbers: list[int] = []


def class_name(**attributes: Any) -> str:
    """Return the class of slots with these attributes."""
    return class_of(read_attributes(attributes))


def want_of(where: str) -> str:
    """Return the digest of what an expression wants."""
    return parse(where).want
