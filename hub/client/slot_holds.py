"""The holds of a node: which of its slots are not to be lent at present, and why."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from hub.errors import InvalidValue

HELD_MAX = 1000  # slots in one heartbeat, as the hub takes them
REASON_MAX = 200  # characters, as the hub takes them
# A heartbeat tells all holds; one that is too large for the hub would be refused, and its node would expire.
BEAT_BYTES = 48 * 1024


class SlotHolds:
    """The slots that a node holds itself, what the hub has confirmed of it, and the holds by operators.

    `own` is slot id -> reason. It is replaced and never changed, so that an answer is known to be about it or not.
    `by_operator` is slot id -> the operator's call as the hub has told it, for a hub that has lost it.
    """

    def __init__(self) -> None:
        self.own: Mapping[str, str] = {}
        self.by_operator: Mapping[str, Any] = {}
        self._told: Mapping[str, str] = self.own

    def put(self, slot_id: str, reason: str) -> None:
        """Hold a slot, or change the reason; raises `InvalidValue` unless the reason is one printable line."""
        reason = reason.strip()
        if not 1 <= len(reason) <= REASON_MAX or not reason.isprintable():
            raise InvalidValue(f"reason must be 1 to {REASON_MAX} printable characters on one line")
        if self.own.get(slot_id) != reason:
            self.own = {**self.own, slot_id: reason}

    def drop(self, slot_id: str) -> None:
        """Hold a slot no longer."""
        if slot_id in self.own:
            self.own = {other: self.own[other] for other in self.own if other != slot_id}

    def to_tell(self) -> Mapping[str, str] | None:
        """Return all holds, for the next heartbeat; None when the hub has confirmed them."""
        return None if self.own is self._told else self.own

    def told(self, held: Mapping[str, str] | None) -> None:
        """Note that the hub has confirmed a heartbeat with these holds; None for one without."""
        if held is not None:
            self._told = held

    def of(self, ids: Collection[str]) -> dict[str, Any]:
        """Return the members on holds of a body that publishes these slots."""
        held = {slot_id: self.own[slot_id] for slot_id in ids if slot_id in self.own}
        by_operator = {slot_id: self.by_operator[slot_id] for slot_id in ids if slot_id in self.by_operator}
        return {"held": held, **({"operatorHeld": by_operator} if by_operator else {})}

    def too_many(self) -> bool:
        """Return whether the holds are too many for one heartbeat."""
        return len(self.own) > HELD_MAX or len(json.dumps(self.own)) > BEAT_BYTES
