"""Borrowers of several slots at once, by the command that lends them."""

from __future__ import annotations

import json
from typing import Any

from hub.capacity.where import parse
from hub.core import Hub
from tests.doctor.classed import SAID


async def ask_all(hub: Hub, ticket: str, *parts: tuple[str, str, int], **more: Any) -> list[Any]:
    """Borrow a bundle with these parts (label, where, count); return what the command answers."""
    rows = []
    for label, where, count in parts:
        wanted = parse(where) if where else None
        rows.append([label, wanted.want if wanted else "", wanted.tree if wanted else "", where, count])
    how = {name: more.pop(name, False) for name in ("sameNode", "together")}
    said = {name: value for name, value in SAID.items() if name != "prefer"}
    answer: list[Any] = await hub.store.script("capacity/borrow_all")(
        **{**said, "hopes": "1", **more}, bundle=json.dumps({"parts": rows, **how}), request=ticket,
        attempt=f"{ticket}-try",
    )  # fmt: skip
    return answer


async def serve(hub: Hub, *, patience_ms: int = 0, reserve_ms: int = 900_000) -> list[Any]:
    """Do a round of the bundles that wait; return the reserver, '' for none, and how many slots are set aside."""
    _, *answer, _ = await hub.store.script("capacity/serve_bundles")(patience_ms=patience_ms, reserve_ms=reserve_ms)
    return answer
