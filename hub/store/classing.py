"""The calls that tell the store what slots are like, each repeated until every slot has its class."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from hub.observability.logs import get_logger

ROUNDS_MAX = 1_024  # calls for one batch of slots: 256 classes, 1,000 lines that wait, 250 of them in a call
TOLD_S = 60.0  # a slot without a class is named in the log, at most one so often
T = TypeVar("T")
Row = tuple[Any, ...]
_AGAIN = "again"  # the note of a slot that a script has not given its class yet
_log = get_logger("hub.capacity")


async def until_classed(
    node: str, slots: Sequence[T], id_of: Callable[[T], str], send: Callable[[Sequence[T]], Awaitable[list[Row]]]
) -> list[Row]:
    """Send slots of a node, and send those again that are answered with the note `again`, because a script makes a new
    class only in part while many wait. Return a row of each slot: the words of its first answer, and as last member its
    last note; no row where `send` returns none. A slot without a class is named in the log."""
    found: dict[int, Row] = {}
    left = list(range(len(slots)))
    for _ in range(ROUNDS_MAX):
        rows = await send([slots[place] for place in left])
        if not rows:
            return []
        found |= {place: (*found.get(place, row)[:-1], row[-1]) for place, row in zip(left, rows, strict=True)}
        left = [place for place in left if found[place][-1] == _AGAIN]
        if not left:
            break
    for place, row in found.items():
        if row[-1]:
            _tell(node, id_of(slots[place]))
    return [(*row[:-1], "" if row[-1] == _AGAIN else row[-1]) for _, row in sorted(found.items())]


_told = [-TOLD_S]  # when a slot without a class was named last


def _tell(node: str, slot: str) -> None:
    if time.monotonic() - _told[0] >= TOLD_S:
        _told[0] = time.monotonic()
        _log.warning("slot published without a class", node=node, slot=slot)
